"""Who may change what: claims on knobs, and what was found put back."""
