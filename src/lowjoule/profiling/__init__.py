"""One setting becomes one trustworthy point."""

from lowjoule.profiling.profiler import Profiler, Trial

__all__ = ["Profiler", "Trial"]
