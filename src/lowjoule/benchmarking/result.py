"""What a benchmark has measured so far."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.devices.interface import Identity
from lowjoule.workloads import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How much of one workload is done: settings measured, infeasible ones, and those left.

    Calls before this one count. `signature` has the anchors that were measured.
    """

    workload: str
    measured: int
    infeasible: int
    left: int
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """What is done, by workload; `trials` and `time_s` (of the device) are of this call alone."""

    run: str
    identity: Identity
    store: str
    covered: tuple[Covered, ...]
    trials: int
    time_s: float
    before: int
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Trials that are planned and not done."""
        return sum(one.left for one in self.covered)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "version": 1,
            "run": self.run,
            "device": self.identity.model,
            "device_uuid": self.identity.uuid,
            "source": self.identity.source.value,
            "store": self.store,
            "trials": self.trials,
            "time_s": self.time_s,
            "before": self.before,
            "left": self.left,
            "workloads": [
                {
                    "workload": one.workload,
                    "measured": one.measured,
                    "infeasible": one.infeasible,
                    "left": one.left,
                    "signature": one.signature.to_dict(),
                }
                for one in self.covered
            ],
            "notes": list(self.notes),
        }
