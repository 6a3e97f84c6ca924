"""One setting becomes one trustworthy point."""
