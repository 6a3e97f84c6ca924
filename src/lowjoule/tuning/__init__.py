"""Searches without I/O, and the driver that runs them."""

from lowjoule.tuning.driver import Driver, Tried
from lowjoule.tuning.exhaustive import ExhaustiveSearch
from lowjoule.tuning.hybrid import HybridSearch
from lowjoule.tuning.just_in_time import JustInTime
from lowjoule.tuning.knowledge import Knowledge
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.progress import Phase, Progress
from lowjoule.tuning.random_search import RandomSearch
from lowjoule.tuning.result import Saving, Side, TuneResult
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search
from lowjoule.tuning.tuner import Tuner

__all__ = [
    "Driver",
    "ExhaustiveSearch",
    "HybridSearch",
    "JustInTime",
    "Knowledge",
    "LinearSearch",
    "Observation",
    "Phase",
    "Problem",
    "Progress",
    "RandomSearch",
    "Recommendation",
    "Saving",
    "Search",
    "Side",
    "Tried",
    "TuneResult",
    "Tuner",
]
