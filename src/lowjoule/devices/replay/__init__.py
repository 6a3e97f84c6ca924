"""Tables of measurements as devices."""
