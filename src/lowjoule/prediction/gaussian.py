"""What the baseline leaves, as a Gaussian process: a part that tasks share, one of each its own.

The covariance is that of the searches' surfaces (`lowjoule.covariance`), over the logarithms of
the knobs relative to the default, and is carried by a few dozen knots (subset of regressors,
Quinonero-Candela & Rasmussen 2005, eq. 16), so that a hundred thousand settings are one matrix
product. The amplitudes of both parts and the noise are the most likely ones over all tasks
(expectation-maximisation of a linear mixed model, Laird & Ware 1982). A new task has the shared
part, and its own as far as its anchors tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.covariance import Covariance

Floats = NDArray[np.float64]

KNOTS = 40  # more change no error on smooth residuals, fewer lose the ends of four knobs
_ROUNDS = 30
# As in the searches' surfaces (`lowjoule.tuning.surface.Prior`, where their origin is): a bend of
# a quarter of the knob's range, correlated over about half of it.
_BEND, _LENGTH, _ELASTICITY = 0.25, 0.55, 0.58
_SMALLEST = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Knots (m, knobs) and the whitening (m, m) that makes independent weights of a covariance."""

    knots: Floats
    spans: Floats
    whitening: Floats

    @classmethod
    def of(cls, coordinates: Floats) -> Basis:
        """Return a basis over `coordinates`, shape (n, knobs), that spread over where those lie."""
        low, high = coordinates.min(axis=0), coordinates.max(axis=0)
        spans = np.where(high - low > 1e-9, high - low, 1.0)
        knots = _spread(np.unique(np.round(coordinates, 6), axis=0), spans)
        gram = _covariance(spans)(knots, knots, np.zeros(knots.shape[1]))
        factor = np.linalg.cholesky(gram + 1e-6 * np.trace(gram) / len(knots) * np.eye(len(knots)))
        return cls(knots, spans, np.linalg.inv(factor).T)

    def rows(self, coordinates: Floats) -> Floats:
        """Return the basis functions at `coordinates` (n, knobs), shape (n, m)."""
        origin = np.zeros(self.knots.shape[1])
        covariance = _covariance(self.spans)(coordinates, self.knots, origin)
        return np.asarray(covariance @ self.whitening)


def _covariance(spans: Floats) -> Covariance:
    sizes = _BEND * spans
    return Covariance(
        sizes=sizes,
        widths=_LENGTH * spans,
        named=np.zeros(len(spans), dtype=np.bool_),
        elasticity=_ELASTICITY,
        joint=float(np.exp(np.mean(np.log(sizes)))),
    )


def _spread(points: Floats, spans: Floats) -> Floats:
    """Return at most `KNOTS` of `points`, each the farthest from those before."""
    scaled = points / spans
    chosen = [int(np.argmin(np.sum(scaled**2, axis=1)))]
    far = np.full(len(points), np.inf)
    while len(chosen) < min(KNOTS, len(points)):
        far = np.minimum(far, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
        if far.max() <= 0:
            break
        chosen.append(int(np.argmax(far)))
    return points[chosen]


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A belief about weights of the basis: mean (m,) and covariance (m, m)."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """The learned process of one figure: what tasks share, how they differ, and the noise.

    `shared_var` is the variance of a shared weight before any task, `own_var` that of a task's
    weights about the shared ones, `noise_var` that of a row; `tasks` (tasks, m) holds every
    task's weights.
    """

    shared: Weights
    shared_var: float
    own_var: float
    noise_var: float
    tasks: Floats

    def given(self, rows: Floats, residuals: Floats) -> Weights:
        """Return the weights of a new task with `residuals` (n,) at basis rows (n, m)."""
        prior = self.shared.covariance + self.own_var * np.eye(len(self.shared.mean))
        cross = prior @ rows.T
        gram = rows @ cross + self.noise_var * np.eye(len(rows))
        gain = np.linalg.solve(gram, cross.T).T
        mean = self.shared.mean + gain @ (residuals - rows @ self.shared.mean)
        return Weights(mean, prior - gain @ cross.T)


def learn(parts: Sequence[tuple[Floats, Floats]], start: Mixed | None = None) -> Mixed:
    """Return the process that tasks teach: basis rows (n, m) and residuals (n,) of each.

    With `start`, learned from more tasks, its variances are kept.
    """
    moments_ = _Moments.of(parts)
    if start is None:
        everything = max(moments_.squares / moments_.total, _SMALLEST)
        variances = (everything, everything, everything / 4.0)
    else:
        variances = (start.shared_var, start.own_var, start.noise_var)
    for _ in range(_ROUNDS if start is None else 0):
        variances = moments_.maximise(*moments_.expect(*variances))
    belief = moments_.expect(*variances)
    shared_var, own_var, noise_var = variances
    return Mixed(
        Weights(belief[0], belief[1]), shared_var, own_var, noise_var, belief[0] + belief[2]
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """Sufficient statistics of tasks: grams (t, m, m), pulls (t, m), sum of squares, rows."""

    grams: Floats
    pulls: Floats
    squares: float
    total: int

    @classmethod
    def of(cls, parts: Sequence[tuple[Floats, Floats]]) -> _Moments:
        return cls(
            np.stack([rows.T @ rows for rows, _ in parts]),
            np.stack([rows.T @ residuals for rows, residuals in parts]),
            sum(float(residuals @ residuals) for _, residuals in parts),
            sum(len(residuals) for _, residuals in parts),
        )

    def expect(
        self, shared_var: float, own_var: float, noise_var: float
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return mean and covariance of the shared weights, then of the own; their coupling."""
        eye = np.eye(self.grams.shape[1])
        own = np.linalg.inv(self.grams / noise_var + eye / own_var)
        # the own weights integrated out leave a normal equation for the shared ones
        coupling = own @ self.grams / noise_var
        kept = self.grams / noise_var @ (eye - coupling)
        turned = np.swapaxes(coupling, 1, 2) @ self.pulls[:, :, None] / noise_var
        spread = np.linalg.inv(kept.sum(axis=0) + eye / shared_var)
        mean = spread @ (self.pulls / noise_var - turned[:, :, 0]).sum(axis=0)
        away = (own @ (self.pulls - self.grams @ mean)[:, :, None])[:, :, 0] / noise_var
        return mean, np.asarray(spread), away, np.asarray(own), np.asarray(coupling)

    def maximise(
        self, mean: Floats, spread: Floats, away: Floats, own: Floats, coupling: Floats
    ) -> tuple[float, float, float]:
        """Return the likelier shared, own and noise variances."""
        count = len(mean)
        rest = np.eye(count) - coupling
        whole = mean + away
        turned = (self.grams @ whole[:, :, None])[:, :, 0]
        errors = self.squares + float(np.sum(whole * (turned - 2.0 * self.pulls)))
        covariance = own + rest @ spread @ np.swapaxes(rest, 1, 2)
        errors += float(np.sum(self.grams * covariance))
        # the own weights vary with the shared ones that they are about
        traces = np.einsum("tii->t", own) + np.sum((coupling @ spread) * coupling, axis=(1, 2))
        own_var = float(np.mean(np.sum(away**2, axis=1) + traces)) / count
        shared_var = (float(mean @ mean) + float(np.trace(spread))) / count
        noise_var = errors / self.total
        return max(shared_var, _SMALLEST), max(own_var, _SMALLEST), max(noise_var, _SMALLEST)


def moments(weights: Weights, rows: Floats, *, extra: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the process at basis rows (n, m), both of shape (n,).

    `extra` (m, m) is added to the covariance of the weights.
    """
    variance = np.sum((rows @ (weights.covariance + extra)) * rows, axis=1)
    return np.asarray(rows @ weights.mean), np.maximum(variance, 0.0)
