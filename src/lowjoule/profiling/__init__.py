"""One setting becomes one trustworthy point."""

from lowjoule.profiling.profiler import Profiler
from lowjoule.profiling.recording import Recording
from lowjoule.profiling.steady import Estimate, Mean, Precision, Sample, SteadyState, Verdict
from lowjoule.profiling.trial import Trial

__all__ = [
    "Estimate",
    "Mean",
    "Precision",
    "Profiler",
    "Recording",
    "Sample",
    "SteadyState",
    "Trial",
    "Verdict",
]
