"""The algebra of profiles: one after the other, in parallel, repeated, alternatives.

Pruning before a composition is exact only among points that are interchangeable in it: those
that agree in the tied knobs and, where it matters, in waiting power. So it is done class by
class, never on the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce

import numpy as np

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.profile.origin import Either, Pairs, Times
from lowjoule.profile.plan import Order
from lowjoule.profile.profile import OPTIONAL, Floats, Profile
from lowjoule.profile.provenance import joined, weakest
from lowjoule.profile.pruning import Indices, pareto
from lowjoule.profile.spread import energy_error_j, time_error_s

MOST_PAIRS = 20_000_000
_CHUNK = 1_000_000
_Rows = tuple[Indices, Indices]


def then(
    first: Profile,
    second: Profile,
    *,
    tied: Collection[str] = (),
    switch_s: float = 0.0,
    switch_j: float = 0.0,
    pruned: bool = False,
) -> Profile:
    """Return the profile of both works, one after the other: a row a pair of rows.

    `tied` knobs must agree in both (one limit, one batch size). Where another knob that both
    have differs, the change costs `switch_s` seconds and `switch_j` joules. With `pruned`, pairs
    that cannot be on a frontier are left out; without it all pairs are kept, and more than 20
    million are refused; what is kept is also enough for a barrier that the result may come to,
    up to the greatest waiting power or price of either side. The result waits as `second` does.
    The knobs at the ends of a part that is itself a composition are known only where they are
    tied in it: a change to the others is charged always. Spreads of the parts are taken as
    independent; the default is both parts' defaults without a change.

    Raises `IncomparableError` for unequal units of work or a tied knob that a side lacks.
    """
    work = first.work + second.work
    shared = [name for name in first.settings if name in second.settings]
    untied = [name for name in shared if name not in tied]
    always = float(_unknown_at_ends(first, second))
    own, others = first.reference, second.reference
    reference = None if own is None or others is None else own.then(others)
    price_w = max(_dearest(first), _dearest(second))

    def cost(part: Profile) -> Floats:
        return np.asarray(part.energy_j - price_w * part.time_s)

    def build(left: Indices, right: Indices) -> Profile:
        paid = np.maximum(always, _differ(first, second, left, right, untied))
        time_s = first.time_s[left] + second.time_s[right] + switch_s * paid
        energy_j = first.energy_j[left] + second.energy_j[right] + switch_j * paid
        effective = first.effective_j[left] + second.effective_j[right] + switch_j * paid
        return Profile(
            work=work,
            time_s=time_s,
            energy_j=energy_j,
            settings={name: first.settings[name][left] for name in tied},
            wait_power_w=_of(second.wait_power_w, right),
            peak_power_w=_both(first.peak_power_w, second.peak_power_w, left, right, np.maximum),
            memory_bytes=_both(first.memory_bytes, second.memory_bytes, left, right, np.maximum),
            time_sd_s=_both(time_error_s(first), time_error_s(second), left, right, np.hypot),
            energy_sd_j=_both(energy_error_j(first), energy_error_j(second), left, right, np.hypot),
            source=weakest((first.source, second.source)),
            gain_sd=max(first.gain_sd, second.gain_sd),
            reference=reference,
            price_w=_price((energy_j - effective) / time_s, first, second),
            origin=Pairs(first, second, left, right, Order.SEQUENCE),
        )

    groups = _keys((first, second), tied)
    classes = (groups[0], _waiting(second, groups[1]))
    pairs = _pairs(groups, _kept(first, second, classes, cost if pruned else None))
    if pruned and (switch_s or switch_j):
        # A pair at one setting pays nothing, so points that are only best together count too.
        same = _keys((first, second), shared)
        waits = (same[0], _waiting(second, same[1]))
        pairs = (*pairs, *_pairs(same, _kept(first, second, waits, cost)))
    return _composed(pairs, build, cost, pruned=pruned)


def barrier(
    sides: Sequence[Profile], *, tied: Collection[str] = (), pruned: bool = False
) -> Profile:
    """Return the profile of works that run in parallel until the slowest is done.

    Every side needs its waiting power and draws it from its own end to that of the slowest; the
    results' waiting power is the sum. Associative: barriers of barriers equal one of all. With
    `pruned`, pairs that cannot be on a frontier are left out, unless time is priced above what
    waiting draws, where that would not be exact.

    Raises `IncomparableError` for unequal work, a missing waiting power or no side at all.
    """
    if not sides:
        raise IncomparableError("a barrier of nothing", cure="give at least one profile")

    def pair(first: Profile, second: Profile) -> Profile:
        return _parallel(first, second, tied, pruned=pruned)

    return reduce(pair, sides)


def _parallel(first: Profile, second: Profile, tied: Collection[str], *, pruned: bool) -> Profile:
    if first.work != second.work:
        raise IncomparableError(
            f"{first.work} and {second.work} do not meet at a barrier",
            cure="scale both to the same amount of work",
        )
    waits = _wait_of(first), _wait_of(second)
    own, others = first.reference, second.reference
    reference = None if own is None or others is None else own.beside(others)
    pruned = pruned and not (_overpriced(first) or _overpriced(second))

    def build(left: Indices, right: Indices) -> Profile:
        own_s = first.time_s[left], second.time_s[right]
        power_w = waits[0][left], waits[1][right]
        time_s = np.maximum(*own_s)
        energy_j = first.energy_j[left] + second.energy_j[right]
        energy_j = energy_j + power_w[0] * (time_s - own_s[0]) + power_w[1] * (time_s - own_s[1])
        return Profile(
            work=first.work,
            time_s=time_s,
            energy_j=energy_j,
            settings={name: first.settings[name][left] for name in tied},
            wait_power_w=power_w[0] + power_w[1],
            peak_power_w=_both(first.peak_power_w, second.peak_power_w, left, right, np.add),
            time_sd_s=_both(time_error_s(first), time_error_s(second), left, right, np.maximum),
            energy_sd_j=_sd_with_waiting(
                first, second, left, right, np.where(own_s[0] < own_s[1], *power_w)
            ),
            source=weakest((first.source, second.source)),
            gain_sd=max(first.gain_sd, second.gain_sd),
            reference=reference,
            price_w=_price(_at(first, left) + _at(second, right), first, second),
            origin=Pairs(first, second, left, right, Order.PARALLEL),
        )

    groups = _keys((first, second), tied)
    kept = _kept_waiting(first, second, groups) if pruned else None
    pairs = _pairs(groups, kept or _everything(first, second))
    return _composed(pairs, build, _less_waiting, pruned=pruned)


def repeated(profile: Profile, times: float) -> Profile:
    """Return `times` times the work of `profile`, each time at the same setting."""
    if not times > 0:
        raise InvalidValueError(f"work repeated {times} times", cure="use a positive number")
    rows = np.arange(len(profile))
    scaled = profile.scaled(profile.work * times)
    return scaled.with_origin(Times(profile, rows, times))


def or_(left: Profile, right: Profile) -> Profile:
    """Return the alternatives of both profiles of the same work.

    Settings keep the knobs that both have; `plan` tells all. Optional columns that a side lacks
    are None. The default and the gain are those of `left`, the source the weaker of both; a row
    keeps its own.
    """
    if left.work != right.work:
        raise IncomparableError(
            f"{left.work} is no alternative to {right.work}", cure="scale both to the same work"
        )
    prices = [np.broadcast_to(one.price_w, len(one)) for one in (left, right)]
    columns = {
        name: None if a is None or b is None else np.concatenate((a, b))
        for name in OPTIONAL
        for a, b in [(getattr(left, name), getattr(right, name))]
    }
    return Profile(
        work=left.work,
        time_s=np.concatenate((left.time_s, right.time_s)),
        energy_j=np.concatenate((left.energy_j, right.energy_j)),
        settings={
            name: np.concatenate((left.settings[name], right.settings[name]))
            for name in left.settings
            if name in right.settings
        },
        default=left.default,
        source=weakest((left.source, right.source)),
        sources=joined(*((one.source, one.sources, len(one)) for one in (left, right))),
        gain_sd=left.gain_sd,
        price_w=_price(np.concatenate(prices), left, right),
        reference=left.reference,
        origin=Either(
            left, right, np.concatenate((np.arange(len(left)), -1 - np.arange(len(right))))
        ),
        **columns,
    )


def _composed(
    pairs: Sequence[_Rows],
    build: Callable[[Indices, Indices], Profile],
    cost: Callable[[Profile], Floats],
    *,
    pruned: bool,
) -> Profile:
    """Return what `build` makes of the products of the row groups in `pairs`.

    With `pruned`, only what is best in time and `cost` in its group and class of waiting stays.
    """
    total = sum(len(left) * len(right) for left, right in pairs)
    if not pruned and total > MOST_PAIRS:
        raise InvalidValueError(
            f"all {total:,} pairs are too many to keep",
            cure="compose frontiers: profile.frontier().then(other.frontier())",
        )
    chosen = [_best_of(one, build, cost) if pruned else one for one in _products(pairs)]
    empty = np.empty(0, dtype=np.intp)
    return build(
        np.concatenate([left for left, _ in chosen] or [empty]),
        np.concatenate([right for _, right in chosen] or [empty]),
    )


def _products(pairs: Sequence[_Rows]) -> Iterator[_Rows]:
    """Yield all pairs of every group, in pieces of bounded size."""
    for left, right in pairs:
        step = max(1, _CHUNK // max(1, len(right)))
        for begin in range(0, len(left), step):
            piece = left[begin : begin + step]
            yield np.repeat(piece, len(right)), np.tile(right, len(piece))


def _best_of(
    rows: _Rows, build: Callable[[Indices, Indices], Profile], cost: Callable[[Profile], Floats]
) -> _Rows:
    made = build(*rows)
    kept = _fronts(made, _waiting(made, np.zeros(len(made), dtype=np.intp)), cost(made))
    return rows[0][kept], rows[1][kept]


def _fronts(profile: Profile, classes: Indices, cost: Floats) -> Indices:
    """Return the rows on the frontier of their class, for all classes."""
    order = np.argsort(classes, kind="stable")
    bounds = np.flatnonzero(np.diff(classes[order], prepend=-1, append=-1))
    found = [
        order[begin:end][pareto(profile.time_s[order[begin:end]], cost[order[begin:end]])]
        for begin, end in itertools.pairwise(bounds)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.intp)


def _everything(first: Profile, second: Profile) -> _Rows:
    return np.arange(len(first)), np.arange(len(second))


def _kept(
    first: Profile, second: Profile, classes: _Rows, cost: Callable[[Profile], Floats] | None
) -> _Rows:
    if cost is None:
        return _everything(first, second)
    return _fronts(first, classes[0], cost(first)), _fronts(second, classes[1], cost(second))


def _dearest(profile: Profile) -> float:
    """Return the most that a second of this profile is priced at, or may be at a barrier.

    The front at a price contains that at every lower one.
    """
    waits = 0.0 if profile.wait_power_w is None else profile.wait_power_w
    return float(max(np.max(profile.price_w, initial=0.0), np.max(waits, initial=0.0)))


def _overpriced(profile: Profile) -> bool:
    return bool(np.any(profile.price_w > _wait_of(profile)))


def _unknown_at_ends(first: Profile, second: Profile) -> bool:
    """Return whether a composition's end lacks a knob that the other part has."""
    return (first.origin is not None and bool(second.settings.keys() - first.settings.keys())) or (
        second.origin is not None and bool(first.settings.keys() - second.settings.keys())
    )


def _sd_with_waiting(
    first: Profile, second: Profile, left: Indices, right: Indices, waiting_w: Floats
) -> Floats | None:
    """Return the energy's spread at a barrier: both sides' own, and that of the time waited."""
    energy_j = _both(energy_error_j(first), energy_error_j(second), left, right, np.hypot)
    time_s = _both(time_error_s(first), time_error_s(second), left, right, np.hypot)
    return (
        energy_j if energy_j is None or time_s is None else np.hypot(energy_j, waiting_w * time_s)
    )


def _kept_waiting(first: Profile, second: Profile, groups: Sequence[Indices]) -> _Rows:
    """Return the rows that can matter in a barrier: its cost is energy less own waiting."""
    return (
        _fronts(first, _waiting(first, groups[0]), _less_waiting(first)),
        _fronts(second, _waiting(second, groups[1]), _less_waiting(second)),
    )


def _pairs(groups: Sequence[Indices], kept: _Rows) -> tuple[_Rows, ...]:
    """Return, a group that both sides have, the kept rows of each side in it."""
    left, right = groups[0][kept[0]], groups[1][kept[1]]
    return tuple(
        (kept[0][left == group], kept[1][right == group]) for group in np.intersect1d(left, right)
    )


def _keys(profiles: Sequence[Profile], names: Collection[str]) -> list[Indices]:
    """Return a number for every row of each profile, equal where the named knobs are."""
    sizes = [len(one) for one in profiles]
    keys = np.zeros(sum(sizes), dtype=np.intp)
    for name in names:
        if any(name not in one.settings for one in profiles):
            raise IncomparableError(
                f"knob {name} cannot be tied: a side does not have it", cure="tie shared knobs only"
            )
        column = np.concatenate([one.settings[name] for one in profiles])
        keys = _merge(keys, np.unique(column, return_inverse=True)[1])
    return list(np.split(keys, np.cumsum(sizes)[:-1]))


def _waiting(profile: Profile, keys: Indices) -> Indices:
    """Return `keys`, split further where waiting power or the price of time differ."""
    for column in (profile.wait_power_w, profile.price_w):
        if isinstance(column, np.ndarray) and len(column) and np.ptp(column) > 0:
            keys = _merge(keys, np.unique(column, return_inverse=True)[1])
    return keys


def _merge(keys: Indices, more: Indices) -> Indices:
    both = keys * (int(more.max(initial=0)) + 1) + more
    return np.asarray(np.unique(both, return_inverse=True)[1], dtype=np.intp)


def _differ(
    first: Profile, second: Profile, left: Indices, right: Indices, names: Sequence[str]
) -> Floats:
    differ = np.zeros(len(left), dtype=np.bool_)
    for name in names:
        differ |= first.settings[name][left] != second.settings[name][right]
    return differ.astype(np.float64)


def _wait_of(profile: Profile) -> Floats:
    if profile.wait_power_w is None:
        raise IncomparableError(
            "a side of the barrier has no waiting power", cure="give its profile wait_power_w"
        )
    return profile.wait_power_w


def _less_waiting(profile: Profile) -> Floats:
    """Return energy less own waiting: the cost in a barrier, whose front holds that of energy."""
    return np.asarray(profile.energy_j - _wait_of(profile) * profile.time_s)


def _of(column: Floats | None, rows: Indices) -> Floats | None:
    return None if column is None else column[rows]


def _both(
    first: Floats | None, second: Floats | None, left: Indices, right: Indices, ufunc: np.ufunc
) -> Floats | None:
    if first is None or second is None:
        return None
    return np.asarray(ufunc(first[left], second[right]))


def _at(profile: Profile, rows: Indices) -> Floats:
    return np.broadcast_to(profile.price_w, len(profile))[rows]


def _price(values: Floats, first: Profile, second: Profile) -> Floats | float:
    """Return the price of time of a composition; plain 0 where nothing was priced."""
    unpriced = all(isinstance(one.price_w, float) and one.price_w == 0 for one in (first, second))
    return 0.0 if unpriced else values
