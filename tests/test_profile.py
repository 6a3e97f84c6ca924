from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import IncomparableError, InfeasibleError, InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.objectives import (
    EDP,
    EDS,
    Deadline,
    Energy,
    Objective,
    PeakPower,
    Power,
    Slowdown,
    Time,
    ZeusCost,
)
from lowjoule.profile import Leaf, Point, Profile, pareto
from lowjoule.profile.profile import Floats
from lowjoule.workloads import Work, WorkUnit

ONE = Work(1.0, WorkUnit.STEP)
figures = st.integers(1, 6).map(float)
points = st.lists(st.tuples(figures, figures), min_size=1, max_size=12)


def profile_of(pairs: list[tuple[float, float]], **columns: object) -> Profile:
    time_s, energy_j = np.array(pairs, dtype=np.float64).T
    return Profile(
        work=ONE,
        time_s=time_s,
        energy_j=energy_j,
        settings={"clock": np.arange(len(pairs), dtype=np.float64)},
        **columns,  # type: ignore[arg-type]
    )


def naive(pairs: list[tuple[float, float]]) -> set[tuple[float, float]]:
    def beaten(one: tuple[float, float]) -> bool:
        return any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in pairs)

    return {one for one in pairs if not beaten(one)}


def front(profile: Profile) -> list[tuple[float, float]]:
    view = profile.frontier()
    return list(zip(view.time_s.tolist(), view.energy_j.tolist(), strict=True))


def test_pruning_on_every_small_profile() -> None:
    grid = [(float(t), float(e)) for t in (1, 2, 3) for e in (1, 2, 3)]
    for size in (1, 2, 3, 4):
        for pairs in itertools.product(grid, repeat=size):
            kept = front(profile_of(list(pairs)))
            assert set(kept) == naive(list(pairs))
            assert len(kept) == len(set(kept))
            assert kept == sorted(kept)


@given(st.data(), st.integers(0, 6))
def test_the_sampled_pruning_of_large_profiles_is_the_plain_one(
    data: st.DataObject, kind: int
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.integers(16 * 1024, 40_000))
    time_s: Floats = random.random(count) + 1.0
    cost: Floats = random.random(count)
    if kind == 1:
        cost = 1.0 / time_s
    elif kind == 2:
        time_s, cost = np.round(time_s, 2), np.round(cost, 2)
    elif kind == 3:
        cost = np.ones(count)
    elif kind == 4:
        time_s = np.ones(count)
    elif kind == 5:
        time_s = np.round(time_s, 1)
        cost = np.round(1.0 / time_s, 3)
    elif kind == 6:
        time_s = np.where(random.random(count) < 0.9, time_s, 10.0 ** (300 * time_s - 300))
    order = np.lexsort((cost, time_s))
    best = np.minimum.accumulate(cost[order])
    plain = order[np.concatenate(([True], cost[order][1:] < best[:-1]))]
    assert pareto(time_s, cost).tolist() == plain.tolist()


@given(points, st.randoms())
def test_the_order_of_the_input_does_not_matter(
    pairs: list[tuple[float, float]], r: object
) -> None:
    shuffled = pairs.copy()
    r.shuffle(shuffled)  # type: ignore[attr-defined]
    assert front(profile_of(pairs)) == front(profile_of(shuffled))


@given(
    points,
    st.sampled_from([Energy(), Time(), EDP(), EDS(0.3), ZeusCost(max_power_w=4.0, eta=0.7)]),
)
def test_a_dominated_point_changes_no_choice_without_constraints(
    pairs: list[tuple[float, float]], objective: Objective
) -> None:
    default = Setting({"clock": 0.0})
    profile = profile_of(pairs, default=default)
    worse = [*pairs, (max(t for t, _ in pairs) + 1.0, max(e for _, e in pairs) + 1.0)]
    base = profile.baseline() if objective.needs_baseline else None
    choice = profile.frontier().choose(objective)
    everywhere = objective.values(profile.outcome(), base)
    assert choice.value == pytest.approx(everywhere.min())
    assert profile_of(worse, default=default).frontier().choose(objective).value == choice.value


@given(points, figures, figures)
def test_constraints_come_first_and_pricing_before_pruning(
    pairs: list[tuple[float, float]], deadline: float, bound: float
) -> None:
    profile = profile_of(pairs)
    fine = [p for p in pairs if p[0] <= deadline and p[1] / p[0] <= bound]
    wanted = (Deadline(deadline), Power(bound))
    if not fine:
        assert len(profile.where(*wanted).frontier()) == 0
        with pytest.raises(InfeasibleError, match="closest is"):
            profile.frontier().choose(Energy(), *wanted)
        return
    assert profile.frontier().choose(Energy(), *wanted).value == min(e for _, e in fine)
    assert set(front(profile.where(*wanted))) == naive(fine)
    priced = profile.where(*wanted).priced(wait_w=0.5).frontier()
    effective = [(t, e - 0.5 * t) for t, e in fine]
    got = set(zip(priced.time_s.tolist(), priced.effective_j.tolist(), strict=True))
    assert got == naive(effective)


def test_a_dominated_point_can_be_best_under_a_power_bound_and_once_waiting_is_priced() -> None:
    profile = profile_of([(1.0, 100.0), (1.5, 101.0), (3.0, 105.0)])
    assert len(profile.frontier()) == 1
    assert profile.frontier().choose(Energy(), Power(80.0)).point.time_s == 1.5
    assert len(profile.priced(wait_w=50.0).frontier()) == 3


def test_a_baseline_outlives_the_constraint_that_drops_it() -> None:
    profile = profile_of([(1.0, 10.0), (2.0, 4.0)], default=Setting({"clock": 0.0}))
    slow = profile.where(Power(5.0))
    assert len(slow) == 1
    assert slow.frontier().choose(EDS()).value == pytest.approx(0.5 * 0.4 + 0.5 * 2.0)
    assert len(slow.where(Slowdown(0.5))) == 0
    priced = profile.priced(wait_w=1.0)
    # Effective energies 9 and 2 against the default's 9.
    assert priced.frontier().choose(EDS()).value == pytest.approx(min(1.0, 0.5 * 2 / 9 + 1.0))


def test_a_default_that_was_not_measured_is_named() -> None:
    profile = profile_of([(1.0, 1.0)], default=Setting({"clock": 7.0}))
    with pytest.raises(IncomparableError, match="clock"):
        profile.where(Slowdown(0.05))
    assert len(profile.where(Deadline(2.0))) == 1


def test_a_column_that_was_not_measured_is_named() -> None:
    with pytest.raises(IncomparableError, match="peak power"):
        profile_of([(1.0, 1.0)]).where(PeakPower(10.0))
    peaks = profile_of([(1.0, 1.0), (1.0, 2.0)], peak_power_w=[9.0, 11.0])
    assert len(peaks.where(PeakPower(10.0))) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"time_s": [1.0, -1.0]},
        {"time_s": [1.0, 0.0]},
        {"time_s": [1.0, np.nan]},
        {"time_s": [np.inf, 1.0]},
        {"energy_j": [1.0, -1.0]},
        {"energy_j": [1.0, np.nan]},
        {"energy_j": [1.0]},
        {"wait_power_w": [1.0]},
        {"wait_power_w": [1.0, np.nan]},
        {"time_sd_s": [0.1, -0.1]},
        {"settings": {"clock": np.array([1.0])}},
    ],
)
def test_impossible_columns_are_refused(columns: dict[str, object]) -> None:
    good: dict[str, object] = {
        "time_s": [1.0, 2.0],
        "energy_j": [2.0, 1.0],
        "settings": {"clock": np.array([1.0, 2.0])},
    }
    Profile(work=ONE, **good)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"row|rows"):
        Profile(work=ONE, **{**good, **columns})  # type: ignore[arg-type]


def test_points_and_columns_are_the_same_thing() -> None:
    fast, slow = (
        Setting([("limit", limit), ("precision", precision)])
        for limit, precision in ((200, "fp8"), (100, "bf16"))
    )
    made = [
        Point(setting=slow, time_s=1.0, energy_j=5.0),
        Point(setting=fast, time_s=0.5, energy_j=6.0),
    ]
    assert list(Profile.from_points(made, ONE)) == made
    assert Profile.from_points(made, ONE).scaled(ONE * 3).energy_j.tolist() == [15.0, 18.0]
    with pytest.raises(IncomparableError):
        Profile.from_points(made, ONE).scaled(Work(1.0, WorkUnit.TOKEN))


def test_a_choice_says_how_sure_it_is() -> None:
    pairs = [(1.0, 100.0), (2.0, 99.0), (3.0, 50.0)]
    sure = profile_of(pairs, time_sd_s=0.01, energy_sd_j=1.0).frontier().choose(Energy())
    assert sure.confidence is not None
    assert sure.confidence > 0.999
    assert sure.uncertainty == pytest.approx(1.0, rel=1e-3)
    assert sure.rivals == ()
    torn = profile_of(pairs[:2], time_sd_s=0.0, energy_sd_j=1.0).frontier().choose(Energy())
    # The difference of 1 J has a standard deviation of sqrt(2) J.
    assert torn.confidence == pytest.approx(0.7602, abs=1e-3)
    assert [rival.energy_j for rival in torn.rivals] == [100.0]
    assert profile_of(pairs).frontier().choose(Energy()).confidence is None
    exact = profile_of(pairs, time_sd_s=0.0, energy_sd_j=0.0).frontier().choose(Energy())
    assert exact.confidence == 1.0


def test_the_gain_of_the_board_adds_in_totals_and_cancels_in_comparisons() -> None:
    pairs = [(1.0, 100.0), (2.0, 90.0)]
    plain = profile_of(pairs, time_sd_s=0.0, energy_sd_j=3.0)
    gained = profile_of(pairs, time_sd_s=0.0, energy_sd_j=3.0, gain_sd=0.05)
    assert gained.total_sd_j(0) == pytest.approx(np.hypot(3.0, 5.0))
    a, b = (one.frontier().choose(Energy()) for one in (plain, gained))
    assert (a.confidence, a.uncertainty) == (b.confidence, b.uncertainty)


def test_knee_and_hypervolume() -> None:
    view = profile_of([(1.0, 10.0), (2.0, 3.0), (6.0, 1.0), (5.0, 9.0)]).frontier()
    assert view.knee().time_s == 2.0
    assert view.hypervolume(7.0, 11.0) == pytest.approx(1.0 * 1 + 4 * 8 + 1 * 10)
    assert view.hypervolume(2.0, 11.0) == pytest.approx(1.0)
    assert view.hypervolume(0.5, 0.5) == 0.0


@given(points, figures, figures)
def test_the_hypervolume_is_the_area_that_is_dominated(
    pairs: list[tuple[float, float]], time_s: float, energy_j: float
) -> None:
    cells = [
        (t, e)
        for t in range(int(time_s))
        for e in range(int(energy_j))
        if any(p[0] <= t and p[1] <= e for p in pairs)
    ]
    assert profile_of(pairs).frontier().hypervolume(time_s, energy_j) == len(cells)


def test_a_frontier_is_a_sequence_of_points_with_plans() -> None:
    view = profile_of([(2.0, 1.0), (1.0, 2.0), (3.0, 3.0)]).frontier()
    assert [point.time_s for point in view] == [1.0, 2.0]
    assert view.plan(0) == Leaf(setting=Setting({"clock": 1.0}))
    assert "2 of 3 points" in repr(view)
    assert "&lt;" not in view._repr_html_()
    named = Profile(
        work=ONE, time_s=[1.0], energy_j=[1.0], settings={"<script>": np.array(["<b>"])}
    )
    assert "<script>" not in named.frontier()._repr_html_()


def test_a_plot_has_its_axes_named() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = profile_of([(2.0, 1.0), (1.0, 2.0)]).frontier().plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (s)", "energy (J)")
    assert "measured" in axes.get_title()
