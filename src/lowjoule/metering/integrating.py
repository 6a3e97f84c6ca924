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
from lowjoule.metering.spread import Spread
from lowjoule.metering.view import LONGEST_REFRESH_S, Floats, View

_RESOLUTION = 1e-3  # of a sensor, by half: what it rounds, and when exactly it was asked
_UNEVEN = 0.5  # relative standard deviation of power within the window before


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrated:
    """Energy by the power sensor, how well it is known, and how many looks there were inside."""

    energy_j: float
    spread: Spread
    looks: int
    averaged: bool
    unseen: bool = False


def integrate(view: View, course: Course, most_power_w: float | None = None) -> Integrated | None:
    """Return the energy by the power sensor, None where it showed nothing.

    Of a window in which the sensor was not seen to be renewed nothing is known but that it drew
    no more than `most_power_w` (twice what was shown, where there is no such limit).
    """
    if not course.known:
        return None
    if view.power_window_s > LONGEST_REFRESH_S:
        return _undo_average(view, course)
    # half of what a mixed first value may hide: the middle between its being one and not
    energy_j = course.between(view.begin_s, view.end_s) + course.mixed_j / 2
    variance_j2 = course.variance_j2(view.begin_s, view.end_s)
    variance_j2 += course.jump_j2(at_end=False) + course.jump_j2(at_end=True)
    variance_j2 += course.mixed_j**2 / 12
    uniform_j = [course.lag_doubt_j, _RESOLUTION * energy_j]
    if course.unseen:
        most_j = 2.0 * energy_j if most_power_w is None else most_power_w * view.length_s
        uniform_j.append(max(energy_j, most_j - energy_j))
    return Integrated(
        energy_j=max(0.0, energy_j),
        spread=Spread(tuple(uniform_j), variance_j2),
        looks=course.looks,
        averaged=False,
        unseen=course.unseen,
    )


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
