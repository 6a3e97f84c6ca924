"""What searches with a model share: account of trials, prices, and what is recommended."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.objectives.objective import Floats
from lowjoule.tuning.choice import objective_sd
from lowjoule.tuning.judgement import Believed, Judge, Judgement
from lowjoule.tuning.ledger import (
    COLUMNS,
    Entry,
    Ledger,
    allowed,
    needs_baseline,
    row_of,
    scope_of,
    values_of,
)
from lowjoule.tuning.lines import Lines
from lowjoule.tuning.search import Observation, Problem, Recommendation
from lowjoule.tuning.surface import Fit, Prior, Surface

DRAWS_A_KNOB = 4  # two points each way
DRAWS_TO_CLOSE_IN = 6


class ModelledSearch:
    """A search that holds a belief of settings and tries what is worth its price.

    `max_draws` bounds the trials (told ones count; by default two outward each way for each knob
    that can be turned, and six to close in and repeat: 10, 14, 18 for one, two, three knobs).
    """

    def __init__(
        self,
        problem: Problem,
        *,
        max_draws: int | None,
        smallest_gain: float,
        first_step: float,
        prior: Prior | None,
    ) -> None:
        if max_draws is not None and max_draws < 1:
            raise InvalidValueError(f"a search of {max_draws} draws", cure="allow at least one")
        free = sum(len(knob.values) > 1 for knob in problem.space.knobs)
        self._problem = problem
        self._ledger = Ledger(problem)
        self._max_draws = max_draws or DRAWS_A_KNOB * free + DRAWS_TO_CLOSE_IN
        self._smallest_gain = smallest_gain
        self._surface = Surface(problem.space, prior or Prior())
        self._lines = Lines(problem.space, self._surface.coordinates, first_step)

    @abstractmethod
    def _believed(self, entries: list[Entry]) -> Believed:
        """Return what is believed of `entries` alone."""

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def recommend(self) -> Recommendation:
        """Return the best so far; raises `InfeasibleError` when nothing told is feasible.

        The model says which one; its figures are the means of its own trials, so that they
        can be checked, and their uncertainty is that of these means and of the baseline's.
        """
        entries = self._ledger.measured
        if not entries:
            raise self._ledger.nothing_feasible([], np.empty(0))
        believed = self._believed(entries)
        view = Judge(self._ledger, entries).judge([], believed)
        best = view.likeliest()
        if best is None:
            raise self._ledger.nothing_feasible(entries, view.excess)
        outcome = self._ledger.outcome(entries)
        base = self._ledger.base_row(entries)
        value = values_of(self._problem, row_of(outcome, best), row_of(outcome, base))
        variances = {n: _mean_var(entries, n, var) for n, var in believed.noise_vars.items()}
        return Recommendation(
            setting=view.settings[best],
            time_s=float(outcome.time_s[best]),
            energy_j=float(outcome.energy_j[best]),
            objective=float(value),
            uncertainty=objective_sd(self._problem, outcome, best, base, variances),
            confidence=view.confidence(),
            kept=float(view.kept[best]) if self._problem.constraints else None,
            notes=self._notes(entries, base),
        )

    def _notes(self, entries: list[Entry], base: int) -> tuple[str, ...]:
        if needs_baseline(self._problem) and entries[base].setting != self._problem.default:
            stand_in = dict(entries[base].setting)
            return (f"the default gave no figure: compared with {stand_in}",)
        return ()

    def _first(self, anything_runs: bool) -> Setting | None:
        """Return the start, the default where it is needed, else a way out of failures."""
        start, default = self._problem.start or self._problem.default, self._problem.default
        wanted = [start] if self._problem.start is not None or not anything_runs else []
        if not anything_runs or needs_baseline(self._problem):
            wanted.append(default)
        for setting in wanted:
            if setting not in self._ledger and allowed(self._problem.space, setting):
                return setting
        return None if anything_runs else self._lines.away(start, self._ledger.failed)

    def _prices(self, view: Judgement) -> Floats:
        """Return what a trial of each row costs, in trials at the best setting; at least one."""
        prices = np.ones(len(view.merit))
        if view.feasible.any():  # else the merit says nothing of the cost
            worse = view.merit - view.merit[view.best] + 0.5 * view.variance  # of a log-normal
            prices = np.exp(np.clip(worse, 0.0, 20.0))
        trial_s = self._ledger.mean_work * self._ledger.time_s(view.settings[view.best])
        if trial_s > 0:
            best = view.settings[view.best]
            space = self._problem.space
            lost_s = [self._ledger.overhead_s(scope_of(space, best, s)) for s in view.settings]
            prices = prices + np.array(lost_s) / trial_s
        return np.asarray(prices)

    def _pays(self, gains: Floats, prices: Floats) -> NDArray[np.bool_]:
        """Return which trials gain more than they cost; a trial's work counts for the job."""
        enough = gains > self._smallest_gain
        if self._problem.remaining_work is None:
            return enough
        work = self._ledger.mean_work
        left = max(0.0, self._problem.remaining_work - self._ledger.work - work)
        return np.asarray(enough & (gains * left > (prices - 1.0) * work))

    def _settled(self, total: int) -> NDArray[np.bool_]:
        """Return which of `total` rows, the told ones first, another trial would not change."""
        settled = np.zeros(total, dtype=np.bool_)
        told = [entry.settled for entry in self._ledger.measured]
        settled[: len(told)] = told
        return settled

    def _chance_to_run(self, rows: Floats, told: int) -> Floats:
        """Return how likely each row runs: how near it is to what ran and to what failed."""
        failed = self._ledger.failed
        if not failed:
            return np.ones(len(rows))
        ran = self._surface.likeness(rows, rows[:told]).max(axis=1)
        broke = self._surface.likeness(rows, self._surface.coordinates.of(failed)).max(axis=1)
        return np.asarray(ran / (ran + broke))

    def _achieved(self, entries: list[Entry]) -> list[Setting]:
        names = self._problem.space.names
        return [
            Setting({**one.setting, **one.observations[-1].achieved.only(names)}) for one in entries
        ]

    def _rows(self, entries: list[Entry], candidates: Sequence[Setting]) -> Floats:
        return self._surface.coordinates.of([*self._achieved(entries), *candidates])

    def _fits(self, entries: list[Entry], names: Sequence[str] = COLUMNS) -> dict[str, Fit]:
        """Return the surface of each column of `names` that every entry told."""
        rows = self._rows(entries, [])
        counts = np.array([float(len(entry.observations)) for entry in entries])
        fits = {}
        for name in names:
            means = [mean for e in entries if (mean := e.mean(name)) is not None and mean > 0]
            if len(means) == len(entries):
                floor = np.array([entry.relative_sd(name) or 0.0 for entry in entries]) ** 2
                fits[name] = self._surface.fit(rows, np.log(np.array(means)), counts, floor)
        return fits


def _mean_var(entries: list[Entry], name: str, noise_var: float) -> Floats:
    """Return the variance of the logarithm of each entry's mean."""
    told = [(e.relative_sd(name) or 0.0, len(e.observations)) for e in entries]
    return np.array([max(noise_var, sd**2) / count for sd, count in told])


def believed_of(fits: dict[str, Fit], rows: Floats) -> Believed:
    """Return what `fits` say at `rows`, columns independent of one another."""
    found = {name: fit.at(rows) for name, fit in fits.items()}
    return Believed(
        means={name: one[0] for name, one in found.items()},
        covariances={(name, name): one[1] for name, one in found.items()},
        variances={(name, name): one[2] for name, one in found.items()},
        noise_vars={name: fit.noise_var for name, fit in fits.items()},
    )
