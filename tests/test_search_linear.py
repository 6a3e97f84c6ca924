from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowjoule.errors import InfeasibleError, InvalidValueError
from lowjoule.knobs import AtMost, Scope, Setting, Space, show_setting
from lowjoule.objectives import Deadline, Objective, PeakPower, Power, Slowdown, Throughput
from lowjoule.tuning.exhaustive import ExhaustiveSearch
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.search import Observation, Search
from search_problems import EDS, Energy, knob, play, problem, told, truth

LIMITS = (100.0, 125.0, 150.0, 175.0, 200.0, 225.0, 250.0)
BATCHES = (8, 16, 32, 64, 128, 256, 512, 1024)


def grid(default_batch: int = 64) -> Space:
    return Space(
        (
            knob("power_limit", LIMITS),
            knob("batch_size", BATCHES, default_batch, scope=Scope.RESTART),
        )
    )


def training(setting: Setting) -> tuple[float, float]:
    """A training whose batch saturates and whose clock follows the limit."""
    limit, batch = setting.number("power_limit"), setting.number("batch_size")
    wanted = 120.0 + 20.0 * math.log2(batch / 8.0)
    slow = 1.0 + 0.8 * max(0.0, wanted / limit - 1.0)
    time_s = (1.0 + 60.0 / batch + batch / 4000.0) * slow
    return time_s, time_s * min(wanted, limit)


def regret(task_truth: dict[Setting, float], chosen: Setting) -> float:
    return task_truth[chosen] / min(task_truth.values()) - 1.0


@st.composite
def bowls(draw: st.DrawFn) -> tuple[Space, dict[str, tuple[float, float]]]:
    """A space of one to three knobs and a convex bowl in log coordinates: centre, steepness."""
    knobs, shape = [], {}
    for k in range(draw(st.integers(1, 3))):
        count = draw(st.integers(2, 14))
        low = 10.0 ** draw(st.floats(-1, 3))
        ratio = 10.0 ** draw(st.floats(0.2, 2.0))
        even = draw(st.booleans())
        values = (
            np.linspace(low, low * ratio, count) if even else np.geomspace(low, low * ratio, count)
        )
        place, centre = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        knobs.append(knob(f"k{k}", [float(v) for v in values], float(values[place])))
        steep = draw(st.floats(0.05, 3.0)) / math.log(ratio) ** 2
        shape[f"k{k}"] = (math.log(values[centre]), steep)
    return Space(tuple(knobs)), shape


@given(bowls(), st.booleans())
@settings(max_examples=60)
def test_finds_the_bottom_of_any_smooth_bowl(
    bowl: tuple[Space, dict[str, tuple[float, float]]], sharp: bool
) -> None:
    space, shape = bowl

    def figures(setting: Setting) -> tuple[float, float]:
        squares = [s * (math.log(setting.number(n)) - c) ** 2 for n, (c, s) in shape.items()]
        depth = sum(math.sqrt(one) for one in squares) if sharp else sum(squares)
        return 1.0, math.exp(depth)

    task = problem(space)
    played = play(LinearSearch(task, max_draws=80), figures)
    assert regret(truth(task, figures), played.chosen) <= 0.003
    assert set(played.asked) <= set(space)


@given(st.data())
@settings(max_examples=100)
def test_ends_on_any_table_and_never_chooses_what_it_was_not_told(data: st.DataObject) -> None:
    knobs = [
        knob(f"k{k}", [float(v) for v in range(1, data.draw(st.integers(1, 6)) + 1)])
        for k in range(data.draw(st.integers(1, 3)))
    ]
    space = Space((*knobs, knob("name", ("x", "y"))))
    figure = st.floats(1e-3, 1e6)
    cell = st.one_of(st.none(), st.tuples(figure, figure))
    table = {one: data.draw(cell) for one in space}
    bound = data.draw(st.none() | st.floats(0.01, 2.0))
    objectives: list[Objective] = [EDS(), Energy(), Throughput()]
    objective = data.draw(st.sampled_from(objectives))
    task = problem(
        space,
        objective,
        constraints=() if bound is None else (Slowdown(bound),),
        remaining_work=data.draw(st.none() | st.floats(1.0, 1e4)),
    )
    played = play(LinearSearch(task), table.__getitem__, most=28)
    assert set(played.asked) <= set(space)
    ran = [one for one in played.asked if table[one] is not None]
    try:
        found = played.search.recommend()
    except InfeasibleError:
        assert bound is not None or not ran
        return
    assert found.setting in ran
    assert (found.time_s, found.energy_j) == pytest.approx(table[found.setting])
    assert found.confidence is not None
    assert 0.0 <= found.confidence <= 1.0
    assert found.uncertainty is not None
    assert found.uncertainty >= 0.0
    default = table[task.default]
    if bound is not None and default is not None:
        assert found.time_s <= (1.0 + bound) * default[0] * (1 + 1e-9)


@pytest.mark.parametrize("count", [60, 300])
def test_closes_in_on_a_fine_knob_in_few_trials(count: int) -> None:
    values = [float(v) for v in np.linspace(100.0, 400.0, count)]
    task = problem(Space((knob("power_limit", values),)))

    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, 100.0 * math.exp(2.0 * math.log(setting.number("power_limit") / 230.0) ** 2)

    played = play(LinearSearch(task), figures)
    assert len(played.asked) <= 10
    assert regret(truth(task, figures), played.chosen) < 0.003


def test_leaps_to_a_batch_far_from_the_default() -> None:
    task = problem(grid(default_batch=8), EDS())
    played = play(LinearSearch(task), training)
    values = truth(task, training)
    assert len(played.asked) <= 14
    assert regret(values, played.chosen) < 0.005
    batches = [one.number("batch_size") for one in played.asked]
    leaps = [b / a for a, b in itertools.pairwise(batches) if b > a]
    assert max(leaps) >= 4


def test_is_deterministic() -> None:
    runs = [play(LinearSearch(problem(grid(), EDS())), training, noise=0.02) for _ in range(2)]
    assert runs[0].asked == runs[1].asked
    assert runs[0].search.recommend() == runs[1].search.recommend()


def test_noise_costs_little_on_average() -> None:
    task = problem(grid(), EDS())
    values = truth(task, training)
    runs = [
        play(LinearSearch(task), training, noise=0.015, seed=seed, most=14) for seed in range(40)
    ]
    assert np.mean([regret(values, run.chosen) for run in runs]) < 0.01
    covered = []
    for run in runs:
        found = run.search.recommend()
        if found.uncertainty:
            covered.append(abs(found.objective - values[found.setting]) <= 2 * found.uncertainty)
    assert np.mean(covered) > 0.8


def test_repeats_a_close_call() -> None:
    space = Space((knob("clock", (1.0, 1.1)),))

    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, 100.0 if setting.number("clock") == 1.0 else 100.5

    close = play(LinearSearch(problem(space), max_draws=12), figures, noise=0.02)
    clear = play(
        LinearSearch(problem(space), max_draws=12),
        lambda s: (1.0, 100.0 * s.number("clock") ** 4),
        noise=0.02,
    )
    assert len(close.asked) > len(set(close.asked))
    assert len(clear.asked) < len(close.asked)


def test_looks_past_a_worse_point() -> None:
    space = Space((knob("limit", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7)),))
    energy = dict(zip(space.knobs[0].values, (75, 70, 72, 80, 91, 97, 103, 100), strict=True))

    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, float(energy[setting["limit"]])

    played = play(LinearSearch(problem(space)), figures)
    assert played.chosen["limit"] == 1.1


def test_a_known_short_job_is_searched_less() -> None:
    few, many = (
        play(LinearSearch(problem(grid(), EDS(), remaining_work=work)), training, noise=0.01)
        for work in (5.0, 5000.0)
    )
    assert len(few.asked) < len(many.asked)


def test_a_dear_change_waits_for_cheap_ones() -> None:
    task = problem(grid(), EDS(), remaining_work=1e6)
    search = LinearSearch(task)
    changes = []
    last = task.default
    while (setting := search.ask()) is not None:
        restart = setting["batch_size"] != last["batch_size"]
        changes.append(restart)
        time_s, energy_j = training(setting)
        search.tell(
            Observation(
                asked=setting,
                achieved=setting,
                time_s=time_s,
                energy_j=energy_j,
                work=1.0,
                overhead_s=500.0 if restart else 0.01,
            )
        )
        last = setting
    free = play(LinearSearch(task), training)
    batches = [one["batch_size"] for one in free.asked]
    assert sum(changes) < sum(a != b for a, b in itertools.pairwise(batches))


def test_starts_where_it_is_told_and_asks_for_the_default_only_when_needed() -> None:
    start = Setting({"power_limit": 150.0, "batch_size": 128})
    search = LinearSearch(problem(grid(), Energy(), start=start))
    assert search.ask() == start
    search.tell(told(start, training(start)))
    assert search.ask() != grid().default
    relative = LinearSearch(problem(grid(), EDS(), start=start))
    relative.tell(told(start, training(start)))
    assert relative.ask() == grid().default


def test_a_start_is_tried_although_the_default_was_told_first() -> None:
    start = Setting({"power_limit": 150.0, "batch_size": 128})
    task = problem(grid(), EDS(), start=start)
    search = LinearSearch(task)
    search.tell(told(task.default, training(task.default)))
    assert search.ask() == start
    search.tell(told(start, training(start)))
    assert search.ask() not in (start, task.default)


def test_takes_tells_in_any_order_and_of_settings_never_asked() -> None:
    space = grid()
    observations = [told(one, training(one)) for one in space.settings[::5]]
    choices = []
    for order in (observations, observations[::-1]):
        search = LinearSearch(problem(space, EDS()), max_draws=30)
        for one in order:
            search.tell(one)
        search.tell(told(space.default, training(space.default)))
        search.tell(told(Setting({"power_limit": 999.0, "batch_size": 64}), (1.0, 1.0)))
        search.tell(told(Setting({"other": 1.0}), (1.0, 1.0)))
        choices.append(search.recommend().setting)
        assert choices[-1] in space
        assert search.ask() in space
    assert choices[0] == choices[1]


def test_learns_from_what_was_achieved() -> None:
    """A device that cannot go below 150 W: the settings below are the same one."""
    space = Space((knob("power_limit", LIMITS),))

    def achieved(setting: Setting) -> Setting:
        return Setting({"power_limit": max(150.0, setting.number("power_limit"))})

    search = LinearSearch(problem(space))
    while (setting := search.ask()) is not None:
        did = achieved(setting)
        search.tell(
            Observation(asked=setting, achieved=did, time_s=1.0, energy_j=did.number("power_limit"))
        )
    assert search.recommend().setting.number("power_limit") <= 150.0


def test_never_asks_for_a_hole_of_a_listed_space() -> None:
    every = grid().settings
    listed = frozenset(one for i, one in enumerate(every) if i % 3 or one == grid().default)
    space = Space(grid().knobs, listed=listed)
    task = problem(space, EDS())
    played = play(LinearSearch(task), training)
    assert set(played.asked) <= listed
    assert regret(truth(task, training), played.chosen) < 0.02


def test_keeps_to_rules_between_knobs() -> None:
    knobs = (knob("low", (1.0, 2.0, 3.0, 4.0)), knob("high", (1.0, 2.0, 3.0, 4.0)))
    space = Space(knobs, rules=(AtMost("low", "high"),))

    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, 1.0 + setting.number("low") + setting.number("high")

    played = play(LinearSearch(problem(space)), figures)
    assert set(played.asked) <= set(space)
    assert played.chosen == Setting({"low": 1.0, "high": 1.0})


def test_backs_off_from_what_does_not_fit_in_memory() -> None:
    def figures(setting: Setting) -> tuple[float, float] | None:
        return None if setting.number("batch_size") > 256 else training(setting)

    task = problem(grid(), EDS())
    played = play(LinearSearch(task), figures)
    failed = [one for one in played.asked if one.number("batch_size") > 256]
    assert len(failed) <= 3
    assert played.chosen.number("batch_size") <= 256
    feasible = {k: v for k, v in truth(task, training).items() if k.number("batch_size") <= 256}
    assert regret(feasible, played.chosen) < 0.01


def test_works_when_the_default_fails() -> None:
    def figures(setting: Setting) -> tuple[float, float] | None:
        return None if setting.number("batch_size") >= 512 else training(setting)

    played = play(LinearSearch(problem(grid(default_batch=1024), EDS())), figures)
    found = played.search.recommend()
    assert found.setting.number("batch_size") < 512
    assert "default" in found.notes[0]


def test_says_so_when_everything_fails() -> None:
    search = LinearSearch(problem(grid(), EDS()))
    played = play(search, lambda setting: None)
    assert len(played.asked) == len(set(played.asked)) <= 14
    with pytest.raises(InfeasibleError, match="out of memory"):
        search.recommend()


def test_a_constraint_holds_for_the_choice() -> None:
    slow = Slowdown(0.05)
    task = problem(grid(default_batch=256), Energy(), constraints=(slow,))
    played = play(LinearSearch(task), training)
    bound_s = 1.05 * training(task.default)[0]
    assert training(played.chosen)[0] <= bound_s
    kept = {s: v for s, v in truth(task, training).items() if training(s)[0] <= bound_s}
    assert regret(kept, played.chosen) < 0.03


@pytest.mark.parametrize("make", [LinearSearch, partial(ExhaustiveSearch, rounds=3)])
def test_a_constraint_holds_under_noise_nine_times_in_ten(make: Callable[..., Search]) -> None:
    task = problem(grid(default_batch=256), Energy(), constraints=(Slowdown(0.05),))
    bound_s = 1.05 * training(task.default)[0]
    broken = []
    for seed in range(40):
        played = play(make(task), training, noise=0.015, seed=seed)
        found = played.search.recommend()
        assert found.kept is not None
        broken.append(training(found.setting)[0] / bound_s - 1.0 if found.kept >= 0.9 else 0.0)
    assert sum(by > 0 for by in broken) <= 4 + 3  # the binomial's mean and 1.6 deviations
    assert max(broken) < 0.03


def test_a_bound_far_away_is_searched_for() -> None:
    task = problem(grid(), Energy(), constraints=(Power(1.0),))
    played = play(LinearSearch(task), training)
    assert len(played.asked) > 4
    with pytest.raises(InfeasibleError) as caught:
        played.search.recommend()
    assert "power_limit=100" in caught.value.cure


def test_reaches_what_is_a_line_away_from_what_is_forbidden() -> None:
    def figures(setting: Setting) -> tuple[float, float]:
        # little batches draw little, and are slow; large ones keep to the bound at low limits
        limit, batch = setting.number("power_limit"), setting.number("batch_size")
        power_w = min(limit, 60.0 + 22.0 * math.log2(batch))
        time_s = 20.0 / math.sqrt(batch) / math.sqrt(power_w / 250.0)
        return time_s, time_s * power_w

    task = problem(grid(default_batch=1024), EDS(), constraints=(Power(150.0),))
    played = play(LinearSearch(task), figures)
    values = truth(task, figures)
    within = {s: v for s, v in values.items() if figures(s)[1] / figures(s)[0] <= 150.0}
    assert regret(within, played.chosen) < 0.02


def test_what_keeps_a_bound_exactly_is_kept_where_trials_repeat() -> None:
    task = problem(grid(default_batch=256), Energy(), constraints=(Slowdown(0.0),))
    found = play(LinearSearch(task), training).search.recommend()
    assert found.time_s <= training(task.default)[0]
    assert found.kept == 1.0


def test_leaves_an_infeasible_default() -> None:
    task = problem(grid(default_batch=8), Energy(), constraints=(Deadline(1.6),))
    played = play(LinearSearch(task), training)
    assert training(task.default)[0] > 1.6
    assert training(played.chosen)[0] <= 1.6


def test_names_the_closest_when_nothing_is_feasible() -> None:
    search = LinearSearch(problem(grid(), Energy(), constraints=(Deadline(0.5),)))
    played = play(search, training)
    closest = min(played.asked, key=lambda one: training(one)[0])
    with pytest.raises(InfeasibleError) as caught:
        search.recommend()
    assert show_setting(closest, grid()) in caught.value.cure


def test_constrains_optional_columns() -> None:
    space = Space((knob("power_limit", LIMITS),))
    search = LinearSearch(problem(space, constraints=(PeakPower(180.0),)))
    while (setting := search.ask()) is not None:
        limit = setting.number("power_limit")
        search.tell(
            Observation(
                asked=setting,
                achieved=setting,
                time_s=200.0 / limit,
                energy_j=400.0 - limit,
                peak_power_w=limit * 1.1,
            )
        )
    assert search.recommend().setting.number("power_limit") == 150.0


def test_turns_knobs_that_have_names() -> None:
    space = Space(
        (
            knob("precision", ("fp32", "tf32", "bf16"), "fp32", scope=Scope.RESTART),
            knob("power_limit", LIMITS),
        )
    )
    factor = {"fp32": 4.0, "tf32": 2.0, "bf16": 1.0}

    def figures(setting: Setting) -> tuple[float, float]:
        limit = setting.number("power_limit")
        time_s = factor[str(setting["precision"])] * (1.0 + 0.8 * max(0.0, 220.0 / limit - 1.0))
        return time_s, time_s * min(limit, 220.0)

    task = problem(space, EDS())
    played = play(LinearSearch(task), figures)
    assert played.chosen["precision"] == "bf16"
    assert regret(truth(task, figures), played.chosen) < 0.01


def test_crosses_to_a_valley_beside_a_knob_of_few_values() -> None:
    """The low memory clock is worse at the default core clock and best at a lower one."""
    cores = tuple(float(v) for v in range(600, 1200, 50))
    space = Space((knob("sm_clock", cores), knob("memory_clock", (810.0, 3505.0))))

    def figures(setting: Setting) -> tuple[float, float]:
        low = setting.number("memory_clock") == 810.0
        centre, floor, steep = (800.0, 90.0, 4.0) if low else (1050.0, 110.0, 1.5)
        away = math.log(setting.number("sm_clock") / centre)
        return 1.0, floor * math.exp(steep * away**2)

    task = problem(space)
    played = play(LinearSearch(task), figures)
    assert figures(space.default)[1] < figures(space.default.replace(memory_clock=810.0))[1]
    assert regret(truth(task, figures), played.chosen) < 0.005


def test_searches_values_that_have_no_logarithm() -> None:
    space = Space((knob("offset", (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)),))
    figures = lambda s: (1.0, 10.0 + (s.number("offset") + 1.0) ** 2)  # noqa: E731
    assert play(LinearSearch(problem(space)), figures).chosen["offset"] == -1.0


def test_makes_a_negative_objective_small_too() -> None:
    task = problem(grid(), Throughput())
    played = play(LinearSearch(task), training)
    fastest = min(training(one)[0] for one in grid())
    assert training(played.chosen)[0] <= 1.01 * fastest


def test_a_single_setting_is_tried_once() -> None:
    space = Space((knob("power_limit", (250.0,)),))
    played = play(LinearSearch(problem(space, EDS())), lambda s: (1.0, 100.0))
    assert len(played.asked) >= 1
    assert set(played.asked) == {space.default}
    assert played.search.recommend().confidence == 1.0


def test_a_default_outside_the_listed_settings_is_not_asked() -> None:
    listed = frozenset(one for one in grid() if one.number("power_limit") < 200.0)
    task = problem(Space(grid().knobs, listed=listed), EDS())
    played = play(LinearSearch(task), training)
    assert set(played.asked) <= listed
    assert len(played.asked) > 3


def test_a_space_too_large_to_list_is_searched() -> None:
    values = [float(v) for v in range(1, 301)]
    space = Space(tuple(knob(f"k{k}", values) for k in range(4)))

    def figures(setting: Setting) -> tuple[float, float]:
        return 1.0, math.exp(sum(math.log(setting.number(n) / 100.0) ** 2 for n in space.names))

    played = play(LinearSearch(problem(space)), figures)
    assert len(played.asked) <= 28
    assert figures(played.chosen)[1] < 1.05


def test_a_figure_that_is_no_number_is_a_failure() -> None:
    space = grid()
    search = LinearSearch(problem(space, EDS()))
    search.tell(told(space.default, training(space.default)))
    for bad in (math.nan, 0.0, -1.0, math.inf):
        other = space.settings[0]
        search.tell(told(other, (1.0, bad)))
    assert search.recommend().setting == space.default


def test_told_standard_deviations_widen_the_uncertainty() -> None:
    space = grid()
    plain, wide = LinearSearch(problem(space)), LinearSearch(problem(space))
    for one in space.settings[::7]:
        time_s, energy_j = training(one)
        plain.tell(told(one, (time_s, energy_j)))
        wide.tell(told(one, (time_s, energy_j), energy_sd_j=0.3 * energy_j))
    narrow, broad = plain.recommend().uncertainty, wide.recommend().uncertainty
    assert narrow is not None
    assert broad is not None
    assert broad > 2 * narrow


def test_refuses_no_draws() -> None:
    with pytest.raises(InvalidValueError):
        LinearSearch(problem(grid()), max_draws=0)
