from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.devices.simulated import SimulatedBackend, SimulatedDevice, gpu, gpu_names
from lowjoule.devices.simulated.state import VARIABLE, state_folder
from lowjoule.errors import InvalidValueError, OutOfMemoryError, UnknownNameError
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Setting,
    turnable,
)
from lowjoule.source import Source
from lowjoule.testing import WorkDeviceConformance
from lowjoule.workloads import Work, load

RESNET = load("resnet50")


def opened(folder: Path, name: str = "a100", **options: object) -> SimulatedDevice:
    return SimulatedDevice(gpu(name), OpenOptions(**options), folder=folder)  # type: ignore[arg-type]


def images(count: float) -> Work:
    return Work(count, RESNET.unit)


def run(device: SimulatedDevice, count: float, **own: float | str) -> tuple[float, float]:
    before = device._board.energy_j, device.clock.now_s()
    device.submit(RESNET, images(count), Setting(own)).wait()
    device.read()
    return device.clock.now_s() - before[1], device._board.energy_j - before[0]


class TestSimulatedRtx4090(WorkDeviceConformance):
    """Several memory clocks, a limit above the default, and an averaged sensor."""

    folder: Path

    @pytest.fixture(autouse=True)
    def _in_its_own_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def open(self, seed: int = 0) -> SimulatedDevice:
        return opened(self.folder, "rtx4090", seed=seed)


def test_the_backend_lists_the_catalogue_with_remarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = SimulatedBackend().available()
    assert [one.spec for one in found] == [f"sim:{name}" for name in gpu_names()]
    assert {one.remark for one in found} == {"calibrated", "uncalibrated"}
    device = open_device("sim:a100")
    assert device.identity.source is Source.SIMULATED
    assert state_folder() == tmp_path
    with pytest.raises(UnknownNameError, match="h100"):
        open_device("sim:h10")


def test_default_options_move_the_defaults(tmp_path: Path) -> None:
    device = opened(tmp_path, default={"power_limit": "250W", "batch_size": "64"})
    joint = device.joint_space(RESNET)
    assert device.current()[POWER_LIMIT] == 250.0
    assert joint.default[BATCH_SIZE] == 64
    assert joint.default[MICRO_BATCH] == 64
    with pytest.raises(UnknownNameError):
        opened(tmp_path, default={"fan": "3"})
    with pytest.raises(InvalidValueError):
        opened(tmp_path, default={"power_limit": "9kW"})


def test_the_counter_is_the_truth_of_its_last_tick(tmp_path: Path) -> None:
    device = opened(tmp_path, seed=3)
    tick_s = device.model.tick_s
    execution = device.submit(RESNET, images(4000), Setting())
    counts = []
    for _ in range(300):
        device.clock.sleep(0.003)
        reading = device.read()
        assert reading.energy_j is not None
        late_j = device._board.energy_j - reading.energy_j
        assert -1e-6 <= late_j <= 500 * tick_s
        counts.append(reading.energy_j)
    moves = np.flatnonzero(np.diff(counts)) * 0.003
    assert np.all(np.abs(np.diff(moves) - tick_s) < 0.0031)
    assert len(moves) >= 8
    execution.wait()


def test_an_averaging_sensor_shows_a_step_late(tmp_path: Path) -> None:
    late, instant = opened(tmp_path, "h100"), opened(tmp_path, "a100")
    idle_w = late.read().power_w
    for device in (late, instant):
        device.submit(RESNET, images(1e5), Setting())
        device.clock.sleep(0.3)
    assert late.read().power_window_s == 1.0
    assert instant.read().power_window_s == 0.0
    assert idle_w is not None
    early_w, true_w = late.read().power_w, late._board.state().power_w
    assert early_w is not None
    assert early_w < idle_w + 0.4 * (true_w - idle_w)
    late.clock.sleep(1.5)
    assert late.read().power_w == pytest.approx(late._board.state().power_w, rel=0.02)
    assert instant.read().power_w == pytest.approx(instant._board.state().power_w, rel=0.02)


def test_a_lower_limit_is_held_and_said(tmp_path: Path) -> None:
    device = opened(tmp_path)
    free_s, _ = run(device, 3e4)
    device.apply(Setting({POWER_LIMIT: 200.0}))
    device.clock.sleep(1.0)
    device.submit(RESNET, images(3e4), Setting())
    device.clock.sleep(1.0)
    reading = device.read()
    assert reading.power_w is not None
    assert reading.power_w <= 200.0
    assert "power" in reading.throttle_reasons
    assert reading.sm_clock_hz is not None
    assert reading.sm_clock_hz < 1410e6
    limited_s = device._board.left_s(device._board.jobs[0]) + 1.0
    assert limited_s > 1.05 * free_s


def test_a_limit_that_cannot_be_held_is_flagged(tmp_path: Path) -> None:
    device = opened(tmp_path, "rtx4090")
    model = replace(device.model, chip=replace(device.model.chip, idle_w=200.0))
    device = SimulatedDevice(model, folder=tmp_path)
    device.apply(Setting({POWER_LIMIT: 150.0}))
    device.clock.sleep(1.0)
    device.submit(RESNET, images(1e4), Setting())
    device.clock.sleep(1.0)
    reading = device.read()
    assert reading.power_w is not None
    assert reading.power_w > 150.0
    assert reading.sm_clock_hz == model.clocks_hz[0]
    assert "power" in reading.throttle_reasons


def test_a_change_takes_its_latency(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.submit(RESNET, images(1e5), Setting())
    device.clock.sleep(0.5)
    applied = device.apply(Setting({SM_CLOCK: 705e6}))
    assert applied.exact
    latency_s = device.space.knob(SM_CLOCK).latency_s
    device.clock.sleep(0.5 * latency_s)
    assert device.read().sm_clock_hz == 1410e6
    device.clock.sleep(0.6 * latency_s)
    assert device.read().sm_clock_hz == 705e6


def test_heat_rises_in_first_order_and_throttles(tmp_path: Path) -> None:
    model = gpu("a100")
    cool = SimulatedDevice(model, folder=tmp_path)
    start_c = cool.read().temperature_c
    run(cool, 3e5)
    warm_c = cool.read().temperature_c
    assert start_c is not None
    assert warm_c is not None
    assert warm_c > start_c + 20
    assert warm_c < model.chip.throttle_c
    hot = replace(model, chip=replace(model.chip, ambient_c=70.0))
    device = SimulatedDevice(hot, folder=tmp_path)
    device.submit(RESNET, images(3e5), Setting())
    device.clock.sleep(60.0)
    reading = device.read()
    assert "thermal" in reading.throttle_reasons
    assert reading.temperature_c is not None
    assert reading.temperature_c < model.chip.throttle_c + 1
    assert reading.sm_clock_hz is not None
    assert reading.sm_clock_hz < 1410e6


def test_runs_spread_by_about_a_percent_and_repeat_by_seed(tmp_path: Path) -> None:
    def times(seed: int) -> list[float]:
        device = opened(tmp_path, seed=seed)
        return [run(device, 2560)[0] for _ in range(40)]

    first = times(1)
    assert first == times(1)
    assert first != times(2)
    assert 0.004 < np.std(first) / np.mean(first) < 0.02


def test_the_steady_run_is_what_the_survey_says(tmp_path: Path) -> None:
    device = opened(tmp_path)
    profile = device.survey(RESNET)
    default = device.joint_space(RESNET).default
    row = next(i for i in range(len(profile)) if profile.setting(i) == default)
    run(device, 3e5)  # warms it up
    time_s, energy_j = run(device, 1e5)
    assert time_s / 1e5 == pytest.approx(profile.time_s[row], rel=0.05)
    assert energy_j / 1e5 == pytest.approx(profile.energy_j[row], rel=0.06)


@pytest.mark.parametrize("limit_w", [400.0, 250.0])
def test_looking_in_between_changes_nothing(tmp_path: Path, limit_w: float) -> None:
    seen = []
    for looks in (0, 7, 100):
        device = opened(tmp_path / str(looks))
        device.apply(Setting({POWER_LIMIT: limit_w}))
        work = device.submit(RESNET, images(6e4), Setting())
        for _ in range(looks):
            device.clock.sleep(0.0937)
            device.read()
        work.wait()
        end_s = device.clock.now_s()
        device.clock.sleep(3.0)  # past the counter's tick
        seen.append((end_s, device._board.energy_j, device._board.temperature_c))
    assert seen[1] == pytest.approx(seen[0], rel=1e-7)
    assert seen[2] == pytest.approx(seen[0], rel=1e-7)


def test_work_waits_its_turn(tmp_path: Path) -> None:
    device = opened(tmp_path)
    first = device.submit(RESNET, images(2560), Setting())
    second = device.submit(RESNET, images(2560), Setting())
    second.wait()
    both_s = device.clock.now_s()
    first.wait()
    assert device.clock.now_s() == both_s
    assert both_s > 1.9 * run(device, 2560)[0]


def test_what_does_not_fit_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    device = opened(tmp_path, "t4")
    space = device.workload_space(RESNET)
    own = space.default.replace(**{BATCH_SIZE: space.knob(BATCH_SIZE).values[-1]})
    before = device.read()
    assert device.submit(RESNET, images(16), own) is not None  # in half precision it fits
    with pytest.raises(OutOfMemoryError, match="micro_batch"):
        device.submit(RESNET, images(16), own.replace(**{PRECISION: "fp32"}))
    with pytest.raises(OutOfMemoryError):
        device.workload_space(load("gpt3-1.3b"))
    assert "gpt3-1.3b" not in device.workload_names()
    assert device.read().time_s == before.time_s


def test_a_smaller_micro_batch_lets_a_precision_fit(tmp_path: Path) -> None:
    device = opened(tmp_path, "t4")
    own = device.workload_space(RESNET).default
    quarter = own.replace(micro_batch=own.number(MICRO_BATCH) / 4, precision="fp32")
    time_s, _ = run(device, 256, **quarter)
    assert time_s > 0


def test_micro_batches_divide_the_batch_or_leave_it_whole(tmp_path: Path) -> None:
    joint = opened(tmp_path).workload_space(RESNET)
    assert joint.default.replace(**{BATCH_SIZE: 64}) in joint
    assert joint.default.replace(**{MICRO_BATCH: 64}) in joint
    assert joint.default.replace(**{BATCH_SIZE: 64, MICRO_BATCH: 128}) not in joint


def test_the_state_is_shared_and_outlives_its_writer(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.apply(Setting({POWER_LIMIT: 250.0}))
    second.apply(Setting({SM_CLOCK: 1200e6}))
    assert first.current() == second.current()
    assert first.current()[POWER_LIMIT] == 250.0
    assert opened(tmp_path).current()[SM_CLOCK] == 1200e6
    code = (
        "import os, signal\n"
        "from lowjoule.devices.registry import open_device\n"
        "from lowjoule.knobs import Setting\n"
        "open_device('sim:a100').apply(Setting({'power_limit': 200.0}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={VARIABLE: str(tmp_path)}, check=False)
    assert done.returncode == -9
    assert first.current()[POWER_LIMIT] == 200.0
    assert second.current()[SM_CLOCK] == 1200e6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"power_limit": 1.0}',
        '{"fan": 3}',
        '{"power_limit": [1]}',
        "\x00" * 9,
        "[" * 100_000,
    ],
)
def test_a_corrupt_state_is_the_default_and_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "a100-80gb.json").write_text(text)
    device = opened(tmp_path)
    assert device.current() == device.space.default
    assert len(device.notes) == 1
    assert "damaged" in device.notes[0]
    device.apply(Setting({POWER_LIMIT: 250.0}))
    assert json.loads((tmp_path / "a100-80gb.json").read_text()) == {POWER_LIMIT: 250.0}
    assert opened(tmp_path).current()[POWER_LIMIT] == 250.0


def test_an_unwritable_state_stays_in_memory_and_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    device = opened(tmp_path / "file" / "below")
    device.apply(Setting({POWER_LIMIT: 250.0}))
    device.apply(Setting({SM_CLOCK: 1200e6}))
    assert device.current()[POWER_LIMIT] == 250.0
    assert any("cannot be written" in note for note in device.notes)


def test_another_process_s_change_reaches_running_work(tmp_path: Path) -> None:
    device, other = opened(tmp_path), opened(tmp_path)
    device.submit(RESNET, images(1e5), Setting())
    device.clock.sleep(1.0)
    device.read()
    other.apply(Setting({SM_CLOCK: 705e6}))
    device.read()
    device.clock.sleep(0.2)
    assert device.read().sm_clock_hz == 705e6


def test_memory_clocks_matter_for_memory_bound_work(tmp_path: Path) -> None:
    device = opened(tmp_path, "rtx4090")
    copy = load("copy")

    def seconds() -> float:
        before_s = device.clock.now_s()
        device.submit(copy, Work(2000, copy.unit), Setting()).wait()
        return device.clock.now_s() - before_s

    fast_s = seconds()
    device.apply(Setting({MEMORY_CLOCK: 5001e6}))
    device.clock.sleep(1.0)
    assert seconds() > 1.5 * fast_s


def test_wall_time_is_real_and_the_same_code(tmp_path: Path) -> None:
    device = opened(tmp_path, wall_time=True)
    start_s = device.clock.now_s()
    device.submit(RESNET, images(200), Setting()).wait()
    assert device.clock.now_s() - start_s >= 0.05
    assert not device._board.jobs


def test_each_knob_comes_into_force_after_its_own_latency() -> None:
    device = open_device("sim:a100")
    assert isinstance(device, SimulatedDevice)
    slow, fast = (device.space.knob(name).latency_s for name in ("power_limit", "sm_clock"))
    assert slow > fast
    work = device.workload("gemm")
    device.submit(work, Work(1e5, work.unit), Setting())
    device.apply(Setting({"power_limit": 100.0}))
    device.apply(Setting({"sm_clock": 1005e6}))
    device.clock.sleep((slow + fast) / 2)
    before = device.read().sm_clock_hz
    device.clock.sleep(slow)
    after = device.read().sm_clock_hz
    assert before == 1005e6
    assert after is not None
    assert after < 1005e6


def test_a_survey_of_a_part_is_not_thinned_for_the_whole() -> None:
    device = open_device("sim:b200")
    assert isinstance(device, SimulatedDevice)
    workload = device.workload("resnet50")
    part = turnable(device.joint_space(workload), ["sm_clock"])
    clocks = device.survey(workload, part).settings["sm_clock"]
    assert sorted(set(clocks.tolist())) == list(device.space.knob("sm_clock").values)
    before = device.notes
    assert before == ()
    device.survey(workload)
    assert any("values of sm_clock" in note for note in device.notes)


def test_a_default_that_some_workloads_lack_hides_these_alone(tmp_path: Path) -> None:
    names = opened(tmp_path, default={"batch_size": "4096"}).workload_names()
    assert names
    assert set(names) < set(opened(tmp_path).workload_names())
