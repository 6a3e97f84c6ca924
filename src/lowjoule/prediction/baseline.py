"""Time and power of a setting from physics: a dozen figures a task, all with a prior.

Step time is a fixed part and a part per sample, which slows a little with large batches; the
latter follows compute and memory clocks like a softened roofline (Williams, Waterman & Patterson
2009). Power is static, memory and dynamic; the dynamic part goes with f V(f)^2, where V is flat up
to a knee and a power law above, and with how busy a batch keeps the board. A limit cuts the power
that the setting would draw without it, and the clock that the cut allows gives the slow-down.
Everything is closed-form, so a whole space is one call and a fit needs no inner solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.prediction.features import Places

Floats = NDArray[np.float64]

# The lowest clock that boards have, over their top one (210 of 1410 MHz, 135 of 1530 MHz).
LOWEST_CLOCK = 0.1


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the baseline: `mean` and `sd` of its prior, in its coordinate.

    `coordinate` is "log" for a positive figure, "logit" for a share, "plain" for a slope.
    """

    name: str
    mean: float
    sd: float
    coordinate: str
    origin: str


# Generic beliefs, used until tasks have been learned from (`learning.Prior.learned`).
FIGURES = (
    Figure("time", 0.0, 3.0, "log", "over the anchors' geometric mean: as good as free"),
    Figure("half", -3.0, 1.5, "log", "fixed part of a default step: 1-20 %, default fills a board"),
    Figure("rise", 0.02, 0.03, "plain", "a doubled batch costs a sample up to a few per cent"),
    Figure("compute", 0.8, 1.0, "logit", "compute share 0.45-0.86: dense work is mostly compute"),
    Figure("overlap", 0.5, 0.4, "log", "norm between a sum (1) and a plain roofline (infinite)"),
    Figure("power", -0.2, 0.4, "log", "demand over the largest limit: work is near but below it"),
    Figure("static", -1.9, 0.4, "log", "over the largest limit: idle boards draw 10-22 % of it"),
    Figure("memory_power", -2.2, 0.7, "logit", "memory and its clock: 5-20 % of a board"),
    Figure("exponent", 1.1, 0.35, "log", "f V^2 with V about proportional to f: f^3"),
    Figure("knee", 0.6, 0.4, "logit", "voltage is flat below 55-73 % of the top clock"),
    Figure("busy", -0.7, 0.5, "log", "power over busy share: between none and proportional"),
    Figure("fill", 0.05, 0.05, "plain", "more power by batch beyond time's saturation"),
    Figure("sharpness", 2.3, 0.5, "log", "norm of the cut: phases of a step draw unlike power"),
    Figure("cut", -0.02, 0.03, "log", "mean power held, over the limit: governors stay just below"),
)
NAMES = tuple(figure.name for figure in FIGURES)
COUNT = len(FIGURES)
TIME, POWER = NAMES.index("time"), NAMES.index("power")


def generic() -> tuple[Floats, Floats]:
    """Return the mean, shape (COUNT,), and covariance of the generic prior."""
    mean = np.array([figure.mean for figure in FIGURES])
    return mean, np.diag([figure.sd**2 for figure in FIGURES])


def _share(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def logs(figures: Floats, at: Places) -> Floats:
    """Return log time and log power, each relative to the units of `figures`, shape (..., n, 2).

    `figures` has shape (..., COUNT), `at` columns of shape (..., n) or (n,). Time is in units of
    the anchors' mean, power in units of the largest limit (of the anchors' mean where there is
    none: then `at.largest_w` must be infinite).
    """
    f = dict(zip(NAMES, np.moveaxis(figures[..., None], -2, 0), strict=True))
    half = np.exp(f["half"])
    fixed = half / at.batch
    grown = at.batch ** f["rise"]
    busy = grown / (grown + fixed) * (1.0 + half)
    fill = busy ** np.exp(f["busy"]) * at.batch ** f["fill"]
    level = np.exp(f["power"])
    static = _least(np.exp(f["static"] - f["power"]))
    memory = _share(f["memory_power"]) * (1.0 - static)
    dynamic = 1.0 - static - memory
    exponent, knee = np.exp(f["exponent"]), _share(f["knee"])
    floor = static + memory * fill * at.memory_clock
    wanted = dynamic * fill * _switching(at.sm_clock, exponent, knee)
    demand = level * (floor + wanted)
    largest = np.where(np.isfinite(at.largest_w), at.largest_w, 1.0)
    power = _cut(demand, np.exp(f["cut"]) * at.limit_w / largest, np.exp(f["sharpness"]))
    # the clock at which the work draws what the cut leaves; the floor is not cut by it
    left = np.maximum(power / level - floor, 0.0) / (dynamic * fill)
    clock = np.minimum(_clock(left, exponent, knee), at.sm_clock)
    clock = np.maximum(clock, np.minimum(LOWEST_CLOCK, at.sm_clock))
    lowest = level * (floor + dynamic * fill * _switching(clock, exponent, knee))
    power = np.maximum(power, np.minimum(lowest, demand))
    roofline = _roofline(f["compute"], f["overlap"], clock, at.memory_clock)
    time = f["time"] + np.log((grown * roofline + fixed) / (1.0 + half))
    return np.stack(np.broadcast_arrays(time, np.log(power)), axis=-1)


def _least(share: Floats) -> Floats:
    """Return a share that does not reach one: a smooth minimum with 1, by the fourth norm."""
    return np.asarray(0.98 * share / (1.0 + share**4) ** 0.25)


def _switching(clock: Floats, exponent: Floats, knee: Floats) -> Floats:
    """Return f V(f)^2 over its value at the top clock: linear up to the knee, a power above."""
    above = np.maximum(clock, knee) ** exponent
    return np.asarray(above * np.minimum(clock / knee, 1.0))


def _clock(switching: Floats, exponent: Floats, knee: Floats) -> Floats:
    """Return the clock of a `_switching`, its inverse."""
    at_knee = knee**exponent
    above = np.maximum(switching, at_knee) ** (1.0 / exponent)
    return np.asarray(above * np.minimum(switching / at_knee, 1.0))


def _cut(demand: Floats, limit: Floats, sharpness: Floats) -> Floats:
    """Return what is left of a demand under a limit: a smooth minimum, by a negative norm."""
    with np.errstate(divide="ignore"):
        ratio = np.log(demand) - np.log(limit)
    return np.asarray(demand * np.exp(-np.logaddexp(0.0, sharpness * ratio) / sharpness))


def _roofline(compute: Floats, overlap: Floats, clock: Floats, memory_clock: Floats) -> Floats:
    """Return the time of the part per sample, over that at top clocks."""
    share, norm = _share(compute), 1.0 + np.exp(overlap)
    parts = (share / clock) ** norm + ((1.0 - share) / memory_clock) ** norm
    whole = share**norm + (1.0 - share) ** norm
    return np.asarray((parts / whole) ** (1.0 / norm))
