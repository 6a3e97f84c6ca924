"""What a search was told, setting by setting; every search keeps one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from lowjoule.errors import InfeasibleError, InvalidValueError, UnknownNameError
from lowjoule.knobs import Scope, Setting, Space, show_setting
from lowjoule.normal import normal_cdf
from lowjoule.objectives.objective import Constraint, Floats, Outcome
from lowjoule.quantities import Unit, show
from lowjoule.tuning.search import Observation, Problem

COLUMNS = ("time_s", "energy_j", "peak_power_w", "memory_bytes", "latency_s")
# A bound that a choice keeps by estimate alone is broken half the time, more after a search that
# picks the luckiest; at 0.9 once in ten, by little.
SURE = 0.9
EXACT = 1e-12  # a relative variance below which there is no noise, but for rounding
_SPREADS = {"time_s": "time_sd_s", "energy_j": "energy_sd_j"}


@dataclass(slots=True)
class Entry:
    """All that was told of one setting that was asked for."""

    setting: Setting
    observations: list[Observation] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def values(self, column: str) -> list[float]:
        """Return what was told of `column`, unknown figures left out."""
        told = (getattr(one, column) for one in self.observations)
        return [value for value in told if value is not None]

    @property
    def settled(self) -> bool:
        """Whether trials here repeat to the last digit, so that another would tell nothing."""
        last = self.observations[-2:]
        figures = {(one.time_s, one.energy_j) for one in last}
        return len(last) == 2 and len(figures) == 1

    def mean(self, column: str) -> float | None:
        """Return the mean of what was told of `column`, None where nothing was."""
        values = self.values(column)
        return math.fsum(values) / len(values) if values else None

    def relative_sd(self, column: str) -> float | None:
        """Return the told standard deviation of one trial over the mean, None if never told."""
        mean = self.mean(column)
        told = self.values(_SPREADS[column]) if column in _SPREADS else []
        if not told or mean is None:
            return None
        return math.sqrt(math.fsum(sd * sd for sd in told) / len(told)) / mean


class Ledger:
    """The book of a search: observations by the setting asked, and what trials cost.

    Observations of settings outside the space count as draws and teach nothing.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.draws = 0
        self.work = 0.0
        self._overheads: dict[Scope, list[float]] = {}
        self._entries: dict[Setting, Entry] = {}
        self._last: Setting | None = None

    def tell(self, observation: Observation) -> None:
        """Enter `observation`; a figure that is not a positive number counts as a failure."""
        self.draws += 1
        self.work += observation.work
        asked = observation.asked
        if not allowed(self.problem.space, asked):
            return
        if self._last is not None and asked != self._last:
            scope = scope_of(self.problem.space, self._last, asked)
            self._overheads.setdefault(scope, []).append(observation.overhead_s)
        self._last = asked
        entry = self._entries.setdefault(asked, Entry(asked))
        reason = observation.failure or _defect(observation)
        if reason is None:
            entry.observations.append(observation)
        else:
            entry.failures.append(reason)

    def __contains__(self, setting: object) -> bool:
        return setting in self._entries

    @property
    def measured(self) -> list[Entry]:
        """The settings with at least one figure, in the order in which they were first told."""
        return [entry for entry in self._entries.values() if entry.observations]

    @property
    def failed(self) -> list[Setting]:
        """The settings that were told and never gave a figure."""
        return [one for one, entry in self._entries.items() if not entry.observations]

    @property
    def mean_work(self) -> float:
        """Work that a trial does, on average; 0 before the first."""
        return self.work / self.draws if self.draws else 0.0

    def overhead_s(self, scope: Scope) -> float:
        """Return the time that a change of `scope` loses, on average.

        A scope that was not seen yet is taken to cost at least what the cheaper ones do.
        """
        seen = [s for s in self._overheads if s <= scope]
        if not seen:
            return 0.0
        told = self._overheads[max(seen)]
        return math.fsum(told) / len(told)

    def time_s(self, setting: Setting) -> float:
        """Return the mean time of one unit of work at a measured `setting`."""
        mean = self._entries[setting].mean("time_s")
        assert mean is not None
        return mean

    def base_row(self, entries: list[Entry]) -> int:
        """Return the row of the baseline: the default's, or the first where it has none."""
        settings = [entry.setting for entry in entries]
        default = self.problem.default
        return settings.index(default) if default in settings else 0

    def outcome(self, entries: Iterable[Entry]) -> Outcome:
        """Return the mean figures of `entries`, one row each; a column that some lack is None."""
        rows = list(entries)
        columns: dict[str, Floats] = {}
        for name in COLUMNS:
            known = [mean for entry in rows if (mean := entry.mean(name)) is not None]
            if len(known) == len(rows):
                columns[name] = np.array(known)
        return Outcome(**columns)

    def nothing_feasible(self, entries: list[Entry], excess: Floats) -> InfeasibleError:
        """Return the error that says that no told setting is feasible, naming the closest."""
        if not entries:
            reasons = {reason for entry in self._entries.values() for reason in entry.failures}
            return InfeasibleError(
                "no trial gave a figure" + (f" ({'; '.join(sorted(reasons))})" if reasons else ""),
                cure="start from a setting that runs",
            )
        closest = int(np.argmin(excess))
        text = ", ".join(one.text for one in self.problem.constraints)
        return InfeasibleError(
            f"no setting tried ({len(entries)}) meets {text}",
            cure=f"the closest is {show_setting(entries[closest].setting, self.problem.space)}, "
            f"{show(float(excess[closest]), Unit.RATIO)} beyond the bound: relax it, or turn more "
            "knobs",
        )


def excess_of(problem: Problem, outcome: Outcome, baseline: Outcome) -> Floats:
    """Return, row by row, the largest excess over the constraints (-inf where there is none)."""
    worst = np.full(outcome.time_s.shape, -np.inf)
    for one in problem.constraints:
        worst = np.maximum(worst, excess_over(one, outcome, baseline))
    return worst


def excess_over(one: Constraint, outcome: Outcome, baseline: Outcome) -> Floats:
    """Return, row by row, the excess over one constraint."""
    return one.excess(outcome, baseline if one.needs_baseline else None)


def chance_kept(excess: Floats, variance: Floats) -> Floats:
    """Return how likely a bound is kept by normal `excess` over it; sure where nothing varies."""
    exact = variance <= EXACT
    likely = normal_cdf(-excess / np.sqrt(np.where(exact, 1.0, variance)))
    return np.where(exact, excess <= 0.0, likely)


def values_of(problem: Problem, outcome: Outcome, baseline: Outcome) -> Floats:
    """Return the objective, row by row."""
    objective = problem.objective
    values = objective.values(outcome, baseline if objective.needs_baseline else None)
    return np.asarray(values, dtype=np.float64)


def row_of(outcome: Outcome, index: int) -> Outcome:
    """Return one row of `outcome`, 0-d."""
    told = {name: getattr(outcome, name) for name in COLUMNS}
    return Outcome(**{k: np.asarray(v[index]) for k, v in told.items() if v is not None})


def scope_of(space: Space, here: Setting, there: Setting) -> Scope:
    """Return the dearest scope among the knobs that change from `here` to `there`."""
    scopes = (space.knob(name).scope for name in here.changed(there))
    return max(scopes, default=Scope.LIVE)


def needs_baseline(problem: Problem) -> bool:
    """Return whether the objective or a constraint compares with the default."""
    return problem.objective.needs_baseline or any(
        constraint.needs_baseline for constraint in problem.constraints
    )


def allowed(space: Space, setting: Setting) -> bool:
    """Return whether `setting` is one of `space`, without listing the space."""
    try:
        space.check(setting)
    except (InvalidValueError, UnknownNameError):
        return False
    return True


def _defect(observation: Observation) -> str | None:
    for name in ("time_s", "energy_j"):
        value = getattr(observation, name)
        if value is None or not (math.isfinite(value) and value > 0):
            return f"no usable {name}"
    return None
