"""lowjoule: the least energy for the time allowed.

Finds the settings (GPU power limit, clocks, batch size) at which machine-learning work takes the
least energy, and shows what they save net of the search. Everything public is reached from here
and imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowjoule.control import Claim
    from lowjoule.devices.interface import Device, WorkDevice
    from lowjoule.devices.registry import OpenOptions, open_device
    from lowjoule.errors import LowjouleError
    from lowjoule.knobs import Knob, Setting, Space
    from lowjoule.metering import Window, measure, measure_idle
    from lowjoule.objectives import (
        ED2P,
        EDP,
        EDS,
        Carbon,
        Deadline,
        Efficiency,
        Energy,
        EnergyBudget,
        LatencyPercentile,
        Memory,
        Money,
        PeakPower,
        Power,
        Slowdown,
        Throughput,
        Time,
        ZeusCost,
        parse_constraint,
        parse_objective,
    )
    from lowjoule.profile import Choice, Frontier, Hull, Plan, Point, Profile, barrier
    from lowjoule.source import Source
    from lowjoule.tuning import (
        Driver,
        ExhaustiveSearch,
        HybridSearch,
        JustInTime,
        LinearSearch,
        Observation,
        Problem,
        RandomSearch,
        Recommendation,
        Tuner,
        TuneResult,
    )
    from lowjoule.workloads import Work, Workload, WorkUnit

_HOMES = {
    "lowjoule.control": ("Claim",),
    "lowjoule.devices.interface": ("Device", "WorkDevice"),
    "lowjoule.devices.registry": ("OpenOptions", "open_device"),
    "lowjoule.errors": ("LowjouleError",),
    "lowjoule.knobs": ("Knob", "Setting", "Space"),
    "lowjoule.metering": ("Window", "measure", "measure_idle"),
    "lowjoule.objectives": (
        *("ED2P", "EDP", "EDS", "Carbon", "Deadline", "Efficiency", "Energy", "EnergyBudget"),
        *("LatencyPercentile", "Memory", "Money", "PeakPower", "Power", "Slowdown", "Throughput"),
        *("Time", "ZeusCost", "parse_constraint", "parse_objective"),
    ),
    "lowjoule.profile": ("Choice", "Frontier", "Hull", "Plan", "Point", "Profile", "barrier"),
    "lowjoule.source": ("Source",),
    "lowjoule.tuning": (
        *("Driver", "ExhaustiveSearch", "HybridSearch", "JustInTime", "LinearSearch"),
        *("Observation", "Problem", "RandomSearch", "Recommendation", "TuneResult", "Tuner"),
    ),
    "lowjoule.workloads": ("Work", "WorkUnit", "Workload"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ED2P",
    "EDP",
    "EDS",
    "Carbon",
    "Choice",
    "Claim",
    "Deadline",
    "Device",
    "Driver",
    "Efficiency",
    "Energy",
    "EnergyBudget",
    "ExhaustiveSearch",
    "Frontier",
    "Hull",
    "HybridSearch",
    "JustInTime",
    "Knob",
    "LatencyPercentile",
    "LinearSearch",
    "LowjouleError",
    "Memory",
    "Money",
    "Observation",
    "OpenOptions",
    "PeakPower",
    "Plan",
    "Point",
    "Power",
    "Problem",
    "Profile",
    "RandomSearch",
    "Recommendation",
    "Setting",
    "Slowdown",
    "Source",
    "Space",
    "Throughput",
    "Time",
    "TuneResult",
    "Tuner",
    "Window",
    "Work",
    "WorkDevice",
    "WorkUnit",
    "Workload",
    "ZeusCost",
    "__version__",
    "barrier",
    "measure",
    "measure_idle",
    "open_device",
    "parse_constraint",
    "parse_objective",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lowjoule")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lowjoule' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
