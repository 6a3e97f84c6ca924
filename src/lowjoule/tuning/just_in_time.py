"""Just-in-time profiling of one knob: down from the top until the objective has turned."""

from __future__ import annotations

import math

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Knob, Setting, Space
from lowjoule.tuning.choice import choose, noise_of
from lowjoule.tuning.ledger import Ledger, excess_of, row_of, values_of
from lowjoule.tuning.lines import line
from lowjoule.tuning.search import Observation, Problem, Recommendation
from lowjoule.tuning.surface import Prior

_PATIENCE = 2  # one worse point may be noise: at least two in a row after the best ...
_SHARE = 0.1  # ... and a tenth of the line, so that fine steps go as far as coarse ones
_CLEAR = 3.0  # standard deviations of the difference of two stretches


class JustInTime:
    """Tries the values of one knob from the largest downwards (You et al., NSDI 2023, sec. 4.2).

    Stops when the objective has turned for good: the last values (two, and at least a tenth of
    the line) are all worse than the best, and their mean clearly worse than that of the best
    stretch as long: by three standard deviations of the noise that shows, or of the usual noise of
    `Prior` where that is more. Under a power cap the objective rises a little over a flat stretch
    before it falls, which is no turn. Values that failed or break a constraint are worse than
    any. A space with names or with more than one knob to turn is refused; hold the others with
    `Space.fixed`.
    """

    def __init__(self, problem: Problem) -> None:
        knob = _only_knob(problem.space)
        self._ledger = Ledger(problem)
        self._line = line(problem.space, problem.default, knob)[::-1]

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        self._ledger.tell(observation)

    def ask(self) -> Setting | None:
        """Return the next lower setting, or None when the objective has turned or at the end."""
        if self._turned():
            return None
        return next((one for one in self._line if one not in self._ledger), None)

    def recommend(self) -> Recommendation:
        """Return the best mean so far; raises `InfeasibleError` when nothing told is feasible."""
        return choose(self._ledger)

    def _turned(self) -> bool:
        """Return whether the lowest values tried, in a row, are clearly worse than the best."""
        patience = max(_PATIENCE, math.ceil(_SHARE * len(self._line)))
        values = self._values()
        tried = []
        for setting in self._line:
            if setting not in self._ledger:
                break
            tried.append(values.get(setting, math.inf))
        if not values or len(tried) <= patience:
            return False
        best = min(values.values())
        if math.isinf(best):
            return False
        entries = self._ledger.measured
        noises = [noise_of(self._ledger, entries, name) for name in ("time_s", "energy_j")]
        known = [noise for noise in noises if not math.isnan(noise)]
        noise = max([Prior().noise_sd, *known])
        clear = _CLEAR * math.sqrt(2.0 / patience) * noise * abs(best)
        last = tried[-patience:]
        means = [
            math.fsum(tried[i : i + patience]) / patience for i in range(len(tried) - patience + 1)
        ]
        return min(last) > best and means[-1] > min(means) + clear

    def _values(self) -> dict[Setting, float]:
        """Return the objective of the told settings, infinite where a constraint is broken."""
        entries = self._ledger.measured
        if not entries:
            return {}
        problem = self._ledger.problem
        outcome = self._ledger.outcome(entries)
        baseline = row_of(outcome, self._ledger.base_row(entries))
        values = values_of(problem, outcome, baseline)
        broken = excess_of(problem, outcome, baseline) > 0.0
        return {
            entry.setting: math.inf if bad else float(value)
            for entry, value, bad in zip(entries, values, broken, strict=True)
        }


def _only_knob(space: Space) -> Knob:
    free = [knob for knob in space.knobs if len(knob.values) > 1]
    if len(free) > 1:
        raise InvalidValueError(
            f"just-in-time profiling turns one knob, and {[knob.name for knob in free]} are free",
            cure="name one knob, or use the linear search",
        )
    knob = free[0] if free else space.knobs[0]
    if isinstance(knob.values[0], str):
        raise InvalidValueError(
            f"just-in-time profiling descends, and the values of {knob.name} are names",
            cure="use the linear or the exhaustive search",
        )
    return knob
