"""A simulated GPU: power and time from the mechanism alone."""
