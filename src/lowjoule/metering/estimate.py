"""The energy of one window on one device, with its interval and with what is wrong with it.

Assumptions of the interval (95 %, rather kept too often than too seldom):

- The counter is right at its ticks, and moves within the looks between which it was seen to move;
  where a tick lies between two looks is uniform. Jitter of ticks does not matter.
- The edges of the window are like its inside (`counting`), but for a jump of power right at them.
- Between two looks at the power it changes once, at a uniform time (`course`).
- A sensor that is held sees a part of each period that is not known: its values are samples, and
  judge by their differences what they do not see (`held`). Loads are not in step with it. Where a
  counter shows that they are, or nothing shows that they are not, the window is flagged `beating`.
- What is judged from few ticks or values has Student's distribution.
- A gain of counter or sensor is not in the interval: it cancels in comparisons on one board, and
  is given as `calibration` where totals matter (boards differ by about 5 %: arXiv 2312.02741).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from lowjoule.metering.counting import Counted, count
from lowjoule.metering.course import Course
from lowjoule.metering.flags import Flag
from lowjoule.metering.integrating import Integrated, integrate, relative_difference
from lowjoule.metering.spread import Spread
from lowjoule.metering.view import LONGEST_REFRESH_S, View

_FEW_TICKS = 3
_FEW_LOOKS = 3
_FROZEN_TICKS = 8.0
_MISSED_TICKS = 3.0  # up to one at each edge is usual
_FROZEN_S = 0.5
_DISAGREE = 0.05
_BEATING = 0.2
_ANY_POWER_W = 20e3
_COMPARED_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Energy of a window in J, None where nothing is known, with the 95 % interval's half width.

    `method` says what it is made from: "counter", "power" or "average power". `counter_j` and
    `integral_j` are the two figures by themselves, where there are any.
    """

    energy_j: float | None
    half_width_j: float | None
    sd_j: float | None
    method: str | None
    counter_j: float | None = None
    integral_j: float | None = None
    peak_power_w: float | None = None
    ticks: int = 0
    flags: frozenset[Flag] = field(default_factory=frozenset)


def estimate(view: View, *, most_power_w: float | None, exact: bool = False) -> Estimate:
    """Return the estimate for `view`.

    `most_power_w` is the device's largest limit, where it has one. With `exact` the counter is
    taken as it is at the edges: that of a replayed table.
    """
    course = Course(view)
    counted = _exactly(view) if exact else count(view, course)
    integrated = integrate(view, course, most_power_w)
    if counted and integrated and counted.ticks < _FEW_TICKS:
        counted = _doubted(view, counted, integrated)
    flags = _told(view)
    bound_w = _ANY_POWER_W if most_power_w is None else 2 * most_power_w
    if counted is not None:
        wrong = _wrong(view, counted, integrated, bound_w)
        flags |= wrong
        if wrong or view.resets:
            counted = None
    elif not exact:
        flags |= _silent(view, integrated)
    if counted and integrated and not exact:
        flags |= _compared(view, counted, integrated)
        if Flag.DISAGREEMENT in flags and _stopped(view, counted):
            flags.add(Flag.COUNTER_FROZEN)
            counted = None
    chosen = _chosen(counted, integrated, view)
    if chosen is None or (chosen is integrated and _beyond(integrated.energy_j, view, bound_w)):
        more = {Flag.IMPLAUSIBLE} if chosen else set()
        return _result(course, None, counted, integrated, flags | more | {Flag.UNRESOLVED})
    if len(view.energy_j) and math.isfinite(view.energy_j[-1]) and not exact and not flags:
        # a counter that is there has seen too little, whatever the power sensor says
        flags |= {Flag.UNRESOLVED} if counted is None else set()
    return _result(course, chosen, counted, integrated, flags | _coarse(chosen, exact))


def _result(
    course: Course,
    chosen: Counted | Integrated | None,
    counted: Counted | None,
    integrated: Integrated | None,
    flags: set[Flag],
) -> Estimate:
    view = course.view
    energy_j = half_j = sd_j = method = None
    peak_w = course.peak_w()
    if chosen is not None:
        spread = chosen.spread.widened(view.falls_j)
        energy_j = max(0.0, chosen.energy_j)
        half_j, sd_j = spread.half_width_j, spread.sd_j
        mean_w = energy_j / view.length_s if view.length_s > 0 else 0.0
        peak_w = None if peak_w is None else max(peak_w, mean_w)
        method = "counter"
        if isinstance(chosen, Integrated):
            method = "average power" if chosen.averaged else "power"
    return Estimate(
        energy_j=energy_j,
        half_width_j=half_j,
        sd_j=sd_j,
        method=method,
        counter_j=counted.energy_j if counted else None,
        integral_j=integrated.energy_j if integrated else None,
        peak_power_w=peak_w,
        ticks=counted.ticks if counted else 0,
        flags=frozenset(flags),
    )


def _exactly(view: View) -> Counted | None:
    inside = (view.time_s >= view.begin_s) & (view.time_s <= view.end_s)
    energy_j = view.energy_j[inside]
    if len(energy_j) < 2 or not (math.isfinite(energy_j[0]) and math.isfinite(energy_j[-1])):
        return None
    return Counted(
        energy_j=float(energy_j[-1] - energy_j[0]),
        spread=Spread(),
        ticks=_FEW_TICKS,
        covered_s=view.length_s,
    )


def _doubted(view: View, counted: Counted, integrated: Integrated) -> Counted:
    """Return the counter's energy where too few ticks inside judge what is beyond them.

    A sensor that is held is then as good there as it is by itself.
    """
    if integrated.averaged or view.habits.refresh_s == 0:
        return counted
    beyond = min(1.0, abs(view.length_s - counted.covered_s) / view.length_s)
    own, other = counted.spread, integrated.spread
    spread = Spread(
        (*own.uniform_j, *(beyond * one for one in other.uniform_j)),
        own.variance_j2,
        own.few_j2 + beyond * other.few_j2,
        min(own.freedom, other.freedom),
    )
    return replace(counted, spread=spread)


def _told(view: View) -> set[Flag]:
    flags: set[Flag] = set()
    if view.resets:
        flags.add(Flag.COUNTER_RESET)
    if view.falls_j:
        flags.add(Flag.COUNTER_FELL)
    if view.throttled:
        flags.add(Flag.THROTTLED)
    return flags


def _beyond(energy_j: float, view: View, bound_w: float) -> bool:
    return energy_j > bound_w * (view.length_s + (view.habits.tick_s or 0.0))


def _wrong(
    view: View, counted: Counted, integrated: Integrated | None, bound_w: float
) -> set[Flag]:
    """Return why the counter cannot be believed."""
    flags = {Flag.IMPLAUSIBLE} if _beyond(counted.energy_j, view, bound_w) else set()
    if counted.energy_j < 0 or _stands_still(view, counted, integrated):
        flags.add(Flag.COUNTER_FROZEN)
    return flags


def _stands_still(view: View, counted: Counted, integrated: Integrated | None) -> bool:
    if integrated is None or integrated.energy_j <= 0:
        return False
    longest_s = max(_FROZEN_TICKS * (view.habits.tick_s or 0.0), _FROZEN_S)
    return _still_s(view, counted) > longest_s and counted.ticks > 0


def _stopped(view: View, counted: Counted) -> bool:
    """Whether a counter that disagrees with the sensor has missed ticks that were due."""
    return _still_s(view, counted) > _MISSED_TICKS * (view.habits.tick_s or 0.0)


def _still_s(view: View, counted: Counted) -> float:
    """Return how much of the window lies outside of the counter's first and last tick in it."""
    return view.length_s - counted.covered_s


def _silent(view: View, integrated: Integrated | None) -> set[Flag]:
    """Return the flag of a counter that is there and did not move for a long time."""
    said = view.energy_j[(view.time_s >= view.begin_s) & (view.time_s <= view.end_s)]
    there = len(said) > 0 and all(map(math.isfinite, (said[0], said[-1])))
    patience_s = max(_FROZEN_TICKS * (view.habits.tick_s or 0.0), _FROZEN_S)
    drawn = integrated is None or integrated.energy_j > 0
    return {Flag.COUNTER_FROZEN} if there and drawn and view.length_s > patience_s else set()


def _compared(view: View, counted: Counted, integrated: Integrated) -> set[Flag]:
    """Return what counter and sensor make of each other."""
    flags: set[Flag] = set()
    if view.falls_j or counted.ticks < _COMPARED_TICKS or integrated.looks < _COMPARED_TICKS:
        return flags
    apart = relative_difference(counted.energy_j, integrated.energy_j)
    both_j = math.hypot(counted.spread.half_width_j, integrated.spread.half_width_j)
    allowed = max(_DISAGREE, both_j / max(counted.energy_j, integrated.energy_j, 1e-9))
    if integrated.averaged and view.length_s < 3 * view.power_window_s:
        return flags
    if apart > allowed:
        flags.add(Flag.DISAGREEMENT)
    if not integrated.averaged and (counted.sensor_error or 0.0) > _BEATING:
        flags.add(Flag.BEATING)
    return flags


def _chosen(
    counted: Counted | None, integrated: Integrated | None, view: View
) -> Counted | Integrated | None:
    if counted is None or integrated is None:
        return counted or integrated
    short = counted.ticks < _FEW_TICKS and view.power_window_s <= LONGEST_REFRESH_S
    if short and integrated.spread.half_width_j < counted.spread.half_width_j:
        return integrated
    return counted


def _coarse(chosen: Counted | Integrated, exact: bool) -> set[Flag]:
    if exact:
        return set()
    if isinstance(chosen, Counted):
        return {Flag.UNRESOLVED} if chosen.ticks < _FEW_TICKS else set()
    flags = {Flag.UNRESOLVED} if chosen.looks < _FEW_LOOKS or chosen.unseen else set()
    return flags | ({Flag.BEATING} if chosen.beating else set())
