"""Predictions made monotone where physics is.

Time does not grow when a limit or the core clock is raised, and power does not fall when a limit or
any clock is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK

Floats = NDArray[np.float64]

_KNOBS = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK)
_LARGEST_GRID = 4_000_000


def monotone(columns: Mapping[str, NDArray[Any]], time: Floats, power: Floats) -> bool:
    """Change logarithms of `time` and `power`, shape (n,), in place so that they are monotone.

    Along each limit and clock the result is the mean of the two nearest monotone sequences from
    either end (running extremes). Returns False, and changes nothing, where the values of
    `columns` (n,) span a grid too large to lay out.
    """
    names = [name for name in _KNOBS if name in columns]
    if not names or not len(time):
        return True
    places = {name: np.unique(column, return_inverse=True) for name, column in columns.items()}
    shape = tuple(len(values) for values, _ in places.values())
    if math.prod(shape) > _LARGEST_GRID:
        return False
    index = tuple(inverse.reshape(-1) for _, inverse in places.values())
    # under a limit a faster memory takes power from the cores, so that time may grow with it
    for figures, sign, along in ((time, -1.0, (POWER_LIMIT, SM_CLOCK)), (power, 1.0, _KNOBS)):
        grid = np.full(shape, np.nan)
        grid[index] = sign * figures
        for name in (one for one in names if one in along):
            axis = list(columns).index(name)
            up = np.fmax.accumulate(grid, axis=axis)
            down = np.flip(np.fmin.accumulate(np.flip(grid, axis=axis), axis=axis), axis=axis)
            grid = np.where(np.isnan(grid), grid, (up + down) / 2.0)
        figures[:] = sign * grid[index]
    return True
