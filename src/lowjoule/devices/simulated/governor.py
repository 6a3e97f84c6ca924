"""The governor: the highest clock at which the power stays within the limit, for whole arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.simulated.physics import (
    Chip,
    Load,
    activity_power_w,
    steady_power_w,
    step_time_s,
    thermal_limit_w,
)

Floats = NDArray[np.float64]
_BLOCK = 16384  # settings at a time, so that the arrays in between stay in the cache


@dataclass(frozen=True, slots=True)
class Steady:
    """Steady state of many settings, each array of shape (n,): a step's time, power and clock.

    `held` says where the limit holds; elsewhere even the lowest clock draws more.
    """

    time_s: Floats
    power_w: Floats
    x: Floats
    held: NDArray[np.bool_]


def steady(
    chip: Chip, load: Load, *, clocks: Floats, asked: Floats, limit_w: Floats, m: Floats
) -> Steady:
    """Return the warm steady state of `n` settings.

    `clocks` are the clocks there are, ascending, over the maximum; `asked`, `limit_w` and `m`
    are of shape (n,), as are the fields of `load` that are arrays. A limit above what the cooler
    carries away is that.
    """
    count = len(asked)
    out = Steady(np.empty(count), np.empty(count), np.empty(count), np.empty(count, np.bool_))
    top = np.searchsorted(clocks, asked * (1 + 1e-9), side="right") - 1
    limit_w = np.minimum(limit_w, thermal_limit_w(chip))
    for start in range(0, count, _BLOCK):
        part = slice(start, min(start + _BLOCK, count))
        piece, most_w, own_m = _part(load, part), limit_w[part] * (1 + 1e-9), m[part]
        index = np.maximum(top[part], 0)
        time_s, power_w = _at(chip, piece, clocks[index], own_m)
        over = np.flatnonzero(power_w > most_w)
        if len(over):
            piece, own_m = _part(piece, over), own_m[over]
            index[over] = _highest(
                chip, piece, clocks, below=index[over], most_w=most_w[over], m=own_m
            )
            time_s[over], power_w[over] = _at(chip, piece, clocks[index[over]], own_m)
        out.time_s[part], out.power_w[part], out.x[part] = time_s, power_w, clocks[index]
        out.held[part] = power_w <= most_w
    return out


def _highest(
    chip: Chip, load: Load, clocks: Floats, *, below: NDArray[np.intp], most_w: Floats, m: Floats
) -> NDArray[np.intp]:
    """Return the highest index under `below` within the limit, by bisection (0 where none is).

    Power rises with the clock: the rate of work and the voltage both do.
    """
    low, high = np.zeros_like(below), np.maximum(below - 1, 0)
    while np.any(low < high):
        middle = (low + high + 1) // 2
        good = _at(chip, load, clocks[middle], m)[1] <= most_w
        low = np.where(good, middle, low)
        high = np.where(good, high, np.maximum(middle - 1, low))
    return low


def _at(chip: Chip, load: Load, x: Floats, m: Floats) -> tuple[Floats, Floats]:
    time_s = step_time_s(chip, load, x, m)
    return time_s, steady_power_w(chip, activity_power_w(chip, load, x, m, time_s))


def _part(load: Load, part: slice | NDArray[np.intp]) -> Load:
    fields = (load.compute_s, load.memory_s, load.overhead_s, load.useful, load.intensity)
    return Load(*(f[part] if isinstance(f, np.ndarray) and f.ndim else f for f in fields))
