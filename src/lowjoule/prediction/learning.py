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
from lowjoule.prediction.features import Places, Rows

Floats = NDArray[np.float64]

# Repeated windows scatter by 1-3 %; what a dozen figures cannot follow adds as much again.
TIME_SD, POWER_SD = 0.03, 0.02
# The generic prior counts as this many tasks: one for each figure, the least that makes a
# covariance regular.
SHRINKAGE = float(COUNT)
_STEPS = 25
_ROUNDS = 15
_NUDGE = 1e-4
_SIGNATURE_VAR = 0.01  # counts are known to a tenth of how tasks differ


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What is believed of tasks' figures before their anchors.

    `mean` has shape (COUNT,), or (tasks, COUNT) where it differs; `covariance` one axis more.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def generic(cls) -> Prior:
        """Return the prior that no task has taught."""
        return cls(*generic())


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """A normal belief about a task's figures together with its static signature (s entries).

    `mean` (COUNT + s,) and `covariance`; the signature is standardised by `centre` and `spread`.
    """

    mean: Floats
    covariance: Floats
    centre: Floats
    spread: Floats

    def given(self, signature: Floats) -> Prior:
        """Return the prior of the figures of a task with `signature` (s,), NaN where not known."""
        known = np.flatnonzero(np.isfinite(signature))
        if not len(known):
            return Prior(self.mean[:COUNT], self.covariance[:COUNT, :COUNT])
        value = (signature[known] - self.centre[known]) / self.spread[known]
        rows = COUNT + known
        cross = self.covariance[:COUNT, rows]
        own = self.covariance[np.ix_(rows, rows)] + _SIGNATURE_VAR * np.eye(len(rows))
        gain = np.linalg.solve(own, cross.T).T
        mean = self.mean[:COUNT] + gain @ (value - self.mean[rows])
        return Prior(mean, self.covariance[:COUNT, :COUNT] - gain @ cross.T)

    def each(self, signatures: Floats, boards: int | None = None) -> Prior:
        """Return the priors of tasks with `signatures` (tasks, s).

        `boards` is for tasks on a board that none was learned from: tasks of that many boards do
        not show how boards differ, so that a share 1/(1 + boards) of the generic covariance stays.
        """
        priors = [self.given(one) for one in signatures]
        if boards is not None:
            left = 1.0 / (1.0 + boards)
            wide = generic()[1]
            priors = [Prior(o.mean, (1.0 - left) * o.covariance + left * wide) for o in priors]
        return Prior(
            np.stack([one.mean for one in priors]), np.stack([one.covariance for one in priors])
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Measured rows of several tasks, padded to one length: arrays of shape (tasks, n).

    `targets` (tasks, n, 2) are logarithms of time and power in the units of `units` (tasks, 2);
    `weight` is 1 for a row and 0 for padding.
    """

    at: Places
    targets: Floats
    weight: Floats
    units: Floats

    def only(self, rows: Rows) -> Batch:
        """Return some of the tasks."""
        return Batch(self.at.only(rows), self.targets[rows], self.weight[rows], self.units[rows])


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
    return np.asarray((values * weight).sum(axis=1) / weight.sum(axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The figures of tasks, shape (tasks, COUNT), and their covariance given the rows.

    `information` and `pull` are the likelihood's quadratic form about them: its matrix and the
    vector with which its best figures would be `solve(information, pull)`.
    """

    figures: Floats
    covariance: Floats
    information: Floats
    pull: Floats

    def only(self, rows: Rows) -> Fitted:
        """Return some of the tasks."""
        return Fitted(*(getattr(self, name)[rows] for name in Fitted.__slots__))


def fit(rows: Batch, prior: Prior, sd: tuple[float, float] | None = None) -> Fitted:
    """Return each task's most likely figures under `prior`.

    `sd` is the error of a row's log time and log power, `TIME_SD` and `POWER_SD` without it.
    """
    sd = sd or (TIME_SD, POWER_SD)
    count = len(rows.weight)
    mean = np.broadcast_to(prior.mean, (count, COUNT))
    precision = np.linalg.inv(np.broadcast_to(prior.covariance, (count, COUNT, COUNT)))
    scale = np.sqrt(rows.weight)[:, :, None] / np.array(sd)
    figures = mean.copy()
    figures[:, TIME] = _mean(rows.targets[:, :, 0], rows.weight)
    figures[:, POWER] = np.maximum(_mean(rows.targets[:, :, 1], rows.weight), mean[:, POWER])
    damping = np.full(count, 1e-2)
    residual = (rows.targets - logs(figures, rows.at)) * scale
    cost = _cost(residual, figures - mean, precision)
    for _ in range(_STEPS):
        slope = slopes(figures, rows.at) * scale[..., None]
        step = _step(slope, residual, figures - mean, precision, damping)
        tried = figures + np.clip(step, -2.0, 2.0)
        new = (rows.targets - logs(tried, rows.at)) * scale
        new_cost = _cost(new, tried - mean, precision)
        better = new_cost < cost
        gained = np.where(better, cost - new_cost, np.inf)
        figures = np.where(better[:, None], tried, figures)
        residual = np.where(better[:, None, None], new, residual)
        cost = np.where(better, new_cost, cost)
        damping = np.clip(np.where(better, damping / 4.0, damping * 6.0), 1e-6, 1e6)
        if (gained < 1e-4).all():
            break
    slope = slopes(figures, rows.at) * scale[..., None]
    information = np.einsum("tnfp,tnfq->tpq", slope, slope, optimize=True)
    pull = np.einsum("tpq,tq->tp", information, figures)
    pull += np.einsum("tnfp,tnf->tp", slope, residual)
    return Fitted(figures, np.linalg.inv(information + precision), information, pull)


def _step(
    slope: Floats, residual: Floats, away: Floats, precision: Floats, damping: Floats
) -> Floats:
    matrix = np.einsum("tnfp,tnfq->tpq", slope, slope, optimize=True) + precision
    gradient = np.einsum("tnfp,tnf->tp", slope, residual)
    gradient -= np.einsum("tpq,tq->tp", precision, away)
    diagonal = np.einsum("tpp->tp", matrix)
    damped = matrix + (damping[:, None] * diagonal)[:, :, None] * np.eye(COUNT)
    return np.asarray(np.linalg.solve(damped, gradient[:, :, None])[:, :, 0])


def _cost(residual: Floats, away: Floats, precision: Floats) -> Floats:
    squares = np.sum(residual**2, axis=(1, 2)) + np.einsum("tp,tpq,tq->t", away, precision, away)
    return np.asarray(np.where(np.isfinite(squares), squares, np.inf), dtype=np.float64)


def slopes(figures: Floats, at: Places) -> Floats:
    """Return how log time and power change with each figure, shape (..., n, 2, COUNT)."""
    parts = []
    for place in range(COUNT):
        nudge = np.zeros(COUNT)
        nudge[place] = _NUDGE
        change = logs(figures + nudge, at) - logs(figures - nudge, at)
        parts.append(change / (2.0 * _NUDGE))
    return np.stack(parts, axis=-1)


def expand(rows: Batch) -> Fitted:
    """Return fits to all that was measured of tasks, for `learn`: likelihoods, not beliefs.

    What a dozen figures cannot follow is one error along each row or column of a table, not one
    a setting, so a table counts as many rows as its knobs have values. Its size is that of the
    residuals of a first fit.
    """
    values = [
        _values(rows.only(np.array([task])).at, weight) for task, weight in enumerate(rows.weight)
    ]
    share = np.minimum(np.array(values) / rows.weight.sum(axis=1), 1.0)
    counted = Batch(rows.at, rows.targets, rows.weight * share[:, None], rows.units)
    first = fit(counted, Prior.generic())
    away = (rows.targets - logs(first.figures, rows.at)) ** 2 * rows.weight[:, :, None]
    misfit = np.sqrt(away.sum(axis=(0, 1)) / rows.weight.sum())
    sd = (max(float(misfit[0]), TIME_SD), max(float(misfit[1]), POWER_SD))
    return fit(counted, Prior.generic(), sd)


def _values(at: Places, weight: Floats) -> int:
    """Return how many values a task's knobs have in all."""
    return sum(len(np.unique(np.round(column[0, weight > 0], 9))) - 1 for column in _knobs(at)) + 1


def _knobs(at: Places) -> list[Floats]:
    return [at.batch, at.limit_w, at.sm_clock, at.memory_clock]


def learn(fitted: Fitted, signatures: Floats) -> Joint:
    """Return the joint belief that tasks teach: their expansions, `signatures` (tasks, s).

    Time at the default stays as uncertain as without them: anchors always tell it.
    """
    start = Prior.generic()
    known = np.isfinite(signatures)
    counts = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, signatures, 0.0)
    centre = filled.sum(axis=0) / counts
    spread = np.sqrt((np.where(known, signatures - centre, 0.0) ** 2).sum(axis=0) / counts)
    spread = np.where(spread > 1e-6, spread, 1.0)
    standard = np.where(known, (filled - centre) / spread, 0.0)
    size = COUNT + signatures.shape[1]
    base_mean = np.concatenate([start.mean, np.zeros(size - COUNT)])
    base = np.eye(size)
    base[:COUNT, :COUNT] = start.covariance
    information = np.zeros((len(known), size, size))
    information[:, :COUNT, :COUNT] = fitted.information
    places = np.arange(COUNT, size)
    information[:, places, places] = known / _SIGNATURE_VAR
    pull = np.concatenate([fitted.pull, standard * known / _SIGNATURE_VAR], axis=1)
    mean, covariance = _maximise(information, pull, base_mean, base)
    mean[TIME] = base_mean[TIME]
    covariance[TIME, :] = covariance[:, TIME] = 0.0
    covariance[TIME, TIME] = base[TIME, TIME]
    return Joint(mean, covariance, centre, spread)


def _maximise(
    information: Floats, pull: Floats, base_mean: Floats, base: Floats
) -> tuple[Floats, Floats]:
    """Return mean and covariance over tasks by expectation-maximisation, shrunk to `base`."""
    mean, covariance = base_mean, base
    count = len(information)
    for _ in range(_ROUNDS):
        precision = np.linalg.inv(covariance)
        spread = np.linalg.inv(information + precision)
        centres = np.einsum("tpq,tq->tp", spread, pull + precision @ mean)
        mean = (centres.sum(axis=0) + base_mean) / (count + 1.0)
        away = centres - mean
        scatter = spread.sum(axis=0) + away.T @ away
        covariance = (scatter + SHRINKAGE * base) / (count + SHRINKAGE)
        covariance = _narrower(covariance, np.sqrt(np.diag(base)))
    return mean, covariance


def _narrower(covariance: Floats, sd: Floats) -> Floats:
    """Return `covariance` cut to be nowhere wider than independent figures of spread `sd`.

    Figures that a task's rows hardly show are extrapolated far; tasks may narrow the generic
    belief but never widen it.
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    cut = (vectors * np.clip(values, 1e-6, 1.0)) @ vectors.T
    return np.asarray(cut * np.outer(sd, sd))
