"""A plain climb, the peer of the searches: along one knob after the other, as long as it pays."""

from __future__ import annotations

from collections.abc import Iterator

from lowjoule.knobs import Setting
from lowjoule.tuning.choice import choose
from lowjoule.tuning.ledger import Ledger, row_of, values_of
from lowjoule.tuning.lines import line
from lowjoule.tuning.search import Observation, Problem, Recommendation


class HillClimb:
    """Walks along each knob in turn, both ways, `past` points beyond a worse one.

    Each setting is tried once; it ends when a round through all knobs finds nothing better.
    """

    def __init__(self, problem: Problem, *, past: int = 2) -> None:
        self._problem = problem
        self._ledger = Ledger(problem)
        self._past = past
        self._walk = self._steps()

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def ask(self) -> Setting | None:
        """Return the next setting of the walk, or None at its end."""
        return next(self._walk, None)

    def recommend(self) -> Recommendation:
        """Return the best by the means of its trials."""
        return choose(self._ledger)

    def _steps(self) -> Iterator[Setting]:
        """Yield what was not tried yet, in the order of the walk."""
        start = self._problem.start or self._problem.default
        for first in (self._problem.default, start):
            if first not in self._ledger:
                yield first
        best, improved = start, True
        while improved:
            improved = False
            for knob in self._problem.space.knobs:
                row = line(self._problem.space, best, knob)
                here = row.index(best)
                for side in (row[here + 1 :], row[:here][::-1]):
                    worse = 0
                    for one in side:
                        if one not in self._ledger:
                            yield one
                        if self._value(one) < self._value(best):
                            best, improved, worse = one, True, 0
                        else:
                            worse += 1
                        if worse >= self._past:
                            break

    def _value(self, setting: Setting) -> float:
        entries = self._ledger.measured
        settings = [entry.setting for entry in entries]
        if setting not in settings:
            return float("inf")
        outcome = self._ledger.outcome(entries)
        base = row_of(outcome, self._ledger.base_row(entries))
        return float(values_of(self._problem, row_of(outcome, settings.index(setting)), base))
