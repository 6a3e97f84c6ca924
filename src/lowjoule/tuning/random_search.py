"""Random search: different settings, uniformly."""

from __future__ import annotations

import numpy as np

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.tuning.choice import choose
from lowjoule.tuning.ledger import Ledger, needs_baseline
from lowjoule.tuning.search import Observation, Problem, Recommendation


class RandomSearch:
    """Asks for different settings uniformly at random until `draws` trials were told.

    The default comes first where the objective or a constraint compares with it. `seed` fixes
    the order.
    """

    def __init__(self, problem: Problem, *, draws: int = 14, seed: int = 0) -> None:
        if draws < 1:
            raise InvalidValueError(f"a search of {draws} draws", cure="allow at least one")
        self._problem = problem
        self._ledger = Ledger(problem)
        self._draws = draws
        order = np.random.default_rng(seed).permutation(len(problem.space.settings))
        self._order: list[int] = order.tolist()

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def ask(self) -> Setting | None:
        """Return a setting not told yet, or None when the draws or the settings are used up."""
        if self._ledger.draws >= self._draws:
            return None
        default = self._problem.default
        if needs_baseline(self._problem) and default not in self._ledger:
            return default
        while self._order:
            setting = self._problem.space.settings[self._order.pop()]
            if setting not in self._ledger:
                return setting
        return None

    def recommend(self) -> Recommendation:
        """Return the best mean so far; raises `InfeasibleError` when nothing told is feasible."""
        return choose(self._ledger)
