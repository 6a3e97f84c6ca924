"""How far the means of a profile may be off: a window's spread over the root of their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lowjoule.profile.profile import Profile

Floats = NDArray[np.float64]


def time_error_s(profile: Profile) -> Floats | None:
    """Return the standard error of each row's time, None where no spread was measured."""
    return _error(profile.time_sd_s, profile.windows)


def energy_error_j(profile: Profile) -> Floats | None:
    """Return the standard error of each row's energy, None where no spread was measured."""
    return _error(profile.energy_sd_j, profile.windows)


def _error(sd: Floats | None, windows: Floats | None) -> Floats | None:
    if sd is None or windows is None:
        return sd
    return np.asarray(sd / np.sqrt(np.maximum(windows, 1.0)))


def pooled_sd(
    means: Sequence[float], sds: Sequence[float | None], windows: Sequence[int]
) -> float | None:
    """Return the standard deviation of one window over several groups of windows.

    Each group has a mean, the standard deviation of one of its windows (None where not told),
    and their number. From the scatter within and between the groups (law of total variance);
    None where nothing tells it.
    """
    if len(means) == 1:
        return sds[0]
    mean = float(np.average(means, weights=windows))
    between = sum(n * (one - mean) ** 2 for one, n in zip(means, windows, strict=True))
    within = 0.0
    for sd, count in zip(sds, windows, strict=True):
        if count == 1:
            continue  # one window has no scatter: its own figure is an estimate of another kind
        if sd is None:  # then only the groups' means tell: their variance is that of one / n
            return math.sqrt(between / (len(means) - 1))
        within += (count - 1) * sd**2
    return math.sqrt((between + within) / (sum(windows) - 1))
