"""What was read from one device while windows were open, and what that tells of its sensors.

counter   ____|‾‾‾‾|‾‾‾‾     moves at ticks; a tick lies between two looks (`gap_s`)
power     ~~~~~~~~~~~~~~     integrated from look to look, so that looks can be dropped
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from lowjoule.devices.interface import Reading

Sample = tuple[float, float, float, float, float]
"""Time in s, time since the look before in s, counter in J, power in W, integral of power in J.

What is missing is NaN, so that a list of samples is an array at once.
"""

FALL_SHARE = 0.5
"""A counter that falls below this share of what it was has started again."""
FALL_J = 100.0
"""Or that falls by more than this: no update that comes late is as large."""

_MOST_SAMPLES = 32_768
_KEPT_SAMPLES = 512  # at each end of the list, where edges may be
_GAPS = 31
_LIKE = 0.9
_TELLING = 6  # times between changes, at least
_NEAR = 8  # periods
_CLOSE_S = 0.01  # looks farther apart do not tell how often a sensor is renewed

time_of = itemgetter(0)


@dataclass(slots=True)
class Habits:
    """What is known of how a device's figures are renewed; None is "not seen yet".

    `tick_s` is the time between two moves of the counter, 0 for one that moves at every look.
    `refresh_s` is that of the power sensor; `soonest_s` the shortest time between two changes
    of it, so that it is not renewed more slowly. `read_s` is what a look costs. The rest is what
    that was learned from, in this window and in earlier ones.
    """

    tick_s: float | None = None
    refresh_s: float | None = None
    soonest_s: float | None = None
    read_s: float = 0.0
    move_gaps_s: deque[float] = field(default_factory=lambda: deque(maxlen=_GAPS))
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=_GAPS))


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the power shown: the time since the one before, how well that is known, to what.

    Times are in s, the power in W.
    """

    since_s: float
    blur_s: float
    power_w: float


class Trace:
    """The looks at one device, in the order of time; used with the watch's lock held."""

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.samples: list[Sample] = []
        self.resets_s: list[float] = []
        self.falls: list[tuple[float, float]] = []
        self.throttled: list[tuple[float, frozenset[str]]] = []
        self.missing_power = 0
        self.power_window_s: float | None = None
        self._top_j = self._fell_from_j = -math.inf
        self._integral_j = 0.0
        self._power_w, self._power_at_s = math.nan, 0.0
        self._changed_s: float | None = None
        self._moved_s: float | None = None

    def add(self, reading: Reading) -> float:
        """Keep a reading and return its time in s."""
        time_s = reading.time_s
        samples = self.samples
        gap_s = time_s - samples[-1][0] if samples else 0.0
        energy_j = reading.energy_j
        if energy_j is None:
            energy_j = math.nan
        elif energy_j > self._top_j:
            self._moved(time_s, gap_s, energy_j)
        elif energy_j < self._top_j:
            energy_j = self._fallen(time_s, energy_j)
        power_w = reading.power_w
        if power_w is None:
            power_w = math.nan
            self.missing_power += 1
        else:
            last_w = self._power_w
            if not math.isnan(last_w):
                self._integral_j += (power_w + last_w) / 2 * (time_s - self._power_at_s)
                if power_w != last_w:
                    self._changed(time_s, gap_s, power_w)
            self._power_w, self._power_at_s = power_w, time_s
            self.power_window_s = reading.power_window_s
        if reading.throttle_reasons:
            self.throttled.append((time_s, reading.throttle_reasons))
        samples.append((time_s, gap_s, energy_j, power_w, self._integral_j))
        return time_s

    @property
    def moved_s(self) -> float | None:
        """When the counter was last seen to move, in s."""
        return self._moved_s

    def is_full(self) -> bool:
        """Whether it is time to `thin`."""
        return len(self.samples) > _MOST_SAMPLES

    def thin(self, begins_s: list[float]) -> None:
        """Drop every other look, but not near the ends nor after `begins_s`.

        The rest says the same: energy and integral are cumulative, and of two looks the one at
        the higher power stays, for the peak.
        """
        last = len(self.samples) - _KEPT_SAMPLES
        kept: list[Sample] = []
        index = 0
        while index < last - 1:
            one, other = self.samples[index], self.samples[index + 1]
            if any(begin_s <= one[0] < begin_s + 1.0 for begin_s in begins_s):
                kept += (one, other)
            else:
                kept.append(other if other[3] > one[3] else one)
            index += 2
        # in place: windows hold the list
        self.samples[:] = kept + self.samples[index:]
        del self.throttled[:-_MOST_SAMPLES]

    def learn(self) -> None:
        """Bring what is known of the device's habits up to date."""
        gaps = list(self.habits.move_gaps_s)
        if len(gaps) >= 2 and self.habits.tick_s != 0.0:
            self.habits.tick_s = statistics.median(gaps)
        changes = list(self.habits.changes)
        if changes:
            soonest_s = min(one.since_s for one in changes)
            known_s = self.habits.soonest_s
            self.habits.soonest_s = soonest_s if known_s is None else min(known_s, soonest_s)
        if len(changes) >= _TELLING and (refresh_s := _refresh_s(changes)) is not None:
            least_s = self.habits.soonest_s
            held = least_s is None or least_s > refresh_s / 2
            self.habits.refresh_s = refresh_s if held else 0.0

    def _moved(self, time_s: float, gap_s: float, energy_j: float) -> None:
        if self._moved_s is not None:
            since_s = time_s - self._moved_s
            tick_s = self.habits.tick_s
            # several ticks may lie between two looks that are far apart
            if gap_s <= 0.6 * since_s or tick_s is None or gap_s <= 1.5 * tick_s:
                self.habits.move_gaps_s.append(since_s)
        if self._top_j > -math.inf:
            self._moved_s = time_s
        self._top_j = energy_j

    def _fallen(self, time_s: float, energy_j: float) -> float:
        """Return what a counter that fell is taken to say."""
        fall_j = self._top_j - energy_j
        if fall_j > FALL_J or energy_j < FALL_SHARE * self._top_j:
            self.resets_s.append(time_s)
            self._top_j, self._moved_s = energy_j, None
            return energy_j
        if self._fell_from_j == self._top_j:
            self.falls[-1] = (time_s, max(fall_j, self.falls[-1][1]))
        else:
            self.falls.append((time_s, fall_j))
            self._fell_from_j = self._top_j
        return self._top_j

    def _changed(self, time_s: float, gap_s: float, power_w: float) -> None:
        if gap_s > _CLOSE_S:
            self._changed_s = None  # when it changed is not known well enough
            return
        if self._changed_s is not None:
            self.habits.changes.append(Change(time_s - self._changed_s, gap_s, power_w))
        self._changed_s = time_s


def _refresh_s(changes: list[Change]) -> float | None:
    """Return the period of which all times between changes are multiples, 0 where there is none.

    A sensor that is held shows changes at multiples of its period only; one that is not shows
    them whenever the load changes. A load that alternates regularly between two levels looks like
    the former, but that a held sensor has more levels, or more multiples: None where that cannot be
    told, nor from too few times that are not of many periods, as those fit any.
    """
    pairs = pairwise((changes[0], *changes))
    gaps = [(one.since_s, max(one.blur_s, before.blur_s)) for before, one in pairs]
    shortest_s = sorted(gap_s for gap_s, _ in gaps)[len(gaps) // 10]
    period_s = statistics.median(gap_s for gap_s, _ in gaps if gap_s <= 1.3 * shortest_s)
    if period_s <= 6 * statistics.median(blur_s for _, blur_s in gaps):
        return 0.0  # every time would be a multiple of it
    near = [one for one in gaps if one[0] <= (_NEAR + 0.5) * period_s]
    if len(near) < _TELLING:
        return None
    counts = [round(gap_s / period_s) for gap_s, _ in near]
    # one look late makes one time longer and the next one shorter: their mean does not mind
    period_s = sum(gap_s for gap_s, _ in near) / max(1, sum(counts))
    each = zip(near, counts, strict=True)
    held = sum(abs(gap_s - n * period_s) <= 1.2 * blur_s for (gap_s, blur_s), n in each)
    many = len({one.power_w for one in changes}) >= 4 or len(set(counts)) >= 3
    if held < _LIKE * len(near):
        return 0.0
    return period_s if many else None
