"""The energy of a window by its power sensor: instant power integrated, averaged power undone.

Power that is averaged over the last W seconds tells how much energy the last W took:

    E(t) - E(t - W) = W v(t)

so going back from the end of the window in steps of W gives all of it but a rest r < W at its
begin; that is known from v there, apart from how the W before the window were divided: they are
taken to have been steady at what was shown, and half of that is the standard deviation stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowjoule.metering.course import Course
from lowjoule.metering.held import ENDS, Held, held_energy, renewals
from lowjoule.metering.spread import Spread
from lowjoule.metering.view import LONGEST_REFRESH_S, Floats, View

_STEP_W = 1e-3  # power is shown in milliwatts
_UNEVEN = 0.5  # relative standard deviation of power within the window before


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrated:
    """Energy by the power sensor, how well it is known, and how many looks there were inside."""

    energy_j: float
    spread: Spread
    looks: int
    averaged: bool
    unseen: bool = False
    beating: bool = False
    """Whether the power varies faster than the sensor shows it."""


def integrate(view: View, course: Course, most_power_w: float | None = None) -> Integrated | None:
    """Return the energy by the power sensor, None where it showed nothing.

    Of a window in which the sensor was not seen to be renewed nothing is known but that it drew
    no more than `most_power_w` (twice what was shown, where there is no such limit).
    """
    if not course.known:
        return None
    if view.power_window_s > LONGEST_REFRESH_S:
        return _undo_average(view, course)
    held = _held(view, course)
    if held is None:
        energy_j = course.between(view.begin_s, view.end_s) + course.mixed_j / 2
        variance_j2 = course.hurried() * course.variance_j2(view.begin_s, view.end_s)
        variance_j2 += course.jump_j2(at_end=False) + course.jump_j2(at_end=True)
        variance_j2 += course.mixed_j**2 / 12
        spread = Spread((course.lag_doubt_j, _rounded_j(view)), variance_j2)
    else:
        energy_j = held.energy_j
        uniform_j = (*held.uniform_j, _rounded_j(view))
        if view.habits.refresh_s is None:  # it may as well not be held
            energy_j = course.between(view.begin_s, view.end_s)
            uniform_j = (*uniform_j, ENDS * abs(energy_j - held.energy_j))
        spread = Spread(uniform_j, few_j2=held.variance_j2, freedom=held.freedom)
    unseen = course.unseen
    if unseen:
        most_j = 2.0 * energy_j if most_power_w is None else most_power_w * view.length_s
        spread = spread.widened(max(energy_j, most_j - energy_j))
    return Integrated(
        energy_j=max(0.0, energy_j),
        spread=spread,
        looks=course.looks if held is None else held.values,
        averaged=False,
        unseen=unseen,
        beating=held is not None and held.hidden and view.habits.refresh_s is not None,
    )


def _held(view: View, course: Course) -> Held | None:
    """Return the energy by a sensor that is held, None where it is not or has not been renewed.

    One that is not known yet may be: the soonest change of it is the longest that it is held.
    """
    refresh_s = view.habits.refresh_s
    if refresh_s is None:
        refresh_s = min(view.habits.soonest_s or LONGEST_REFRESH_S, LONGEST_REFRESH_S)
    if not refresh_s or refresh_s > LONGEST_REFRESH_S * 2 or not course.looks or course.unseen:
        return None
    good = np.isfinite(view.power_w) & (view.time_s <= view.end_s)
    time_s, power_w = view.time_s[good], view.power_w[good]
    at_begin = max(0, int(np.searchsorted(time_s, view.begin_s, "right")) - 1)
    renewed = renewals(time_s, power_w, refresh_s, view.end_s)
    before_w = float(power_w[at_begin])
    return held_energy(renewed, before_w, refresh_s, (view.begin_s, view.end_s))


def _rounded_j(view: View) -> float:
    """Return what the sensor's rounding makes at most: half of the step that its values have."""
    return _STEP_W / 2 * view.length_s


def _undo_average(view: View, course: Course) -> Integrated:
    good = np.isfinite(view.power_w)
    time_s, power_w = view.time_s[good], view.power_w[good]
    wide_s = view.power_window_s
    # the sums are of the time of the last value that was new; the rest goes on at the mean power
    late_s = _age_s(view, time_s, power_w)
    length_s = view.length_s - late_s
    end_s = view.end_s - late_s
    whole = int(length_s / wide_s + 1e-9)
    rest_s = max(0.0, length_s - whole * wide_s)
    energy_j = wide_s * float(np.interp(end_s - wide_s * np.arange(whole), time_s, power_w).sum())
    before_w = float(np.interp(view.begin_s, time_s, power_w))
    at_rest_w = float(np.interp(view.begin_s + rest_s, time_s, power_w))
    energy_j += wide_s * (at_rest_w - before_w) + before_w * rest_s
    late_j = max(0.0, energy_j) * late_s / length_s if length_s > 0 else 0.0
    uneven_j = _UNEVEN * before_w * rest_s * (1 - rest_s / wide_s)
    steepest_w = float(np.ptp(power_w)) if len(power_w) > 1 else before_w
    stale_j = steepest_w * _old_s(view, time_s)
    variance_j2 = uneven_j**2 + (_UNEVEN * late_j) ** 2 + (whole + 2) * stale_j**2 / 12
    return Integrated(
        energy_j=max(0.0, energy_j + late_j),
        spread=Spread((), variance_j2),
        looks=course.looks,
        averaged=True,
    )


def _age_s(view: View, time_s: Floats, power_w: Floats) -> float:
    """Return how long before the end the value shown there was new, 0 where that is not seen."""
    renewed = np.flatnonzero(np.diff(power_w) != 0) + 1
    renewed = renewed[(time_s[renewed] > view.begin_s) & (time_s[renewed] <= view.end_s)]
    if len(renewed) < 2:
        return 0.0
    age_s = float(view.end_s - time_s[renewed[-1]])
    usual_s = float(np.median(np.diff(time_s[renewed])))
    return age_s if age_s <= min(1.5 * usual_s, view.length_s / 2) else 0.0


def _old_s(view: View, time_s: Floats) -> float:
    """Return how old a value may be when it is looked at."""
    gaps_s = np.diff(time_s)
    gap_s = float(np.median(gaps_s[gaps_s > 0])) if (gaps_s > 0).any() else view.length_s
    known_s = view.habits.refresh_s
    if known_s is None:
        known_s = view.habits.soonest_s or LONGEST_REFRESH_S
    return max(gap_s, min(known_s, LONGEST_REFRESH_S))


def relative_difference(one_j: float, other_j: float) -> float:
    """Return how far two figures are apart, relative to the larger."""
    largest_j = max(abs(one_j), abs(other_j))
    return (
        0.0 if largest_j == 0 or not math.isfinite(largest_j) else abs(one_j - other_j) / largest_j
    )
