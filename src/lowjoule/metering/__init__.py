"""Energy, time and power between two moments."""
