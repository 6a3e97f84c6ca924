"""Energy counters that wrap, made into ones that only rise: by each reader, without a poller.

    raw   ..../|  /|  /      wraps at its range
    total ......./../../     rises; where nobody can know by how much, it falls by `BREAK_J`

A difference is known as long as the counter cannot have wrapped twice between two looks. Where
that is not sure (too long a gap, a range that cannot be read, a sleep of the machine, a value
that no processor can reach) the interval is *missing*: the count then falls by far more than
anything can have drawn, so that a window across it has a negative energy, which no meter
takes, while windows before and after it stay right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

START_J = 2.0**40
"""Where a count starts, in J: room for a thousand breaks, and still exact to 0.3 mJ."""
BREAK_J = 2.0**30
"""By how much a count falls at an interval that nobody knows: 12 days at a kilowatt."""

_LEAST_RANGE_UJ = (1 << 32) * 15  # 32 bits of 15.3 uJ, the finest unit in use
_FROZEN_S = 1.0  # counters move every millisecond; a processor is never without power
_SLACK_S = 1.0  # late updates: what the counter still owes of the time before
_SLEPT_S = 2.0  # time of day and monotonic time part when the machine sleeps


@dataclass(frozen=True, slots=True)
class Moment:
    """When a value was read: monotonic time and time of day, in s."""

    now_s: float
    unix_s: float


class Counter:
    """One reader's count of one energy counter.

    `range_uj` is where the counter wraps, None where that cannot be read; one that does not
    wrap has `wraps` False. `max_power_w` is more than can ever be drawn.
    """

    def __init__(self, *, range_uj: int | None, max_power_w: float, wraps: bool = True) -> None:
        self.range_uj = range_uj
        self.max_power_w = max_power_w
        self.wraps = wraps
        self.total_uj = 0
        self.breaks = 0
        self.why = ""
        self._frozen = False
        self._last_uj: int | None = None
        self._last = self._moved = Moment(0.0, 0.0)

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two looks, in s, in which the counter cannot wrap twice.

        It is the shortest time in which it can wrap once; infinite where it does not wrap.
        """
        if not self.wraps:
            return math.inf
        return (self.range_uj or _LEAST_RANGE_UJ) / 1e6 / self.max_power_w

    def see(self, value_uj: int, moment: Moment) -> bool:
        """Take a value of the counter; False where this one says nothing of energy.

        `why` then says why, and after a break of the count too.
        """
        if self._last_uj is None:
            self._keep(value_uj, moment, moved=True)
            return True
        gap_s = moment.now_s - self._last.now_s
        delta_uj = value_uj - self._last_uj
        unknown = delta_uj < 0 and self.wraps and not self.range_uj
        if delta_uj < 0 and self.range_uj:
            delta_uj %= self.range_uj
        doubt = self._doubt(delta_uj, gap_s, moment)
        if doubt:
            self.breaks += 1
            self.why = doubt
        else:
            self.total_uj += delta_uj
        self._keep(value_uj, moment, moved=delta_uj != 0)
        return not (self._frozen or unknown)

    def _doubt(self, delta_uj: int, gap_s: float, moment: Moment) -> str:
        """Return why the interval that ends now is missing, "" where it is known."""
        slept_s = moment.unix_s - self._last.unix_s - gap_s
        if delta_uj < 0:
            return "it fell and where it wraps is not known"
        if gap_s > self.longest_gap_s:
            return (
                f"it was not read for {gap_s:.0f} s and may have wrapped more than once: "
                f"read it every {self.longest_gap_s:.0f} s"
            )
        if abs(slept_s) > _SLEPT_S:
            return "the machine slept or its time of day was set, and the counter may be reset"
        if delta_uj / 1e6 > self.max_power_w * (gap_s + _SLACK_S):
            return f"it rose by {delta_uj / 1e6:.6g} J in {gap_s:.3g} s, which nothing can draw"
        if delta_uj and self._frozen:
            return "it had stood still"
        return ""

    def _keep(self, value_uj: int, moment: Moment, *, moved: bool) -> None:
        self._last_uj, self._last = value_uj, moment
        if moved:
            self._moved = moment
        still_s = moment.now_s - self._moved.now_s
        self._frozen = still_s >= _FROZEN_S
        if self._frozen:
            self.why = f"it has stood still for {still_s:.3g} s"


def cumulative_j(total_uj: int, breaks: int) -> float | None:
    """Return the count in J of counters that rose by `total_uj` and broke `breaks` times.

    None when it has broken so often that there is no room for another fall.
    """
    value_j = START_J - breaks * BREAK_J + total_uj / 1e6
    return value_j if value_j >= 0 else None
