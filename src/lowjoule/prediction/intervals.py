"""Conformal intervals by workload: how far predictions of tasks never seen have been off.

Rows of one model are not exchangeable with those of another, models are: errors of every model
come from a fit without it, and the interval is a quantile over models of each model's own
quantile (group-conformal prediction with a two-level quantile; Dunn, Wasserman & Ramdas 2023 for
grouped data, Lei et al. 2018 for errors over a local scale). With k models a new one lies inside
with probability of at most k/(k+1), whatever is asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIGURES = ("time", "power", "energy")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `groups` models not seen taught of errors over their scale, for each of `FIGURES`.

    `quantiles[f]` are the models' own quantiles, ascending, at the level within a model.
    """

    level: float
    quantiles: tuple[Floats, ...]

    @property
    def groups(self) -> int:
        """The number of models behind the intervals."""
        return len(self.quantiles[0])

    @property
    def most(self) -> float:
        """The largest coverage of a new model's rows that so many models can promise."""
        return self.groups / (self.groups + 1.0)

    def factor(self, figure: str) -> float:
        """Return by what the scale of `figure` is multiplied for the interval.

        That is the least quantile with at least the level's share of k + 1 models at or below it;
        the largest where the level is more than they can promise.
        """
        ordered = self.quantiles[FIGURES.index(figure)]
        place = math.ceil(self.level * (self.groups + 1)) - 1
        return float(ordered[min(place, self.groups - 1)])


def calibrate(
    scores: dict[str, Floats], models: list[str], tasks: NDArray[np.intp], level: float
) -> Calibration:
    """Return the calibration of errors over their scale.

    `scores` has one non-negative array of shape (n,) for each of `FIGURES`; `models` and `tasks`
    name each row's model and task. A model's quantile is the mean over its tasks of theirs, so
    that a model measured on many boards does not count for its rows.
    """
    names = np.asarray(models)
    found = []
    for figure in FIGURES:
        values = scores[figure]
        each = []
        for model in sorted(set(models)):
            own = names == model
            parts = [values[own & (tasks == task)] for task in np.unique(tasks[own])]
            each.append(float(np.mean([np.quantile(part, level) for part in parts])))
        found.append(np.sort(np.array(each)))
    return Calibration(level, tuple(found))


@dataclass(frozen=True, slots=True)
class Hull:
    """Where training rows lie: `low` and `high` of each coordinate, shape (k,), and their names."""

    names: tuple[str, ...]
    low: Floats
    high: Floats

    def outside(self, rows: Floats) -> Floats:
        """Return how far rows (n, k) lie outside, in ranges of the coordinate that is worst."""
        span = np.maximum(self.high - self.low, 0.1)
        away = np.maximum(self.low - rows, rows - self.high) / span
        return np.asarray(np.maximum(np.nan_to_num(away, nan=0.0).max(axis=1), 0.0))

    def named(self, rows: Floats) -> tuple[str, ...]:
        """Return the names of the coordinates in which some of `rows` lie outside."""
        with np.errstate(invalid="ignore"):
            out = ((rows < self.low - 1e-6) | (rows > self.high + 1e-6)).any(axis=0)
        return tuple(name for name, bad in zip(self.names, np.atleast_1d(out), strict=True) if bad)
