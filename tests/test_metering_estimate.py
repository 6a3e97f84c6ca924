"""What a window's energy is made from: ticks, power, and what is wrong with either."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpu_trees import opened as opened_cpu
from cpu_trees import tree as tree
from lowjoule.clock import VirtualClock
from lowjoule.devices.interface import Reading
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Space
from lowjoule.metering import Flag, Window, measure
from lowjoule.metering.pace import interval_s
from lowjoule.metering.spread import Spread
from lowjoule.metering.trace import Habits, Trace
from lowjoule.source import Source
from lowjoule.testing.nvml import Board, FakeNvml, compiler
from lowjoule.testing.sysfs import FakeSysfs
from lowjoule.workloads import Work
from metering_devices import ToldDevice, let, manual

Power = Callable[[float], float]


def stepped(low_w: float, high_w: float, at_s: float) -> Power:
    return lambda time_s: high_w if time_s >= at_s else low_w


def only(window: Window) -> str | None:
    (device,) = window.devices.values()
    return device.method


# ticks


@pytest.mark.parametrize("tick_s", [0.02, 0.1])
@pytest.mark.parametrize(("length_s", "most"), [(0.2, 0.01), (1.0, 0.002)])
def test_a_step_at_the_start_is_measured_between_ticks(
    tick_s: float, length_s: float, most: float
) -> None:
    for phase in (0.13, 0.41, 0.77):
        device = ToldDevice(stepped(60.0, 600.0, 1.0), tick_s=tick_s, phase_s=phase * tick_s)
        device.clock.sleep(1.0)
        window = manual(device, length_s)
        true_j = 600.0 * length_s
        assert window.energy_j == pytest.approx(true_j, rel=most)
        assert abs((window.energy_j or 0) - true_j) <= 1.5 * (window.uncertainty_j or 0)


def test_a_window_shorter_than_a_tick_is_not_zero_and_is_flagged() -> None:
    device = ToldDevice(tick_s=0.1, phase_s=0.05)
    window = manual(device, 0.03)
    assert window.energy_j == pytest.approx(3.0, rel=0.05)
    assert Flag.UNRESOLVED in window.flags
    mute = ToldDevice(tick_s=0.1, phase_s=0.05, has_power=False)
    window = manual(mute, 0.03)
    assert window.energy_j is None
    assert {Flag.UNRESOLVED, Flag.MISSING} <= window.flags


def test_a_counter_without_a_power_sensor_is_extrapolated_by_its_own_power() -> None:
    device = ToldDevice(stepped(60.0, 300.0, 1.0), has_power=False, phase_s=0.007)
    device.clock.sleep(1.0)
    window = manual(device, 1.0)
    assert only(window) == "counter"
    assert window.peak_power_w is None
    assert window.energy_j == pytest.approx(300.0, rel=0.002)


@pytest.mark.parametrize("gain", [0.8, 1.25])
def test_a_sensor_of_another_gain_than_the_counter_is_scaled_to_it(gain: float) -> None:
    device = ToldDevice(lambda time_s: 200.0 if time_s % 0.3 < 0.17 else 80.0, gain=gain)
    window = manual(device, 2.01)
    (one,) = window.devices.values()
    assert one.energy_j == pytest.approx(gain * device.true_j(0.0, 2.01), rel=0.003)
    assert Flag.DISAGREEMENT in window.flags
    assert one.integral_j == pytest.approx(device.true_j(0.0, 2.01), rel=0.01)


def test_halving_the_tick_halves_the_uncertainty() -> None:
    def typical_j(tick_s: float, phases: int = 45) -> float:
        halves_j = []
        for number in range(phases):
            device = ToldDevice(tick_s=tick_s, phase_s=tick_s * number / phases)
            manual(device, 0.5)
            halves_j.append(manual(device, 1.0).uncertainty_j or 0)
        return float(np.median(halves_j))

    wide_j, middle_j, narrow_j = (typical_j(tick_s) for tick_s in (0.1, 0.05, 0.025))
    assert middle_j / wide_j == pytest.approx(0.5, abs=0.1)
    assert narrow_j / middle_j == pytest.approx(0.5, abs=0.1)


# power


def test_without_a_counter_power_is_integrated_and_said_so() -> None:
    device = ToldDevice(stepped(60.0, 300.0, 1.0), has_counter=False)
    device.clock.sleep(1.0)
    window = manual(device, 1.0)
    assert only(window) == "power"
    assert window.energy_j == pytest.approx(300.0, rel=0.01)


def test_a_device_that_tells_neither_is_missing_not_zero() -> None:
    window = manual(ToldDevice(has_counter=False, has_power=False), 1.0)
    assert window.energy_j is None
    assert window.power_w is None
    assert Flag.MISSING in window.flags


class AveragedDevice(ToldDevice):
    """No counter, and power averaged over the last second, as many boards have it."""

    def read(self) -> Reading:
        now_s = self.clock.now_s()
        mean_w = self.true_j(now_s - 1.0, now_s)
        return Reading(time_s=now_s, power_w=mean_w, power_window_s=1.0)


@pytest.mark.parametrize("length_s", [0.2, 1.0, 2.3])
def test_averaged_power_is_undone(length_s: float) -> None:
    device = AveragedDevice(stepped(60.0, 600.0, 2.0))
    device.clock.sleep(2.0)
    window = manual(device, length_s)
    assert only(window) == "average power"
    assert window.energy_j == pytest.approx(600.0 * length_s, rel=0.01)
    assert (window.uncertainty_j or 0) > 0.0005 * (window.energy_j or 0)


# what cannot be believed


def test_a_reset_gives_the_window_from_power_and_a_flag() -> None:
    device = ToldDevice()
    window = measure("w", devices=[device], sampling="manual", sync=None).start()
    let(device, 0.5, window)
    device.shift_j = -50.0
    let(device, 0.5, window)
    window.stop()
    assert Flag.COUNTER_RESET in window.flags
    assert only(window) == "power"
    assert window.energy_j == pytest.approx(100.0, rel=0.01)
    after = manual(device, 0.5)
    assert Flag.COUNTER_RESET not in after.flags
    assert after.energy_j == pytest.approx(50.0, rel=0.01)


def test_a_reset_without_power_is_missing() -> None:
    device = ToldDevice(has_power=False)
    window = measure("w", devices=[device], sampling="manual", sync=None).start()
    let(device, 0.5, window)
    device.shift_j = 0.0
    let(device, 0.5, window)
    assert window.stop().energy_j is None
    assert {Flag.COUNTER_RESET, Flag.MISSING} <= window.flags


def test_a_counter_that_goes_back_a_little_is_held_and_flagged() -> None:
    device = ToldDevice()
    window = measure("w", devices=[device], sampling="manual", sync=None).start()
    let(device, 0.5, window)
    device.shift_j -= 3.0
    let(device, 0.1, window)
    device.shift_j += 3.0
    let(device, 0.4, window)
    window.stop()
    assert window.flags == {Flag.COUNTER_FELL}
    assert window.energy_j == pytest.approx(100.0, rel=0.01)
    assert (window.uncertainty_j or 0) >= 0.9


def test_a_frozen_counter_is_left_for_the_power_sensor() -> None:
    for before_s in (0.0, 0.4):
        device = ToldDevice()
        window = measure("w", devices=[device], sampling="manual", sync=None).start()
        let(device, before_s, window)
        device.frozen_j = device.read().energy_j
        let(device, 1.0, window)
        window.stop()
        assert Flag.COUNTER_FROZEN in window.flags
        assert only(window) == "power"
        assert window.energy_j == pytest.approx(100.0 * (1.0 + before_s), rel=0.01)


def test_more_than_the_limit_allows_is_not_believed() -> None:
    from lowjoule.knobs import POWER_LIMIT, standard_knob

    space = Space((standard_knob(POWER_LIMIT, (100.0, 150.0), 150.0),))
    device = ToldDevice(gain=40.0, space=space)
    window = manual(device, 1.0)
    assert Flag.IMPLAUSIBLE in window.flags
    assert only(window) == "power"
    assert window.energy_j == pytest.approx(100.0, rel=0.01)
    worse = ToldDevice(lambda time_s: 9000.0, space=space)
    window = manual(worse, 1.0)
    assert window.energy_j is None
    assert Flag.IMPLAUSIBLE in window.flags


def test_counter_and_power_that_differ_by_a_third_on_an_idle_card_are_both_told() -> None:
    device = ToldDevice(lambda time_s: 60.0, gain=0.57)
    window = manual(device, 5.0)
    (one,) = window.devices.values()
    assert Flag.DISAGREEMENT in one.flags
    assert one.counter_j == pytest.approx(0.57 * 300.0, rel=0.01)
    assert one.integral_j == pytest.approx(300.0, rel=0.01)


class PartTimeDevice(ToldDevice):
    """A power sensor that is renewed every 100 ms from one moment."""

    def read(self) -> Reading:
        plain = super().read()
        renewed_s = math.floor(plain.time_s / 0.1 + 1e-9) * 0.1
        return Reading(
            time_s=plain.time_s,
            energy_j=plain.energy_j,
            power_w=self.power_of(renewed_s) + renewed_s % 0.01,
            power_window_s=0.0,
        )


def test_a_load_that_beats_with_a_part_time_sensor_is_flagged() -> None:
    device = PartTimeDevice(lambda time_s: 500.0 if time_s % 0.11 < 0.03 else 80.0)
    manual(device, 3.0)
    window = manual(device, 3.0)
    assert Flag.BEATING in window.flags
    true_j = device.true_j(3.0, 6.0)
    assert abs((window.energy_j or 0) - true_j) <= (window.uncertainty_j or 0)


# devices in virtual time


@pytest.mark.parametrize("spec", ["sim:a100", "sim:h100", "sim:v100", "sim:rtx4090"])
def test_a_simulated_board_is_measured_within_its_interval(spec: str) -> None:
    device = open_device(spec)
    workload = device.workload("resnet50")  # type: ignore[attr-defined]
    setting = device.workload_space(workload).default  # type: ignore[attr-defined]
    for _ in range(3):
        with measure("w", devices=[device], sync=None) as window:
            begin_j = device._board.energy_j  # type: ignore[attr-defined]
            device.submit(workload, Work(5000.0, workload.unit), setting).wait()  # type: ignore[attr-defined]
            device.read()
            true_j = device._board.energy_j - begin_j  # type: ignore[attr-defined]
        assert window.energy_j == pytest.approx(true_j, rel=0.003)
        assert abs((window.energy_j or 0) - true_j) <= (window.uncertainty_j or 0)


def test_a_replayed_table_is_exact_and_no_time_is_added(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "workload,power_limit_w,time_s,energy_j\njob,200,4.0,600.0\njob,250,3.0,660.0\n"
    )
    device = open_device(f"replay:{path}")
    workload = device.workload()  # type: ignore[attr-defined]
    with measure("w", devices=[device]) as window:
        device.submit(workload, Work(2.0, workload.unit), device.current().only([])).wait()  # type: ignore[attr-defined]
    assert window.time_s == pytest.approx(6.0)
    assert window.energy_j == pytest.approx(1320.0)
    assert window.uncertainty_j == pytest.approx(0.0, abs=1e-9)
    assert device.clock.now_s() == pytest.approx(6.0)


def test_a_cpu_package_is_measured_over_its_wrap_and_missing_over_a_reset(
    tree: FakeSysfs,
) -> None:
    device = opened_cpu(tree)
    with measure("w", devices=[device]) as window:
        device.clock.sleep(1.0)
    assert window.energy_j == pytest.approx(230.0, rel=0.005)
    window.start()
    device.clock.sleep(0.5)
    tree.jump("intel-rapl:0", 0)
    device.clock.sleep(0.5)
    window.stop()
    assert window.energy_j is None
    assert {Flag.COUNTER_RESET, Flag.MISSING} <= window.flags


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_a_real_binding_over_a_fake_board(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    from nvml_machines import board, machine, opened

    with machine(tmp_path, board(tick_s=0.1, tick_phase_s=0.03)) as fake:
        device = opened(fake)
        assert isinstance(fake, FakeNvml)
        assert isinstance(fake[0].board, Board)
        window = measure("w", devices=[device], sampling="manual", sync=None).start()
        begin_s = fake.now_s()
        fake[0].load([(0.0, 600.0)])
        while (left_s := begin_s + 0.2 - fake.now_s()) > 0:
            fake.advance(min(left_s, max(1e-6, (window.due_s or 0) - fake.now_s())))
            window.poll()
        window.stop()
        true_j = fake[0].true_energy_j(begin_s, fake.now_s())
        assert window.energy_j == pytest.approx(true_j, rel=0.01)
        fake[0].lose()
        window.start()
        window.stop()
        assert Flag.LOST in window.flags
        assert fake.writes() == []


# what always holds

LEVELS = st.lists(st.tuples(st.floats(0.005, 0.5), st.floats(10.0, 900.0)), min_size=1, max_size=12)


def course(levels: list[tuple[float, float]]) -> Power:
    ends_s = np.cumsum([length_s for length_s, _ in levels])
    watts = [power_w for _, power_w in levels]

    def power_of(time_s: float) -> float:
        place = int(np.searchsorted(ends_s, time_s % ends_s[-1], "right"))
        return watts[min(place, len(watts) - 1)]

    return power_of


@settings(max_examples=30)
@given(
    levels=LEVELS,
    tick_s=st.sampled_from([0.0, 0.02, 0.1]),
    length_s=st.floats(0.01, 0.8),
    counter=st.booleans(),
    power=st.booleans(),
)
def test_energy_is_never_negative_nor_below_its_interval(
    levels: list[tuple[float, float]], tick_s: float, length_s: float, counter: bool, power: bool
) -> None:
    device = ToldDevice(course(levels), tick_s=tick_s, has_counter=counter, has_power=power)
    device.clock.sleep(0.2)
    window = manual(device, length_s)
    if window.energy_j is None:
        assert window.uncertainty_j is None
        return
    assert window.energy_j >= 0
    low_j, high_j = window.interval_j or (math.nan, math.nan)
    assert 0 <= low_j <= window.energy_j <= high_j


@settings(max_examples=20)
@given(levels=LEVELS, parts=st.lists(st.floats(0.05, 0.4), min_size=2, max_size=4))
def test_windows_one_after_the_other_sum_to_the_one_around_them(
    levels: list[tuple[float, float]], parts: list[float]
) -> None:
    device = ToldDevice(course(levels), phase_s=0.003)
    outer = measure("outer", devices=[device], sampling="manual", sync=None).start()
    inner = []
    for length_s in parts:
        one = measure("inner", devices=[device], sampling="manual", sync=None).start()
        let(device, length_s, one)
        inner.append(one.stop())
    outer.stop()
    summed_j = math.fsum(one.energy_j or 0.0 for one in inner)
    # one in twenty of an interval's windows is outside it, but not far
    allowed_j = 2 * math.fsum(one.uncertainty_j or 0.0 for one in [*inner, outer])
    assert abs(summed_j - (outer.energy_j or 0.0)) <= allowed_j + 0.01 * summed_j + 1e-3


@given(st.lists(st.floats(0, 50), max_size=5), st.floats(0, 400), st.floats(0, 50))
def test_an_interval_grows_with_every_error_in_it(
    uniform_j: list[float], variance_j2: float, more_j: float
) -> None:
    spread = Spread(tuple(uniform_j), variance_j2)
    wider = spread.widened(more_j)
    assert wider.half_width_j >= spread.half_width_j * (1 - 1e-9)
    assert wider.sd_j >= spread.sd_j * (1 - 1e-9)
    assert spread.half_width_j <= 2.18 * spread.sd_j + 1e-9


@given(st.floats(1e-3, 1.0), st.floats(1.0, 4.0))
def test_the_interval_of_a_step_is_monotone_in_the_tick(tick_s: float, factor: float) -> None:
    narrow = interval_s(Habits(tick_s=tick_s), 0.0, 3, inside=99, real_time=False)
    wide = interval_s(Habits(tick_s=factor * tick_s), 0.0, 3, inside=99, real_time=False)
    assert narrow <= wide * (1 + 1e-9)


def test_looks_take_a_small_part_of_the_time_however_long_one_takes() -> None:
    for read_s in (1e-6, 1e-4, 2.4e-3):
        habits = Habits(tick_s=0.1, read_s=read_s)
        assert read_s / interval_s(habits, 1.0, 5, inside=99, real_time=True) <= 0.04


def test_a_long_window_needs_bounded_memory_and_loses_no_energy() -> None:
    trace = Trace(Habits(tick_s=0.02))
    clock = VirtualClock()
    count = 100_000
    for _ in range(count):
        now_s = clock.now_s()
        ticks = math.floor(now_s / 0.02 + 1e-9)
        trace.add(Reading(time_s=now_s, energy_j=2.0 * ticks, power_w=100.0, power_window_s=0.0))
        if trace.is_full():
            trace.thin([0.0])
        clock.sleep(0.01)
    assert len(trace.samples) <= 33_000
    assert trace.samples[-1][4] == pytest.approx(100.0 * (count - 1) * 0.01)
    assert trace.samples[-1][2] == pytest.approx(2.0 * (count - 1) * 0.01 / 0.02, rel=1e-3)


def test_a_counter_that_moves_at_every_look_is_exact() -> None:
    device = ToldDevice(tick_s=0.0)
    with measure("w", devices=[device], sync=None) as window:
        device.clock.sleep(1.0)
    assert window.energy_j == pytest.approx(100.0, rel=1e-6)
    assert device.source is Source.MEASURED
