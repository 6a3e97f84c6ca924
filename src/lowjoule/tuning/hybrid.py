"""The offline-online hybrid: a predictor's belief of all settings, corrected by every trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.covariance import Covariance
from lowjoule.knobs import Setting, Space
from lowjoule.objectives.objective import Floats
from lowjoule.prediction.features import KNOBS, Activity, DeviceFigures
from lowjoule.prediction.predictor import Predictor
from lowjoule.prediction.prior import TaskPrior, generic_prior, learned_prior
from lowjoule.prediction.tasks import scale_of
from lowjoule.tuning.belief import Belief, Rows, Scatter, Told
from lowjoule.tuning.judgement import Believed, Judge, Judgement
from lowjoule.tuning.ledger import COLUMNS, Entry, Ledger
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.search import Problem
from lowjoule.tuning.surface import Coordinates, Prior
from lowjoule.workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known of a task before its first trial; `predictor` None is physics alone."""

    device: DeviceFigures
    predictor: Predictor | None = None
    workload: Workload | None = None
    activity: Activity | None = None

    def prior(self, space: Space) -> TaskPrior:
        if self.predictor is None:
            return generic_prior(space, self.device)
        return learned_prior(self.predictor, space, self.device, self.workload, self.activity)


class HybridSearch(LinearSearch):
    def __init__(
        self,
        problem: Problem,
        knowledge: Knowledge,
        *,
        max_draws: int | None = None,
        smallest_gain: float = 0.0005,
        scatter: Scatter | None = None,
    ) -> None:
        super().__init__(problem, max_draws=max_draws, smallest_gain=smallest_gain)
        space = problem.space
        self._others = tuple(k for k in space.knobs if k.name not in KNOBS and len(k.values) > 1)
        free = [k.name for k in space.knobs if k.name in KNOBS]
        self._coordinates = Coordinates(Space(self._others))
        predicted = space.free([n for n in free])
        self._belief = Belief(
            knowledge.prior(predicted), scale_of(space, knowledge.device), self._extra(), scatter
        )
        self._settings = space.settings
        self._place = {one: n for n, one in enumerate(self._settings)}
        self._all = self._rows_of(list(self._settings))

    def _extra(self) -> Covariance | None:
        if not self._others:
            return None
        prior = Prior()
        spans, named = self._coordinates.spans, self._coordinates.named
        sizes = np.where(named, prior.name_sd, prior.bend * spans)
        joint = 0.0 if len(sizes) == 1 else float(np.exp(np.mean(np.log(sizes))))
        return Covariance(sizes, prior.length * spans, named, prior.elasticity, joint)

    def _rows_of(self, settings: list[Setting]) -> Rows:
        names = [n for n in self._problem.space.names if n in KNOBS]
        columns = {n: np.array([one.number(n) for one in settings]) for n in names}
        return self._belief.rows(columns, self._coordinates.of(settings))

    def ask(self) -> Setting | None:
        if self._ledger.draws >= self._max_draws:
            return None
        entries = self._ledger.measured
        first = self._first(bool(entries))
        if first is not None or not entries:
            return first
        known = {one.setting for one in entries} | set(self._ledger.failed)
        untold = np.array([n for n, one in enumerate(self._settings) if one not in known], dtype=np.intp)
        candidates = [self._settings[n] for n in untold]
        view = Judge(self._ledger, entries).judge(candidates, self._believed(entries, untold))
        rows = self._rows(entries, candidates)
        gains = view.gains() * self._chance_to_run(rows, len(entries))
        return self._pick(view, gains, rows)

    def _view(self, entries: list[Entry]) -> tuple[Judgement, dict[str, Floats]]:
        ...

    def _believed(self, entries: list[Entry], untold: NDArray[np.intp]) -> Believed:
        achieved = []
        for entry in entries:
            did = entry.observations[-1].achieved
            achieved.append(Setting({**entry.setting, **did.only(self._problem.space.names)}))
        pairs = [[e.mean(name) for name in COLUMNS[:2]] for e in entries]
        floors = [[e.relative_sd(name) or 0.0 for name in COLUMNS[:2]] for e in entries]
        told = Told(
            self._rows_of(achieved),
            np.log(np.array(pairs, dtype=np.float64)),
            np.array([float(len(e.observations)) for e in entries]),
            np.array(floors) ** 2,
        )
        found = self._belief.condition(told, told.rows.then(self._all.only(untold)))
        names = COLUMNS[:2]
        both = [(a, b) for a in range(2) for b in range(2)]
        return Believed(
            means={name: found.mean[:, a] for a, name in enumerate(names)},
            covariances={(names[a], names[b]): found.covariance[a, b] for a, b in both},
            variances={(names[a], names[b]): found.variance[a, b] for a, b in both},
            noise_vars={name: float(found.noise_var[a]) for a, name in enumerate(names)},
        )

    def _pick(self, view: Judgement, gains: Floats, rows: Floats) -> Setting | None:
        prices = self._prices(view)
        settled = np.zeros(len(gains), dtype=np.bool_)
        settled[: view.told] = [entry.settled for entry in self._ledger.measured]
        pays = self._pays(gains, prices) & ~settled
        if not pays.any():
            return None
        worth = np.where(pays, gains, -1.0) / prices
        return view.settings[int(np.argmax(worth))]
