"""Which points no other point beats in both time and cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_SAMPLE = 1024


def pareto(time_s: Floats, cost: Floats) -> Indices:
    """Return the indices of the points that none dominates, in ascending time.

    Both arrays are of shape (n,), without NaN. A point is dominated when another is no worse in
    both figures and better in one; of equal points the first in the input is kept. Costs one
    sort of the points that a staircase of a small sample does not dominate already.
    """
    if len(time_s) == 0:
        return np.empty(0, dtype=np.intp)
    alive = _undominated_by_sample(time_s, cost)
    if alive is None:
        return _sorted_front(time_s, cost)
    return alive[_sorted_front(time_s[alive], cost[alive])]


def _undominated_by_sample(time_s: Floats, cost: Floats) -> Indices | None:
    """Return the points that the front of a sample leaves, None where filtering is not worth it.

    The sample is an even stride, so that no random state is needed. What equals a step of its
    staircase is no worse than the step, and only the first such point in the input stays.
    """
    count = len(time_s)
    if count < 16 * _SAMPLE:
        return None
    stride = count // _SAMPLE
    sample_t, sample_c = time_s[::stride], cost[::stride]
    front = _sorted_front(sample_t, sample_c)
    if len(front) > _SAMPLE // 4:
        return None
    stairs_t, stairs_c = sample_t[front], sample_c[front]
    step = np.searchsorted(stairs_t, time_s, side="right") - 1
    bound = np.append(stairs_c, np.inf)[step]
    level = np.flatnonzero(cost == bound)
    equal = level[time_s[level] == stairs_t[step[level]]]
    first = np.empty(len(front), dtype=np.intp)
    # Of repeated places the last one assigned stays, hence from the end.
    first[step[equal][::-1]] = equal[::-1]
    return np.concatenate((np.flatnonzero(cost < bound), first))


def _sorted_front(time_s: Floats, cost: Floats) -> Indices:
    order = np.argsort(time_s)
    sorted_t, sorted_c = time_s[order], cost[order]
    later = sorted_t[1:] != sorted_t[:-1]
    if not later.all():
        starts = np.flatnonzero(np.concatenate(([True], later)))
        order, sorted_c = _cheapest_of_equal_times(order, sorted_c, starts)
    keep = np.empty(len(order), dtype=np.bool_)
    keep[0] = True
    np.less(sorted_c[1:], sorted_c[:-1], out=keep[1:])
    if keep.all():
        return order
    lowest = np.minimum.accumulate(sorted_c)
    np.less(sorted_c[1:], lowest[:-1], out=keep[1:])
    return np.asarray(order[keep])


def _cheapest_of_equal_times(
    order: Indices, sorted_c: Floats, starts: Indices
) -> tuple[Indices, Floats]:
    """Return one index and cost a group of equal times: the least cost, then the first index."""
    lowest = np.minimum.reduceat(sorted_c, starts)
    sizes = np.diff(starts, append=len(order))
    cheapest = sorted_c == np.repeat(lowest, sizes)
    first = np.minimum.reduceat(np.where(cheapest, order, len(order)), starts)
    return first, lowest
