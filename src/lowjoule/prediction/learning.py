"""Fits of the baseline to anchors, of many tasks at once, and a prior learned from tasks.

A fit is the most likely set of figures under a Gaussian prior (Levenberg-Marquardt, all tasks in
one batch). The prior's mean and covariance over tasks come by expectation-maximisation on the
tasks' Gauss-Newton likelihoods, shrunk towards the generic prior as if that were `SHRINKAGE` tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.prediction.baseline import COUNT, POWER, TIME, generic, logs
from lowjoule.prediction.features import Places

Floats = NDArray[np.float64]

# Repeated windows scatter by 1-3 %; what a dozen figures cannot follow adds as much again.
TIME_SD, POWER_SD = 0.03, 0.02
# The generic prior counts as this many tasks: one for each figure, the least that makes a
# covariance regular.
SHRINKAGE = float(COUNT)
_STEPS = 25
_ROUNDS = 15
_NUDGE = 1e-4


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a task's figures before its anchors: mean (COUNT,), covariance."""

    mean: Floats
    covariance: Floats

    @classmethod
    def generic(cls) -> Prior:
        """Return the prior that no task has taught."""
        return cls(*generic())


@dataclass(frozen=True, slots=True)
class Batch:
    """Measured rows of several tasks, padded to one length: arrays of shape (tasks, n).

    `targets` (tasks, n, 2) are logarithms of time and power in the units of `units` (tasks, 2);
    `weight` is 1 for a row and 0 for padding.
    """

    at: Places
    targets: Floats
    weight: Floats
    units: Floats

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Batch:
        """Return some of the tasks."""
        at = Places(*(getattr(self.at, name)[rows] for name in Places.__slots__))
        return Batch(at, self.targets[rows], self.weight[rows], self.units[rows])


def batch(parts: Sequence[tuple[Places, Floats, Floats]]) -> Batch:
    """Return tasks given as places and times (s) and powers (W), shape (n,), put together."""
    longest = max(len(time_s) for _, time_s, _ in parts)

    def padded(column: Floats) -> Floats:
        return np.pad(column, (0, longest - len(column)), mode="edge")

    columns = [
        np.stack([padded(getattr(at, name)) for at, _, _ in parts]) for name in Places.__slots__
    ]
    times = np.stack([padded(np.log(time_s)) for _, time_s, _ in parts])
    powers = np.stack([padded(np.log(power_w)) for _, _, power_w in parts])
    counts = np.array([len(time_s) for _, time_s, _ in parts])
    weight = (np.arange(longest) < counts[:, None]).astype(np.float64)
    at = Places(*columns)
    units = np.stack([_mean(times, weight), _mean(powers, weight)], axis=-1)
    known = np.isfinite(at.largest_w[:, 0])
    units[known, 1] = np.log(at.largest_w[known, 0])
    targets = np.stack([times, powers], axis=-1) - units[:, None, :]
    return Batch(at, targets, weight, units)


def _mean(values: Floats, weight: Floats) -> Floats:
    return np.asarray((values * weight).sum(axis=1) / weight.sum(axis=1))


@dataclass(frozen=True, slots=True)
class Fitted:
    """The figures of tasks, shape (tasks, COUNT), and their covariance given the rows.

    `information` and `pull` are the likelihood's quadratic form about them: its matrix and the
    vector with which its best figures would be `solve(information, pull)`.
    """

    figures: Floats
    covariance: Floats
    information: Floats
    pull: Floats


def fit(rows: Batch, prior: Prior) -> Fitted:
    """Return each task's most likely figures under `prior`."""
    precision = np.linalg.inv(prior.covariance)
    scale = rows.weight[:, :, None] / np.array([TIME_SD, POWER_SD])
    figures = np.tile(prior.mean, (len(rows.weight), 1))
    figures[:, TIME] = _mean(rows.targets[:, :, 0], rows.weight)
    figures[:, POWER] = np.maximum(_mean(rows.targets[:, :, 1], rows.weight), prior.mean[POWER])
    damping = np.full(len(figures), 1e-2)
    residual = (rows.targets - logs(figures, rows.at)) * scale
    cost = _cost(residual, figures - prior.mean, precision)
    for _ in range(_STEPS):
        slope = _slope(figures, rows, scale)
        matrix = np.einsum("tnfp,tnfq->tpq", slope, slope) + precision
        gradient = np.einsum("tnfp,tnf->tp", slope, residual)
        gradient -= (figures - prior.mean) @ precision
        diagonal = np.einsum("tpp->tp", matrix)
        damped = matrix + (damping[:, None] * diagonal)[:, :, None] * np.eye(COUNT)
        step = np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        tried = figures + np.clip(step, -2.0, 2.0)
        new = (rows.targets - logs(tried, rows.at)) * scale
        new_cost = _cost(new, tried - prior.mean, precision)
        better = new_cost < cost
        figures = np.where(better[:, None], tried, figures)
        residual = np.where(better[:, None, None], new, residual)
        gained = np.where(better, cost - new_cost, np.inf)
        cost = np.where(better, new_cost, cost)
        damping = np.clip(np.where(better, damping / 4.0, damping * 6.0), 1e-6, 1e6)
        if (gained < 1e-4).all():
            break
    slope = _slope(figures, rows, scale)
    information = np.einsum("tnfp,tnfq->tpq", slope, slope)
    pull = np.einsum("tpq,tq->tp", information, figures)
    pull += np.einsum("tnfp,tnf->tp", slope, residual)
    covariance = np.linalg.inv(information + precision)
    return Fitted(figures, covariance, information, pull)


def _cost(residual: Floats, away: Floats, precision: Floats) -> Floats:
    squares = np.sum(residual**2, axis=(1, 2)) + np.einsum("tp,pq,tq->t", away, precision, away)
    return np.asarray(np.where(np.isfinite(squares), squares, np.inf))


def _slope(figures: Floats, rows: Batch, scale: Floats) -> Floats:
    return slopes(figures, rows.at) * scale[..., None]


def slopes(figures: Floats, at: Places) -> Floats:
    """Return how log time and power change with each figure, shape (..., n, 2, COUNT)."""
    parts = []
    for place in range(COUNT):
        nudge = np.zeros(COUNT)
        nudge[place] = _NUDGE
        change = logs(figures + nudge, at) - logs(figures - nudge, at)
        parts.append(change / (2.0 * _NUDGE))
    return np.stack(parts, axis=-1)


def learn(fitted: Fitted, weights: Floats) -> Prior:
    """Return the prior that tasks teach, each with a weight, shape (tasks,).

    Time and power at the default stay as uncertain as they are without it.
    """
    start = Prior.generic()
    mean, covariance = start.mean, start.covariance
    for _ in range(_ROUNDS):
        precision = np.linalg.inv(covariance)
        spread = np.linalg.inv(fitted.information + precision)
        centres = np.einsum("tpq,tq->tp", spread, fitted.pull + precision @ mean)
        total = weights.sum()
        mean = (weights @ centres + start.mean) / (total + 1.0)
        away = centres - mean
        scatter = np.einsum("t,tpq->pq", weights, spread + away[:, :, None] * away[:, None, :])
        covariance = (scatter + SHRINKAGE * start.covariance) / (total + SHRINKAGE)
        covariance = _narrower(covariance, np.sqrt(np.diag(start.covariance)))
    mean[TIME] = start.mean[TIME]
    covariance[TIME, :] = covariance[:, TIME] = 0.0
    covariance[TIME, TIME] = start.covariance[TIME, TIME]
    return Prior(mean, covariance)


def _narrower(covariance: Floats, sd: Floats) -> Floats:
    """Return `covariance` cut to be nowhere wider than independent figures of spread `sd`.

    Figures that a task's rows hardly show are extrapolated far; tasks may narrow the generic
    belief but never widen it.
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    cut = (vectors * np.clip(values, 1e-6, 1.0)) @ vectors.T
    return np.asarray(cut * np.outer(sd, sd))
