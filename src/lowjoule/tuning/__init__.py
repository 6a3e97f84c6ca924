"""Searches without I/O, and the driver that runs them."""
