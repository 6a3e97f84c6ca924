"""How figures move while a search goes on, by a reference that is measured again and again.

Trials of a search are minutes apart, and a board warms up, a room gets hot, a neighbour comes:
two settings are compared by what the reference took beside each of them. Between two of its
trials the level is believed to have walked at random (the local level model: Harvey, Forecasting,
Structural Time Series Models and the Kalman Filter, 1989, ch. 2), as far as the noise of the
trials leaves to be seen; how far it walks is weighed over a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowjoule.objectives.objective import Floats
from lowjoule.tuning.search import Observation

_UNTOLD_SD = 0.01  # usual relative spread of a trial that does not tell its own
_LEAST_SD = 1e-4
_WALKS = np.geomspace(2e-4, 0.2, 12)  # over the whole search, relative; the least is none
_FREE_SD = 3.0  # of the level itself: as good as unknown


@dataclass(frozen=True, slots=True)
class Drift:
    """The level of the reference over time, for the logarithms of time and energy.

    `at_s`, `time_level` and `energy_level`, all of shape (n,), are of the reference's trials; the
    last is where things stand now, and what everything is corrected to. Outside of them nothing is
    believed to move.
    """

    at_s: Floats
    time_level: Floats
    energy_level: Floats

    @classmethod
    def of(cls, references: Sequence[Observation]) -> Drift | None:
        """Return the drift that trials of one setting show; None where fewer than two are dated."""
        dated = [one for one in references if one.at_s is not None and one.failure is None]
        if len({one.at_s for one in dated}) < 2:
            return None
        at_s = np.array([one.at_s for one in dated])
        order = np.argsort(at_s, kind="stable")
        rows = [dated[place] for place in order]
        return cls(
            at_s[order],
            _levels(at_s[order], *_logs(rows, "time_s", "time_sd_s")),
            _levels(at_s[order], *_logs(rows, "energy_j", "energy_sd_j")),
        )

    def factors(self, at_s: float) -> tuple[float, float]:
        """Return by what time and energy at `at_s` are to be multiplied to be those of now."""
        time, energy = (
            float(np.exp(level[-1] - np.interp(at_s, self.at_s, level)))
            for level in (self.time_level, self.energy_level)
        )
        return time, energy

    def corrected(self, observation: Observation) -> Observation:
        """Return `observation` as it would be now; undated and failed ones are unchanged."""
        if observation.at_s is None or observation.failure is not None:
            return observation
        time, energy = self.factors(observation.at_s)
        return replace(
            observation,
            time_s=_times(observation.time_s, time),
            time_sd_s=_times(observation.time_sd_s, time),
            latency_s=_times(observation.latency_s, time),
            energy_j=_times(observation.energy_j, energy),
            energy_sd_j=_times(observation.energy_sd_j, energy),
        )

    @property
    def changes(self) -> tuple[float, float]:
        """How time and energy have changed from the first trial of the reference to the last."""
        time, energy = self.factors(float(self.at_s[0]))
        return time - 1.0, energy - 1.0


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _logs(rows: Sequence[Observation], column: str, spread: str) -> tuple[Floats, Floats]:
    """Return logarithms of a column, and their variances."""
    values = np.array([getattr(one, column) for one in rows], dtype=np.float64)
    told = [getattr(one, spread) for one in rows]
    sds = np.array(
        [_UNTOLD_SD if sd is None else sd / v for sd, v in zip(told, values, strict=True)]
    )
    return np.log(values), np.maximum(sds, _LEAST_SD) ** 2


def _levels(at_s: Floats, logs: Floats, variances: Floats) -> Floats:
    """Return the level at each of `at_s`, weighed over how far it may walk."""
    off = logs - logs.mean()
    passed = (at_s - at_s[0]) / (at_s[-1] - at_s[0])
    shared = np.minimum(passed[:, None], passed)
    levels, likely = [], []
    for walk in _WALKS:
        prior = walk**2 * shared + _FREE_SD**2
        seen = prior + np.diag(variances)
        solved = np.linalg.solve(seen, off)
        levels.append(prior @ solved)
        likely.append(-0.5 * float(off @ solved) - 0.5 * float(np.linalg.slogdet(seen)[1]))
    weights = np.exp(np.array(likely) - max(likely))
    return np.asarray(weights @ np.array(levels) / weights.sum() + logs.mean())
