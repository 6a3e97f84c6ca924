"""The energy of a window by its counter: whole ticks inside, and what is missing at both edges.

    counter     |------|------|------|------|      known at ticks only
    window         [----------------------]
                   └span┘                 └ span: extrapolated with power

A tick is found between two looks, so it is known to within half the gap between them; how late
the counter itself is, if it is, is not. For the stretch between an edge and the nearest tick
there are predictors: the power sensor (scaled to agree with the counter over the ticks inside) and
the mean power between the next ticks, or a line through it. Inside the window the counter tells
how well each of them does, tick by tick: the best one is taken, and its error there is its error
at the edges. No form of load is assumed, only that the edges are like the inside.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lowjoule.metering.course import Course
from lowjoule.metering.spread import Spread
from lowjoule.metering.view import LONGEST_REFRESH_S, Floats, View

_FEW = 3  # intervals that a scale needs
_WIDEST_SCALE = 2.0
_LATEST = 1.5  # ticks: how late the next one may be
_LESSONS = 2.0  # the best of some ways, judged by few ticks, looks better than it is
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
class Span:
    """What is between an edge and a tick, in J, J^2 and W."""

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
    predictor = Predictor(view, course, inside)
    begin = _nearest(view, course, predictor, ticks, at_end=False)
    end = _nearest(view, course, predictor, ticks, at_end=True)
    if begin is None or end is None:
        return None
    (begin_tick, begin_span), (end_tick, end_span) = begin, end
    counted_j = float(ticks.energy_j[end_tick] - ticks.energy_j[begin_tick])
    energy_j = counted_j + begin_span.energy_j + end_span.energy_j
    return Counted(
        energy_j=energy_j,
        spread=_spread(ticks, begin, end, view.length_s, _freedom(view, inside)),
        ticks=_resolved(view, inside),
        covered_s=float(ticks.time_s[end_tick] - ticks.time_s[begin_tick]),
        sensor_error=predictor.sensor_error,
    )


def _resolved(view: View, inside: Ticks) -> int:
    """Return how many ticks there were, those between two looks included."""
    tick_s = view.habits.tick_s
    passed = 0 if not tick_s or len(inside) == 0 else int(view.length_s / tick_s)
    return max(len(inside), passed)


def _freedom(view: View, inside: Ticks) -> float:
    """Return the degrees of freedom of what is beyond the ticks.

    A sensor that shows each change at once leaves little open there; of one that is held, the few
    ticks inside are all that it is judged by.
    """
    return math.inf if view.habits.refresh_s == 0 else max(2.0, len(inside) - 1.0)


def _spread(
    ticks: Ticks, begin: tuple[int, Span], end: tuple[int, Span], length_s: float, freedom: float
) -> Spread:
    (begin_tick, begin_span), (end_tick, end_span) = begin, end
    # a tick misplaced makes the power between ticks wrong as well, by which the rest is scaled
    covered_s = float(ticks.time_s[end_tick] - ticks.time_s[begin_tick])
    more = min(2.0, max(1.0, length_s / covered_s)) if covered_s > 0 else 1.0
    begin_j = more * begin_span.power_w * float(ticks.half_s[begin_tick])
    end_j = more * end_span.power_w * float(ticks.half_s[end_tick])
    # one tick for both edges: where it was matters by the difference of power only
    halves_j = (begin_j - end_j,) if begin_tick == end_tick else (begin_j, end_j)
    spans_j2 = begin_span.variance_j2 + end_span.variance_j2
    return Spread((*halves_j, _QUANTUM_J), few_j2=spans_j2, freedom=freedom)


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


class Predictor:
    """What is between a tick and an edge on the inside, by the way that is known best there."""

    def __init__(self, view: View, course: Course, ticks: Ticks) -> None:
        self._view, self._course, self._ticks = view, course, ticks
        self._length_s = np.diff(ticks.time_s)
        self._energy_j = np.diff(ticks.energy_j)
        self._power_w = self._energy_j / np.maximum(self._length_s, 1e-12)
        self._bracket_j2 = self._power_w**2 * (ticks.half_s[:-1] ** 2 + ticks.half_s[1:] ** 2) / 3
        self._tick_s = float(self._length_s.mean()) if len(self._length_s) else 0.0
        self._tick_s = self._tick_s or view.habits.tick_s or view.length_s
        self._shown_j = _shown_j(view)
        self.scale = 1.0
        self.sensor_error: float | None = None
        slow = view.power_window_s > max(view.habits.tick_s or 0.0, LONGEST_REFRESH_S)
        usable = course.known and not (slow and len(ticks) >= 2)
        # of what a sensor with a lag says when nothing later is known, as at the end
        self._causal_j2 = 0.0
        self._sensor_j2 = self._judge_sensor() if usable else None
        self._within_w2 = self._within()

    # ---------------------------------------------------------------- how well they do inside

    def _judge_sensor(self) -> float:
        """Return the variance of what the sensor says of a tick, beyond that of the tick's time.

        The lag of the sensor becomes the one with which it agrees best with the counter.
        """
        if not len(self._energy_j):
            return 0.0
        self._judge_stale()
        refresh_s = 2 * self._course.lag_s
        if refresh_s == 0 or len(self._energy_j) < _FEW:
            return self._judge_lag(self._course.lag_s)
        self._causal_j2 = self._judge_lag(0.0)
        best_s = min((refresh_s / 2, 0.0, refresh_s), key=self._judge_lag)
        return self._judge_lag(best_s)

    def _judge_stale(self) -> None:
        """Let ticks before the first renewed look say whether those before it were stale."""
        course = self._course
        known = self._view.habits.refresh_s is not None
        if known or self._ticks.time_s[0] >= self._view.begin_s + course.stale_s:
            return
        skipped_j2 = self._judge_lag(course.lag_s)
        plain = copy.copy(course)
        plain.believe_first_looks()
        self._course = plain
        if self._judge_lag(plain.lag_s) >= skipped_j2 / 2:
            self._course = course

    def _judge_lag(self, lag_s: float) -> float:
        self._course.lag_s = lag_s
        said_j = np.diff(self._course.until(self._ticks.time_s))
        self.scale = 1.0
        if len(said_j) >= _FEW and said_j.sum() > 0:
            scale = float(self._energy_j.sum() / said_j.sum())
            if 1 / _WIDEST_SCALE < scale < _WIDEST_SCALE:
                self.scale = scale
        error_j = self._energy_j - self.scale * said_j
        if self._energy_j.sum() > 0:
            rms_j = math.sqrt(float(np.mean(error_j**2)))
            self.sensor_error = rms_j / float(np.mean(self._energy_j))
        return _excess_j2(error_j, self._bracket_j2)

    def _within(self) -> float:
        """Return the variance of power within ticks, in W^2, as the sensor shows it.

        Ticks that are all alike say nothing of a load that repeats in each of them.
        """
        shown_w = self._course.shown_w()
        if len(shown_w) < 2 or self._view.power_window_s > LONGEST_REFRESH_S:
            return 0.0
        between_w2 = float(np.var(self._power_w)) if len(self._power_w) else 0.0
        return max(0.0, float(np.var(shown_w)) - between_w2)

    # ---------------------------------------------------------------- what they say of an edge

    def span(self, tick: int, *, at_end: bool) -> Span | None:
        """Return what is between the edge and `tick`, a number of the ticks inside."""
        tick_s = float(self._ticks.time_s[tick])
        from_s, to_s = (tick_s, self._view.end_s) if at_end else (self._view.begin_s, tick_s)
        if at_end and self._tick_s:
            # the counter did not move at ticks that were due, so nothing was drawn before them
            from_s = max(from_s, to_s - _LATEST * self._tick_s)
        length_s = to_s - from_s
        found = [*self._by_ticks(length_s, -1 if at_end else 1)]
        hidden = not at_end and self._course.stale_s > length_s
        if self._sensor_j2 is not None and not (hidden and found):
            found.append(self._by_sensor(from_s, to_s, at_end, self._sensor_j2))
        best = min(found, key=lambda one: one.variance_j2, default=None)
        if best is None or at_end:
            return best
        # what was shown at the begin is at most what had been drawn by then
        most_j = float(self._ticks.energy_j[tick]) - self._shown_j
        return replace(best, energy_j=min(best.energy_j, most_j)) if most_j >= 0 else best

    def _by_sensor(self, from_s: float, to_s: float, at_end: bool, tick_j2: float) -> Span:
        course, length_s = self._course, to_s - from_s
        energy_j = self.scale * course.between(from_s, to_s)
        judged = len(self._energy_j) >= _FEW
        gaps_j2 = course.variance_j2(from_s, to_s, late=not judged)
        if at_end and course.lag_s > 0:
            tick_j2 = max(tick_j2, self._causal_j2)
        variance_j2 = max(tick_j2 * self._part(length_s), gaps_j2)
        variance_j2 += course.jump_j2(at_end=at_end)
        if not at_end:
            variance_j2 += course.mixed_j2(length_s)
        tick_s = from_s if at_end else to_s
        around_s = float(self._ticks.half_s[-1 if at_end else 0]) + 1e-9
        at_tick_w = course.between(tick_s - around_s, tick_s + around_s) / (2 * around_s)
        return Span(energy_j, variance_j2, abs(self.scale * at_tick_w))

    def _part(self, length_s: float) -> float:
        """Return which part of the variance of a tick a stretch of it has.

        Errors that change within a tick grow with the root of the length, others with the length:
        the mean of both.
        """
        share = length_s / self._tick_s
        return (share + share**2) / 2

    def _by_ticks(self, length_s: float, step: int) -> Iterator[Span]:
        """Yield what the ticks from the edge inwards say: all of them, the next, and a line."""
        if not len(self._energy_j):
            return
        power_w, length_of_s = self._power_w[::step], self._length_s[::step]
        bracket_j2 = self._bracket_j2[::step]
        share = length_s / self._tick_s
        inside_j2 = self._within_w2 * length_s * max(0.0, self._tick_s - length_s) / 3
        if len(power_w) == 1:
            # one tick alone says nothing of how the power varies
            inside_j2 += (power_w[0] * length_s) ** 2 / 12
        mean_w = float(self._energy_j.sum() / self._length_s.sum())
        off_j = (power_w - mean_w) * length_of_s
        guesses = [(mean_w, _excess_j2(off_j, bracket_j2), 0.0)]
        next_j = (power_w[1:] - power_w[:-1]) * length_of_s[1:]
        next_j2 = _excess_j2(next_j, bracket_j2[1:] + bracket_j2[:-1])
        guesses.append((float(power_w[0]), next_j2, 1.0))
        if len(power_w) > _FEW:
            line_j = (power_w[2:] - 2 * power_w[1:-1] + power_w[:-2]) * length_of_s[2:]
            around_j2 = bracket_j2[2:] + 4 * bracket_j2[1:-1] + bracket_j2[:-2]
            # the middle of the stretch is half of it and half a tick away
            away = (length_s + length_of_s[0]) / (length_of_s[0] + length_of_s[1])
            line_w = float(power_w[0] + away * (power_w[0] - power_w[1]))
            guesses.append((max(0.0, line_w), _excess_j2(line_j, around_j2), 5.0))
        for guess_w, tick_j2, brackets in guesses:
            blur_j2 = brackets * float(bracket_j2[0]) * share**2
            yield Span(
                guess_w * length_s, tick_j2 * self._part(length_s) + blur_j2 + inside_j2, guess_w
            )


def _shown_j(view: View) -> float:
    """Return what the counter showed at the begin, NaN where that is not known."""
    place = int(np.searchsorted(view.time_s, view.begin_s, "right")) - 1
    return float(view.energy_j[place]) if place >= 0 else math.nan


def _excess_j2(error_j: Floats, expected_j2: Floats) -> float:
    """Return the variance of errors beyond the expected one; few tell it badly."""
    if not len(error_j):
        return 0.0
    excess_j2 = max(0.0, float(np.mean(error_j**2) - np.mean(expected_j2)))
    return excess_j2 * (1 + _LESSONS / len(error_j))


def _nearest(
    view: View, course: Course, predictor: Predictor, ticks: Ticks, *, at_end: bool
) -> tuple[int, Span] | None:
    """Return the tick by which an edge is known best, inside or outside, and what is between."""
    edge_s = view.end_s if at_end else view.begin_s
    after = int(np.searchsorted(ticks.time_s, edge_s, "right"))
    inner, outer = (after - 1, after) if at_end else (after, after - 1)
    found: list[tuple[int, Span]] = []
    in_window = 0 <= inner < len(ticks) and view.begin_s < ticks.time_s[inner] <= view.end_s
    if in_window:
        base = int(np.searchsorted(ticks.time_s, view.begin_s, "right"))
        span = predictor.span(inner - base, at_end=at_end)
        found += [] if span is None else [(inner, span)]
    if 0 <= outer < len(ticks):
        span = _outside(view, course, ticks, outer, at_end)
        found += [] if span is None else [(outer, span)]
    return min(found, key=lambda one: _variance_j2(one, ticks), default=None)


def _variance_j2(one: tuple[int, Span], ticks: Ticks) -> float:
    tick, span = one
    return span.variance_j2 + (span.power_w * float(ticks.half_s[tick])) ** 2 / 3


def _outside(view: View, course: Course, ticks: Ticks, tick: int, at_end: bool) -> Span | None:
    """Return what is between an edge and a tick outside the window, to be taken off."""
    edge_s = view.end_s if at_end else view.begin_s
    tick_s = float(ticks.time_s[tick])
    length_s = abs(tick_s - edge_s)
    tick_len_s = view.habits.tick_s
    if tick_len_s is not None and length_s > 1.5 * tick_len_s:
        return None  # ticks between were not seen
    prompt = view.habits.refresh_s == 0 and view.power_window_s == 0 and course.known
    if prompt:
        from_s, to_s = sorted((edge_s, tick_s))
        energy_j, at_tick_w = course.shown_j(from_s, to_s), course.shown_at_w(tick_s)
        return Span(-energy_j, course.gaps_j2(from_s, to_s), at_tick_w)
    power_w, doubt_j2 = _power_outside(view, course, ticks, tick, at_end)
    if not math.isfinite(power_w):
        return None
    gaps_s = view.gap_s[view.gap_s > 0]
    gap_s = min(float(np.median(gaps_s)) if len(gaps_s) else length_s, length_s)
    return Span(-power_w * length_s, doubt_j2 + (power_w * gap_s) ** 2 / 12, power_w)


def _power_outside(
    view: View, course: Course, ticks: Ticks, tick: int, at_end: bool
) -> tuple[float, float]:
    """Return the power between an edge and a tick outside in W, and its doubt in J^2.

    The counter's own power beyond the tick comes first, as a sensor may still show the inside.
    """
    edge_s, tick_s = view.end_s if at_end else view.begin_s, float(ticks.time_s[tick])
    ends_s = sorted((edge_s, tick_s))
    length_s, shown_w = ends_s[1] - ends_s[0], course.mean_w(*ends_s)
    told = math.isfinite(shown_w) and view.power_window_s == 0
    beyond = tick + 1 if at_end else tick - 1
    if not 0 <= beyond < len(ticks):
        return shown_w, (shown_w * length_s) ** 2 / 12
    rise_j = float(ticks.energy_j[beyond] - ticks.energy_j[tick])
    power_w = rise_j / float(ticks.time_s[beyond] - ticks.time_s[tick])
    apart_w = shown_w - power_w if told else 0.0
    # what varies where the power is taken from may have varied here
    beyond_s = sorted((tick_s, float(ticks.time_s[beyond])))
    varied_j2 = (course.range_w(*beyond_s) * length_s) ** 2 / 12
    return power_w, (apart_w * length_s) ** 2 / 3 + varied_j2
