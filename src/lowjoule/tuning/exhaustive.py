"""Exhaustive search: every setting once."""

from __future__ import annotations

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.tuning.choice import choose
from lowjoule.tuning.ledger import Ledger
from lowjoule.tuning.search import Observation, Problem, Recommendation


class ExhaustiveSearch:
    """Asks for every allowed setting in the space's order, `rounds` times over."""

    def __init__(self, problem: Problem, *, rounds: int = 1) -> None:
        if rounds < 1:
            raise InvalidValueError(f"a search of {rounds} rounds", cure="ask for at least one")
        self._ledger = Ledger(problem)
        self._settings = problem.space.settings
        self._rounds = rounds
        self._next = 0

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def ask(self) -> Setting | None:
        """Return the next setting; one that was told already counts for the first round."""
        while self._next < self._rounds * len(self._settings):
            round_, place = divmod(self._next, len(self._settings))
            self._next += 1
            setting = self._settings[place]
            if round_ > 0 or setting not in self._ledger:
                return setting
        return None

    def recommend(self) -> Recommendation:
        """Return the best mean so far; raises `InfeasibleError` when nothing told is feasible."""
        return choose(self._ledger)
