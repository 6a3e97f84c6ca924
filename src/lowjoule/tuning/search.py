"""What a search is: it is asked for a setting, told what came of it, and does no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lowjoule.knobs import Setting, Space
from lowjoule.objectives.objective import Constraint, Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a search looks for.

    `start` is where it begins (by default the default setting, the baseline of objectives).
    `remaining_work` is how much of the job is left, in the unit of the observations, None when
    it is unknown; with it a search weighs what another trial is worth against what it costs.
    """

    space: Space
    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    default: Setting
    start: Setting | None = None
    remaining_work: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a search is told of a trial: time and energy of one unit of work.

    `asked` is what the search wanted, `achieved` what the device did. `time_sd_s` and
    `energy_sd_j` are standard deviations of the figures, None when unknown. `work` was done and
    `overhead_s`, `overhead_j` lost to changing and settling. `failure` says why there is no
    figure (out of memory, refused); then the figures are None. `at_s` is when the trial was, on the
    device's clock, None where that does not matter.
    """

    asked: Setting
    achieved: Setting
    time_s: float | None
    energy_j: float | None
    peak_power_w: float | None = None
    memory_bytes: float | None = None
    latency_s: float | None = None
    time_sd_s: float | None = None
    energy_sd_j: float | None = None
    work: float = 0.0
    overhead_s: float = 0.0
    overhead_j: float = 0.0
    failure: str | None = None
    at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What a search holds best now.

    `time_s` and `energy_j` are its estimates of one unit of work there, `objective` the value
    they give; `uncertainty` is the standard deviation of that value, `confidence` the
    probability that no other setting tried is better, `kept` that it keeps the constraints (None
    without any); None where the search cannot tell.
    """

    setting: Setting
    time_s: float
    energy_j: float
    objective: float
    uncertainty: float | None
    confidence: float | None = None
    kept: float | None = None
    notes: tuple[str, ...] = field(default=())


class Search(Protocol):
    """An ask/tell search. Tells may come in any number and order, of settings never asked too.

    A new one that is told what another was told goes on where that was.
    """

    def ask(self) -> Setting | None:
        """Return the setting to try next, or None when the search is done."""
        ...

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        ...

    def recommend(self) -> Recommendation:
        """Return the best so far; raises `InfeasibleError` when nothing told is feasible."""
        ...
