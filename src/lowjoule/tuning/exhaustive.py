"""Exhaustive search: every setting once."""

from __future__ import annotations

import math
from collections import Counter

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.tuning.choice import choose
from lowjoule.tuning.ledger import Ledger
from lowjoule.tuning.search import Observation, Problem, Recommendation

_GOLDEN = 0.618


class ExhaustiveSearch:
    """Asks for every allowed setting, `rounds` times over.

    In steps of about the golden section of the space, so that neighbours are far apart in time:
    what drifts meanwhile is not taken for what a knob does.
    """

    def __init__(self, problem: Problem, *, rounds: int = 1) -> None:
        if rounds < 1:
            raise InvalidValueError(f"a search of {rounds} rounds", cure="ask for at least one")
        self._ledger = Ledger(problem)
        self._settings = problem.space.settings
        self._rounds = rounds
        self._stride = _stride(len(self._settings))
        self._told: Counter[Setting] = Counter()
        self._next = 0

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)
        self._told[observation.asked] += 1

    def ask(self) -> Setting | None:
        """Return the next setting; ones that were told already count for the first rounds."""
        while self._next < self._rounds * len(self._settings):
            round_, place = divmod(self._next, len(self._settings))
            self._next += 1
            setting = self._settings[place * self._stride % len(self._settings)]
            if self._told[setting] <= round_:
                return setting
        return None

    def recommend(self) -> Recommendation:
        """Return the best mean so far; raises `InfeasibleError` when nothing told is feasible."""
        return choose(self._ledger)


def _stride(count: int) -> int:
    """Return a step that comes to each of `count` places once, near their golden section."""
    wanted = max(1, round(_GOLDEN * count))
    return next(step for step in range(wanted, 0, -1) if math.gcd(step, count) == 1)
