"""Where figures that are still moving will end: what a window tells of the steady state.

A board that warms up approaches its steady state as an exponential, and a window much shorter
than its time constant cannot tell that from standing still. So the figures are taken as a steady
value, an exponential and noise, with all time constants from 4 s to 130 s in the running (what
boards and their heat sinks have), and weighed by how well they explain what was seen: a Bayesian
linear model on a grid (Gelman et al., Bayesian Data Analysis, 3rd ed., ch. 14; O'Hagan & Forster,
Kendall's Advanced Theory of Statistics 2B, ch. 11).

The temperature, where it is known, says how much of the way is still ahead, long before time
and energy do: leakage and clocks follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.normal import normal_cdf

Floats = NDArray[np.float64]

TIME_CONSTANTS_S = np.geomspace(4.0, 130.0, 18)
# Power at equal clocks rises by up to a tenth between cold and hot, some 50 K apart, and time by as
# much under a limit: 0.1 % a kelvin, 0 to 0.2 % as likely as not more. What is told of no
# temperature, or is not of heat, is believed to be of the order of one twentieth, of any sign.
_PER_KELVIN = 0.001
_UNKNOWN = 0.06
_NOT_OF_HEAT = 0.01  # how often a trend is something else than heat
_ROUNDED_C = 0.6  # a thermometer shows whole degrees, and heat has more than one time constant
_FAR_C = 40.0
_SIGMAS = 2.0 ** np.arange(-2.5, 2.76, 0.25)  # of the noise, around a first guess
_LEAST_SIGMA = 1e-7
_HALVINGS = 24
_NEVER = 1e-5


@dataclass(frozen=True, slots=True)
class Course:
    """Means of neighbouring stretches of a window, over the mean of all.

    All of shape (n,): relative `values`, `begin_s` and `end_s` of each stretch from the start of
    the window, and temperatures, None where not all are known. `counter` is the standard
    deviation that the ticks of a counter give each value; what one has too much its neighbour
    has too little.
    """

    values: Floats
    begin_s: Floats
    end_s: Floats
    temperature_c: Floats | None = None
    counter: float = 0.0


@dataclass(frozen=True, slots=True)
class Asymptote:
    """What is believed of the steady value: a mixture of normal distributions.

    `sd` is the standard deviation of the mean of the window, if nothing moved, with what is not
    known of the noise in it; `likely_sd` the likeliest, which few stretches do not make larger.
    """

    means: Floats
    sds: Floats
    weights: Floats
    sd: float
    likely_sd: float

    @property
    def mean(self) -> float:
        """The expected steady value, over the mean of the window."""
        return float(np.sum(self.weights * self.means))

    def half(self, confidence: float) -> float:
        """Return how far around 1 the steady value lies with probability `confidence`."""
        likely = self.weights > _NEVER
        weights, off, sds = self.weights[likely], self.means[likely] - 1.0, self.sds[likely]
        weights = weights / weights.sum()
        low, high = 0.0, float(np.max(np.abs(off) + 6.0 * sds))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            inside = normal_cdf((middle - off) / sds) - normal_cdf((-middle - off) / sds)
            if float(weights @ inside) < confidence:
                low = middle
            else:
                high = middle
        return high


def asymptote(course: Course) -> Asymptote:
    """Return what `course` tells of the steady value; it needs three stretches at least."""
    count = len(course.values)
    order = np.arange(1, count + 1)
    # errors of ticks are shared by neighbours: in sines they and the noise are independent
    sines = np.sin(np.outer(order, order) * np.pi / (count + 1)) * np.sqrt(2.0 / (count + 1))
    tick_variance = course.counter**2 * (1.0 - np.cos(order * np.pi / (count + 1)))
    guess = max(float(np.sqrt(np.mean(np.diff(course.values) ** 2) / 2.0)), _LEAST_SIGMA)
    sigmas = guess * _SIGMAS
    exact = 1.0 / (sigmas[:, None] ** 2 + tick_variance)
    constants, usual, believed, doubts = _ways(course)
    shape = _shape(course, constants) @ sines
    ones = sines @ np.ones(count)
    values = sines @ (course.values - 1.0) - usual[:, None] * shape
    of_one, of_values = exact @ ones**2, (ones * values) @ exact.T
    both = (ones * shape) @ exact.T
    of_shape = shape**2 @ exact.T + 1.0 / believed[:, None] ** 2
    on_shape = (shape * values) @ exact.T
    determinant = of_one * of_shape - both**2
    steady = (of_shape * of_values - both * on_shape) / determinant
    moving = (of_one * on_shape - both * of_values) / determinant
    likely = 0.5 * np.sum(np.log(exact), axis=1) - 0.5 * values**2 @ exact.T
    likely = likely + 0.5 * (steady * of_values + moving * on_shape)
    likely = likely - 0.5 * np.log(determinant) - np.log(believed)[:, None] + doubts[:, None]
    weights = np.exp(likely - likely.max())
    weights /= weights.sum()
    of_sigmas = weights.sum(axis=0)
    squares = float(of_sigmas @ sigmas**2), float(np.exp(2.0 * (of_sigmas @ np.log(sigmas))))
    sd, likely_sd = (np.sqrt(one / count + (course.counter / count) ** 2) for one in squares)
    return Asymptote(
        1.0 + steady, np.sqrt(of_shape / determinant), weights, float(sd), float(likely_sd)
    )


def _shape(course: Course, constants: Floats) -> Floats:
    """Return the mean of each exponential over each stretch, of shape (constants, n)."""
    before, after = (
        np.exp(-edge[None] / constants[:, None]) for edge in (course.begin_s, course.end_s)
    )
    return np.asarray((before - after) * constants[:, None] / (course.end_s - course.begin_s))


def _ways(course: Course) -> tuple[Floats, Floats, Floats, Floats]:
    """Return time constants with what is believed of an exponential of each.

    The size it has, its standard deviation, and the logarithm of how likely the constant is.
    """
    constants = TIME_CONSTANTS_S
    third = max(1, len(course.values) // 3)
    moved = float(course.values[-third:].mean() - course.values[:third].mean())
    nothing = np.zeros(len(constants))
    unknown = np.full(len(constants), np.hypot(_UNKNOWN, 3.0 * moved))
    if course.temperature_c is None:
        return constants, nothing, unknown, nothing
    kelvin, doubt, fits = _heating(_shape(course, constants), course.temperature_c)
    weights = np.exp(fits - fits.max())
    weights *= (1.0 - _NOT_OF_HEAT) / weights.sum()
    others = np.full(len(constants), _NOT_OF_HEAT / len(constants))
    return (
        np.concatenate([constants, constants]),
        np.concatenate([_PER_KELVIN * kelvin, nothing]),
        np.concatenate([_PER_KELVIN * np.sqrt(kelvin**2 + 2.0 * doubt**2), unknown]),
        np.log(np.concatenate([weights, others]) + 1e-300),
    )


def _heating(shape: Floats, temperature_c: Floats) -> tuple[Floats, Floats, Floats]:
    """Return how the temperature moves by each time constant, with its doubt and likelihood."""
    count = len(temperature_c)
    off = temperature_c - temperature_c.mean()
    centred = shape - shape.mean(axis=1, keepdims=True)
    precision = np.sum(centred**2, axis=1) / _ROUNDED_C**2 + 1.0 / _FAR_C**2
    onto = centred @ off / _ROUNDED_C**2
    moved = onto / precision
    misfit = off @ off / _ROUNDED_C**2 - onto * moved
    # a temperature that follows no one exponential says less than as many independent readings
    misfit = misfit / max(1.0, float(misfit.min()) / count)
    return moved, np.sqrt(1.0 / precision), -0.5 * misfit - 0.5 * np.log(precision)
