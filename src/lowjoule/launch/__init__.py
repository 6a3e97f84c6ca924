"""A command under our eyes: its signals, its exit code, and the energy it takes."""
