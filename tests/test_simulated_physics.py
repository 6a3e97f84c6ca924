from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowjoule.devices.simulated import GpuModel, gpu, gpu_names
from lowjoule.devices.simulated.demand import load_of, peak_rate, supported_precisions
from lowjoule.devices.simulated.governor import steady
from lowjoule.devices.simulated.physics import (
    Load,
    activity_power_w,
    steady_power_w,
    steady_temperature_c,
    step_time_s,
    voltage,
)
from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.workloads import Workload, load

A100 = gpu("a100")
part = st.floats(0.0, 1.0)
boards = st.sampled_from(gpu_names()).map(gpu)


def clocks_of(model: GpuModel) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(model.clocks_hz) / model.clocks_hz[-1]


@st.composite
def loads(draw: st.DrawFn) -> Load:
    compute, memory = draw(st.floats(1e-3, 1.0)), draw(st.floats(1e-3, 1.0))
    return Load(compute, memory, draw(part), draw(st.floats(0.01, 1.0)), draw(st.floats(0.3, 1.2)))


@given(boards, loads())
def test_higher_clocks_never_slow_work_down(model: GpuModel, work: Load) -> None:
    x = clocks_of(model)
    times = step_time_s(model.chip, work, x, 1.0)
    assert np.all(np.diff(times) < 0)
    m = np.linspace(0.3, 1.0, 9)
    assert np.all(np.diff(step_time_s(model.chip, work, 1.0, m)) < 0)


@given(boards, loads())
def test_power_rises_with_the_clock(model: GpuModel, work: Load) -> None:
    x = clocks_of(model)
    power = activity_power_w(model.chip, work, x, 1.0, step_time_s(model.chip, work, x, 1.0))
    assert np.all(np.diff(power) > 0)


@given(boards, loads())
def test_time_is_between_the_longest_part_and_the_sum(model: GpuModel, work: Load) -> None:
    parts = [float(np.asarray(p)) for p in (work.compute_s, work.memory_s, work.overhead_s)]
    time_s = float(step_time_s(model.chip, work, 1.0, 1.0))
    assert max(parts) * (1 - 1e-12) <= time_s <= sum(parts) * (1 + 1e-12)


@given(boards, loads(), st.integers(0, 10_000))
@settings(max_examples=60)
def test_the_limit_is_held_or_flagged_and_the_clock_is_the_highest(
    model: GpuModel, work: Load, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x, count = clocks_of(model), 40
    asked, limit = random.choice(x, count), random.choice(model.limits_w, count)
    m = np.ones(count)
    found = steady(model.chip, work, clocks=x, asked=asked, limit_w=limit, m=m)
    assert np.all(found.power_w[found.held] <= limit[found.held] * (1 + 1e-6))
    assert np.all(found.x[~found.held] == x[0])
    assert np.all(found.x <= asked)
    every = np.stack([_power(model, work, clock) for clock in x])
    for row in range(count):
        good = (every <= limit[row] * (1 + 1e-9)) & (x <= asked[row])
        best = x[good][-1] if good.any() else x[0]
        assert found.x[row] == best


def _power(model: GpuModel, work: Load, clock: float) -> float:
    time_s = step_time_s(model.chip, work, clock, 1.0)
    return float(steady_power_w(model.chip, activity_power_w(model.chip, work, clock, 1.0, time_s)))


@given(boards, loads())
@settings(max_examples=30)
def test_a_higher_limit_never_slows_work_down(model: GpuModel, work: Load) -> None:
    limits = np.array(model.limits_w)
    same = np.ones(len(limits))
    found = steady(model.chip, work, clocks=clocks_of(model), asked=same, limit_w=limits, m=same)
    assert np.all(np.diff(found.time_s) <= 1e-12)


def test_voltage_is_flat_and_then_rises_to_one() -> None:
    chip = A100.chip
    v = voltage(chip, np.linspace(0.1, 1.0, 50))
    assert v[0] == chip.voltage_floor
    assert v[-1] == pytest.approx(1.0)
    assert np.all(np.diff(v) >= 0)


def test_steady_temperature_and_leakage_agree() -> None:
    power = float(steady_power_w(A100.chip, 250.0))
    hot = float(steady_temperature_c(A100.chip, power))
    growth = 1 + 0.008 * (hot - 60.0)
    assert power == pytest.approx(250.0 + A100.chip.idle_w + A100.chip.leakage_w * growth)


@pytest.mark.parametrize("name", gpu_names())
def test_energy_has_a_minimum_inside_the_clocks(name: str) -> None:
    model = gpu(name)
    x = clocks_of(model)
    same = np.ones(len(x))
    found = steady(model.chip, Load(1.0, 0.5, 0.05), clocks=x, asked=x, limit_w=same * 1e6, m=same)
    best = int(np.argmin(found.time_s * found.power_w))
    assert 0 < best < len(x) - 1


def test_an_image_model_on_an_a100_is_as_on_a_real_one() -> None:
    work = load("resnet50")
    limits = np.array(A100.limits_w)
    same = np.ones(len(limits))
    demand = load_of(A100, work, 256, 256, "bf16")
    found = steady(A100.chip, demand, clocks=clocks_of(A100), asked=same, limit_w=limits, m=same)
    energy = found.time_s * found.power_w
    best = int(np.argmin(energy))
    assert 2000 <= 256 / found.time_s[-1] <= 3000
    assert 250 <= found.power_w[-1] <= 390
    assert 0.15 <= 1 - energy[best] / energy[-1] <= 0.30
    assert 0.10 <= found.time_s[best] / found.time_s[-1] - 1 <= 0.25


@pytest.mark.parametrize("name", gpu_names())
def test_a_catalogue_entry_is_complete_and_possible(name: str) -> None:
    model = gpu(name)
    assert model.sources
    assert model.limits_w[0] < model.limits_w[-1]
    assert model.default_limit_w in model.limits_w
    assert 0.02 <= model.tick_s <= 0.1
    assert model.power_window_s in (0.0, 1.0)
    assert 1e11 < model.bandwidth_bytes_s < 1e13
    assert 1e12 < max({**model.vector, **model.tensor}.values()) < 1e16
    assert 0 < model.chip.voltage_floor < 1 > model.chip.voltage_knee > 0
    assert supported_precisions(model, load("resnet50"))


def test_boards_have_aliases_and_near_names() -> None:
    assert gpu("A100").name == "a100-80gb"
    assert gpu("h100").name == "h100-sxm"
    assert len(gpu_names()) >= 14
    with pytest.raises(UnknownNameError, match="a100"):
        gpu("a1000")


def test_small_batches_and_accumulation_cost_time() -> None:
    work = load("resnet50")
    whole, small, split = (
        load_of(A100, work, b, micro, "bf16") for b, micro in ((256, 256), (16, 16), (256, 16))
    )
    chip = A100.chip
    per_image = float(step_time_s(chip, whole, 1.0, 1.0)) / 256
    assert float(step_time_s(chip, small, 1.0, 1.0)) / 16 > per_image
    assert float(step_time_s(chip, split, 1.0, 1.0)) / 256 > per_image


def test_precisions_fall_back_to_what_the_board_has() -> None:
    work = load("resnet50")
    assert supported_precisions(gpu("v100"), work)[0] == "fp16"
    assert supported_precisions(A100, work)[0] == "bf16"
    assert peak_rate(A100, work, "bf16") == 312e12
    assert peak_rate(A100, load("ncf"), "fp32") == 19.5e12


def test_a_workload_of_unknown_demand_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="operations"):
        load_of(A100, Workload(name="mystery"), 1, 1, "bf16")
