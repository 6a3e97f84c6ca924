"""Objectives and constraints, in Python and as text."""

from lowjoule.objectives.constraints import (
    Deadline,
    EnergyBudget,
    LatencyPercentile,
    Memory,
    PeakPower,
    Power,
    Slowdown,
)
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.objectives.standard import (
    ED2P,
    EDP,
    EDS,
    Carbon,
    Efficiency,
    Energy,
    Money,
    Throughput,
    Time,
    ZeusCost,
)
from lowjoule.objectives.text import CONSTRAINTS, OBJECTIVES, parse_constraint, parse_objective

__all__ = [
    "CONSTRAINTS",
    "ED2P",
    "EDP",
    "EDS",
    "OBJECTIVES",
    "Carbon",
    "Constraint",
    "Deadline",
    "Efficiency",
    "Energy",
    "EnergyBudget",
    "LatencyPercentile",
    "Memory",
    "Money",
    "Objective",
    "Outcome",
    "PeakPower",
    "Power",
    "Slowdown",
    "Throughput",
    "Time",
    "ZeusCost",
    "parse_constraint",
    "parse_objective",
]
