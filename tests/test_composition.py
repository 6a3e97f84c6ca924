from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import IncomparableError, InfeasibleError, InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.objectives import Energy, Power
from lowjoule.profile import Branch, Frontier, Leaf, Order, Profile, barrier
from lowjoule.workloads import Work, WorkUnit

ONE = Work(1.0, WorkUnit.STEP)
# time, energy, limit, clock, waiting power
Row = tuple[float, float, float, float, float]
small = st.integers(1, 6).map(float)
few = st.integers(1, 2).map(float)
rows = st.lists(st.tuples(small, small, few, few, few), min_size=1, max_size=6)


def profile_of(table: list[Row], *, wait: bool = True) -> Profile:
    time_s, energy_j, limit, clock, wait_w = np.array(table, dtype=np.float64).T
    return Profile(
        work=ONE,
        time_s=time_s,
        energy_j=energy_j,
        settings={"limit": limit, "clock": clock},
        wait_power_w=wait_w if wait else None,
        time_sd_s=0.1,
        energy_sd_j=0.2,
    )


def front(view: Frontier | Profile) -> list[tuple[float, float]]:
    view = view.frontier() if isinstance(view, Profile) else view
    return [(round(p.time_s, 6), round(p.energy_j, 6)) for p in view]


def naive(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    rounded = {(round(t, 6), round(e, 6)) for t, e in pairs}

    def beaten(one: tuple[float, float]) -> bool:
        return any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in rounded)

    return sorted(one for one in rounded if not beaten(one))


def names(tied: int) -> tuple[str, ...]:
    return ((), ("limit",), ("limit", "clock"))[tied]


def agree(a: Row, b: Row, tied: int) -> bool:
    return a[2 : 2 + tied] == b[2 : 2 + tied]


@given(rows, rows, st.integers(0, 2), st.integers(0, 2))
def test_one_after_the_other_is_brute_force_over_all_pairs(
    a: list[Row], b: list[Row], tied: int, switch: int
) -> None:
    def paid(x: Row, y: Row) -> float:
        return float(switch * (x[2 + tied : 4] != y[2 + tied : 4]))

    pairs = [
        (x[0] + y[0] + 0.5 * paid(x, y), x[1] + y[1] + paid(x, y))
        for x, y in itertools.product(a, b)
        if agree(x, y, tied)
    ]
    p, q = profile_of(a), profile_of(b)
    options = {"tied": names(tied), "switch_s": 0.5 * switch, "switch_j": 1.0 * switch}
    every = p.then(q, **options)  # type: ignore[arg-type]
    assert sorted(zip(every.time_s, every.energy_j, strict=True)) == sorted(pairs)
    assert front(every) == naive(pairs)
    assert front(p.frontier().then(q.frontier(), **options)) == naive(pairs)  # type: ignore[arg-type]


@given(rows, rows, rows, st.integers(1, 2))
def test_three_tied_works_keep_what_is_only_best_together(
    a: list[Row], b: list[Row], c: list[Row], tied: int
) -> None:
    pairs = [
        (x[0] + y[0] + z[0], x[1] + y[1] + z[1])
        for x, y, z in itertools.product(a, b, c)
        if agree(x, y, tied) and agree(y, z, tied)
    ]
    views = [profile_of(one).frontier() for one in (a, b, c)]
    composed = views[0].then(views[1], tied=names(tied)).then(views[2], tied=names(tied))
    assert front(composed) == naive(pairs)


@given(rows, rows, st.integers(1, 3))
def test_pricing_carries_through_a_composition(a: list[Row], b: list[Row], price: int) -> None:
    p, q = (profile_of(one).priced(wait_w=float(price)) for one in (a, b))
    composed = p.frontier().then(q.frontier())
    pairs = [(x[0] + y[0], x[1] + y[1]) for x, y in itertools.product(a, b)]
    wanted = naive([(t, e - price * t) for t, e in pairs])
    got = zip(composed.time_s, composed.effective_j, strict=True)
    assert [(round(t, 6), round(e, 6)) for t, e in got] == wanted


def brute_barrier(sides: list[list[Row]], tied: int) -> list[tuple[float, float]]:
    found = []
    for chosen in itertools.product(*sides):
        if all(agree(chosen[0], other, tied) for other in chosen):
            time_s = max(row[0] for row in chosen)
            found.append((time_s, sum(row[1] + row[4] * (time_s - row[0]) for row in chosen)))
    return found


@given(st.lists(rows, min_size=1, max_size=3), st.integers(0, 2))
def test_a_barrier_is_brute_force_and_associative(sides: list[list[Row]], tied: int) -> None:
    profiles = [profile_of(side) for side in sides]
    wanted = naive(brute_barrier(sides, tied))
    assert front(barrier(profiles, tied=names(tied))) == wanted
    assert front(barrier(profiles, tied=names(tied), pruned=True)) == wanted
    for pruned in (False, True):
        inner = barrier(profiles[1:] or profiles[:1], tied=names(tied), pruned=pruned)
        if len(profiles) > 1:
            nested = barrier([profiles[0], inner], tied=names(tied), pruned=pruned)
            assert front(nested) == wanted


@given(rows, rows, rows)
def test_a_barrier_within_a_sequence_keeps_what_matters(
    a: list[Row], b: list[Row], c: list[Row]
) -> None:
    sides = barrier([profile_of(a), profile_of(b)], pruned=True)
    got = sides.frontier().then(profile_of(c).scaled(ONE).frontier())
    wanted = [(t + z[0], e + z[1]) for t, e in brute_barrier([a, b], 0) for z in c]
    assert front(got) == naive(wanted)


@given(rows, rows)
def test_a_priced_sequence_keeps_what_a_barrier_needs(a: list[Row], b: list[Row]) -> None:
    # At a barrier a slower point may be the better one, so waiting is priced before pruning.
    a, b = ([(*row[:4], 1.0) for row in table] for table in (a, b))
    sequence = profile_of(a).priced().frontier().then(profile_of(b).priced().frontier())
    other = profile_of([(9.0, 3.0, 1.0, 1.0, 1.0)]).repeated(2)
    met = barrier([sequence.profile, other], pruned=True)
    wanted = []
    for x, y in itertools.product(a, b):
        time_s = max(x[0] + y[0], 18.0)
        wanted.append((time_s, x[1] + y[1] + 6.0 + 2.0 * time_s - x[0] - y[0] - 18.0))
    by_energy = sorted({(round(p.time_s, 6), round(p.energy_j, 6)) for p in met})
    assert naive(by_energy) == naive(wanted)


@given(rows, st.integers(1, 4))
def test_repetition_is_sequence_with_everything_tied(a: list[Row], times: int) -> None:
    p = profile_of(a)
    again = p.repeated(times)
    assert front(again) == naive([(times * r[0], times * r[1]) for r in a])
    assert again.work.quantity == times
    (leaf,) = again.plan(0).leaves()
    assert leaf == Leaf(setting=p.setting(0), count=times)


@given(rows, rows)
def test_alternatives_are_the_union(a: list[Row], b: list[Row]) -> None:
    both = profile_of(a).or_(profile_of(b, wait=False))
    assert front(both) == naive([(r[0], r[1]) for r in (*a, *b)])
    assert both.wait_power_w is None
    assert both.plan(len(a)) == Leaf(setting=profile_of(b).setting(0))
    assert front(profile_of(a).frontier().or_(profile_of(b).frontier())) == front(both)


@given(rows, rows)
def test_the_hull_of_all_pairs_is_the_composition_of_the_hulls(a: list[Row], b: list[Row]) -> None:
    p, q = profile_of(a).frontier(), profile_of(b).frontier()
    brute = p.then(q).hull()
    merged = p.hull().then(q.hull())
    for time_s in np.linspace(brute.time_s[0], brute.time_s[-1] + 1, 17):
        assert merged.energy_at(float(time_s)) == pytest.approx(brute.energy_at(float(time_s)))
    assert np.all(np.diff(np.diff(brute.energy_j) / np.diff(brute.time_s)) > 0)


@given(rows, st.floats(0, 8), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_realised_plan_keeps_the_time_and_is_never_worse_than_one_setting(
    a: list[Row], extra_s: float, switch_s: float, switch_j: float
) -> None:
    view = profile_of(a).frontier()
    hull = view.hull()
    time_s = float(view.time_s[0]) + extra_s
    mixture = hull.realise(time_s, switch_s, switch_j)
    single = min(p.energy_j for p in view if p.time_s <= time_s)
    assert hull.energy_at(time_s) - 1e-9 <= mixture.energy_j <= single + 1e-9
    assert mixture.time_s <= time_s
    leaves = list(mixture.plan.leaves())
    assert sum(leaf.count for leaf in leaves) == pytest.approx(1.0)
    figures = {(p.setting, p.time_s, p.energy_j) for p in view}
    known = {setting: (t, e) for setting, t, e in sorted(figures, key=lambda f: (f[1], -f[2]))}
    if len(leaves) == 2 and len(known) == len(view):
        time = sum(leaf.count * known[leaf.setting][0] for leaf in leaves) + switch_s
        energy = sum(leaf.count * known[leaf.setting][1] for leaf in leaves) + switch_j
        assert time == pytest.approx(mixture.time_s)
        assert energy == pytest.approx(mixture.energy_j)


def test_the_plan_of_a_composition_is_a_tree_of_settings_with_counts() -> None:
    p = profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)])
    plan = p.then(p).repeated(3).plan(0)
    assert isinstance(plan, Branch)
    assert plan.order is Order.SEQUENCE
    setting = Setting({"limit": 1, "clock": 1})
    assert list(plan.leaves()) == [Leaf(setting=setting, count=3)] * 2
    side = barrier([p, p]).plan(0)
    assert isinstance(side, Branch)
    assert side.order is Order.PARALLEL


def test_uncertainty_is_carried() -> None:
    p = profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)])
    twice = p.then(p)
    assert twice.time_sd_s is not None
    assert twice.energy_sd_j is not None
    assert twice.time_sd_s[0] == pytest.approx(0.1 * 2**0.5)
    assert twice.energy_sd_j[0] == pytest.approx(0.2 * 2**0.5)


def test_a_power_bound_after_a_composition_sees_all_pairs() -> None:
    a = profile_of([(1.0, 3.0, 1.0, 1.0, 1.0), (3.0, 4.0, 1.0, 1.0, 1.0)])
    choice = a.then(a).frontier().choose(Energy(), Power(1.8))
    assert (choice.point.time_s, choice.point.energy_j) == (4.0, 7.0)


def test_what_does_not_compose_is_refused() -> None:
    p = profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)])
    tokens = p.scaled(ONE)
    tokens.work = Work(1.0, WorkUnit.TOKEN)
    with pytest.raises(IncomparableError):
        p.then(tokens)
    with pytest.raises(IncomparableError, match="barrier"):
        barrier([p, p.repeated(2)])
    with pytest.raises(IncomparableError, match="batch"):
        p.then(p, tied=["batch"])
    with pytest.raises(IncomparableError, match="waiting power"):
        barrier([p, profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)], wait=False)])
    with pytest.raises(IncomparableError):
        barrier([])
    with pytest.raises(IncomparableError):
        p.or_(p.repeated(2))
    with pytest.raises(InvalidValueError):
        p.repeated(0)
    with pytest.raises(InfeasibleError, match="fastest"):
        p.frontier().hull().energy_at(0.5)
    with pytest.raises(IncomparableError, match="wait_w"):
        profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)], wait=False).priced()


def test_large_products_of_profiles_are_refused_and_of_frontiers_are_not() -> None:
    count = 5_000
    time_s = np.linspace(1.0, 2.0, count)
    large = Profile(
        work=ONE, time_s=time_s, energy_j=1.0 / time_s, settings={"clock": np.arange(count)}
    )
    with pytest.raises(InvalidValueError, match="frontier"):
        large.then(large)
    composed = large.take(slice(0, None, 10)).frontier().then(large.frontier())
    assert len(composed) > 0
    assert composed.time_s[0] == pytest.approx(2.0)


def test_no_pair_agrees() -> None:
    a = profile_of([(1.0, 2.0, 1.0, 1.0, 1.0)])
    b = profile_of([(1.0, 2.0, 2.0, 1.0, 1.0)])
    assert len(a.then(b, tied=["limit"])) == 0
    assert len(a.frontier().then(b.frontier(), tied=["limit"])) == 0


@given(rows, rows, rows)
def test_a_sequence_of_frontiers_keeps_what_a_barrier_needs(
    a: list[Row], b: list[Row], c: list[Row]
) -> None:
    # A point that is slower and dearer on its own may be the better one where all wait anyway.
    last = profile_of(c).repeated(2)
    met = barrier([profile_of(a).frontier().then(profile_of(b).frontier()).profile, last])
    assert front(met) == front(barrier([profile_of(a).then(profile_of(b)), last]))


@given(rows, rows, st.integers(0, 4))
def test_a_priced_barrier_is_the_same_pruned(a: list[Row], b: list[Row], price: int) -> None:
    sides = [profile_of(one).priced(wait_w=float(price)) for one in (a, b)]
    full, pruned = (barrier(sides, pruned=flag).frontier() for flag in (False, True))
    assert full.time_s.tolist() == pruned.time_s.tolist()
    assert full.effective_j.tolist() == pytest.approx(pruned.effective_j.tolist())


def test_a_change_after_a_composition_is_never_free() -> None:
    one, other = (profile_of([(1.0, 1.0, 1.0, clock, 1.0)]) for clock in (1.0, 2.0))
    pair = one.then(other, switch_j=5.0)
    assert pair.energy_j.tolist() == [7.0]
    assert pair.then(one, switch_j=5.0).energy_j.tolist() == [13.0]
    tied = one.then(one, tied=("limit", "clock"))
    assert tied.then(one, switch_j=5.0).energy_j.tolist() == [3.0]


def test_the_spread_of_waiting_time_counts_at_a_barrier() -> None:
    fast, slow = (profile_of([(t, 2.0, 1.0, 1.0, 3.0)]) for t in (1.0, 4.0))
    met = barrier([fast, slow])
    assert met.energy_sd_j is not None
    # Both energies, and 3 W for a difference of two times.
    assert met.energy_sd_j[0] == pytest.approx((2 * 0.2**2 + 9 * 2 * 0.1**2) ** 0.5)


@given(rows, st.floats(0, 8), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_plan_within_an_energy_is_no_slower_than_one_setting(
    a: list[Row], extra_j: float, switch_s: float, switch_j: float
) -> None:
    view = profile_of(a).frontier()
    hull = view.hull()
    energy_j = float(view.energy_j[-1]) + extra_j
    mixture = hull.realise(energy_j=energy_j, switch_s=switch_s, switch_j=switch_j)
    assert mixture.energy_j <= energy_j + 1e-9
    assert mixture.time_s <= min(p.time_s for p in view if p.energy_j <= energy_j) + 1e-9
    assert hull.energy_at(mixture.time_s) <= mixture.energy_j + 1e-9
    back = hull.realise(mixture.time_s + 1e-9, switch_s, switch_j)
    assert back.energy_j <= mixture.energy_j + 1e-6
    assert sum(leaf.count for leaf in mixture.plan.leaves()) == pytest.approx(1.0)


def test_a_mixture_is_found_by_hand() -> None:
    hull = profile_of([(1.0, 10.0, 1.0, 1.0, 1.0), (3.0, 4.0, 1.0, 2.0, 1.0)]).frontier().hull()
    for mixture in (
        hull.realise(2.5, 0.5, 1.0),
        hull.realise(energy_j=8.0, switch_s=0.5, switch_j=1.0),
    ):
        # Half of the work at each: 2 s and 7 J, and the change.
        assert (mixture.time_s, mixture.energy_j) == pytest.approx((2.5, 8.0))
        assert [leaf.count for leaf in mixture.plan.leaves()] == pytest.approx([0.5, 0.5])


def test_impossible_plans_are_refused() -> None:
    hull = profile_of([(1.0, 10.0, 1.0, 1.0, 1.0), (3.0, 4.0, 1.0, 2.0, 1.0)]).frontier().hull()
    for time_s in (0.5, float("nan")):
        with pytest.raises(InfeasibleError, match="fastest"):
            hull.realise(time_s)
    with pytest.raises(InfeasibleError, match="least"):
        hull.realise(energy_j=3.0)
    with pytest.raises(InvalidValueError, match="switch"):
        hull.realise(2.0, -1.0)
    with pytest.raises(InvalidValueError, match="bound"):
        hull.realise()
    with pytest.raises(InvalidValueError, match="each part"):
        hull.then(hull).realise(4.0)
