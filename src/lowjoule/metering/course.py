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

from lowjoule.metering.view import LONGEST_REFRESH_S, Floats, View


class Course:
    """The power of a window's inside; `known` says whether there is any.

    `doubt_j` is the energy that hangs on whether the first looks were stale.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        good = np.isfinite(view.power_w)
        self.known = bool(good.any())
        self.doubt_j = self.stale_s = 0.0
        refresh_s = view.habits.refresh_s
        held = bool(refresh_s) and view.power_window_s < LONGEST_REFRESH_S
        self.lag_s = (refresh_s or 0.0) / 2 if held else 0.0
        if not self.known:
            return
        self._at_s, self._power_w = view.time_s[good], view.power_w[good]
        self._gap_s, self._sum_j = view.gap_s[good], view.integral_j[good]
        inner = (self._at_s > view.begin_s) & (self._at_s < view.end_s)
        self.looks = int(inner.sum())
        first, last = self._ends(inner)
        self._first = self._skip_stale(first, last) if self.looks else first
        self._last = last

    def _ends(self, inner: NDArray[np.bool_]) -> tuple[int, int]:
        places = np.flatnonzero(inner)
        if len(places):
            return int(places[0]), int(places[-1])
        begin = int(np.searchsorted(self._at_s, self.view.begin_s, "right")) - 1
        end = int(np.searchsorted(self._at_s, self.view.end_s, "right")) - 1
        return max(0, begin), max(0, end)

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
        return place

    def _longest_stale_s(self, gap_s: float) -> float:
        habits = self.view.habits
        if habits.refresh_s:
            return habits.refresh_s + gap_s
        if habits.refresh_s == 0:
            return 1.5 * gap_s
        return max(min(habits.soonest_s or LONGEST_REFRESH_S, LONGEST_REFRESH_S), 1.5 * gap_s)

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

    def variance_j2(self, from_s: float, to_s: float) -> float:
        """Return the variance in J^2 that the times between looks leave open.

        Between two looks the power changes at a time that is uniform in the gap.
        """
        low = max(1, int(np.searchsorted(self._at_s, from_s, "right")))
        high = int(np.searchsorted(self._at_s, to_s, "right"))
        if high <= low:
            return 0.0
        change_w = np.diff(self._power_w[low - 1 : high])
        gap_s = np.diff(self._at_s[low - 1 : high])
        return float(np.sum((change_w * gap_s) ** 2)) / 12 + self.scatter_j2(to_s - from_s)

    def scatter_j2(self, length_s: float) -> float:
        """Return the variance in J^2 of `length_s` that a held sensor's own windows leave open.

        It may see only a part of each period, and which is not known: values are taken as
        samples of a power that scatters as they do about the mean of their neighbours. Its last
        value holds for a part of a period, as does its first.
        """
        refresh_s = self.view.habits.refresh_s
        if not refresh_s or not self.looks or self.lag_s == 0:
            return 0.0
        begin, end = float(self._at_s[self._first]), float(self._at_s[self._last])
        grid = np.arange(begin, end, refresh_s)
        if len(grid) < 3:
            spread_w2 = float(np.var(self._power_w[self._first : self._last + 1]))
        else:
            places = np.searchsorted(self._at_s, grid, "right") - 1
            value_w = self._power_w[places]
            off_w = value_w[1:-1] - (value_w[:-2] + value_w[2:]) / 2
            spread_w2 = float(np.mean(off_w**2)) / 1.5
        periods = length_s / refresh_s
        share = periods * min(1.0, periods) + 2 / 3 * min(1.0, periods) ** 2
        return spread_w2 * refresh_s**2 * share

    def mean_w(self, from_s: float, to_s: float) -> float:
        """Return the mean of what was shown at looks in a stretch outside, NaN where none was."""
        if not self.known:
            return math.nan
        chosen = (self._at_s >= from_s) & (self._at_s <= to_s)
        return float(self._power_w[chosen].mean()) if chosen.any() else math.nan

    def peak_w(self) -> float | None:
        """Return the highest power shown inside or at the end, None where none was."""
        view = self.view
        chosen = (view.time_s > view.begin_s) & (view.time_s <= view.end_s)
        shown = view.power_w[chosen & np.isfinite(view.power_w)]
        return float(shown.max()) if len(shown) else None
