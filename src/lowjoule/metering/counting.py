"""The energy of a window by its counter: whole ticks inside, and what is missing at both edges.

    counter     |------|------|------|------|      known at ticks only
    window         [----------------------]
                   └span┘                 └ span: extrapolated with power

A tick is found between two looks, so it is known to within half the gap between them; how late
the counter itself is, if it is, is not. For the stretch between an edge and the nearest tick
there are two predictors: the power sensor (scaled to agree with the counter over the ticks inside)
and the mean power between the two next ticks. Inside the window the counter tells how well each
of them does, tick by tick: the better one is taken, and its error there is its error at the
edges. No form of load is assumed, only that the edges are like the inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowjoule.metering.course import Course
from lowjoule.metering.spread import Spread
from lowjoule.metering.view import Floats, View

_FEW = 3  # intervals that a scale needs
_WIDEST_SCALE = 2.0
_QUANTUM_J = 1e-3  # counters are in millijoules or finer


@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """When the counter moved, within half a bracket, and what it said then."""

    time_s: Floats
    half_s: Floats
    energy_j: Floats

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Energy by the counter, how well it is known, and how many ticks were seen inside."""

    energy_j: float
    spread: Spread
    ticks: int
    covered_s: float
    """How much of the window lies between ticks."""

    sensor_error: float | None = None
    """How far the power sensor is off over a tick, relative to the mean; None: not known."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What is between an edge and a tick."""

    energy_j: float
    variance_j2: float
    power_w: float


def find_ticks(view: View) -> Ticks:
    """Return the ticks that looks saw, those before and after the window included."""
    good = np.isfinite(view.energy_j)
    time_s, energy_j = view.time_s[good], view.energy_j[good]
    moved = np.flatnonzero(np.diff(energy_j) > 0) + 1
    gap_s = np.maximum(view.gap_s[good][moved], 0.0)
    tick_s = view.habits.tick_s
    width_s = gap_s if tick_s is None else np.minimum(gap_s, tick_s)
    half_s = (width_s + (view.habits.read_s if tick_s else 0.0)) / 2
    return Ticks(time_s[moved] - width_s / 2, half_s, energy_j[moved])


def count(view: View, course: Course) -> Counted | None:
    """Return the energy by the counter, None where it does not tell."""
    if view.habits.tick_s == 0.0:
        return _continuous(view)
    ticks = find_ticks(view)
    if not len(ticks):
        return None
    first = int(np.searchsorted(ticks.time_s, view.begin_s, "right"))
    last = int(np.searchsorted(ticks.time_s, view.end_s, "right")) - 1
    inside = Ticks(*(one[first : last + 1] for one in (ticks.time_s, ticks.half_s, ticks.energy_j)))
    predictor = _Predictor(view, course, inside)
    begin = _nearest(view, course, predictor, ticks, at_end=False)
    end = _nearest(view, course, predictor, ticks, at_end=True)
    if begin is None or end is None:
        return None
    (begin_tick, begin_span), (end_tick, end_span) = begin, end
    counted_j = float(ticks.energy_j[end_tick] - ticks.energy_j[begin_tick])
    energy_j = counted_j + begin_span.energy_j + end_span.energy_j
    return Counted(
        energy_j=energy_j,
        spread=_spread(ticks, begin, end),
        ticks=len(inside),
        covered_s=float(ticks.time_s[end_tick] - ticks.time_s[begin_tick]),
        sensor_error=predictor.sensor_error,
    )


def _spread(ticks: Ticks, begin: tuple[int, _Span], end: tuple[int, _Span]) -> Spread:
    (begin_tick, begin_span), (end_tick, end_span) = begin, end
    begin_j = begin_span.power_w * float(ticks.half_s[begin_tick])
    end_j = end_span.power_w * float(ticks.half_s[end_tick])
    # one tick for both edges: where it was matters by the difference of power only
    halves_j = (begin_j - end_j,) if begin_tick == end_tick else (begin_j, end_j)
    return Spread((*halves_j, _QUANTUM_J), begin_span.variance_j2 + end_span.variance_j2)


def _continuous(view: View) -> Counted | None:
    good = np.isfinite(view.energy_j)
    time_s, energy_j = view.time_s[good], view.energy_j[good]
    begin = int(np.searchsorted(time_s, view.begin_s, "right")) - 1
    end = int(np.searchsorted(time_s, view.end_s, "right")) - 1
    if begin < 0 or time_s[begin] != view.begin_s or time_s[end] != view.end_s:
        return None
    return Counted(
        energy_j=float(energy_j[end] - energy_j[begin]),
        spread=Spread((_QUANTUM_J,)),
        ticks=int(np.count_nonzero(np.diff(energy_j[begin : end + 1]))),
        covered_s=view.length_s,
    )


class _Predictor:
    """What is between a tick and an edge on the inside, by the better of two ways."""

    def __init__(self, view: View, course: Course, ticks: Ticks) -> None:
        self._view, self._course, self._ticks = view, course, ticks
        self._length_s = np.diff(ticks.time_s)
        self._energy_j = np.diff(ticks.energy_j)
        self._power_w = self._energy_j / np.maximum(self._length_s, 1e-12)
        self._bracket_j2 = self._power_w**2 * (ticks.half_s[:-1] ** 2 + ticks.half_s[1:] ** 2) / 3
        self.scale = 1.0
        self.sensor_error: float | None = None
        slow = view.power_window_s > max(view.habits.tick_s or 0.0, 0.1)
        usable = course.known and not (slow and len(ticks) >= 2)
        self._by_sensor_j2 = self._judge_sensor() if usable else None
        self._by_ticks_j2 = self._judge_ticks()

    def _judge_sensor(self) -> float:
        """Return the variance of what the sensor says of a tick, beyond that of the tick's time."""
        if not len(self._energy_j):
            return 0.0
        said_j = np.diff(self._course.until(self._ticks.time_s))
        if len(said_j) >= _FEW and said_j.sum() > 0:
            scale = float(self._energy_j.sum() / said_j.sum())
            if 1 / _WIDEST_SCALE < scale < _WIDEST_SCALE:
                self.scale = scale
        error_j = self._energy_j - self.scale * said_j
        if self._energy_j.sum() > 0:
            rms_j = math.sqrt(float(np.mean(error_j**2)))
            self.sensor_error = rms_j / float(np.mean(self._energy_j))
        return self._excess_j2(error_j, self._bracket_j2)

    def _judge_ticks(self) -> float | None:
        """Return the variance of what the next tick says of a tick; None without two ticks."""
        if not len(self._energy_j):
            return None
        error_j = self._energy_j[1:] - self._power_w[:-1] * self._length_s[1:]
        return self._excess_j2(error_j, self._bracket_j2[1:] + self._bracket_j2[:-1])

    def _excess_j2(self, error_j: Floats, expected_j2: Floats) -> float:
        if not len(error_j):
            return 0.0
        excess_j2 = max(0.0, float(np.mean(error_j**2) - np.mean(expected_j2)))
        # few intervals tell their variance badly
        return excess_j2 * (1 + 3 / len(error_j))

    def span(self, tick: int, *, at_end: bool) -> _Span | None:
        """Return what is between the edge and `tick`, a number of the ticks inside."""
        tick_s = float(self._ticks.time_s[tick])
        from_s, to_s = (tick_s, self._view.end_s) if at_end else (self._view.begin_s, tick_s)
        by_sensor, by_ticks = self._by_sensor_j2, self._by_ticks_j2
        hidden = not at_end and self._course.stale_s > to_s - from_s and by_ticks is not None
        if by_sensor is not None and not hidden and (by_ticks is None or self._sensor_is_best()):
            return self._by_sensor(from_s, to_s, at_end, by_sensor)
        return None if by_ticks is None else self._by_ticks(from_s, to_s, at_end, by_ticks)

    def _sensor_is_best(self) -> bool:
        few = len(self._energy_j) < 2
        return few or (self._by_sensor_j2 or 0.0) <= (self._by_ticks_j2 or 0.0)

    def _share(self, length_s: float) -> float:
        """Return which part of a tick's variance a part of a tick has."""
        tick_s = float(self._length_s.mean()) if len(self._length_s) else self._view.habits.tick_s
        return length_s / tick_s if tick_s else 1.0

    def _by_sensor(self, from_s: float, to_s: float, at_end: bool, tick_j2: float) -> _Span:
        energy_j = self.scale * self._course.between(from_s, to_s)
        own_j2 = self._course.variance_j2(from_s, to_s)
        # with ticks to judge by, what they say includes the sensor's own gaps
        judged_j2 = tick_j2 * self._share(to_s - from_s)
        variance_j2 = judged_j2 if len(self._energy_j) >= _FEW else max(judged_j2, own_j2)
        if not at_end:
            variance_j2 += self._course.doubt_j**2 / 12
        power_w = energy_j / max(to_s - from_s, 1e-12)
        return _Span(energy_j, variance_j2, abs(power_w))

    def _by_ticks(self, from_s: float, to_s: float, at_end: bool, tick_j2: float) -> _Span:
        power_w = float(self._power_w[-1 if at_end else 0])
        length_s = to_s - from_s
        variance_j2 = tick_j2 * self._share(length_s)
        if len(self._energy_j) < 2:
            # one tick alone says nothing of how the power varies
            variance_j2 += (power_w * length_s) ** 2 / 12
        return _Span(power_w * length_s, variance_j2, power_w)


def _nearest(
    view: View, course: Course, predictor: _Predictor, ticks: Ticks, *, at_end: bool
) -> tuple[int, _Span] | None:
    """Return the tick by which an edge is known best, inside or outside, and what is between."""
    edge_s = view.end_s if at_end else view.begin_s
    after = int(np.searchsorted(ticks.time_s, edge_s, "right"))
    inner, outer = (after - 1, after) if at_end else (after, after - 1)
    found: list[tuple[int, _Span]] = []
    in_window = 0 <= inner < len(ticks) and view.begin_s < ticks.time_s[inner] <= view.end_s
    if in_window:
        base = int(np.searchsorted(ticks.time_s, view.begin_s, "right"))
        span = predictor.span(inner - base, at_end=at_end)
        found += [] if span is None else [(inner, span)]
    if 0 <= outer < len(ticks):
        span = _outside(view, course, ticks, outer, at_end)
        found += [] if span is None else [(outer, span)]
    return min(found, key=lambda one: _variance_j2(one, ticks), default=None)


def _variance_j2(one: tuple[int, _Span], ticks: Ticks) -> float:
    tick, span = one
    return span.variance_j2 + (span.power_w * float(ticks.half_s[tick])) ** 2 / 3


def _outside(view: View, course: Course, ticks: Ticks, tick: int, at_end: bool) -> _Span | None:
    """Return what is between an edge and a tick outside the window, to be taken off."""
    edge_s = view.end_s if at_end else view.begin_s
    tick_s = float(ticks.time_s[tick])
    length_s = abs(tick_s - edge_s)
    tick_len_s = view.habits.tick_s
    if tick_len_s is not None and length_s > 1.5 * tick_len_s:
        return None  # ticks between were not seen
    beyond = tick + 1 if at_end else tick - 1
    power_w = math.nan
    if 0 <= beyond < len(ticks):
        power_w = float(
            (ticks.energy_j[beyond] - ticks.energy_j[tick])
            / (ticks.time_s[beyond] - ticks.time_s[tick])
        )
        spread_w = 0.0
    shown_w = course.mean_w(*sorted((edge_s, tick_s)))
    if math.isfinite(shown_w) and (view.power_window_s == 0 or not math.isfinite(power_w)):
        power_w = shown_w
        spread_w = 0.0 if view.power_window_s == 0 else shown_w / 2
    if not math.isfinite(power_w):
        return None
    gap_s = float(np.median(view.gap_s[view.gap_s > 0])) if (view.gap_s > 0).any() else 0.0
    variance_j2 = (spread_w * length_s) ** 2 / 3 + (power_w * min(gap_s, length_s)) ** 2 / 12
    return _Span(-power_w * length_s, variance_j2, power_w)
