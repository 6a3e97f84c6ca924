"""The offline measurements: designed, bounded, resumable, and the device left as it was."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import FakeDevice
from lowjoule.benchmarking import Benchmark, BenchmarkResult, Happened, Plan, design
from lowjoule.cli.main import cli
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.devices.simulated import SimulatedDevice
from lowjoule.errors import (
    InvalidValueError,
    UnknownNameError,
)
from lowjoule.knobs import Setting, Space, standard_knob
from lowjoule.prediction import Predictor, anchor_settings, tasks_of
from lowjoule.source import Source
from lowjoule.store import Store

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
SMALL = ("resnet50", "gpt2", "copy")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def simulated(name: str = "a100", *, seed: int = 0) -> SimulatedDevice:
    device = open_device(f"sim:{name}", OpenOptions(seed=seed))
    assert isinstance(device, SimulatedDevice)
    return device


def grid(*sizes: int) -> Space:
    names = ("power_limit", "sm_clock", "memory_clock", "batch_size")
    knobs = [
        standard_knob(name, [float(v) for v in range(1, size + 1)], float(size))
        for name, size in zip(names, sizes, strict=False)
    ]
    return Space(tuple(knobs))


# ------------------------------------------------------------------------ the design


@settings(max_examples=40)
@given(st.lists(st.integers(1, 14), min_size=1, max_size=4), st.integers(1, 40), st.integers(0, 3))
def test_a_design_is_of_different_allowed_settings(sizes: list[int], count: int, seed: int) -> None:
    space = grid(*sizes)
    found = design(space, (), count, seed)
    assert len(set(found)) == len(found) <= count
    assert all(one in space for one in found)
    assert found[0] == space.default
    assert found == design(space, (), count, seed)
    assert found[: count // 2] == design(space, (), count // 2 or 1, seed)[: count // 2]
    if count >= len(space) and max(sizes) <= 9:
        assert len(found) == len(space)


def test_a_design_has_the_anchors_then_corners_and_what_is_between() -> None:
    space = simulated().joint_space(simulated().workload("resnet50"))
    space = space.free(["power_limit", "sm_clock", "batch_size"])
    anchors = anchor_settings(space)
    found = design(space, anchors, 40)
    assert found[: len(anchors)] == list(anchors)
    ends = {
        name: (space.knob(name).values[0], space.knob(name).values[-1])
        for name in ("power_limit", "sm_clock", "batch_size")
    }
    corners = {
        Setting({**space.default, **dict(zip(ends, one, strict=True))})
        for one in itertools.product(*ends.values())
    }
    assert corners <= set(found)
    assert len(set(found) - corners) > len(corners) + len(anchors)


def test_a_design_fills_better_than_chance() -> None:
    space = grid(9, 9, 9)

    def spread(chosen: list[Setting]) -> float:
        rows = np.array([list(one.values()) for one in chosen], dtype=float)
        gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        return float(gaps[~np.eye(len(rows), dtype=bool)].min())

    random = np.random.default_rng(0)
    every = list(space.settings)
    lucky = max(
        spread([every[i] for i in random.choice(len(every), 24, replace=False)]) for _ in range(200)
    )
    assert spread(design(space, (), 24)) > lucky


def test_a_rule_of_the_space_is_kept() -> None:
    device = simulated()
    space = device.joint_space(device.workload("gpt2"))
    for one in design(space, (), 30):
        space.check(one)


# ------------------------------------------------------------------------ the run


def test_the_budget_holds_and_what_it_allows_is_balanced(store: Store) -> None:
    for name, budget_s in (("a100", 60.0), ("p100", 97.0), ("l4", 333.0)):
        result = Benchmark(simulated(name), store, budget_s=budget_s).run()
        assert 0.8 * budget_s < result.time_s <= budget_s
        measured = [one.measured + one.infeasible for one in result.covered]
        assert max(measured) - min(measured) <= 1
        assert sum(measured) == result.trials


def test_a_second_call_goes_on_and_a_third_has_nothing_to_do(store: Store) -> None:
    seen: list[Happened] = []

    def once(budget_s: float) -> BenchmarkResult:
        return Benchmark(
            simulated(),
            store,
            workloads=SMALL,
            settings=8,
            budget_s=budget_s,
            on_trial=seen.append,
        ).run()

    first, second, third = once(60.0), once(1e6), once(1e6)
    assert (first.before, second.before) == (0, first.trials)
    assert first.trials + second.trials == len(seen) == 24
    assert len({(one.task.workload.name, one.trial.asked) for one in seen}) == 24
    assert (third.before, third.trials, third.left) == (24, 0, 0)
    assert len(store.records()) == 24
    more = Benchmark(simulated(), store, workloads=(*SMALL, "gemm"), settings=9).run()
    assert (more.before, more.trials) == (24, 3 + 9)


def test_another_configuration_is_not_mixed_in(store: Store) -> None:
    def run(**other: object) -> BenchmarkResult:
        options = {"workloads": SMALL, "settings": 3, **other}
        return Benchmark(simulated(), store, **options).run()  # type: ignore[arg-type]

    first = run()
    others = [run(window_s=4.0), run(seed=1), run(knobs=("power_limit",))]
    device = simulated()
    device.apply(Setting({"power_limit": 300.0}))
    others.append(run())
    assert [one.before for one in (first, *others)] == [0] * 5
    assert len({one.run for one in (first, *others)}) == 5
    assert "found at power_limit=300 W" in " ".join(others[-1].notes)
    limits = [
        record.asked.number("power_limit")
        for record in store.records()
        if record.provenance["run"] == others[-1].run
    ]
    assert max(limits) == 300.0


def test_the_device_is_left_as_it_was_found(store: Store) -> None:
    device = simulated()
    device.apply(Setting({"power_limit": 300.0, "sm_clock": 1200e6}))
    found = device.current()

    def stop(happened: Happened) -> None:
        assert happened.trial.asked.number("power_limit") <= 300.0
        if happened.place == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Benchmark(device, store, workloads=SMALL, on_trial=stop).run()
    assert device.current() == found
    assert len(store.records()) == 20


def test_what_does_not_fit_is_marked_and_the_run_goes_on(store: Store) -> None:
    device = FakeDevice(source=Source.SIMULATED, too_big=128, time_of=lambda s: 1e-3)
    result = Benchmark(device, store, settings=60).run()
    (one,) = result.covered
    assert one.left == 0
    assert one.infeasible > 0
    failed = [one for one in store.attempts(result.run) if one.failure is not None]
    assert {one.asked["batch_size"] for one in failed} == {128}
    assert {one.failure for one in failed} == {"too big"}
    assert {record.asked["batch_size"] for record in store.records()} == {32, 64}
    again = Benchmark(device, store, settings=60).run()
    assert again.trials == 0


def test_a_budget_without_room_for_a_trial_is_refused(store: Store) -> None:
    with pytest.raises(InvalidValueError, match="less than one trial"):
        Benchmark(simulated(), store, budget_s=3.0).run()
    with pytest.raises(InvalidValueError, match="at least one setting"):
        Benchmark(simulated(), store, settings=0)
    with pytest.raises(UnknownNameError, match="resnet50"):
        Benchmark(simulated(), store, workloads=("resnet",))


def test_all_of_it_is_training_material(store: Store) -> None:
    plans: list[Plan] = []
    result = Benchmark(
        simulated(),
        store,
        workloads=SMALL,
        settings=12,
        on_plan=lambda plan, before, trial_s: plans.append(plan),
    ).run()
    tasks = tasks_of(store)
    assert {one.model for one in tasks} == set(SMALL)
    Predictor.fit(tasks)
    for covered, task in zip(result.covered, plans[0].tasks, strict=True):
        signature = covered.signature
        wanted = anchor_settings(task.space)
        assert [one.setting for one in signature.anchors] == list(wanted)
        assert signature.anchors[0].setting == task.space.default == signature.default
        assert signature.device is not None
        assert signature.device.bandwidth_bytes_per_s == 2039e9
        live = {one.setting["batch_size"]: one.live for one in signature.anchors}
        if covered.workload == "resnet50":
            assert live == {256: True, 16: False, 64: False}


# ------------------------------------------------------------------------ the command


def run(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(cli, ["benchmark", "--json", *arguments])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def test_it_tells_an_estimate_before_and_that_it_goes_on() -> None:
    arguments = ["benchmark", "--device", "sim:l4", "--proxies", "gemm,copy", "--budget", "40s"]
    first = CliRunner().invoke(cli, arguments)
    assert first.exit_code == 0, first.output
    lines = first.stderr.splitlines()
    assert "trials of 2 workloads, about" in lines[0]
    assert "the budget of 40 s allows about" in lines[0]
    assert lines[1].startswith("trial 1 of ")
    assert "SIMULATED: NVIDIA L4" in first.stdout
    assert "run the same command again" in first.stdout
    again = CliRunner().invoke(cli, arguments)
    assert again.stderr.startswith("going on: ")


def test_json_stands_alone() -> None:
    value = run("--device", "sim:a100", "--proxies", "gemm", "--settings", "3")
    assert (value["version"], value["trials"], value["left"]) == (1, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--device", "replay:{table}"), "lowjoule import"),
        (("--device", "sim:a100", "--proxies", "gem"), "gemm"),
        (("--device", "sim:a100", "--knobs", "fan"), "power_limit"),
        (("--device", "sim:a100", "--budget", "1s"), "less than one trial"),
        (("--device", "sim:a100", "--budget", "soon"), "6h"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("workload,unit,power_limit_w,time_s,energy_j\njob,epoch,100,3,300\n")
    done = CliRunner().invoke(cli, ["benchmark", *(a.format(table=table) for a in arguments)])
    assert done.exit_code != 0
    assert said in f"{done.output}{done.exception}"


def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    arguments = ["benchmark", "--device", "sim:v100", "--proxies", "gemm,copy", "--settings", "3"]
    arguments += ["--window", "200ms", "--real-time", "--json"]
    environment = {**os.environ, "LOWJOULE_WATCHDOG": "on"}
    before = simulated("v100").current()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stderr is not None
    seen = 0
    while seen < 3:
        line = process.stderr.readline()
        assert line, "it ended before it could be killed"
        seen += line.startswith("trial ")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    with Store.open() as store:
        kept = len(store.records())
        assert 3 <= kept <= 4  # what was told is kept; the next may just have ended
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert f"going on: {kept} of 6 trials" in done.stderr
    result = json.loads(done.stdout)
    assert (result["before"], result["trials"], result["left"]) == (kept, 6 - kept, 0)
    with Store.open() as store:
        assert len(store.records()) == 6
        assert {one.provenance["run"] for one in store.records()} == {result["run"]}
    assert simulated("v100").current() == before
