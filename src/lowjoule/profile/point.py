"""One point of a profile."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.knobs import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting's time and energy of a profile's work; what was not measured is None.

    Time and energy are means over `windows` windows; `time_sd_s` and `energy_sd_j` are the standard
    deviations of a single one, so that the means' are smaller by the root of their number. The
    board's calibration gain is not in them.
    """

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
