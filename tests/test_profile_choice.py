from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from lowjoule.errors import IncomparableError, InfeasibleError, InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.objectives import (
    ED2P,
    EDP,
    EDS,
    Deadline,
    Efficiency,
    Energy,
    EnergyBudget,
    Power,
    Slowdown,
    parse_constraint,
    parse_objective,
)
from lowjoule.profile import Choice, Profile, barrier
from lowjoule.profile.profile import Floats
from lowjoule.source import Source
from lowjoule.workloads import Work, WorkUnit

ONE = Work(1.0, WorkUnit.STEP)
bounds = st.floats(1e-6, 1e9)


def profile_of(
    time_s: ArrayLike,
    energy_j: ArrayLike,
    *,
    settings: Mapping[str, NDArray[Any]] | None = None,
    **options: Any,
) -> Profile:
    clock = np.arange(len(np.asarray(time_s)), dtype=np.float64)
    return Profile(
        work=ONE,
        time_s=time_s,
        energy_j=energy_j,
        settings={"clock": clock} if settings is None else settings,
        **options,
    )


def test_what_is_made_of_a_simulated_part_is_never_called_measured() -> None:
    measured = profile_of([1.0], [1.0], wait_power_w=1.0)
    simulated = profile_of([1.0], [1.0], wait_power_w=1.0, source=Source.SIMULATED)
    for made in (
        measured.then(simulated),
        simulated.then(measured),
        barrier([measured, simulated]),
        measured.or_(simulated),
    ):
        assert made.source is Source.SIMULATED
    assert measured.then(measured).source is Source.MEASURED


def test_predicted_points_are_told_from_the_others() -> None:
    measured = profile_of([1.0, 2.0], [4.0, 3.0])
    predicted = profile_of([3.0], [1.0], source=Source.PREDICTED)
    both = measured.or_(predicted)
    assert both.predicted().time_s.tolist() == [3.0]
    assert both.where(Deadline(2.5)).predicted().time_s.tolist() == []
    assert len(measured.predicted()) == 0
    assert predicted.predicted().energy_j.tolist() == [1.0]


def test_a_default_of_other_knobs_is_no_baseline() -> None:
    with pytest.raises(IncomparableError, match="not in the profile"):
        profile_of([1.0, 2.0], [4.0, 3.0], default=Setting({"other": 1.0})).baseline()


def test_a_default_that_names_several_points_is_refused() -> None:
    settings = {"limit": np.array([3.0, 3.0]), "batch": np.array([1.0, 2.0])}
    partial = profile_of([1.0, 2.0], [4.0, 3.0], settings=settings, default=Setting({"limit": 3.0}))
    with pytest.raises(IncomparableError, match="say its batch"):
        partial.where(Slowdown(0.05))
    whole = partial.against(Setting({"limit": 3.0, "batch": 2.0}))
    assert whole.frontier().choose(EDS()).value == pytest.approx(0.5 * 4 / 3 + 0.5 * 0.5)


def test_repeated_measurements_of_the_default_are_averaged() -> None:
    settings = {"clock": np.array([1.0, 1.0, 2.0])}
    profile = profile_of(
        [1.0, 3.0, 5.0], [4.0, 6.0, 1.0], settings=settings, default=Setting({"clock": 1.0})
    )
    base = profile.baseline()
    assert base is not None
    assert (float(base.time_s), float(base.energy_j)) == (2.0, 5.0)


def test_filtering_does_not_change_a_priced_baseline() -> None:
    profile = profile_of(
        [1.0, 2.0], [10.0, 8.0], wait_power_w=[1.0, 3.0], default=Setting({"clock": 0.0})
    )
    for one in (profile.priced(), profile.priced().where(Deadline(1.5)), profile.priced(wait_w=1)):
        base = one.baseline(effective=True)
        assert base is not None
        assert float(base.energy_j) == 9.0


def test_compositions_have_their_parts_default() -> None:
    profile = profile_of([1.0, 2.0], [10.0, 4.0], wait_power_w=2.0, default=Setting({"clock": 0.0}))
    twice = profile.then(profile)
    assert twice.where(Slowdown(0.5)).frontier().choose(Energy()).point.energy_j == 14.0
    assert twice.frontier().choose(EDS(0.9)).value == pytest.approx(0.9 * 8 / 20 + 0.1 * 2)
    slow = profile.against(Setting({"clock": 1.0}))
    base = barrier([profile, slow]).baseline()
    assert base is not None
    # The fast side waits one second at 2 W.
    assert (float(base.time_s), float(base.energy_j)) == (2.0, 16.0)


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=50), st.floats(10.0, 1000.0))
def test_a_bound_that_is_met_exactly_is_kept(time_s: list[float], power_w: float) -> None:
    profile = profile_of(time_s, power_w * np.array(time_s), default=Setting({"clock": 0.0}))
    assert len(profile.where(Power(power_w))) == len(time_s)
    assert len(profile.where(Power(power_w * 0.999))) == 0
    assert len(profile.where(Slowdown(max(time_s) / time_s[0] - 1.0))) == len(time_s)


def test_ties_go_to_the_faster_point_whatever_the_order() -> None:
    for pairs in ([(2.0, 5.0), (1.0, 5.0)], [(1.0, 5.0), (2.0, 5.0)]):
        time_s, energy_j = np.array(pairs).T
        view = profile_of(time_s, energy_j).frontier()
        assert view.choose(Energy(), Deadline(9.0)).point.time_s == 1.0


def test_a_dominated_near_twin_is_a_rival() -> None:
    view = profile_of([1.0, 1.001], [100.0, 100.1], time_sd_s=0.0, energy_sd_j=5.0).frontier()
    choice = view.choose(Energy())
    assert len(view) == 1
    assert [rival.energy_j for rival in choice.rivals] == [100.1]
    assert choice.confidence == pytest.approx(0.5056, abs=1e-3)
    # What a constraint excludes is no rival.
    assert view.choose(Energy(), Deadline(1.0)).confidence == 1.0
    assert view.choose(Energy(), Deadline(1.0)).rivals == ()


def test_confidence_is_the_probability_of_being_the_best() -> None:
    random = np.random.default_rng(1)
    means = np.array([10.0, 10.5, 11.0, 12.0, 30.0])
    spread = np.array([1.0, 0.5, 2.0, 0.0, 1.0])
    draws = means + spread * random.standard_normal((200_000, 5))
    expected = float(np.mean(draws.argmin(axis=1) == 0))
    view = profile_of(np.ones(5), means, time_sd_s=0.0, energy_sd_j=spread).frontier()
    choice = view.choose(Energy())
    assert choice.confidence == pytest.approx(expected, abs=0.005)
    twins = profile_of(np.linspace(1, 2, 20), np.full(20, 9.0), time_sd_s=0.0, energy_sd_j=1.0)
    assert twins.frontier().choose(Energy()).confidence == pytest.approx(1 / 20, abs=1e-3)


def test_rivals_are_few_among_many_twins() -> None:
    count = 5000
    view = profile_of(
        np.linspace(1, 2, count), np.full(count, 9.0), time_sd_s=0.0, energy_sd_j=1.0
    ).frontier()
    choice = view.choose(Energy())
    assert len(choice.rivals) == 20
    assert choice.confidence is not None
    assert choice.confidence < 0.01


def test_the_closest_point_is_named_with_its_figures() -> None:
    view = profile_of([1.0, 2.0], [500.0, 600.0]).frontier()
    with pytest.raises(InfeasibleError) as caught:
        view.choose(Energy(), Power(250.0))
    for part in ("clock=1", "2 s", "600 J", "300 W", "20.00%", "power<=250W"):
        assert part in str(caught.value)


def test_products_of_negative_effective_energy_are_refused() -> None:
    priced = profile_of([1.0, 2.0], [5.0, 3.0]).priced(wait_w=4.0).frontier()
    for objective in (EDP(), ED2P(), Efficiency()):
        with pytest.raises(IncomparableError, match="waiting"):
            priced.choose(objective)
    assert priced.choose(Energy()).value == -5.0


def test_no_energy_is_the_best_efficiency() -> None:
    choice = profile_of([1.0, 2.0], [4.0, 0.0]).frontier().choose(Efficiency())
    assert (choice.value, choice.point.time_s) == (-math.inf, 2.0)


@pytest.mark.parametrize("wait_w", [-1.0, math.nan, math.inf])
def test_an_impossible_price_of_waiting_is_refused(wait_w: float) -> None:
    with pytest.raises(InvalidValueError):
        profile_of([1.0], [1.0]).priced(wait_w=wait_w)


def test_a_table_for_a_column_is_refused() -> None:
    square: Floats = np.ones((2, 2))
    with pytest.raises(InvalidValueError, match="time_s"):
        profile_of(square, square)


@given(bounds)
def test_a_bound_reads_back_exactly_from_its_text(bound: float) -> None:
    for kind in (Deadline, Power, EnergyBudget, Slowdown):
        assert parse_constraint(kind(bound).text) == kind(bound)


def test_bounds_are_written_short() -> None:
    assert Deadline(21600.0).text == "deadline<=6h"
    assert Deadline(12345.6).text == "deadline<=12345.6s"
    assert Power(333.5).text == "power<=333.5W"
    assert Slowdown(0.05).text == "slowdown<=5%"


@given(st.floats(0, 1), st.floats(1, 1e4))
def test_an_objective_reads_back_exactly_from_its_name(weight: float, price: float) -> None:
    for text in (f"eds:{weight!r}", f"zeus:{weight!r}@{price!r}W", f"carbon:{price!r}g/kWh"):
        objective = parse_objective(text)
        assert parse_objective(objective.name) == objective


def test_a_zeus_cost_takes_the_devices_largest_limit() -> None:
    assert parse_objective("zeus:0.7", max_power_w=300.0) == parse_objective("zeus:0.7@300W")
    assert parse_objective("zeus", max_power_w=300.0) == parse_objective("zeus:0.5@300W")
    assert parse_objective("zeus:0.7@250W", max_power_w=300.0) == parse_objective("zeus:0.7@250W")


def test_more_windows_make_a_choice_surer() -> None:
    def torn(windows: float) -> Choice:
        profile = Profile(
            work=Work(1.0, WorkUnit.STEP),
            time_s=[1.0, 2.0],
            energy_j=[100.0, 99.0],
            settings={"clock": np.array([2.0, 1.0])},
            time_sd_s=0.0,
            energy_sd_j=2.0,
            windows=windows,
        )
        assert profile.total_sd_j(0) == pytest.approx(2.0 / np.sqrt(windows))
        twice = profile.then(profile)
        assert twice.total_sd_j(0) == pytest.approx(2.0 * np.sqrt(2.0 / windows))
        return profile.frontier().choose(Energy())

    once, often = torn(1), torn(16)
    assert once.uncertainty == pytest.approx(2.0, rel=1e-3)
    assert often.uncertainty == pytest.approx(0.5, rel=1e-3)
    assert once.confidence is not None
    assert often.confidence is not None
    assert once.confidence < 0.7
    assert often.confidence > 0.9
