"""Trials that are minutes apart, on devices that do not stay as they are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loop_card import LoopCard
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.simulated.catalogue import gpu
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.knobs import SM_CLOCK, Setting
from lowjoule.tuning import Driver, ExhaustiveSearch, LinearSearch, Observation, Tuner
from lowjoule.tuning.drift import Drift
from lowjoule.workloads import Work

HERE = Setting({"power_limit": 300.0})


def seen(at_s: float | None, time_s: float, energy_j: float, sd: float = 0.002) -> Observation:
    return Observation(
        asked=HERE,
        achieved=HERE,
        time_s=time_s,
        energy_j=energy_j,
        time_sd_s=sd * time_s,
        energy_sd_j=sd * energy_j,
        at_s=at_s,
    )


def test_noise_alone_is_hardly_taken_for_drift() -> None:
    random = np.random.default_rng(0)
    moved = []
    for _ in range(200):
        noise = np.exp(0.01 * random.standard_normal((4, 2)))
        rows = [seen(100.0 * n, a, b, sd=0.01) for n, (a, b) in enumerate(noise.tolist())]
        found = Drift.of(rows)
        assert found is not None
        moved.append(found.factors(0.0)[0] - 1.0)
    # two trials of 1 % each differ by 1.4 %: no more than half of it may go into all others
    assert float(np.std(moved)) < 0.7 * math.sqrt(2.0) * 0.01
    assert abs(float(np.mean(moved))) < 0.002


def test_a_trial_is_corrected_by_what_the_reference_took_beside_it() -> None:
    rows = [seen(100.0 * n, 1.0, 100.0 * 1.03**n) for n in range(4)]
    found = Drift.of(rows)
    assert found is not None
    between = found.corrected(seen(150.0, 2.0, 70.0 * 1.03**1.5))
    assert between.energy_j == pytest.approx(70.0 * 1.03**3, rel=0.004)
    assert between.time_s == pytest.approx(2.0, rel=0.001)
    assert between.energy_j is not None
    assert between.energy_sd_j == pytest.approx(0.002 * between.energy_j, rel=0.001)
    later = found.corrected(seen(900.0, 2.0, 70.0))
    assert later.energy_j == pytest.approx(70.0)
    assert found.changes[1] == pytest.approx(1.03**3 - 1.0, rel=0.05)


def test_what_has_no_date_or_no_figures_is_left_as_it_is() -> None:
    assert Drift.of([]) is None
    assert Drift.of([seen(1.0, 1.0, 1.0)]) is None
    assert Drift.of([seen(None, 1.0, 1.0), seen(None, 1.0, 2.0)]) is None
    found = Drift.of([seen(0.0, 1.0, 1.0), seen(9.0, 1.0, 2.0)])
    assert found is not None
    undated = seen(None, 1.0, 1.0)
    assert found.corrected(undated) is undated
    failed = replace(undated, at_s=1.0, time_s=None, energy_j=None, failure="no room")
    assert found.corrected(failed) is failed


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0.5, 2.0)), min_size=2, max_size=8),
    st.floats(0.1, 10.0),
)
def test_a_drift_does_not_depend_on_units_or_order(
    rows: list[tuple[float, float]], unit: float
) -> None:
    told = [seen(at_s, value, value) for at_s, value in rows]
    one = Drift.of(told)
    other = Drift.of([seen(at_s, value * unit, value * unit) for at_s, value in rows])
    if one is None:
        return
    assert other is not None
    assert other.factors(5e3) == pytest.approx(one.factors(5e3), rel=1e-6)
    assert one.factors(float(one.at_s[-1]))[0] == pytest.approx(1.0)


def drifting(seed: int) -> LoopCard:
    """A card that comes to draw half as much again within ten minutes, as a room gets hot."""
    return LoopCard(seed=seed, heat=lambda now_s: 1.0 + 0.5 * min(now_s / 600.0, 1.0))


def bias(seed: int, again_after: int) -> float:
    """Return by how much the objective said to be that of the chosen setting is off."""
    card = drifting(seed)
    with Tuner(
        card,
        objective="eds",
        job="10M samples",
        samples_per_step=32,
        window_s=10.0,
        again_after=again_after,
        search=ExhaustiveSearch,
    ) as tuner:
        for _ in range(30_000):
            if tuner.settled:
                break
            card.work()
            tuner.step()
        assert tuner.settled
        result = tuner.result()
    assert result is not None
    if again_after:
        (said,) = [note for note in result.notes if note.startswith("drift")]
        assert "all trials are corrected" in said
    return result.chosen.objective / card.true_eds(result.chosen.setting) - 1.0


def test_in_a_loop_that_drifts_settings_are_compared_as_if_beside_each_other() -> None:
    with_it = [abs(bias(seed, 3)) for seed in range(3)]
    without = [abs(bias(seed, 0)) for seed in range(3)]
    assert max(with_it) < 0.002
    assert min(without) > 0.004


def cold_board(seed: int) -> SimulatedDevice:
    model = gpu("a100")
    chip = replace(model.chip, leakage_w=60.0, time_constant_s=60.0)
    return SimulatedDevice(replace(model, chip=chip), OpenOptions(seed=seed))


def test_the_driver_warms_the_board_up_by_test() -> None:
    device = cold_board(0)
    job = device.workload("resnet50")
    driver = Driver(
        device, job, objective="eds", search=LinearSearch, knobs=[SM_CLOCK], job="100M samples"
    )
    result = driver.run()
    first = result.trials[0]
    known = device.survey(job, device.joint_space(job).free([]))
    assert first.measurement is not None
    assert first.work is not None
    figure_j = first.measurement.energy_j / first.work.quantity
    assert figure_j == pytest.approx(float(known.energy_j[0]), rel=0.015)
    assert first.overhead_s > 60.0  # its price is that of the search
    asked = [trial.asked for trial in result.trials]
    assert asked.count(device.joint_space(job).default) >= 2
    assert any(note.startswith("drift") for note in result.notes)
    # a board that is warm already shows it sooner
    device.submit(job, Work(1e7, job.unit), Setting()).wait()
    again = driver.run().trials[0]
    assert again.overhead_s < 0.8 * first.overhead_s
