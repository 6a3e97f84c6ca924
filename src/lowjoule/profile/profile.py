"""All points of a task, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.workloads import Work

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting's time and energy of a profile's work; what was not measured is None."""

    setting: Setting
    time_s: float
    energy_j: float
    wait_power_w: float | None = None
    peak_power_w: float | None = None
    latency_s: float | None = None
    memory_bytes: float | None = None
    time_sd_s: float | None = None
    energy_sd_j: float | None = None
    windows: int = 1

    @property
    def power_w(self) -> float:
        """Average power."""
        return self.energy_j / self.time_s


class Profile:
    """Every measured point of one amount of work."""

    def __init__(
        self,
        *,
        work: Work,
        time_s: ArrayLike,
        energy_j: ArrayLike,
        settings: Mapping[str, NDArray[Any]],
        wait_power_w: ArrayLike | None = None,
        peak_power_w: ArrayLike | None = None,
        latency_s: ArrayLike | None = None,
        memory_bytes: ArrayLike | None = None,
        time_sd_s: ArrayLike | None = None,
        energy_sd_j: ArrayLike | None = None,
        windows: ArrayLike | None = None,
        default: Setting | None = None,
        source: Source = Source.MEASURED,
    ) -> None:
        self.work = work
        self.time_s = np.asarray(time_s, dtype=np.float64)
        self.energy_j = np.asarray(energy_j, dtype=np.float64)
        self.settings = dict(settings)
        self.default = default
        self.source = source
