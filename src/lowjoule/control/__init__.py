"""Who may change what: claims on knobs, and what was found put back."""

from lowjoule.control.claim import Claim

__all__ = ["Claim"]
