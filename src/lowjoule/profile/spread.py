"""How far the means of a profile may be off: a window's spread over the root of their number."""

from __future__ import annotations

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
