"""A search that is asked and told under drift: trials minutes apart are made comparable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from lowjoule.knobs import Setting
from lowjoule.profiling import Trial
from lowjoule.tuning.account import observe
from lowjoule.tuning.drift import Drift
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search

_MOVED = 5e-4  # a correction that changes by less is not worth another look at all trials


class Inquiry:
    """Holds the trials of one search, the default's first, and has the default measured again.

    After `again_after` trials of other settings the default is due, and once more when the search
    is done (0: never). Where that shows that figures have moved, the search is begun anew and told
    all trials, corrected to how things stand now (`Drift`); the default's as one, so that what is
    measured again for this takes nothing of what the search may draw. A search that was done and
    finds more to try then tries `again_after` settings at most.
    """

    def __init__(
        self, make: Callable[[Problem], Search], problem: Problem, *, again_after: int
    ) -> None:
        self.problem = problem
        self.trials: list[Trial] = []
        self.drift: Drift | None = None
        self._make = make
        self._search = make(problem)
        self._again_after = again_after
        self._since = 0
        self._due = self._ends = False
        self._told: Drift | None = None

    def tell(self, trial: Trial) -> None:
        """Take in what came of a trial."""
        again = self._due and trial.asked == self.problem.default
        self.trials.append(trial)
        self._since = 0 if trial.asked == self.problem.default else self._since + 1
        self._due = False
        if again:
            self.drift = Drift.of(self.references)
            if self._has_moved():
                self._begin_anew()
        else:
            self._search.tell(self.corrected(trial))

    def confirm(self, trial: Trial) -> None:
        """Tell the search of a window that is none of its trials, and costs nothing."""
        self._search.tell(self.corrected(trial))

    def ask(self) -> Setting | None:
        """Return the setting to try next, the default where it is due, None when all is done."""
        if not self._again_after:
            return self._search.ask()
        if self._since >= self._again_after:
            return None if self._ends else self._again()
        setting = self._search.ask()
        if setting is None and self._since > 1 and not self._ends:
            self._ends = True
            return self._again()
        return setting

    def _again(self) -> Setting:
        self._due = True
        return self.problem.default

    def recommend(self) -> Recommendation:
        """Return the best so far; raises `InfeasibleError` when nothing told is feasible."""
        return self._search.recommend()

    @property
    def references(self) -> list[Observation]:
        """What was observed of the default, as it was."""
        return [observe(one) for one in self.trials if one.asked == self.problem.default]

    @property
    def observations(self) -> list[Observation]:
        """What was observed of all trials, as things stand now."""
        return [self.corrected(one) for one in self.trials]

    def corrected(self, trial: Trial) -> Observation:
        """Return what was observed of `trial`, as things stand now."""
        seen = observe(trial)
        return seen if self.drift is None else self.drift.corrected(seen)

    @property
    def notes(self) -> Sequence[str]:
        """What the default took at the end against its start, and what was done about it."""
        if self.drift is None:
            return ()
        time, energy = self.drift.changes
        return (
            f"drift over the search, by the default measured {len(self.references)} times: "
            f"{time:+.1%} time, {energy:+.1%} energy; all trials are corrected to the last of them",
        )

    def _has_moved(self) -> bool:
        """Return whether corrections have changed since the search was told of them."""
        if self.drift is None:
            return False
        dated = [one.at_s for one in self.trials if one.at_s is not None]
        before = [(1.0, 1.0) if self._told is None else self._told.factors(at) for at in dated]
        now = [self.drift.factors(at) for at in dated]
        return any(
            abs(a / b - 1.0) > _MOVED
            for old, new in zip(before, now, strict=True)
            for a, b in zip(old, new, strict=True)
        )

    def _begin_anew(self) -> None:
        self._told = self.drift
        self._search = self._make(self.problem)
        seen = self.observations
        defaults = [one for one in seen if one.asked == self.problem.default]
        self._search.tell(_pooled(defaults))
        for one in seen:
            if one.asked != self.problem.default:
                self._search.tell(one)


def _pooled(seen: Sequence[Observation]) -> Observation:
    """Return trials of one setting as one: means, all their work, and what the mean is known to."""
    good = [one for one in seen if one.failure is None]
    if not good:
        return seen[-1]
    changed: dict[str, float | None] = {
        name: math.fsum(getattr(one, name) for one in good) / len(good)
        for name in ("time_s", "energy_j")
    }
    for name in ("time_sd_s", "energy_sd_j"):
        told = [sd for one in good if (sd := getattr(one, name)) is not None]
        changed[name] = math.hypot(*told) / len(told) if told else None
    for name in ("work", "overhead_s", "overhead_j"):
        changed[name] = math.fsum(getattr(one, name) for one in seen) / len(seen)
    return replace(good[-1], **changed)  # type: ignore[arg-type]
