"""A smooth surface through what a search was told, so that neighbours share their noise.

Time, energy and every other column are Gaussian processes in logarithms: a straight line along
each knob, a bend along each knob, and a joint part. Bends may be sharp (Matern 3/2): a limit
above what the work draws changes nothing, one just below does. All amplitudes follow from one
fact: what is turned by a factor changes a figure by at most about that factor (an elasticity of
about one), because work that the knob does not touch dampens it. How strong the effects are and
how much trials scatter is estimated from what was told, on a grid (Rasmussen & Williams, Gaussian
Processes for Machine Learning, 2006, eqs. 2.25, 2.26, 4.17 and 5.8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowjoule.covariance import Covariance
from lowjoule.knobs import Knob, Setting, Space
from lowjoule.objectives.objective import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is believed of any surface before the first trial; plain ratios, none fitted to data.

    - `elasticity`: standard deviation of a slope in log-log coordinates. A figure changes at
      most in proportion to what is turned: uniform between -1 and 1 has 1/sqrt(3).
    - `bend`: standard deviation of the departure from the line, over the knob's log range. A
      slope that changes from one to nothing half-way departs by a quarter of the range.
    - `length`: correlation length over the knob's log range. A bend is expected to cross zero
      sqrt(3) range/(pi length) times (Rice's formula for this kernel): once.
    - `joint`: what all knobs do together, relative to a bend; one is no opinion.
    - `name_sd`: spread of the logarithm between named values: a factor of two.
    - `noise_sd`: usual relative spread of one trial: windows of seconds repeat within 1-3 %.
    - `doubt`: the factor by which the noise and the strength of all effects are uncertain.
    """

    elasticity: float = 0.58
    bend: float = 0.25
    length: float = 0.55
    joint: float = 1.0
    name_sd: float = 0.7
    noise_sd: float = 0.015
    doubt: float = 2.0


_GRID = 2.0 ** np.arange(-3, 4)  # of strengths and noises, around the prior's
_OFFSET_SD = 3.0  # a factor of twenty around the mean of what was told: as good as free
_JITTER = 1e-10


class Coordinates:
    """Settings as numbers: logarithms of positive knobs, in fractions of a range otherwise."""

    def __init__(self, space: Space) -> None:
        self._knobs = space.knobs
        self.spans = np.array([self._span(knob) for knob in space.knobs])
        self.named = np.array([isinstance(knob.values[0], str) for knob in space.knobs])

    def of(self, settings: list[Setting]) -> Floats:
        """Return an array of shape (settings, knobs)."""
        rows = [
            [self.one(knob, setting[knob.name]) for knob in self._knobs] for setting in settings
        ]
        return np.array(rows, dtype=np.float64).reshape(len(settings), len(self._knobs))

    def one(self, knob: Knob, value: float | str) -> float:
        """Return the coordinate of `value` along `knob`; a name's is its place."""
        if isinstance(value, str):
            return float(knob.values.index(value)) if value in knob.values else -1.0
        low, high = float(knob.values[0]), float(knob.values[-1])
        if low > 0 and value > 0:
            return math.log(value)
        return (value - low) / (high - low) if high > low else 0.0

    def _span(self, knob: Knob) -> float:
        if len(knob.values) == 1:
            return 1.0
        return self.one(knob, knob.values[-1]) - self.one(knob, knob.values[0])


class Fit:
    """One column's surface after what was told of it; made by `Surface.fit`.

    `noise_var` is the variance of the logarithm of one trial, `mean_variance` that of each told
    row's mean.
    """

    def __init__(
        self,
        surface: Surface,
        told: Floats,
        logs: Floats,
        counts: Floats,
        floor_var: Floats,
    ) -> None:
        self._surface = surface
        self._told = told
        self._centre = float(np.average(logs, weights=counts))
        base = surface.kernel(told, told, told[0])
        self._strength, self.noise_var = surface.likeliest(
            base, logs - self._centre, counts, floor_var
        )
        self.mean_variance = np.maximum(self.noise_var, floor_var) / counts
        rows = self.mean_variance + _JITTER
        gram = self._strength**2 * base + _OFFSET_SD**2 + np.diag(rows)
        self._factor = np.linalg.cholesky(gram)
        self._white = np.linalg.solve(self._factor, logs - self._centre)

    def at(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what is believed of the logarithm at `rows`, of shape (n, knobs).

        The mean (n,), the covariance of the first `len(told)` rows with all (told, n), and the
        variance (n,); the first rows must be the told ones, in order.
        """
        told = self._told
        cross = self._strength**2 * self._surface.kernel(told, rows, told[0]) + _OFFSET_SD**2
        half = np.linalg.solve(self._factor, cross)
        mean = self._centre + half.T @ self._white
        own = self._strength**2 * self._surface.kernel.variance(rows, told[0]) + _OFFSET_SD**2
        variance = np.maximum(own - np.sum(half**2, axis=0), 0.0)
        return mean, cross - half[:, : len(told)].T @ half, variance


class Surface:
    """How settings of a space are alike, before and after trials."""

    def __init__(self, space: Space, prior: Prior) -> None:
        self.coordinates = Coordinates(space)
        self._prior = prior
        sizes = np.where(self.coordinates.named, prior.name_sd, prior.bend * self.coordinates.spans)
        alone = len(sizes) == 1
        self.kernel = Covariance(
            sizes=sizes,
            widths=prior.length * self.coordinates.spans,
            named=self.coordinates.named,
            elasticity=prior.elasticity,
            joint=0.0 if alone else prior.joint * float(np.exp(np.mean(np.log(sizes)))),
        )

    def fit(self, told: Floats, logs: Floats, counts: Floats, floor_var: Floats) -> Fit:
        """Return the surface after `logs`, means of `counts` trials each, at rows `told`.

        `floor_var` is the variance of one trial that was told for each row, zero where none
        was; the estimated noise is never below it.
        """
        return Fit(self, told, logs, counts, floor_var)

    def likeness(self, left: Floats, right: Floats) -> Floats:
        """Return how alike rows are, from 0 to 1, by their distance along all knobs."""
        gap = left[:, None, :] - right[None, :, :]
        width = np.where(self.coordinates.named, 1.0, self._prior.length * self.coordinates.spans)
        squares = np.minimum(np.sum((gap / width) ** 2, axis=2), 200.0)
        return np.asarray(np.exp(-0.5 * squares))

    def likeliest(
        self, base: Floats, logs: Floats, counts: Floats, floor_var: Floats
    ) -> tuple[float, float]:
        """Return the likeliest strength of the effects and variance of the noise, on the grid."""
        prior = self._prior
        strengths, noises = (
            one.ravel() for one in np.meshgrid(_GRID, prior.noise_sd * _GRID, indexing="ij")
        )
        rows = np.maximum(noises[:, None] ** 2, floor_var) / counts + _JITTER
        grams = strengths[:, None, None] ** 2 * base + _OFFSET_SD**2
        grams = grams + rows[:, :, None] * np.eye(len(logs))
        factors = np.linalg.cholesky(grams)
        white = np.linalg.solve(factors, np.broadcast_to(logs[:, None], (*rows.shape, 1)))
        fit = -0.5 * np.sum(white[..., 0] ** 2, axis=1)
        fit -= np.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)), axis=1)
        doubts = np.log(noises / prior.noise_sd) ** 2 + np.log(strengths) ** 2
        fit -= 0.5 * doubts / np.log(prior.doubt) ** 2
        best = int(np.argmax(fit))
        return float(strengths[best]), float(noises[best] ** 2)
