"""Energy from a power sensor that is held: a few looks of unknown width, taken for samples.

Such a sensor is renewed every P and shows a mean over a part w of the time before; w is not known
(25 ms of each 100 ms on some boards: arXiv 2312.02741). So

    value k is the power at r_k - w/2, w uniform in [0, P]:    at r_k - P/4, by a quarter of P

and what happened in the rest of the period is not seen. How much that is, the values themselves
tell, by how they differ from the next (D1) and the one after (D2), as in kriging with a nugget:

- differences that do not grow with distance (D2 = D1) are those of a load faster than P. Each value
  then stands for its period as one sample of D1 / 2 does.
- differences that grow with it (D2 = 2 D1) are those of a load that changes now and then, at a time
  that is uniform in the period: D1 P^2 / 12 a period, and D1 x^3 / 3P for a stretch of x beyond the
  last value.
- a smooth course has second differences far below the first ones: it goes on along a line at both
  edges, and second differences judge the rest.

Few values tell this badly: the variance has as many degrees of freedom as there are differences,
and the interval is Student's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lowjoule.metering.view import Floats

_SMOOTH = 0.3
_REPEATS = 0.15  # of the variance: values that far apart repeat
ENDS = 1.1  # an error that may well be at an end of what is possible lies inside
_FEW = 3
_DOUBTED = 4.0
_VARIED = 0.2
_MANY = 50  # values, for a load to be nearly in step with all of them by chance
_BENDS = 4.0  # times what second differences leave open
_BENDS_PART = 0.08
_SEEN = 0.25  # of each period: the least part that a sensor is known to see
_AT_ONCE = 0.05  # a value that is new so soon after the begin is rather of a sensor not held
_UNKNOWN = 0.5  # relative standard deviation of a power that one value alone tells of


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Energy in J, its variance in J^2 with its degrees of freedom, and uniform errors in J.

    `hidden` says whether the load may be another than it looks: whether the values differ by more
    than a fifth of their mean from one to the next, or from first to last where they are few, as
    what they show as slow may then be a fast load nearly in step with the sensor.
    """

    energy_j: float
    variance_j2: float
    freedom: float
    uniform_j: tuple[float, ...]
    values: int
    hidden: bool


def renewals(
    time_s: Floats, power_w: Floats, refresh_s: float, end_s: float
) -> tuple[Floats, Floats]:
    """Return when a sensor was renewed in s, and what it showed then in W.

    It is seen where the value changes; in between it was renewed as well, to the same value.
    """
    changed = np.flatnonzero(np.diff(power_w) != 0) + 1
    if not len(changed):
        at_s = np.arange(time_s[0] + refresh_s / 2, end_s, refresh_s)
        return at_s, np.full(len(at_s), power_w[-1])
    seen_s = (time_s[changed] + time_s[changed - 1]) / 2
    first, last = float(seen_s[0]), float(seen_s[-1])
    before = int((first - float(time_s[0])) / refresh_s)
    after = int(max(0.0, end_s - last) / refresh_s)
    parts_s = [first - refresh_s * np.arange(before, 0, -1)]
    parts_w = [np.full(before, power_w[changed[0] - 1])]
    for place, (from_s, to_s) in enumerate(pairwise(seen_s)):
        count = max(1, round(float(to_s - from_s) / refresh_s))
        parts_s.append(from_s + (to_s - from_s) * np.arange(count) / count)
        parts_w.append(np.full(count, power_w[changed[place]]))
    parts_s.append(last + refresh_s * np.arange(after + 1))
    parts_w.append(np.full(after + 1, power_w[changed[-1]]))
    return np.concatenate(parts_s), np.concatenate(parts_w)


def held_energy(
    renewed: tuple[Floats, Floats],
    before_w: float,
    refresh_s: float,
    between_s: tuple[float, float],
) -> Held | None:
    """Return the energy between two times in s; None where no value is of the time between.

    `renewed` are times in s and values in W (`renewals`), `before_w` what was shown at the begin.
    """
    (value_s, value_w), (begin_s, end_s) = renewed, between_s
    inside = (value_s > begin_s) & (value_s <= end_s)
    value_s, value_w = value_s[inside], value_w[inside].copy()
    if not len(value_w):
        return None
    mixed_j2 = _unmix(value_w, before_w, float(value_s[0]) - begin_s, refresh_s)
    course = _Samples(value_w, refresh_s)
    at_s = value_s - refresh_s / 4
    edges_s = (float(at_s[0]) - begin_s, end_s - float(at_s[-1]))
    energy_j = float(np.sum((value_w[1:] + value_w[:-1]) / 2 * np.diff(at_s)))
    energy_j += value_w[0] * edges_s[0] + value_w[-1] * edges_s[1]
    if course.smooth:
        energy_j += course.beyond_j(edges_s)
    mean_w, most_w = float(np.mean(value_w)), float(np.ptp(value_w))
    varied = most_w > _VARIED * mean_w
    uniform_j = [ENDS * refresh_s / 4 * abs(course.rise_w(edges_s))]
    if varied and course.bends:
        uniform_j.append(most_w / 2 * (end_s - begin_s))
    return Held(
        energy_j=energy_j,
        variance_j2=course.variance_j2(edges_s) + mixed_j2,
        freedom=course.freedom,
        uniform_j=tuple(uniform_j),
        values=len(value_w),
        hidden=varied and (len(value_w) < _MANY or course.fast_w2**0.5 > _VARIED * mean_w),
    )


def _unmix(value_w: Floats, before_w: float, late_s: float, refresh_s: float) -> float:
    """Take out of the first value what it may show of the time before; return the doubt in J^2.

    It is of both sides of the edge where it is a mean over more than `late_s`. That it is, between
    the value before and the next one, has to be weighed against a change of the load there.
    """
    if late_s >= refresh_s:
        return 0.0
    if len(value_w) == 1:
        # nothing tells how much of it is of before: up to all but what was seen at the least
        share = refresh_s / max(late_s, refresh_s * _SEEN)
        shared = 0.0 if late_s < _AT_ONCE * refresh_s else share - 1.0
        return ((float(value_w[0]) - before_w) * shared * refresh_s) ** 2 / 3
    step_w, whole_w = float(value_w[1] - value_w[0]), float(value_w[1]) - before_w
    if step_w == 0.0 or whole_w == 0.0 or not 0.0 < step_w / whole_w <= 1.0:
        return 0.0
    usual_w = np.abs(np.diff(value_w[1:]))
    larger = (1.0 + np.count_nonzero(usual_w >= abs(step_w) / 2)) / (2.0 + len(usual_w))
    wide = 1.0 - late_s / refresh_s
    mixed = wide * (1.0 - larger) / (wide * (1.0 - larger) + (1.0 - wide) * larger + 1e-9)
    value_w[0] += mixed * step_w
    return mixed * (1.0 - mixed) * (step_w * refresh_s) ** 2


class _Samples:
    """Evenly spaced values, and what they say of what lies between them."""

    def __init__(self, value_w: Floats, refresh_s: float) -> None:
        self._value_w, self._refresh_s = value_w, refresh_s
        count = len(value_w)
        self.smooth, self.bends, self.alike = False, False, 1.0
        self.fast_w2 = self._slow_w2 = self._curved_w2 = 0.0
        self.freedom = float(max(1, count - 1))
        if count < _FEW:
            mean_w = float(np.mean(value_w))
            apart_w2 = float(np.ptp(value_w)) ** 2 / 2
            self.fast_w2 = apart_w2 + (_UNKNOWN * mean_w / count) ** 2
            self.freedom = 5.0
            return
        next_w2 = float(np.mean(np.diff(value_w) ** 2))
        if next_w2 == 0.0:
            return
        off_w = value_w[1:-1] - (value_w[:-2] + value_w[2:]) / 2
        off_w2 = float(np.mean(off_w**2))
        self.smooth = count > _FEW and off_w2 < _SMOOTH * next_w2 / 2
        if self.smooth:
            self.fast_w2 = off_w2 / 1.5
            self._curved_w2 = off_w2
            self.bends = _bends(value_w, off_w2)
            self.freedom = max(1.0, 0.6 * (count - 2))
            return
        second_w2 = float(np.mean((value_w[2:] - value_w[:-2]) ** 2))
        slow = min(1.0, max(0.0, second_w2 / next_w2 - 1.0))
        slow *= count / (count + _DOUBTED)  # few differences tell it badly
        self.alike = repeats(off_w)
        self.fast_w2 = (1.0 - slow) * (1.0 - _SEEN) * float(np.var(value_w, ddof=1))
        self._slow_w2 = slow * next_w2

    def beyond_j(self, edges_s: tuple[float, float]) -> float:
        """Return what lines beyond the first and the last value add to their going on."""
        value_w, per_s = self._value_w, self._refresh_s
        first = (value_w[0] - value_w[1]) / per_s * edges_s[0] ** 2 / 2
        last = (value_w[-1] - value_w[-2]) / per_s * edges_s[1] ** 2 / 2
        return float(first + last)

    def rise_w(self, edges_s: tuple[float, float]) -> float:
        """Return how much higher the power is at the end than at the begin, in W.

        A shift of all values by a time shifts so much energy in or out per second of it.
        """
        value_w = self._value_w
        rise_w = float(value_w[-1] - value_w[0])
        if self.smooth:
            slopes_w = np.array((value_w[1] - value_w[0], value_w[-1] - value_w[-2]))
            rise_w += float(slopes_w @ np.array(edges_s)) / self._refresh_s
        return rise_w

    def variance_j2(self, edges_s: tuple[float, float]) -> float:
        """Return the variance in J^2, of the values' times and `edges_s` beyond them."""
        per_s, count = self._refresh_s, len(self._value_w)
        away = np.abs(np.array(edges_s)) / per_s
        if count == 1:
            weights = float(away.sum()) ** 2
        else:
            weights = count - 2 + float(np.sum((0.5 + np.array(edges_s) / per_s) ** 2))
        found = self.alike * self.fast_w2 * weights
        found += self._slow_w2 * ((count - 1) / 12 + float(np.sum(away**3)) / 3)
        if self.smooth:
            slope = 2 * self.fast_w2 * float(np.sum(away**4)) / 4
            found += slope + self._curved_w2 * float(np.sum((away**3 / 3 + away**2 / 2) ** 2))
        return found * per_s**2


def _bends(value_w: Floats, off_w2: float) -> bool:
    """Return whether a smooth course turns or rests within the window.

    A fast load nearly in step with the sensor shows its phases one after the other: slopes, turns
    and rests. What goes straight on all the time is taken for what it looks like.
    """
    place = np.arange(len(value_w)) - (len(value_w) - 1) / 2
    slope_w = float(place @ value_w) / float(place @ place)
    rest_w2 = float(np.mean((value_w - value_w.mean() - slope_w * place) ** 2))
    straight = rest_w2 <= _BENDS * off_w2 / 1.5
    return not straight and rest_w2 > (_BENDS_PART * float(np.ptp(value_w))) ** 2


def repeats(off_w: Floats) -> float:
    """Return how many values stand for one, as they repeat: 1 where they do not.

    A load in step with the sensor shows the same few phases again and again, and what was missed
    of one of them is missed each time.
    """
    count = len(off_w)
    spread_w2 = float(np.var(off_w))
    if spread_w2 == 0.0:
        return 1.0
    for shift in range(1, count // 2 + 1):
        apart_w2 = float(np.mean((off_w[shift:] - off_w[:-shift]) ** 2)) / 2
        if apart_w2 < _REPEATS * spread_w2:
            return max(1.0, count / shift)
    return 1.0
