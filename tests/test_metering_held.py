"""A power sensor that is held: what its few values tell of the energy, and how well."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lowjoule.clock import WallClock
from lowjoule.devices.interface import Reading
from lowjoule.metering import Flag, measure
from lowjoule.metering.held import Held, held_energy, renewals
from lowjoule.metering.pace import interval_s
from lowjoule.metering.spread import Spread
from lowjoule.metering.trace import Habits, Trace
from metering_devices import ToldDevice, manual

PERIOD_S = 0.1
Floats = NDArray[np.float64]
Power = Callable[[Floats], Floats]


def held_of(power_of: Power, length_s: float, *, part: float, first_s: float) -> Held:
    """What a sensor tells that sees `part` of each period, renewed at `first_s` and later."""
    at_s = np.arange(first_s, length_s, PERIOD_S)
    seen_s = np.linspace(-part * PERIOD_S, 0.0, 200, endpoint=False)
    value_w = power_of(at_s[:, None] + seen_s).mean(axis=1)
    before_w = float(power_of(np.array([-PERIOD_S]))[0])
    found = held_energy((at_s, value_w), before_w, PERIOD_S, (0.0, length_s))
    assert found is not None
    return found


def half_width_j(held: Held) -> float:
    return Spread(held.uniform_j, few_j2=held.variance_j2, freedom=held.freedom).half_width_j


def true_j(power_of: Power, length_s: float) -> float:
    return float(power_of(np.linspace(0, length_s, 20_001)).mean()) * length_s


def test_constant_power_is_known_exactly() -> None:
    held = held_of(lambda s: 0 * s + 300.0, 1.0, part=0.25, first_s=0.03)
    assert held.energy_j == pytest.approx(300.0)
    assert half_width_j(held) == pytest.approx(0.0, abs=1e-9)
    assert not held.hidden


def test_a_first_value_that_is_of_both_sides_of_the_edge_is_taken_apart() -> None:
    held = held_of(lambda s: np.where(s >= 0, 600.0, 60.0), 1.0, part=0.25, first_s=0.01)
    assert held.energy_j == pytest.approx(600.0, rel=0.02)
    assert abs(held.energy_j - 600.0) <= half_width_j(held)


@pytest.mark.parametrize("part", [0.1, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("slope_w", [-300.0, 200.0])
def test_a_ramp_goes_on_to_both_edges(part: float, slope_w: float) -> None:
    def ramp(time_s: Floats) -> Floats:
        return 400.0 + slope_w * (time_s - 0.5)

    held = held_of(ramp, 1.0, part=part, first_s=0.07)
    assert held.energy_j == pytest.approx(400.0, rel=0.03)
    assert abs(held.energy_j - 400.0) <= half_width_j(held) <= 16.0


def test_a_load_that_the_sensor_sees_in_samples_is_inside_as_often_as_stated() -> None:
    random = np.random.default_rng(5)
    inside, widths, errors = 0, [], []
    for _ in range(400):
        ends_s = np.cumsum(random.uniform(0.001, 0.02, 200))
        watts = random.uniform(60, 690, 201)

        def power_of(time_s: Floats, ends_s: Floats = ends_s, watts: Floats = watts) -> Floats:
            return watts[np.searchsorted(ends_s, time_s + 0.3)]

        held = held_of(power_of, 1.0, part=0.25, first_s=float(random.uniform(0, PERIOD_S)))
        error_j = held.energy_j - true_j(power_of, 1.0)
        inside += abs(error_j) <= half_width_j(held)
        widths.append(half_width_j(held))
        errors.append(error_j)
    assert inside / 400 >= 0.95
    assert float(np.median(widths)) <= 3 * math.sqrt(float(np.mean(np.square(errors))))


def test_a_load_nearly_in_step_is_wide_and_said_where_it_turns() -> None:
    def pulses(time_s: Floats) -> Floats:
        return np.where(time_s % 0.092 < 0.04, 600.0, 100.0)

    held = held_of(pulses, 1.0, part=0.25, first_s=0.05)
    assert held.hidden
    assert abs(held.energy_j - true_j(pulses, 1.0)) <= half_width_j(held)


def test_renewals_are_found_where_the_value_stays_too() -> None:
    time_s = np.arange(0.0, 1.0, 0.004)
    power_w = np.where(time_s < 0.3, 100.0, np.where(time_s < 0.7, 200.0, 150.0))
    at_s, value_w = renewals(time_s, power_w, 0.1, 1.0)
    assert np.allclose(np.diff(at_s), 0.1, atol=0.003)
    assert value_w.tolist() == [*[100.0] * 2, *[200.0] * 4, *[150.0] * 4]


@pytest.mark.parametrize("blur_s", [0.001, 0.004])
def test_a_sensor_is_found_to_be_held_though_looks_become_fewer(blur_s: float) -> None:
    trace, random = Trace(Habits()), np.random.default_rng(1)
    now_s = 0.0
    while now_s < 1.2:
        value_w = 100.0 + 50.0 * math.sin(7 * math.floor(now_s / 0.1))
        trace.add(Reading(time_s=now_s, power_w=value_w, power_window_s=0.0))
        now_s += (0.001 if now_s < 0.6 else blur_s) * float(random.uniform(0.5, 1.5))
    trace.learn()
    assert trace.habits.refresh_s == pytest.approx(0.1, rel=0.02)


def test_a_regular_load_of_two_levels_leaves_open_whether_the_sensor_is_held() -> None:
    trace = Trace(Habits())
    for number in range(1000):
        power_w = 500.0 if number % 200 < 100 else 100.0
        trace.add(Reading(time_s=0.001 * number, power_w=power_w, power_window_s=0.0))
    trace.learn()
    assert trace.habits.refresh_s is None


@dataclass(eq=False)
class PartTimeDevice(ToldDevice):
    """A sensor that is renewed every 100 ms and sees the last 25 ms."""

    def read(self) -> Reading:
        plain = super().read()
        renewed_s = math.floor(plain.time_s / 0.1 + 1e-9) * 0.1
        return Reading(
            time_s=plain.time_s,
            energy_j=plain.energy_j,
            power_w=self.true_j(renewed_s - 0.025, renewed_s) / 0.025,
            power_window_s=0.0,
        )


def test_a_window_shorter_than_the_tick_beside_a_held_sensor_holds_the_truth() -> None:
    random = np.random.default_rng(3)
    ends_s = np.cumsum(random.uniform(0.005, 0.1, 400))
    watts = random.uniform(60, 690, 401)
    device = PartTimeDevice(
        lambda s: float(watts[int(np.searchsorted(ends_s, s))]), tick_s=0.1, phase_s=0.031
    )
    device.clock.sleep(1.0)
    inside = 0
    for _ in range(60):
        begin_s = device.clock.now_s()
        window = manual(device, 0.05)
        assert Flag.UNRESOLVED in window.flags
        error_j = (window.energy_j or 0.0) - device.true_j(begin_s, begin_s + 0.05)
        inside += abs(error_j) <= (window.uncertainty_j or 0.0)
        device.clock.sleep(0.0173)
    assert inside >= 54


def test_pulses_without_a_counter_beside_a_part_time_sensor_are_flagged() -> None:
    device = PartTimeDevice(lambda s: 500.0 if s % 0.17 < 0.06 else 80.0, has_counter=False)
    manual(device, 2.0)
    begin_s = device.clock.now_s()
    window = manual(device, 2.0)
    assert Flag.BEATING in window.flags
    error_j = (window.energy_j or 0.0) - device.true_j(begin_s, begin_s + 2.0)
    assert abs(error_j) <= (window.uncertainty_j or 0.0)


def test_the_first_looks_follow_the_begin_closely() -> None:
    gaps_s = [
        interval_s(Habits(tick_s=0.1), 0.0, 40 + inside, inside=inside, real_time=False)
        for inside in range(16)
    ]
    assert gaps_s[0] <= 5e-5
    assert sum(gaps_s[:6]) <= 4e-3
    assert gaps_s[-1] >= 1e-3


@given(st.floats(1.0, 60.0), st.floats(0.1, 100.0), st.floats(0.0, 50.0))
def test_few_degrees_of_freedom_make_an_interval_wider(
    freedom: float, few_j2: float, uniform_j: float
) -> None:
    narrow = Spread((uniform_j,), few_j2=few_j2, freedom=2 * freedom).half_width_j
    wide = Spread((uniform_j,), few_j2=few_j2, freedom=freedom).half_width_j
    known = Spread((uniform_j,), variance_j2=few_j2).half_width_j
    assert known * (1 - 1e-9) <= narrow <= wide * (1 + 1e-9)


class SteadyDevice(ToldDevice):
    """100 W in real time."""

    def read(self) -> Reading:
        now_s = self.clock.now_s()
        return Reading(time_s=now_s, energy_j=100.0 * now_s, power_w=100.0, power_window_s=0.0)


def test_a_window_that_is_forgotten_ends_its_looks() -> None:
    measure("forgotten", devices=[SteadyDevice(clock=WallClock())], sync=None).start()
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "lowjoule-watch":
            thread.join(timeout=10.0)
            assert not thread.is_alive()


def test_a_window_begun_after_a_forgotten_one_is_measured() -> None:
    device = SteadyDevice(clock=WallClock())
    measure("forgotten", devices=[device], sync=None).start()
    with measure("next", devices=[device], sync=None) as window:
        device.clock.sleep(0.05)
    assert window.energy_j == pytest.approx(100.0 * (window.time_s or 0.0), rel=0.01)
