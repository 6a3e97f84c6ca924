"""One window on one device, as arrays: what an estimate of its energy is made from."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.metering.trace import Habits, Trace, time_of

Floats = NDArray[np.float64]

LONGEST_REFRESH_S = 0.1
"""The slowest instant power sensor that is documented (arXiv 2312.02741); one that was not seen
to be faster may be as slow."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """Looks from a little before `begin_s` to a little after `end_s`; missing ones are NaN."""

    begin_s: float
    end_s: float
    time_s: Floats
    gap_s: Floats
    energy_j: Floats
    power_w: Floats
    integral_j: Floats
    habits: Habits
    power_window_s: float
    resets: int
    falls_j: float
    throttled: frozenset[str]

    @property
    def length_s(self) -> float:
        """How long the window is."""
        return self.end_s - self.begin_s

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which looks are strictly inside."""
        return (self.time_s > self.begin_s) & (self.time_s < self.end_s)


def view_of(trace: Trace, begin_s: float, end_s: float, until_s: float) -> View:
    """Return the view of the window from `begin_s` to `end_s`, with looks until `until_s`.

    A few looks before the window belong to it as well: they say when the counter moved last.
    """
    trace.learn()
    samples, habits = trace.samples, trace.habits
    first = bisect_left(samples, begin_s, key=time_of)
    last = bisect_right(samples, until_s, key=time_of)
    before_s = begin_s - max(4 * (habits.tick_s or 0.0), 2 * LONGEST_REFRESH_S)
    first = max(0, min(first - 1, bisect_left(samples, before_s, key=time_of)))
    table = np.array(samples[first:last], dtype=np.float64).reshape(-1, 5)
    return View(
        begin_s=begin_s,
        end_s=end_s,
        time_s=table[:, 0],
        gap_s=table[:, 1],
        energy_j=table[:, 2],
        power_w=table[:, 3],
        integral_j=table[:, 4],
        habits=replace(habits),  # what is learned later is of later windows
        power_window_s=trace.power_window_s or 0.0,
        resets=sum(begin_s < one <= end_s for one in trace.resets_s),
        falls_j=math.fsum(fall for at_s, fall in trace.falls if begin_s < at_s <= end_s),
        throttled=frozenset().union(
            *(why for at_s, why in trace.throttled if begin_s < at_s <= end_s)
        ),
    )
