"""What a search holds of all settings of a space: a predictor's belief, and what was measured.

Logarithms of time and power are physics, what physics leaves (the predictor's Gaussian process),
and a smooth effect of knobs that physics does not know. Every trial conditions all of it. Physics
is not linear in its figures: it is expanded about the most likely ones (Laplace's approximation),
found anew each time. How much physics leaves, and how far trials scatter, are the most likely on a
grid (Rasmussen & Williams 2006, eqs. 2.25, 2.26 and 5.8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowjoule.covariance import Covariance
from lowjoule.prediction.baseline import COUNT, TIME, logs
from lowjoule.prediction.features import Places, Scale, places
from lowjoule.prediction.prior import TaskPrior

Floats = NDArray[np.float64]

_GRID = 2.0 ** np.arange(-3, 4)
_STEPS = 20
_NUDGE = 1e-4
_JITTER = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """What is believed of trials and of physics; plain ratios, none fitted to data.

    `noise_sd` is the usual relative spread of one trial, `doubt` the factor by which it and how
    much physics leaves are uncertain.
    """

    noise_sd: float = 0.015
    doubt: float = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Settings as the belief needs them: places, basis rows (n, m), other knobs' coordinates."""

    at: Places
    phi: Floats
    other: Floats

    def __len__(self) -> int:
        return len(self.phi)

    def only(self, rows: NDArray[Any]) -> Rows:
        """Return some of the rows."""
        return Rows(self.at.only(rows), self.phi[rows], self.other[rows])

    def then(self, more: Rows) -> Rows:
        """Return these rows and `more` after them."""
        names = Places.__slots__
        pairs = [(getattr(self.at, name), getattr(more.at, name)) for name in names]
        at = Places(*(np.concatenate(pair) for pair in pairs))
        return Rows(
            at, np.concatenate([self.phi, more.phi]), np.concatenate([self.other, more.other])
        )


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What was measured: `logs` (k, 2) of time and energy, means of `counts` (k,) trials each.

    `floor_var` (k, 2) are variances of one trial's logarithms that were told, zero where none was.
    """

    rows: Rows
    logs: Floats
    counts: Floats
    floor_var: Floats


class Tuned(NamedTuple):
    """How strong is what physics leaves (1 as learned), the sd of a trial's logarithms, and how
    likely the trials are under both (a logarithm)."""

    strength: float
    noise_sd: float
    evidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Log time and log energy at rows, the told ones first.

    `mean` (n, 2); `covariance` (2, 2, k, n) of figure a of the told rows with figure b of all;
    `variance` (2, 2, n) within a row; `noise_var` (2,) of one trial.
    """

    mean: Floats
    covariance: Floats
    variance: Floats
    noise_var: Floats
    evidence: float


def mixed(parts: Sequence[Posterior]) -> Posterior:
    """Return the moments of a mixture of beliefs, each as likely as its evidence says."""
    weights = np.exp(np.array([one.evidence for one in parts]) - max(p.evidence for p in parts))
    weights = weights / weights.sum()
    mean = np.sum([w * one.mean for w, one in zip(weights, parts, strict=True)], axis=0)
    told = parts[0].covariance.shape[2]
    covariance, variance = np.zeros_like(parts[0].covariance), np.zeros_like(parts[0].variance)
    noise_var = np.zeros(2)
    for weight, one in zip(weights, parts, strict=True):
        away = one.mean - mean
        between = away[:told].T[:, None, :, None] * away.T[None, :, None, :]
        covariance += weight * (one.covariance + between)
        variance += weight * (one.variance + away.T[:, None, :] * away.T[None, :, :])
        noise_var += weight * one.noise_var
    evidence = max(p.evidence for p in parts)
    return Posterior(mean, covariance, variance, noise_var, evidence)


class Belief:
    """A task's prior with what its trials told; `condition` does not depend on earlier calls.

    (But for where the search for the most likely figures of physics begins.)
    """

    def __init__(
        self,
        prior: TaskPrior,
        scale: Scale,
        other: Covariance | None = None,
        scatter: Scatter | None = None,
    ) -> None:
        self._prior = prior
        self._scale = scale
        self._other = other
        self._scatter = scatter or Scatter()
        self._precision = np.linalg.inv(prior.covariance)
        self._figures: Floats | None = None
        self._origin = np.zeros(0)

    def rows(self, columns: Mapping[str, NDArray[Any]], other: Floats) -> Rows:
        """Return settings given as one array a knob, and coordinates (n, knobs) of other knobs."""
        at = places(columns, self._scale, len(other))
        return Rows(at, self._prior.basis.rows(at.coordinates()), other)

    def condition(self, told: Told, rows: Rows) -> Posterior:
        """Return what is believed at `rows`, of which the first are the told ones, in order."""
        self._origin = told.rows.other[0]
        units = self._units(told)
        y = told.logs - np.array([units[0], units[0] + units[1]])
        blocks = self._process(told.rows, told.rows)
        tuned = Tuned(1.0, self._scatter.noise_sd, 0.0)
        figures = self._start(y)
        for _ in range(2):
            figures = self._likeliest(figures, told, y, blocks, tuned)
            tuned = self._tune(figures, told, y, blocks)
        figures = self._likeliest(figures, told, y, blocks, tuned)
        self._figures = figures
        return self._at(figures, told, y, tuned, rows)

    def _units(self, told: Told) -> Floats:
        """Return log time of the first told row, and the log power that the figures are over."""
        largest = told.rows.at.largest_w[0]
        power = told.logs[0, 1] - told.logs[0, 0]
        return np.array([told.logs[0, 0], math.log(largest) if math.isfinite(largest) else power])

    def _start(self, y: Floats) -> Floats:
        if self._figures is not None:
            return self._figures
        figures = np.array(self._prior.mean, dtype=np.float64)
        figures[TIME] = y[0, 0]
        return figures

    def _mean(self, figures: Floats, rows: Rows) -> Floats:
        """Return physics and the mean of what it leaves, log time and log energy, (..., n, 2)."""
        found = logs(figures, rows.at)
        left = np.stack([rows.phi @ one.mean for one in self._prior.weights], axis=-1)
        return _energy(found + left)

    def _slopes(self, figures: Floats, rows: Rows) -> Floats:
        """Return how log time and log energy change with each figure, shape (2, n, COUNT)."""
        nudges = _NUDGE * np.eye(COUNT)
        both = logs(np.concatenate([figures + nudges, figures - nudges]), rows.at)
        change = (both[:COUNT] - both[COUNT:]) / (2.0 * _NUDGE)
        return np.moveaxis(_energy(change), (0, 1, 2), (2, 1, 0))

    def _process(self, left: Rows, right: Rows) -> Floats:
        """Return the covariance of what physics leaves, (2, 2, k, n): time and energy."""
        own = [left.phi @ one.covariance @ right.phi.T for one in self._prior.weights]
        if self._other is not None:
            more = self._other(left.other, right.other, self._origin)
            own = [one + more for one in own]
        return np.stack([np.stack([own[0], own[0]]), np.stack([own[0], own[0] + own[1]])])

    def _process_variance(self, rows: Rows) -> Floats:
        own = [np.sum((rows.phi @ w.covariance) * rows.phi, axis=1) for w in self._prior.weights]
        if self._other is not None:
            more = self._other.variance(rows.other, self._origin)
            own = [one + more for one in own]
        return np.stack([np.stack([own[0], own[0]]), np.stack([own[0], own[0] + own[1]])])

    def _noise(self, told: Told, noise: float) -> Floats:
        """Return the variance of each told mean, stacked: times, then energies, (2k,)."""
        one = np.maximum(noise**2, told.floor_var) / told.counts[:, None]
        return one.T.ravel() + _JITTER

    def _likeliest(
        self, start: Floats, told: Told, y: Floats, blocks: Floats, tuned: Tuned
    ) -> Floats:
        """Return the most likely figures (Levenberg-Marquardt), the process integrated out."""
        gram = tuned.strength**2 * _flat(blocks) + np.diag(self._noise(told, tuned.noise_sd))
        inverse = np.linalg.inv(gram)
        target = y.T.ravel()

        def cost(figures: Floats) -> tuple[float, Floats]:
            residual = target - self._mean(figures, told.rows).T.ravel()
            away = figures - self._prior.mean
            found = float(residual @ inverse @ residual + away @ self._precision @ away)
            return (found if math.isfinite(found) else math.inf), residual

        figures, damping = start, 1e-3
        best, residual = cost(figures)
        for _ in range(_STEPS):
            slope = self._slopes(figures, told.rows).reshape(-1, COUNT)
            matrix = slope.T @ inverse @ slope + self._precision
            pull = slope.T @ inverse @ residual - self._precision @ (figures - self._prior.mean)
            damped = matrix + damping * np.diag(np.diag(matrix))
            tried = figures + np.clip(np.linalg.solve(damped, pull), -2.0, 2.0)
            new, left = cost(tried)
            if new < best:
                gained, figures, best, residual = best - new, tried, new, left
                damping = max(damping / 4.0, 1e-6)
                if gained < 1e-4:
                    break
            else:
                damping *= 6.0
                if damping > 1e6:
                    break
        return figures

    def _tune(self, figures: Floats, told: Told, y: Floats, blocks: Floats) -> Tuned:
        """Return the likeliest strength of what physics leaves, and noise, on the grid."""
        prior = self._scatter
        strengths, factors = (one.ravel() for one in np.meshgrid(_GRID, _GRID, indexing="ij"))
        slope = self._slopes(figures, told.rows).reshape(-1, COUNT)
        residual = y.T.ravel() - self._mean(figures, told.rows).T.ravel()
        residual = residual + slope @ (figures - self._prior.mean)
        fixed = slope @ self._prior.covariance @ slope.T
        noises = np.stack([self._noise(told, prior.noise_sd * factor) for factor in factors])
        grams = fixed + strengths[:, None, None] ** 2 * _flat(blocks)
        grams = grams + noises[:, :, None] * np.eye(len(residual))
        factor = np.linalg.cholesky(grams)
        white = np.linalg.solve(
            factor, np.broadcast_to(residual[:, None], (len(grams), len(residual), 1))
        )
        logdet = np.log(np.einsum("gii->gi", factor)).sum(axis=1)
        doubts = np.log(strengths) ** 2 + np.log(factors) ** 2
        fit = -0.5 * np.sum(white[:, :, 0] ** 2, axis=1) - logdet
        fit -= 0.5 * doubts / math.log(prior.doubt) ** 2
        likely = np.exp(fit - fit.max())
        likely /= likely.sum()
        strength = math.sqrt(float(likely @ strengths**2))
        evidence = float(fit.max()) + math.log(float(np.exp(fit - fit.max()).sum()))
        return Tuned(strength, prior.noise_sd * math.sqrt(float(likely @ factors**2)), evidence)

    def _at(self, figures: Floats, told: Told, y: Floats, tuned: Tuned, rows: Rows) -> Posterior:
        count, total = len(told.rows), len(rows)
        units, strength = self._units(told), tuned.strength
        slope = self._slopes(figures, rows)
        spread = self._prior.covariance
        turned = slope @ spread
        cross = np.einsum("akp,bnp->abkn", turned[:, :count], slope, optimize=True)
        cross += strength**2 * self._process(told.rows, rows)
        variance = np.einsum("anp,bnp->abn", turned, slope, optimize=True)
        variance += strength**2 * self._process_variance(rows)
        gram = _flat(cross[..., :count]) + np.diag(self._noise(told, tuned.noise_sd))
        factor = np.linalg.cholesky(gram)
        mean = self._mean(figures, rows).T.ravel() + (slope @ (self._prior.mean - figures)).ravel()
        wide = _flat(cross)
        half = np.linalg.solve(factor, wide)
        residual = y.T.ravel() - np.concatenate([mean[:count], mean[total : total + count]])
        mean = mean + half.T @ np.linalg.solve(factor, residual)
        each = half.reshape(2 * count, 2, total)
        variance = variance - np.einsum("jan,jbn->abn", each, each, optimize=True)
        own = each[:, :, :count]
        left = np.einsum("jak,jbn->abkn", own, each, optimize=True)
        shift = np.array([units[0], units[0] + units[1]])
        floor = np.maximum(tuned.noise_sd**2, told.floor_var.mean(axis=0))
        return Posterior(
            mean.reshape(2, total).T + shift, cross - left, variance, floor, tuned.evidence
        )


def _energy(found: Floats) -> Floats:
    """Return logarithms of time and energy for those of time and power in the last axis."""
    return np.stack([found[..., 0], found[..., 0] + found[..., 1]], axis=-1)


def _flat(blocks: Floats) -> Floats:
    """Return blocks (2, 2, k, n) as one matrix (2k, 2n)."""
    _, _, rows, columns = blocks.shape
    return np.asarray(blocks.transpose(0, 2, 1, 3).reshape(2 * rows, 2 * columns))
