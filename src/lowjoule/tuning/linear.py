"""Linear search: outward along each knob from a start, as long as a trial is worth its price."""

from __future__ import annotations

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
from lowjoule.tuning.lines import Lines, behind_walls, unhemmed
from lowjoule.tuning.search import Observation, Problem, Recommendation
from lowjoule.tuning.surface import Fit, Prior, Surface

DRAWS_A_KNOB = 4  # two points each way
DRAWS_TO_CLOSE_IN = 6
# A search compares dozens of pairs: two standard deviations come up by chance, three hardly.
WORSE_SD = 3.0
CLOSE_WORTH = 1.25  # worths within a quarter are equal: the cheaper change goes first


class LinearSearch:
    """Walks outward along each knob from the best setting, both ways, then closes in on it.

    Candidates differ from the best setting tried in one knob, and lie within what was tried
    along it or as far again beyond: steps double while they pay, and refine afterwards. A
    direction is followed past one clearly worse point, not past two; where a knob has few values
    (names, memory clocks), the best setting of each of them is walked from too. All trials feed
    one smooth surface (`tuning.surface`), by which neighbours share their noise, and close calls
    are repeated. The next trial is the one with the largest worth for its price (a worse setting
    and a dear change cost more), between equals the one with the cheaper change. The search is
    done when no trial is expected to gain more than it costs over `Problem.remaining_work`
    (without it: more than `smallest_gain`), and the best is hemmed in by worse or failed points
    along each knob.

    `max_draws` bounds the trials (told ones count; by default two outward each way for each knob
    that can be turned, and six to close in and repeat: 10, 14, 18 for one, two, three knobs);
    `smallest_gain` is the relative gain below which a trial is not worth it (a job of a thousand
    trials in which a trial loses half its cost); `first_step` the first step along a knob over
    its log range.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        max_draws: int | None = None,
        smallest_gain: float = 0.0005,
        first_step: float = 0.25,
        prior: Prior | None = None,
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

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def ask(self) -> Setting | None:
        """Return the setting to try next, or None when the search is done."""
        if self._ledger.draws >= self._max_draws:
            return None
        entries = self._ledger.measured
        first = self._first(bool(entries))
        if first is not None or not entries:
            return first
        judge, fits = Judge(self._ledger, entries), self._fits(entries)
        here = judge.judge([], believed(fits, self._rows(entries, [])))
        candidates = self._candidates(here, entries)
        rows = self._rows(entries, candidates)
        view = judge.judge(candidates, believed(fits, rows))
        return self._pick(view, view.gains() * self._chance_to_run(rows, len(entries)), rows)

    def recommend(self) -> Recommendation:
        """Return the best so far; raises `InfeasibleError` when nothing told is feasible.

        The surface says which one; its figures are the means of its own trials, so that they
        can be checked, and their uncertainty is that of these means and of the baseline's.
        """
        entries = self._ledger.measured
        if not entries:
            raise self._ledger.nothing_feasible([], np.empty(0))
        fits = self._fits(entries)
        view = Judge(self._ledger, entries).judge([], believed(fits, self._rows(entries, [])))
        best = view.likeliest()
        if best is None:
            raise self._ledger.nothing_feasible(entries, view.excess)
        outcome = self._ledger.outcome(entries)
        base = self._ledger.base_row(entries)
        value = values_of(self._problem, row_of(outcome, best), row_of(outcome, base))
        variances = {name: fit.mean_variance for name, fit in fits.items()}
        notes = []
        if needs_baseline(self._problem) and entries[base].setting != self._problem.default:
            stand_in = dict(entries[base].setting)
            notes.append(f"the default gave no figure: compared with {stand_in}")
        return Recommendation(
            setting=view.settings[best],
            time_s=float(outcome.time_s[best]),
            energy_j=float(outcome.energy_j[best]),
            objective=float(value),
            uncertainty=objective_sd(self._problem, outcome, best, base, variances),
            confidence=view.confidence(),
            kept=float(view.kept[best]) if self._problem.constraints else None,
            notes=tuple(notes),
        )

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

    def _candidates(self, here: Judgement, entries: list[Entry]) -> list[Setting]:
        """Return what is in reach on the best setting's lines before walls, and on its rivals'."""
        told = [entry.setting for entry in entries]
        failed = self._ledger.failed
        found = self._lines.candidates(told[here.best], told, failed)
        rows = self._rows(entries, found)
        shut = behind_walls(rows, here.told, here.best, here.clearly_worse(WORSE_SD))
        found = [one for one, gone in zip(found, shut[here.told :], strict=True) if not gone]
        rivals = self._lines.rivals(told, here.ranked())
        forbidden = here.forbidden()
        if forbidden is not None:
            rivals.append(told[forbidden])
        for rival in rivals:
            more = self._lines.candidates(rival, told, failed)
            found += [one for one in more if one not in found]
        return found

    def _pick(self, view: Judgement, gains: Floats, rows: Floats) -> Setting | None:
        prices = self._prices(view)
        settled = np.zeros(len(gains), dtype=np.bool_)
        settled[: view.told] = [entry.settled for entry in self._ledger.measured]
        pays = self._pays(gains, prices) & ~settled
        if not pays.any():
            # a gain too small to see is no reason to leave a direction unlooked at
            looked_for = np.maximum(gains, self._smallest_gain * 1.001)
            worse = rows[: view.told][view.clearly_worse(WORSE_SD)[view.best]]
            walls = np.concatenate([worse, self._surface.coordinates.of(self._ledger.failed)])
            pays = self._pays(looked_for, prices) & unhemmed(rows, view.best, walls)
            pays[: view.told] = False
        if not pays.any():
            return None
        worth = np.where(pays, np.maximum(gains, 0.0), -1.0) / prices
        close = np.flatnonzero(pays & (worth * CLOSE_WORTH >= worth.max())).tolist()
        best = view.settings[view.best]
        scopes = [scope_of(self._problem.space, best, view.settings[i]) for i in close]
        cheapest = [i for i, scope in zip(close, scopes, strict=True) if scope == min(scopes)]
        return view.settings[max(cheapest, key=lambda i: (worth[i], -i))]

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

    def _chance_to_run(self, rows: Floats, told: int) -> Floats:
        """Return how likely each row runs: how near it is to what ran and to what failed."""
        failed = self._ledger.failed
        if not failed:
            return np.ones(len(rows))
        ran = self._surface.likeness(rows, rows[:told]).max(axis=1)
        broke = self._surface.likeness(rows, self._surface.coordinates.of(failed)).max(axis=1)
        return np.asarray(ran / (ran + broke))

    def _rows(self, entries: list[Entry], candidates: list[Setting]) -> Floats:
        achieved = []
        for entry in entries:
            did = entry.observations[-1].achieved
            achieved.append(Setting({**entry.setting, **did.only(self._problem.space.names)}))
        return self._surface.coordinates.of(achieved + candidates)

    def _fits(self, entries: list[Entry]) -> dict[str, Fit]:
        """Return the surface of each column that every entry told."""
        rows = self._rows(entries, [])
        counts = np.array([float(len(entry.observations)) for entry in entries])
        fits = {}
        for name in COLUMNS:
            means = [mean for e in entries if (mean := e.mean(name)) is not None and mean > 0]
            if len(means) == len(entries):
                floor = np.array([entry.relative_sd(name) or 0.0 for entry in entries]) ** 2
                fits[name] = self._surface.fit(rows, np.log(np.array(means)), counts, floor)
        return fits


def believed(fits: dict[str, Fit], rows: Floats) -> Believed:
    """Return what `fits` say at `rows`, columns independent of one another."""
    found = {name: fit.at(rows) for name, fit in fits.items()}
    return Believed(
        means={name: one[0] for name, one in found.items()},
        covariances={(name, name): one[1] for name, one in found.items()},
        variances={(name, name): one[2] for name, one in found.items()},
        noise_vars={name: fit.noise_var for name, fit in fits.items()},
    )
