"""Errors of unlike kinds put together to one interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_TAIL = 0.03  # 97 %: what is stated as 95 % shall be kept where an assumption is a little off
_REACH = (
    (1.0, 21.20), (0.5, 5.643), (1 / 3, 3.896), (0.25, 3.298), (0.2, 3.003), (1 / 6, 2.829),
    (0.125, 2.634), (0.1, 2.527), (1 / 15, 2.397), (1 / 30, 2.278), (0.0, 2.170),
)  # fmt: skip
"""Student's 98.5 % quantile (the same tails) by one over the degrees of freedom."""
_EXPANDED = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """Independent errors in J: uniform ones by half their width, the rest by its variance.

    `few_j2` is a variance that is itself estimated, with `freedom` degrees of freedom.
    """

    uniform_j: tuple[float, ...] = ()
    variance_j2: float = 0.0
    few_j2: float = 0.0
    freedom: float = math.inf

    def widened(self, half_j: float) -> Spread:
        """Return it with one more uniform error of this half width."""
        return Spread((*self.uniform_j, half_j), self.variance_j2, self.few_j2, self.freedom)

    @property
    def sd_j(self) -> float:
        """The standard deviation."""
        uniform_j2 = sum(one**2 for one in self.uniform_j) / 3
        return math.sqrt(uniform_j2 + self.variance_j2 + self.few_j2)

    @property
    def half_width_j(self) -> float:
        """Half the width of the 95 % interval, rather more than less.

        The two widest uniform errors make a trapezium, whose tail is known; the others count as
        normal, or as Student's with as many degrees of freedom as the sum of variances has
        (Welch and Satterthwaite).
        """
        wide, narrow, *rest = (
            *sorted((abs(one) for one in self.uniform_j), reverse=True),
            0.0,
            0.0,
        )
        normal_j2 = self.variance_j2 + self.few_j2 + sum(one**2 for one in rest) / 3
        reach_j = wide + narrow - math.sqrt(4 * _TAIL * wide * narrow)
        if reach_j < wide - narrow or narrow == 0.0:
            reach_j = (1 - _TAIL) * wide
        share = self.few_j2 / normal_j2 if normal_j2 > 0 else 0.0
        return math.hypot(reach_j, _reach(share**2 / max(self.freedom, 1.0)) * math.sqrt(normal_j2))


def _reach(per_freedom: float) -> float:
    """Return how many standard deviations the interval reaches, by one over the freedom."""
    for (high, high_reach), (low, low_reach) in pairwise(_REACH):
        if per_freedom >= low:
            part = min(1.0, (per_freedom - low) / (high - low))
            return low_reach + part * (high_reach - low_reach)
    return _REACH[-1][1]


def joined_half_width_j(halves_j: Iterable[float]) -> float:
    """Return the half width of a sum of independent figures with these half widths."""
    return math.sqrt(math.fsum(one**2 for one in halves_j))


def gain_half_width_j(energy_j: float, gain_sd: float) -> float:
    """Return what a relative standard deviation of the gain makes of a total."""
    return _EXPANDED * abs(gain_sd * energy_j)
