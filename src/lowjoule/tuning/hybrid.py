"""The offline-online hybrid: a predictor's belief of all settings, corrected by every trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lowjoule.covariance import Covariance
from lowjoule.knobs import BATCH_SIZE, MICRO_BATCH, Scope, Setting, Space
from lowjoule.objectives.objective import Floats
from lowjoule.prediction.features import KNOBS
from lowjoule.prediction.tasks import scale_of
from lowjoule.tuning.belief import Belief, Posterior, Rows, Scatter, Told, mixed
from lowjoule.tuning.grid import coarse, lines_through
from lowjoule.tuning.judgement import Believed, Judge, Judgement
from lowjoule.tuning.knowledge import Knowledge
from lowjoule.tuning.ledger import COLUMNS, Entry, scope_of
from lowjoule.tuning.linear import CLOSE_WORTH
from lowjoule.tuning.modelled import ModelledSearch, believed_of
from lowjoule.tuning.search import Problem
from lowjoule.tuning.surface import Coordinates, Prior

MOST_SETTINGS = 3000  # a trial takes seconds, and judging so many settings some tens of ms
_FINE = 3  # tried settings whose lines are looked at in full
_FIGURES = COLUMNS[:2]


class HybridSearch(ModelledSearch):
    """Tries what is worth its price among all settings of the space, by a predicted belief.

    Before the first trial time and power of every setting are predicted (He et al., Sustainable
    Computing 2025, predict them first and search around the best); each trial conditions the
    prediction, physics and all (`tuning.belief`). The next trial is the one with the largest
    worth for its price over all settings and repeats of those tried (the knowledge gradient of
    `tuning.judgement`): first trials thereby inform and are good at once. The search is done when
    no setting anywhere is expected to gain more than it costs over `Problem.remaining_work`, nor
    more than `smallest_gain`; that the predicted best was tried is not enough. Only what was
    tried is recommended.

    Knobs that are not predicted (a micro-batch, a precision) are searched with the generic
    belief of `tuning.surface`. A space of more than `MOST_SETTINGS` is looked at on a coarse grid,
    and along the lines through the best settings tried in full. What failed rules out what
    must fail as well: the same batch at another limit, a larger one.

    `smallest_gain` is the relative gain below which a trial is not worth it: that of a trial that
    costs a tenth more than one at the best setting, in a job of a hundred trials.
    """

    def __init__(
        self,
        problem: Problem,
        knowledge: Knowledge,
        *,
        max_draws: int | None = None,
        smallest_gain: float = 0.001,
        scatter: Scatter | None = None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(
            problem,
            max_draws=max_draws,
            smallest_gain=smallest_gain,
            first_step=0.25,
            prior=prior,
        )
        space = problem.space
        self._grid = coarse(space, MOST_SETTINGS)
        others = tuple(k for k in space.knobs if k.name not in KNOBS and len(k.values) > 1)
        self._coordinates = Coordinates(Space(others))
        self._named = [name for name in space.names if name in KNOBS]
        predicted = Space(tuple(k for k in self._grid.knobs if k.name in KNOBS))
        priors = knowledge.priors(predicted)
        scale = scale_of(space, knowledge.device)
        other = _surface_of(self._coordinates, prior or Prior()) if others else None
        self._beliefs = [Belief(one, scale, other, scatter) for one in priors]
        self._learned = tuple(note for one in priors[-1:] for note in one.notes)
        self._slow = [knob.name for knob in space.knobs if knob.scope > Scope.LIVE]
        self._settings = self._grid.settings
        self._parts = self._rows_of(self._settings)
        self._surface_rows = self._surface.coordinates.of(list(self._settings))

    def ask(self) -> Setting | None:
        """Return the setting to try next, or None when the search is done."""
        if self._ledger.draws >= self._max_draws:
            return None
        entries = self._ledger.measured
        first = self._first(bool(entries))
        if first is not None or not entries:
            return first
        judge = Judge(self._ledger, entries)
        here = judge.judge([], self._believed(entries))
        kept, fine = self._candidates(here, entries)
        candidates = [*(self._settings[n] for n in kept), *fine]
        rows = np.concatenate(
            [self._rows(entries, []), self._surface_rows[kept], self._surface.coordinates.of(fine)]
        )
        view = judge.judge(candidates, self._foreseen(entries, kept, fine, rows))
        return self._pick(view, view.gains() * self._chance_to_run(rows, len(entries)))

    def _candidates(
        self, here: Judgement, entries: list[Entry]
    ) -> tuple[NDArray[np.intp], list[Setting]]:
        """Return places on the grid and settings beside it that were not tried and may run."""
        known = {one.setting for one in entries} | set(self._ledger.failed)
        hopeless = self._hopeless(entries)
        fresh = [one not in known and not hopeless(one) for one in self._settings]
        best = [here.settings[row] for row in here.ranked()[:_FINE]]
        on_grid = set(self._settings)
        fine = [
            one
            for one in lines_through(self._problem.space, best)
            if one not in on_grid and one not in known and not hopeless(one)
        ]
        return np.flatnonzero(np.array(fresh, dtype=np.bool_)), fine

    def _hopeless(self, entries: list[Entry]) -> Callable[[Setting], bool]:
        """Return what tells whether a setting fails as another did.

        Limits and clocks let work run or not by themselves seldom: what failed with a batch or a
        precision with which nothing ran fails so at all of them, and with a larger batch too.
        """
        failed = self._ledger.failed
        ran = {self._kind(entry.setting) for entry in entries}
        broken = {self._kind(one) for one in failed} - ran
        most = max(_at_once(entry.setting) for entry in entries)
        sizes = [size for one in failed if (size := _at_once(one)) > most]
        least = min(sizes, default=float("inf"))
        return lambda one: self._kind(one) in broken or _at_once(one) >= least

    def _kind(self, setting: Setting) -> Setting:
        """Return the part of `setting` that is the work's: what cannot be turned at any moment."""
        return setting.only(self._slow)

    def _pick(self, view: Judgement, gains: Floats) -> Setting | None:
        prices = self._prices(view)
        pays = self._pays(gains, prices) & ~self._settled(len(gains))
        if not pays.any():
            return None
        worth = np.where(pays, gains, -1.0) / prices
        close = np.flatnonzero(pays & (worth * CLOSE_WORTH >= worth.max())).tolist()
        best = view.settings[view.best]
        scopes = [scope_of(self._problem.space, best, view.settings[i]) for i in close]
        cheapest = [i for i, scope in zip(close, scopes, strict=True) if scope == min(scopes)]
        return view.settings[max(cheapest, key=lambda i: (worth[i], -i))]

    def _believed(self, entries: list[Entry]) -> Believed:
        none = np.empty(0, dtype=np.intp)
        return self._foreseen(entries, none, [], self._rows(entries, []))

    def _foreseen(
        self,
        entries: list[Entry],
        kept: NDArray[np.intp],
        fine: Sequence[Setting],
        rows: Floats,
    ) -> Believed:
        """Return what is believed of `entries`, then of the grid's places `kept`, then of `fine`.

        `rows` are all of them for the surfaces of what physics does not predict: peak power,
        memory, latency.
        """
        found = self._posterior(entries, kept, fine)
        both = [(a, b) for a in range(2) for b in range(2)]
        more = believed_of(self._fits(entries, COLUMNS[2:]), rows)
        names = _FIGURES
        return Believed(
            means={**{n: found.mean[:, a] for a, n in enumerate(names)}, **more.means},
            covariances={
                **{(names[a], names[b]): found.covariance[a, b] for a, b in both},
                **more.covariances,
            },
            variances={
                **{(names[a], names[b]): found.variance[a, b] for a, b in both},
                **more.variances,
            },
            noise_vars={
                **{n: float(found.noise_var[a]) for a, n in enumerate(names)},
                **more.noise_vars,
            },
        )

    def _posterior(
        self, entries: list[Entry], kept: NDArray[np.intp], fine: Sequence[Setting]
    ) -> Posterior:
        means = [[entry.mean(name) for name in _FIGURES] for entry in entries]
        sds = [[entry.relative_sd(name) or 0.0 for name in _FIGURES] for entry in entries]
        logs = np.log(np.array(means, dtype=np.float64))
        counts = np.array([float(len(entry.observations)) for entry in entries])
        tried, beside = self._rows_of(self._achieved(entries)), self._rows_of(fine)
        parts = []
        for place, belief in enumerate(self._beliefs):
            told = Told(tried[place], logs, counts, np.array(sds) ** 2)
            rows = tried[place].then(self._parts[place].only(kept)).then(beside[place])
            parts.append(belief.condition(told, rows))
        return mixed(parts)

    def _rows_of(self, settings: Sequence[Setting]) -> list[Rows]:
        columns = {n: np.array([one.number(n) for one in settings]) for n in self._named}
        other = self._coordinates.of(list(settings))
        return [one.rows(columns, other) for one in self._beliefs]

    def _notes(self, entries: list[Entry], base: int) -> tuple[str, ...]:
        tried, total = len(entries), len(self._problem.space)
        account = f"{tried} of {total:,} settings were measured, the others are predicted"
        return (*super()._notes(entries, base), account, *self._learned)


def _at_once(setting: Setting) -> float:
    """Return how many samples run at once, which takes memory; 1 where no knob says."""
    sizes = [setting.number(name) for name in (BATCH_SIZE, MICRO_BATCH) if name in setting]
    return min(sizes, default=1.0)


def _surface_of(coordinates: Coordinates, prior: Prior) -> Covariance:
    """Return the generic covariance of knobs that are not predicted."""
    sizes = np.where(coordinates.named, prior.name_sd, prior.bend * coordinates.spans)
    joint = 0.0 if len(sizes) == 1 else prior.joint * float(np.exp(np.mean(np.log(sizes))))
    widths = prior.length * coordinates.spans
    return Covariance(sizes, widths, coordinates.named, prior.elasticity, joint)
