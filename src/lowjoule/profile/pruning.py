"""Which points no other point beats in both time and cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_SAMPLE = 1024
_BUCKETS = 4096


def pareto(time_s: Floats, cost: Floats) -> Indices:
    """Return the indices of the points that none dominates, in ascending time.

    Both arrays are of shape (n,), without NaN. A point is dominated when another is no worse in
    both figures and better in one; of equal points the first in the input is kept. Costs one
    sort of the points that a grid over time does not show to be dominated already.
    """
    if len(time_s) == 0:
        return np.empty(0, dtype=np.intp)
    if time_s[0] == time_s[-1] and np.all(time_s == time_s[0]):
        return np.asarray([np.argmin(cost)], dtype=np.intp)
    if not _worth_filtering(time_s, cost):
        return _sorted_front(time_s, cost)
    alive = _undominated_on_grid(time_s, cost)
    return alive[_sorted_front(time_s[alive], cost[alive])]


def _worth_filtering(time_s: Floats, cost: Floats) -> bool:
    """Return whether many points are dominated or equal, judged by an even stride of them."""
    stride = len(time_s) // _SAMPLE
    if stride < 16:
        return False
    return len(_sorted_front(time_s[::stride], cost[::stride])) <= _SAMPLE // 4


def _undominated_on_grid(time_s: Floats, cost: Floats) -> Indices:
    """Return the points that no earlier bucket of time, nor the best of their own, dominates.

    Buckets are a monotone function of time, so that a point in an earlier one is strictly
    faster. Times too close together for a grid share one bucket.
    """
    low, high = time_s.min(), time_s.max()
    scale = _BUCKETS / (high - low) if high - low > 1e-12 * high else 0.0
    bucket = ((time_s - low) * scale).astype(np.intp)
    least = np.full(_BUCKETS + 2, np.inf)
    np.minimum.at(least, bucket, cost)
    before = np.minimum.accumulate(np.append(np.inf, least[:-1]))
    alive = cost < before[bucket]
    best = np.flatnonzero(alive & (cost == least[bucket]))
    earliest = np.full(_BUCKETS + 2, np.inf)
    np.minimum.at(earliest, bucket[best], time_s[best])
    best = best[time_s[best] == earliest[bucket[best]]]
    first = np.full(_BUCKETS + 2, len(time_s))
    np.minimum.at(first, bucket[best], best)
    alive &= time_s < earliest[bucket]
    return np.concatenate((np.flatnonzero(alive), first[first < len(time_s)]))


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
