from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InfeasibleError, InvalidValueError
from lowjoule.knobs import Setting, Space, standard_knob
from lowjoule.objectives import Deadline
from lowjoule.tuning.exhaustive import ExhaustiveSearch
from lowjoule.tuning.just_in_time import JustInTime
from lowjoule.tuning.random_search import RandomSearch
from lowjoule.tuning.search import Observation, Problem
from search_problems import EDS, Energy, knob, play, problem, told, truth

SPACE = Space((knob("a", (1.0, 2.0, 3.0)), knob("b", (10.0, 20.0, 40.0, 80.0))))
LIMITS = tuple(float(v) for v in range(100, 301, 10))
LINE = Space((knob("power_limit", LIMITS),))


@given(st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.1, 10.0)), min_size=12, max_size=12))
def test_exhaustive_is_brute_force(rows: list[tuple[float, float]]) -> None:
    figures = dict(zip(SPACE.settings, rows, strict=True))
    task = problem(SPACE, EDS())
    played = play(ExhaustiveSearch(task), figures.__getitem__)
    values = truth(task, figures.__getitem__)
    assert sorted(played.asked, key=repr) == sorted(SPACE.settings, key=repr)
    assert values[played.chosen] == min(values.values())
    assert played.search.recommend().objective == pytest.approx(min(values.values()))


@given(st.permutations(range(12)))
def test_the_order_of_tells_does_not_matter(order: list[int]) -> None:
    figures = {one: (1.0 + i, 50.0 - 3.0 * i) for i, one in enumerate(SPACE.settings)}
    search = ExhaustiveSearch(problem(SPACE, EDS()))
    for i in order:
        search.tell(told(SPACE.settings[i], figures[SPACE.settings[i]]))
    assert search.ask() is None
    values = truth(problem(SPACE, EDS()), figures.__getitem__)
    assert search.recommend().setting == min(values, key=lambda one: values[one])


def test_rounds_average_the_noise() -> None:
    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, 100.0 + setting.number("a") + setting.number("b") / 20.0

    played = play(ExhaustiveSearch(problem(SPACE), rounds=8), figures, noise=0.01)
    assert len(played.asked) == 8 * len(SPACE)
    found = played.search.recommend()
    assert found.uncertainty == pytest.approx(0.01 / math.sqrt(8) * found.objective, rel=0.4)
    assert found.confidence is not None
    assert 0.0 < found.confidence < 1.0


def test_exhaustive_goes_on_after_failures_and_names_the_closest() -> None:
    def figures(setting: Setting) -> tuple[float, float] | None:
        return None if setting.number("a") == 3.0 else (setting.number("a"), 1.0)

    search = ExhaustiveSearch(problem(SPACE, constraints=(Deadline(0.5),)))
    played = play(search, figures)
    assert len(played.asked) == len(SPACE)
    with pytest.raises(InfeasibleError) as caught:
        search.recommend()
    assert "the closest is a=1, " in caught.value.cure


def test_nothing_told_is_nothing_feasible() -> None:
    for search in (ExhaustiveSearch(problem(SPACE)), RandomSearch(problem(SPACE))):
        with pytest.raises(InfeasibleError):
            search.recommend()


@given(st.integers(1, 20), st.integers(0, 5))
def test_random_search_draws_different_settings(draws: int, seed: int) -> None:
    task = problem(SPACE, EDS())
    played, again = (
        play(RandomSearch(task, draws=draws, seed=seed), lambda s: (1.0, s.number("b")))
        for _ in range(2)
    )
    assert played.asked == again.asked
    assert len(played.asked) == len(set(played.asked)) == min(draws, len(SPACE))
    assert set(played.asked) <= set(SPACE)
    assert played.asked[0] == SPACE.default


def test_random_search_depends_on_its_seed() -> None:
    orders = {
        tuple(play(RandomSearch(problem(SPACE), draws=12, seed=s), lambda _: (1.0, 1.0)).asked)
        for s in range(5)
    }
    assert len(orders) == 5


def turned(setting: Setting) -> tuple[float, float]:
    """Energy with its least at 200 W."""
    limit = setting.number("power_limit")
    return 1.0, 100.0 * (1.0 + ((limit - 200.0) / 100.0) ** 2)


def test_just_in_time_stops_early_below_the_turn() -> None:
    played = play(JustInTime(problem(LINE)), turned)
    assert played.chosen["power_limit"] == 200.0
    asked = [one.number("power_limit") for one in played.asked]
    assert asked == sorted(asked, reverse=True)
    assert asked[0] == 300.0
    assert len(asked) < len(LIMITS)


def test_just_in_time_is_not_stopped_by_one_bad_point() -> None:
    def figures(setting: Setting) -> tuple[float, float]:
        limit = setting.number("power_limit")
        return 1.0, 300.0 if limit == 280.0 else limit

    played = play(JustInTime(problem(LINE)), figures)
    assert played.chosen["power_limit"] == 100.0
    assert len(played.asked) == len(LIMITS)


def test_just_in_time_passes_over_infeasible_tops() -> None:
    def figures(setting: Setting) -> tuple[float, float] | None:
        return None if setting.number("power_limit") > 250.0 else turned(setting)

    assert play(JustInTime(problem(LINE)), figures).chosen["power_limit"] == 200.0


def test_just_in_time_stands_noise() -> None:
    chosen = [
        play(JustInTime(problem(LINE)), turned, noise=0.01, seed=seed).chosen.number("power_limit")
        for seed in range(20)
    ]
    assert max(abs(one - 200.0) for one in chosen) <= 30.0


def test_just_in_time_refuses_more_than_one_knob_and_names() -> None:
    with pytest.raises(InvalidValueError, match="one knob"):
        JustInTime(problem(SPACE))
    with pytest.raises(InvalidValueError, match="names"):
        JustInTime(problem(Space((knob("precision", ("fp32", "bf16")),))))


def test_just_in_time_turns_the_only_free_knob() -> None:
    task = problem(SPACE.fixed(a=2.0), Energy())
    held = problem(task.space)
    played = play(JustInTime(held), lambda s: (1.0, s.number("b")))
    assert {one["a"] for one in played.asked} == {2.0}


def test_refuses_empty_budgets() -> None:
    with pytest.raises(InvalidValueError):
        ExhaustiveSearch(problem(SPACE), rounds=0)
    with pytest.raises(InvalidValueError):
        RandomSearch(problem(SPACE), draws=0)


def test_says_nothing_of_noise_that_it_cannot_see() -> None:
    search = RandomSearch(problem(SPACE), draws=2)
    play(search, lambda s: (1.0, s.number("b")))
    found = search.recommend()
    assert found.uncertainty is None
    assert found.confidence is None


def test_takes_the_spread_it_was_told() -> None:
    search = RandomSearch(problem(SPACE), draws=2)
    for one in SPACE.settings[:2]:
        search.tell(told(one, (1.0, one.number("b")), time_sd_s=0.01, energy_sd_j=0.1))
    found = search.recommend()
    assert found.uncertainty is not None
    assert 0.05 < found.uncertainty < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_just_in_time_is_not_stopped_by_the_flat_stretch_under_a_power_cap(seed: int) -> None:
    # Above 1.0 the cap holds the clock: nothing changes but noise. Below, energy falls.
    noise = np.random.default_rng(seed)
    clocks = tuple(np.round(np.linspace(0.5, 2.0, 31), 3).tolist())
    space = Space((standard_knob("sm_clock", clocks, clocks[-1]),))
    search = JustInTime(Problem(space=space, objective=Energy(), default=space.default))
    while (setting := search.ask()) is not None:
        clock = min(1.0, setting.number("sm_clock"))
        energy_j = (100.0 * clock**1.5 + 10.0 / clock) * (1.0 + 0.015 * noise.standard_normal())
        search.tell(
            Observation(asked=setting, achieved=setting, time_s=1.0 / clock, energy_j=energy_j)
        )
    assert search.recommend().setting.number("sm_clock") < 0.7


def test_equal_settings_share_the_probability_of_being_best() -> None:
    from lowjoule.tuning.choice import _confidence

    found = _confidence(np.ones(11), np.full(11, 0.1))
    assert found == pytest.approx(1 / 11, rel=0.02)
