"""A search that is asked and told under drift: trials minutes apart are made comparable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowjoule.knobs import Setting
from lowjoule.profiling import Trial
from lowjoule.tuning.account import observe
from lowjoule.tuning.drift import Drift
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search

_MOVED = 5e-4  # a correction that changes by less is not worth another look at all trials


class Inquiry:
    """Holds the trials of one search, the default's first, and has the default measured again.

    After `again_after` trials of other settings the default is due, and once more when the search
    is done (0: never). What the search is told is corrected to how things stand at the last of
    these (`Drift`); when that changes, the search is begun anew and told all of it again.
    """

    def __init__(
        self, make: Callable[[Problem], Search], problem: Problem, *, again_after: int
    ) -> None:
        self.problem = problem
        self.trials: list[Trial] = []
        self.drift: Drift | None = None
        self._make = make
        self._search = make(problem)
        self._told: Drift | None = None
        self._again_after = again_after
        self._since = 0

    def tell(self, trial: Trial) -> None:
        """Take in what came of a trial."""
        self.trials.append(trial)
        if trial.asked != self.problem.default:
            self._since += 1
        else:
            self._since = 0
            self.drift = Drift.of(self.references)
            if self._has_moved():
                self._begin_anew()
                return
        self._search.tell(self.corrected(trial))

    def confirm(self, trial: Trial) -> None:
        """Tell the search of a window that is none of its trials, and costs nothing."""
        self._search.tell(self.corrected(trial))

    def ask(self) -> Setting | None:
        """Return the setting to try next, the default where it is due, None when all is done."""
        if self._again_after and self._since >= self._again_after:
            return self.problem.default
        setting = self._search.ask()
        if setting is None and self._again_after and self._since > 1:
            return self.problem.default
        return setting

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
        for trial in self.trials:
            self._search.tell(self.corrected(trial))
