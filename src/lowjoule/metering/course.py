"""Power over the time of a window, from the looks at the power sensor.

Work begins and ends at the edges of a window, so the power may jump there: what is shown at the
very edge may be of either side, and what a sensor shows until it is first renewed inside is of the
time before (*stale*). So the inside is told by looks inside alone, from the first renewed one on,
and the first and the last of them hold until the edges. A sensor that is held for `refresh_s`
shows what was `refresh_s / 2` ago on average: its course is moved by that.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowjoule.metering.held import ENDS, repeats
from lowjoule.metering.view import LONGEST_REFRESH_S, Floats, View

_FEW = 6


class Course:
    """The power of a window's inside; `known` says whether there is any.

    `doubt_j` is the energy that hangs on whether the first looks were stale, `mixed_j` that on
    whether the first value is of both sides of the edge. `unseen` says that the sensor may have
    been renewed last before the window.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        good = np.isfinite(view.power_w)
        self.known = bool(good.any())
        self.unseen = False
        self.doubt_j = self.stale_s = self.mixed_j = self._mixed_s = 0.0
        refresh_s = view.habits.refresh_s
        held = bool(refresh_s) and view.power_window_s < LONGEST_REFRESH_S
        self.lag_s = (refresh_s or 0.0) / 2 if held else 0.0
        # how late a change may be shown
        self._late_s = self._longest_stale_s(0.0)
        if not self.known:
            return
        self._at_s, self._power_w = view.time_s[good], view.power_w[good]
        self._gap_s, self._sum_j = view.gap_s[good], view.integral_j[good]
        inner = (self._at_s > view.begin_s) & (self._at_s < view.end_s)
        self.looks = int(inner.sum())
        first, last = self._ends(inner)
        self.unseen = self._is_unseen(first, last)
        self._all_from = first
        self._first = self._skip_stale(first, last) if self.looks else first
        self._last = last

    def believe_first_looks(self) -> None:
        """Take no look inside for stale, as something else says that they are not."""
        self._first = self._all_from
        self.doubt_j = self.stale_s = self.mixed_j = self._mixed_s = 0.0

    def _ends(self, inner: NDArray[np.bool_]) -> tuple[int, int]:
        places = np.flatnonzero(inner)
        if len(places):
            return int(places[0]), int(places[-1])
        begin = int(np.searchsorted(self._at_s, self.view.begin_s, "right")) - 1
        end = int(np.searchsorted(self._at_s, self.view.end_s, "right")) - 1
        return max(0, begin), max(0, end)

    def _is_unseen(self, first: int, last: int) -> bool:
        shown_w = self._power_w[max(0, first - 1) : last + 1]
        gap_s = float(self._gap_s[last])
        short = self.view.length_s <= self._longest_stale_s(gap_s)
        return short and bool(np.all(shown_w == shown_w[0]))

    def _skip_stale(self, first: int, last: int) -> int:
        """Return the first look that tells of the inside."""
        if first == 0:
            return first
        before_w = self._power_w[first - 1]
        renewed = np.flatnonzero(self._power_w[first : last + 1] != before_w)
        if not len(renewed):
            return first
        place = first + int(renewed[0])
        late_s = float(self._at_s[place] - self.view.begin_s)
        if late_s > self._longest_stale_s(float(self._gap_s[place])):
            return first
        self.stale_s = late_s
        self.doubt_j = abs(float(self._power_w[place] - before_w)) * late_s
        self._judge_mixture(float(before_w), place, last)
        return place

    def _judge_mixture(self, before_w: float, first: int, last: int) -> None:
        """Ask whether the first value is a mean over both sides of the edge.

        A sensor averages over a time that is not known. A first value that lies between the one
        before the window and the next one may be a mixture, for as long as it is shown.
        """
        value_w = float(self._power_w[first])
        renewed = np.flatnonzero(self._power_w[first : last + 1] != value_w)
        if not len(renewed):
            return
        after = first + int(renewed[0])
        after_w, shown_s = float(self._power_w[after]), float(self._at_s[after] - self._at_s[first])
        longest_s = self._longest_stale_s(float(self._gap_s[after]))
        between = (value_w - before_w) * (after_w - value_w) > 0
        if between and shown_s <= 1.5 * longest_s:
            self.mixed_j, self._mixed_s = (after_w - value_w) * shown_s, shown_s

    def _longest_stale_s(self, gap_s: float) -> float:
        habits = self.view.habits
        if habits.refresh_s:
            return habits.refresh_s + gap_s
        if habits.refresh_s == 0:
            return 1.5 * gap_s
        return min(habits.soonest_s or LONGEST_REFRESH_S, LONGEST_REFRESH_S) + 2 * gap_s

    def until(self, time_s: float | Floats) -> Floats:
        """Return the energy in J from an arbitrary start of the inside until `time_s`."""
        at_s = np.asarray(time_s, dtype=np.float64) + self.lag_s
        if self.looks == 0:
            mean_w = (self._power_w[self._first] + self._power_w[self._last]) / 2
            return np.asarray(mean_w * (at_s - self.view.begin_s))
        first, last = self._first, self._last
        first_s, last_s = self._at_s[first], self._at_s[last]
        inner = np.interp(at_s, self._at_s[first : last + 1], self._sum_j[first : last + 1])
        before = np.minimum(at_s - first_s, 0.0) * self._power_w[first]
        after = np.maximum(at_s - last_s, 0.0) * self._power_w[last]
        return np.asarray(inner + before + after)

    def between(self, from_s: float, to_s: float) -> float:
        """Return the energy in J between two times of the inside."""
        return float(self.until(to_s) - self.until(from_s))

    def variance_j2(self, from_s: float, to_s: float, *, late: bool = True) -> float:
        """Return the variance in J^2 that the times between looks leave open.

        A change that shows between two looks was at a time that is uniform in the gap, or in the
        time that the sensor may be `late`, with which belongs what it does not see in between.
        Jumps right at the edges are not among them (`jump_j2`).
        """
        if self.looks == 0:
            # nothing is known of what was between the edges
            return self.between(from_s, to_s) ** 2 / 12
        low = max(self._first + 1, int(np.searchsorted(self._at_s, from_s, "right")))
        shown_s = to_s + (self._late_s if late else 0.0)
        high = min(self._last + 1, int(np.searchsorted(self._at_s, shown_s, "right")))
        scatter_j2 = self.scatter_j2(to_s - from_s) if late else 0.0
        if high <= low:
            return scatter_j2
        change_w = np.diff(self._power_w[low - 1 : high])
        gap_s = np.diff(self._at_s[low - 1 : high])
        if late:
            gap_s = np.maximum(gap_s, self._late_s)
        return float(np.sum((change_w * gap_s) ** 2)) / 12 + scatter_j2

    def hurried(self) -> float:
        """Return by how much the variance between looks grows where the power changes faster.

        1 where each change stays for the next looks, 6 where no look tells of the next one: each
        then stands for its gap as one sample does, not as a change at one time in it.
        """
        shown_w = self.shown_w()
        if len(shown_w) < _FEW:
            return 1.0
        next_w2 = float(np.mean(np.diff(shown_w) ** 2))
        if next_w2 == 0.0:
            return 1.0
        second_w2 = float(np.mean((shown_w[2:] - shown_w[:-2]) ** 2))
        stays = min(1.0, max(0.0, second_w2 / next_w2 - 1.0))
        return stays + 6.0 * (1.0 - stays)

    def shown_j(self, from_s: float, to_s: float) -> float:
        """Return the energy in J by what was shown, inside or not, as it was shown."""
        return float(np.diff(np.interp([from_s, to_s], self._at_s, self._sum_j))[0])

    def shown_at_w(self, time_s: float) -> float:
        """Return the power in W that was shown at a time."""
        return float(np.interp(time_s, self._at_s, self._power_w))

    def gaps_j2(self, from_s: float, to_s: float) -> float:
        """Return the variance in J^2 that the times between looks leave open, inside or not."""
        chosen = (self._at_s >= from_s) & (self._at_s <= to_s)
        change_w, gap_s = np.diff(self._power_w[chosen]), np.diff(self._at_s[chosen])
        return float(np.sum((change_w * gap_s) ** 2)) / 12

    def jump_j2(self, *, at_end: bool) -> float:
        """Return the variance in J^2 of whether a jump at an edge was a little inside."""
        if not at_end:
            return self.doubt_j**2 / 12
        if self.looks == 0 or self._last + 1 >= len(self._at_s):
            return 0.0
        change_w = float(self._power_w[self._last + 1] - self._power_w[self._last])
        gap_s = float(self._at_s[self._last + 1] - self._at_s[self._last])
        return (change_w * min(gap_s, LONGEST_REFRESH_S)) ** 2 / 12

    def mixed_j2(self, length_s: float) -> float:
        """Return the variance in J^2 that a first value makes that may be of both sides."""
        return (self.mixed_j * min(1.0, length_s / (self._mixed_s or 1.0))) ** 2 / 3

    def shown_w(self) -> Floats:
        """Return what was shown at the looks that tell of the inside."""
        if not self.known or not self.looks:
            return np.zeros(0)
        return self._power_w[self._first : self._last + 1]

    def scatter_j2(self, length_s: float) -> float:
        """Return the variance in J^2 of `length_s` that a held sensor's own windows leave open.

        It may see only a part of each period, and which is not known: values are taken as
        samples of a power that scatters as they do about the mean of their neighbours. Its last
        value holds for a part of a period, as does its first.
        """
        refresh_s = self.view.habits.refresh_s
        if not refresh_s or not self.looks or self.lag_s == 0:
            return 0.0
        begin_s, end_s = float(self._at_s[self._first]), float(self._at_s[self._last])
        places = np.searchsorted(self._at_s, np.arange(begin_s, end_s, refresh_s), "right") - 1
        value_w = self._power_w[places]
        periods = length_s / refresh_s
        if len(value_w) < 3:
            spread_w2, alike = float(np.var(self.shown_w())), 1.0
        else:
            off_w = value_w[1:-1] - (value_w[:-2] + value_w[2:]) / 2
            spread_w2 = float(np.mean(off_w**2)) / 1.5
            alike = repeats(off_w)
        share = alike * periods * min(1.0, periods) + 2 / 3 * min(1.0, periods) ** 2
        return spread_w2 * refresh_s**2 * share

    @property
    def lag_doubt_j(self) -> float:
        """How much hangs on how late the sensor shows a change, by half: between 0 and twice.

        A load that goes up in even steps looks like a held sensor, so the ends are as likely.
        """
        if not self.looks or self.lag_s == 0:
            return 0.0
        change_w = float(self._power_w[self._last] - self._power_w[self._first])
        return ENDS * self.lag_s * abs(change_w)

    def mean_w(self, from_s: float, to_s: float) -> float:
        """Return the mean of what was shown at looks in a stretch outside, NaN where none was."""
        if not self.known:
            return math.nan
        chosen = (self._at_s >= from_s) & (self._at_s <= to_s)
        return float(self._power_w[chosen].mean()) if chosen.any() else math.nan

    def range_w(self, from_s: float, to_s: float) -> float:
        """Return how far apart the powers are that were shown in a stretch outside, in W."""
        if not self.known:
            return 0.0
        chosen = (self._at_s >= from_s) & (self._at_s <= to_s)
        return float(np.ptp(self._power_w[chosen])) if chosen.any() else 0.0

    def peak_w(self) -> float | None:
        """Return the highest power shown inside or at the end, None where none was."""
        view = self.view
        chosen = (view.time_s > view.begin_s) & (view.time_s <= view.end_s)
        shown = view.power_w[chosen & np.isfinite(view.power_w)]
        return float(shown.max()) if len(shown) else None
