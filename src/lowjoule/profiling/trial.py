"""What came of one setting tried."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowjoule.devices.interface import Told
from lowjoule.knobs import Setting
from lowjoule.metering import Measurement
from lowjoule.workloads import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One setting tried in one window.

    `measurement` covers `work`; None with the reason in `failure`. `warmup_work` was done on the
    way in `overhead_s` and `overhead_j`: it counts for the job, and its time and energy count
    for the price of the search. `told` is what the device knows of the work beside,
    `relative_half` half of the wider interval of time and energy, over the mean, None where it is
    not known; `throttled` that the board was slowed down for heat, after cool-downs too. `at_s` is
    the middle of the window on the device's clock, None where there is no time (a table).
    """

    asked: Setting
    achieved: Setting
    work: Work | None
    measurement: Measurement | None
    warmup_work: float = 0.0
    overhead_s: float = 0.0
    overhead_j: float = 0.0
    told: Told = field(default_factory=Told)
    failure: str | None = None
    relative_half: float | None = None
    throttled: bool = False
    at_s: float | None = None

    @property
    def total_work(self) -> float:
        """Units of work done, warm-up included."""
        return self.warmup_work + (self.work.quantity if self.work else 0.0)

    @property
    def total_s(self) -> float:
        """Time taken, changes and warm-up included."""
        return self.overhead_s + (self.measurement.time_s if self.measurement else 0.0)

    @property
    def total_j(self) -> float:
        """Energy taken, changes and warm-up included."""
        return self.overhead_j + (self.measurement.energy_j if self.measurement else 0.0)
