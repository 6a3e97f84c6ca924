"""A neighbour estimate: how tasks with a like signature depart from the baseline.

The K nearest tasks by anchored signature (the figures that their anchors gave, what is known of
them without measurement) answer with their own smoothed residuals (He et al., Sustainable
Computing 2025, put such an estimate in front of boosted trees; there the neighbours are rows).
What is not known of a task is left out of its distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEIGHBOURS = 5  # scikit-learn's default number; an odd handful
COUNTS = (3, NEIGHBOURS, 9)  # from which a count is chosen over models


class Neighbours:
    """Tasks by signature: `signatures` (tasks, figures) with NaN, `weights` (tasks, m) of a basis.

    `models` names what each task trains: a task is never a neighbour of its own model. `count` of
    them answer.
    """

    def __init__(
        self, signatures: Floats, weights: Floats, models: list[str], count: int | None = None
    ) -> None:
        self.count = NEIGHBOURS if count is None else count
        self.signatures = signatures
        self.weights = weights
        self.models = models
        known = np.isfinite(signatures)
        counts = np.maximum(known.sum(axis=0), 1)
        filled = np.where(known, signatures, 0.0)
        self._mean = filled.sum(axis=0) / counts
        away = np.where(known, signatures - self._mean, 0.0)
        spread = np.sqrt((away**2).sum(axis=0) / counts)
        self._spread = np.where(spread > 1e-9, spread, 1.0)

    def counting(self, count: int) -> Neighbours:
        """Return the same tasks, of which `count` answer."""
        return Neighbours(self.signatures, self.weights, self.models, count)

    def estimate(self, signature: Floats, *, without: str = "") -> tuple[Floats, float]:
        """Return the neighbours' weighted mean weights (m,) and the distance of the nearest.

        The distance is in standard deviations of the known tasks' signatures, a root mean square
        over what is known of both; weights go with its inverse. Without any task to compare with
        the weights are zero and the distance infinite.
        """
        gaps = (self.signatures - signature) / self._spread
        known = np.isfinite(gaps)
        squares = np.where(known, gaps, 0.0) ** 2
        distance = np.sqrt(squares.sum(axis=1) / np.maximum(known.sum(axis=1), 1))
        distance[~known.any(axis=1)] = np.inf
        distance[[model == without for model in self.models]] = np.inf
        near = np.argsort(distance, kind="stable")[: self.count]
        near = near[np.isfinite(distance[near])]
        if not len(near):
            return np.zeros(self.weights.shape[1]), np.inf
        share = 1.0 / (distance[near] + 1e-3)
        mean = (share / share.sum()) @ self.weights[near]
        return np.asarray(mean), float(distance[near[0]])
