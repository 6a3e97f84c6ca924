"""The hybrid search: any table, what does not run, holes, noise, and what it may learn from."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowjoule.cli.main import main
from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.errors import InfeasibleError
from lowjoule.knobs import Scope, Setting, Space
from lowjoule.objectives import Slowdown
from lowjoule.prediction import DeviceFigures, Predictor, save
from lowjoule.prediction.members import Recipe
from lowjoule.tuning import Driver, HybridSearch
from lowjoule.tuning.knowledge import Knowledge, knowledge_of, surveyed_tasks
from search_problems import EDS, knob, play, problem, truth

BOARD = Knowledge(device=DeviceFigures(model="any", power_limit_w=300.0))
BATCHES = tuple(2.0**k for k in range(3, 11))
LIMITS = tuple(100.0 + 25.0 * k for k in range(9))


def board() -> WorkDevice:
    device = open_device("sim:a100", OpenOptions(seed=0))
    assert isinstance(device, WorkDevice)
    return device


def grid() -> Space:
    return Space(
        (knob("power_limit", LIMITS), knob("batch_size", BATCHES, 64.0, scope=Scope.RESTART))
    )


def training(setting: Setting) -> tuple[float, float]:
    limit, batch = setting.number("power_limit"), setting.number("batch_size")
    wanted = 120.0 + 20.0 * math.log2(batch / 8.0)
    time_s = (1.0 + 60.0 / batch + batch / 4000.0) * (1.0 + 0.8 * max(0.0, wanted / limit - 1.0))
    return time_s, time_s * min(wanted, limit)


def cost(figures: tuple[float, float], default: tuple[float, float]) -> float:
    return 0.5 * figures[0] / default[0] + 0.5 * figures[1] / default[1]


def test_needs_few_trials_of_a_training_of_which_nothing_is_known() -> None:
    task = problem(grid(), EDS())
    played = play(HybridSearch(task, BOARD), training)
    default = training(task.default)
    best = min(cost(training(one), default) for one in task.space)
    assert len(played.asked) <= 10
    assert cost(training(played.chosen), default) / best - 1.0 < 0.01


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_ends_on_any_table_and_never_chooses_what_it_was_not_told(data: st.DataObject) -> None:
    space = Space(
        (
            knob("power_limit", LIMITS[: data.draw(st.integers(1, 4))]),
            knob("batch_size", BATCHES[: data.draw(st.integers(1, 4))], scope=Scope.RESTART),
            knob("precision", ("bf16", "fp32")),
        )
    )
    figure = st.floats(1e-3, 1e6)
    cell = st.one_of(st.none(), st.tuples(figure, figure))
    table = {one: data.draw(cell) for one in space}
    bound = data.draw(st.none() | st.floats(0.01, 2.0))
    task = problem(space, EDS(), constraints=() if bound is None else (Slowdown(bound),))
    played = play(HybridSearch(task, BOARD), table.__getitem__, most=16)
    assert set(played.asked) <= set(space)
    ran = [one for one in played.asked if table[one] is not None]
    try:
        found = played.search.recommend()
    except InfeasibleError:
        assert bound is not None or not ran
        return
    assert found.setting in ran


def test_backs_off_from_what_does_not_fit_in_memory() -> None:
    def figures(setting: Setting) -> tuple[float, float] | None:
        return None if setting.number("batch_size") > 256 else training(setting)

    played = play(HybridSearch(problem(grid(), EDS()), BOARD), figures)
    assert len([one for one in played.asked if one.number("batch_size") > 256]) <= 3
    assert played.chosen.number("batch_size") <= 256


def test_noise_costs_little_on_average() -> None:
    random = np.random.default_rng(5)
    task = problem(grid(), EDS())
    every = truth(task, training)
    assert len(every) == len(task.space)
    default = training(task.default)
    best = min(cost(training(one), default) for one in task.space)

    def noisy(setting: Setting) -> tuple[float, float]:
        time_s, energy_j = training(setting)
        first, second = np.exp(0.015 * random.standard_normal(2))
        return time_s * float(first), energy_j * float(second)

    losses = []
    for _ in range(12):
        played = play(HybridSearch(task, BOARD), noisy)
        losses.append(cost(training(played.chosen), default) / best - 1.0)
    assert np.mean(losses) < 0.015


def test_the_workload_itself_is_never_learned_from() -> None:
    device = board()
    workload = device.workload("resnet50")
    tasks = surveyed_tasks(device, workload, ["power_limit", "sm_clock"])
    assert len({one.model for one in tasks}) > 5
    assert "resnet50" not in {one.model for one in tasks}
    # and where a store holds it, it is left out: all that is known is of one other model
    own = surveyed_tasks(device, device.workload("gpt2"), ["power_limit", "sm_clock"])
    mine = [one for one in own if one.model in {"resnet50", "ncf"}]
    assert {one.model for one in mine} == {"resnet50", "ncf"}
    assert knowledge_of(device, workload, tasks=mine).predictor is None


@pytest.mark.parametrize("learned", [False, True])
def test_drives_a_simulated_board(learned: bool) -> None:
    device = board()
    workload = device.workload("resnet50")
    knobs = ["power_limit", "sm_clock"]
    tasks = surveyed_tasks(device, workload, knobs) if learned else []
    known = knowledge_of(device, workload, tasks=tasks)
    assert (known.predictor is not None) is learned
    result = Driver(
        device,
        workload,
        objective="eds",
        knobs=knobs,
        search=lambda task: HybridSearch(task, known),
    ).run()
    space = device.joint_space(workload).free(knobs)
    every = device.survey(workload, space)
    rows = {every.setting(row): row for row in range(len(every))}
    default, chosen = rows[space.default], rows[result.chosen.setting.only(space.names)]
    time_s, energy_j = every.time_s, every.energy_j
    costs = 0.5 * time_s / time_s[default] + 0.5 * energy_j / energy_j[default]
    assert costs[chosen] / float(np.nanmin(costs)) - 1.0 < 0.02


def test_the_command_starts_from_a_saved_predictor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = board()
    tasks = surveyed_tasks(device, device.workload("resnet50"), ["power_limit"])
    save(Predictor.fit(tasks, Recipe(trees=False)), tmp_path / "p.json")
    words = ["tune", "--device", "sim:a100", "--workload", "resnet50", "--knobs", "power_limit"]
    words += ["--predictor", str(tmp_path / "p.json")]
    assert main([*words, "--search", "hybrid"]) == 0
    assert main([*words, "--search", "random"]) == 2
    assert "does not concern the random search" in capsys.readouterr().err
