from __future__ import annotations

import pytest

from lowjoule.clock import WallClock
from lowjoule.control import Claim
from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.knobs import Setting
from lowjoule.metering import Edge
from lowjoule.profiling import Precision, Profiler, Recording, Verdict
from lowjoule.profiling.recording import MOST_REPEATS, is_throttled, sample_length_s
from lowjoule.source import Source
from lowjoule.workloads import WorkUnit

HERE = Setting({"power_limit": 300.0})


def edge(time_s: float, energy_j: float | None = None, power_w: float | None = None) -> Edge:
    return Edge(
        time_s=time_s, energy_j=100.0 * time_s if energy_j is None else energy_j, power_w=power_w
    )


def recording(most_s: float = 10.0) -> Recording:
    made = Recording(Precision(most_s=most_s), sample_s=1.0, tick_s=0.02)
    made.open(edge(0.0))
    return made


def run(made: Recording, begin: int, end: int, *, throttled: bool = False) -> Verdict:
    verdict = Verdict.MORE
    for second in range(begin, end):
        made.add(10.0)
        verdict = made.cut(edge(second + 1.0), throttled=throttled)
        if verdict is not Verdict.MORE:
            break
    return verdict


def test_a_trial_holds_its_window_and_everything_that_it_took() -> None:
    made = Recording(Precision(most_s=10.0), sample_s=1.0, tick_s=0.0)
    made.resume(edge(0.0))
    made.add(7.0)  # while the setting was turned
    made.open(edge(3.0))
    assert run(made, 3, 20) is Verdict.PRECISE
    trial = made.trial(HERE, HERE, unit=WorkUnit.SAMPLE, source=Source.SIMULATED)
    assert trial.work is not None
    assert trial.measurement is not None
    assert trial.measurement.time_s / trial.work.quantity == pytest.approx(0.1)
    assert trial.total_work == pytest.approx(107.0)
    assert trial.total_s == pytest.approx(13.0)
    assert trial.total_j == pytest.approx(1300.0)
    assert trial.relative_half == pytest.approx(0.0, abs=1e-5)
    assert trial.measurement.peak_power_w is None
    assert not trial.throttled


def test_what_is_in_a_pause_is_nobodys_and_segments_make_samples() -> None:
    made = recording(most_s=8.0)
    now_s = energy_j = 0.0
    for _ in range(20):
        made.resume(edge(now_s, energy_j))
        made.add(4.0)
        assert not made.due(now_s + 0.01)
        now_s, energy_j = now_s + 0.4, energy_j + 40.0
        made.pause(edge(now_s, energy_j))
        assert not made.due(now_s + 100.0)
        made.add(1000.0)  # validation
        now_s, energy_j = now_s + 5.0, energy_j + 2000.0
    found = made.estimate()
    assert found is not None
    assert found.time.value == pytest.approx(0.1)
    assert found.energy.value == pytest.approx(10.0)
    assert made.total.work == pytest.approx(80.0)


def test_a_drop_and_a_counter_that_was_reset_cost_a_segment_only() -> None:
    made = recording()
    run(made, 0, 3)
    made.add(10.0)
    made.drop()
    assert made.due(3.5)
    made.cut(edge(50.0))
    run(made, 50, 53)
    made.add(10.0)
    made.cut(edge(54.0, 0.0))
    assert made.dropped == 2
    for second in range(54, 60):
        made.add(10.0)
        made.cut(edge(second + 1.0, 100.0 * (second - 53)))
    found = made.estimate()
    assert found is not None
    assert found.time.value == pytest.approx(0.1)
    assert found.energy.value == pytest.approx(10.0)


def test_throttled_samples_are_repeated_twice_at_most() -> None:
    made = recording(most_s=200.0)
    assert run(made, 0, 300, throttled=True) is Verdict.PRECISE
    assert made.repeats == MOST_REPEATS
    trial = made.trial(HERE, HERE, unit=WorkUnit.SAMPLE, source=Source.SIMULATED)
    assert trial.throttled
    assert trial.work is not None
    made = recording()
    run(made, 0, 3, throttled=True)
    run(made, 3, 300)
    assert not made.trial(HERE, HERE, unit=WorkUnit.SAMPLE, source=Source.SIMULATED).throttled


def test_too_little_work_is_a_failure_with_a_reason() -> None:
    made = recording()
    run(made, 0, 3)
    trial = made.trial(HERE, HERE, unit=WorkUnit.SAMPLE, source=Source.SIMULATED)
    assert trial.failure == "there was too little work for a window"
    assert trial.total_work == 30.0
    assert trial.measurement is None


def test_a_counter_that_stands_still_gives_no_figure_of_zero() -> None:
    made = recording()
    for second in range(20):
        made.add(10.0)
        made.cut(edge(second + 1.0, 5.0))
    trial = made.trial(HERE, HERE, unit=WorkUnit.SAMPLE, source=Source.SIMULATED)
    assert trial.failure == "the energy counter did not move"
    assert trial.measurement is None


def test_a_power_limit_that_works_is_no_throttling() -> None:
    assert is_throttled(frozenset({"thermal", "hardware thermal"}))
    assert not is_throttled(frozenset({"power"}))
    assert not is_throttled(frozenset())


def test_a_longer_bound_makes_no_longer_samples_and_a_slow_counter_does() -> None:
    assert sample_length_s(Precision(most_s=4.0), 0.02) == pytest.approx(0.1)
    assert sample_length_s(Precision(most_s=400.0), 0.02) == pytest.approx(0.5)
    assert sample_length_s(Precision(most_s=4.0), 0.2) == pytest.approx(1.0)


def test_in_real_time_a_window_is_as_long_as_its_precision_needs() -> None:
    device = open_device("sim:a100", OpenOptions(wall_time=True))
    assert isinstance(device, WorkDevice)
    assert isinstance(device.clock, WallClock)
    job = device.workload("resnet50")
    setting = device.joint_space(job).default.replace(power_limit=250.0)
    begin_s = device.clock.now_s()
    with Claim(device, "a test") as claim:
        profiler = Profiler(claim, device, job, window_s=4.0, precision=0.05)
        trial = profiler.measure(setting)
    took_s = device.clock.now_s() - begin_s
    known = device.survey(job, device.joint_space(job).fixed(**dict(setting)))
    assert trial.failure is None
    assert trial.work is not None
    assert trial.measurement is not None
    assert took_s < 10.0
    assert trial.relative_half is not None
    assert trial.measurement.time_s / trial.work.quantity == pytest.approx(
        float(known.time_s[0]), rel=0.05
    )
    # a board that is cold at first draws a little less than the warm one of the survey
    assert trial.measurement.energy_j / trial.work.quantity == pytest.approx(
        float(known.energy_j[0]), rel=0.08
    )
    assert trial.measurement.uncertainty_j > 0
