"""Errors of unlike kinds put together to one interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_TAIL = 0.025  # 97.5 %: what is stated as 95 % shall be kept where an assumption is a little off
_NORMAL = 2.24  # of a normal distribution, the same tail
_EXPANDED = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """Independent errors in J: uniform ones by half their width, the rest by its variance."""

    uniform_j: tuple[float, ...] = ()
    variance_j2: float = 0.0

    def __add__(self, other: Spread) -> Spread:
        return Spread((*self.uniform_j, *other.uniform_j), self.variance_j2 + other.variance_j2)

    @property
    def sd_j(self) -> float:
        """The standard deviation."""
        return math.sqrt(sum(one**2 for one in self.uniform_j) / 3 + self.variance_j2)

    @property
    def half_width_j(self) -> float:
        """Half the width of the 95 % interval, rather more than less.

        The two widest uniform errors make a trapezium, whose tail is known; the others count as
        normal.
        """
        wide, narrow, *rest = (
            *sorted((abs(one) for one in self.uniform_j), reverse=True),
            0.0,
            0.0,
        )
        normal_j2 = self.variance_j2 + sum(one**2 for one in rest) / 3
        reach_j = wide + narrow - math.sqrt(4 * _TAIL * wide * narrow)
        if reach_j < wide - narrow or narrow == 0.0:
            reach_j = (1 - _TAIL) * wide
        return math.hypot(reach_j, _NORMAL * math.sqrt(normal_j2))


def joined_half_width_j(halves_j: Iterable[float]) -> float:
    """Return the half width of a sum of independent figures with these half widths."""
    return math.sqrt(math.fsum(one**2 for one in halves_j))


def gain_half_width_j(energy_j: float, gain_sd: float) -> float:
    """Return what a relative standard deviation of the gain makes of a total."""
    return _EXPANDED * abs(gain_sd * energy_j)
