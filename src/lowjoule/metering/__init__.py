"""Energy, time and power between two moments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lowjoule.metering.meter import Edge, Measurement, Meter

if TYPE_CHECKING:
    from lowjoule.metering.flags import Flag
    from lowjoule.metering.logs import log_path
    from lowjoule.metering.pace import Sampling
    from lowjoule.metering.result import DeviceEnergy
    from lowjoule.metering.window import Window, measure, measure_idle

# what is only for windows is imported with the first of them
_HOME_OF = {
    "DeviceEnergy": "result",
    "Flag": "flags",
    "Sampling": "pace",
    "Window": "window",
    "log_path": "logs",
    "measure": "window",
    "measure_idle": "window",
}

__all__ = [
    "DeviceEnergy",
    "Edge",
    "Flag",
    "Measurement",
    "Meter",
    "Sampling",
    "Window",
    "log_path",
    "measure",
    "measure_idle",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lowjoule.metering' has no attribute {name!r}")
    return getattr(importlib.import_module(f"lowjoule.metering.{_HOME_OF[name]}"), name)
