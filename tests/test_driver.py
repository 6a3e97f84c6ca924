from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from fakes import FakeDevice, limits
from lowjoule.control import Claim
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.simulated.catalogue import gpu
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.errors import (
    DeviceError,
    IncomparableError,
    InfeasibleError,
    InvalidValueError,
    UnknownNameError,
)
from lowjoule.knobs import Setting, Space
from lowjoule.metering import Meter
from lowjoule.objectives import EDS, Deadline, Slowdown
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.profiling import Profiler
from lowjoule.source import Source
from lowjoule.tuning.driver import Driver, Tried
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.result import Saving, Side
from lowjoule.tuning.search import Observation, Problem, Recommendation
from lowjoule.workloads import Work, Workload, WorkUnit

JOB = Workload(name="job", unit=WorkUnit.EPOCH)


class PlainEnergy:
    name = "energy"
    needs_baseline = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        return np.asarray(outcome.energy_j)


@dataclass
class Listed:
    """Tries given settings and recommends the told one of least energy."""

    problem: Problem
    settings: list[Setting]
    told: list[Observation] = field(default_factory=list)

    def ask(self) -> Setting | None:
        return self.settings.pop(0) if self.settings else None

    def tell(self, observation: Observation) -> None:
        self.told.append(observation)

    def recommend(self) -> Recommendation:
        good = [o for o in self.told if o.time_s is not None and o.energy_j is not None]
        if not good:
            raise InfeasibleError("nothing runs", cure="allow more")
        best = min(good, key=lambda o: o.energy_j or math.inf)
        assert best.time_s is not None
        assert best.energy_j is not None
        return Recommendation(
            setting=best.asked,
            time_s=best.time_s,
            energy_j=best.energy_j,
            objective=best.energy_j,
            uncertainty=0.0,
        )


def limited(power_limit: float, batch_size: int = 64, sm_clock: float = 1.4e9) -> Setting:
    return Setting({"power_limit": power_limit, "sm_clock": sm_clock, "batch_size": batch_size})


def power_is_limit(setting: Setting) -> float:
    return setting.number("power_limit")


def drive(device: FakeDevice, *tried: Setting, **options: object) -> Driver:
    return Driver(
        device,
        JOB,
        objective=PlainEnergy(),
        search=lambda problem: Listed(problem, list(tried)),
        **options,  # type: ignore[arg-type]
    )


def test_the_account_of_a_search_adds_up() -> None:
    # One second a unit; 250 J by default, 100 J at the lowest limit, 150 J in between.
    device = FakeDevice(power_of=power_is_limit)
    result = drive(device, limited(150.0), limited(100.0), job=Work(10, WorkUnit.EPOCH)).run()
    assert result.default.energy_j == pytest.approx(250.0)
    assert result.chosen.setting == limited(100.0)
    assert result.draws == result.settings_tried == 3
    saving = result.saving
    assert saving.search_energy_j == pytest.approx(500.0)
    assert saving.search_work == 3
    # 10 units at 250 J against 500 J for three and 7 x 100 J.
    assert saving.net_energy_j == pytest.approx(2500.0 - 500.0 - 700.0)
    # The second trial draws less than the default would have: from there on energy is saved.
    assert saving.break_even_work == 2


def test_a_dear_search_breaks_even_later_or_never() -> None:
    def power(setting: Setting) -> float:
        return {250.0: 250.0, 200.0: 950.0, 100.0: 150.0}[setting.number("power_limit")]

    device = FakeDevice(power_of=power)
    result = drive(device, limited(200.0), limited(100.0)).run()
    # Three units cost 1350 J instead of 750 J; each later unit saves 100 J.
    assert result.saving.break_even_work == pytest.approx(9.0)
    assert any("100 epochs" in note for note in result.notes)
    lost = drive(FakeDevice(power_of=power), limited(200.0), job=Work(4, WorkUnit.EPOCH)).run()
    assert lost.chosen.setting == lost.default.setting
    assert lost.saving.break_even_work is None
    assert lost.saving.net_energy_j == pytest.approx(-700.0)


def test_a_job_shorter_than_the_search_pays_for_all_of_it() -> None:
    device = FakeDevice(power_of=power_is_limit)
    result = drive(device, limited(100.0), limited(150.0), job=Work(1, WorkUnit.EPOCH)).run()
    assert result.saving.net_energy_j == pytest.approx(250.0 - 500.0)


def test_the_device_is_left_as_found_whatever_happens() -> None:
    device = FakeDevice(power_of=power_is_limit)
    device.values["power_limit"] = 200.0

    def stop(progress: Tried) -> None:
        if progress.draws == 2:
            raise KeyboardInterrupt

    driver = drive(device, limited(100.0), limited(150.0), on_trial=stop)
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    assert device.values["power_limit"] == 200.0


def test_the_setting_in_force_is_the_baseline_and_its_limit_never_exceeded() -> None:
    device = FakeDevice(power_of=power_is_limit)
    device.values["power_limit"] = 200.0
    driver = drive(device, limited(100.0))
    assert driver.space.default["power_limit"] == 200.0
    assert driver.space.knob("power_limit").values == (100.0, 150.0, 200.0)
    result = driver.run()
    assert result.default.setting == limited(200.0)
    assert any("found at" in note for note in result.notes)


def test_batch_size_is_left_alone_unless_it_is_named() -> None:
    assert drive(FakeDevice()).space.knob("batch_size").values == (64,)
    named = drive(FakeDevice(), knobs=["batch_size"]).space
    assert named.knob("batch_size").values == (32, 64, 128)
    assert named.knob("power_limit").values == (250.0,)
    with pytest.raises(UnknownNameError, match="batch_size"):
        drive(FakeDevice(), knobs=["batchsize"])


def test_a_setting_that_does_not_fit_is_a_failed_trial_and_the_search_goes_on() -> None:
    device = FakeDevice(power_of=power_is_limit, too_big=128)
    tried = (limited(250.0, batch_size=128), limited(100.0))
    result = drive(device, *tried, knobs=["batch_size", "power_limit"]).run()
    assert [trial.failure for trial in result.trials] == [None, "too big", None]
    assert result.chosen.setting == limited(100.0)
    assert result.draws == 3


def test_a_default_that_does_not_run_is_an_error_with_a_cure() -> None:
    device = FakeDevice(too_big=1)
    with pytest.raises(DeviceError, match="does not run at the default"):
        drive(device).run()


def test_a_job_in_another_unit_is_refused() -> None:
    with pytest.raises(IncomparableError):
        drive(FakeDevice(), job=Work(10, WorkUnit.TOKEN))


def test_observations_are_of_one_unit_of_work() -> None:
    device = FakeDevice(
        time_of=lambda s: 0.01, power_of=power_is_limit, source=Source.SIMULATED, idle_w=20.0
    )
    result = drive(device, limited(100.0)).run()
    assert result.default.time_s == pytest.approx(0.01)
    assert result.default.energy_j == pytest.approx(2.5)
    trial = result.trials[-1]
    assert trial.work is not None
    assert trial.work.quantity * 0.01 == pytest.approx(10.0, rel=0.1)
    assert trial.work.quantity % 64 == 0
    # what the board took to show that it is warm is the price of the first trial
    first = result.trials[0]
    assert first.overhead_s >= 5.0
    assert first.warmup_work * 0.01 == pytest.approx(first.overhead_s, rel=0.05)


def test_everything_that_was_drawn_is_in_the_account() -> None:
    device = FakeDevice(
        time_of=lambda s: 0.003, power_of=power_is_limit, source=Source.SIMULATED, idle_w=20.0
    )
    driver = drive(device, limited(100.0), limited(150.0))
    result = driver.run()
    device.read()
    idle_before_s = device.clock.now_s() - sum(t.total_s for t in result.trials)
    assert 0 <= idle_before_s <= 0.31
    assert result.saving.search_energy_j == pytest.approx(device.energy_j - 20.0 * idle_before_s)


@pytest.mark.parametrize("tick_s", [0.0, 0.02, 0.1])
def test_the_tick_of_a_counter_is_seen_and_becomes_the_uncertainty(tick_s: float) -> None:
    device = FakeDevice(idle_w=50.0, tick_s=tick_s)
    meter = Meter(device)
    assert meter.tick_s == pytest.approx(tick_s, abs=0.0011)
    begin = meter.edge()
    device.clock.sleep(10.0)
    window = meter.since(begin)
    assert window.uncertainty_j == pytest.approx(tick_s * 50.0 / math.sqrt(6.0), rel=0.06)
    assert abs(window.energy_j - 500.0) <= 50.0 * tick_s + 1e-9


def test_a_window_without_time_is_refused() -> None:
    meter = Meter(FakeDevice())
    with pytest.raises(DeviceError, match="too short"):
        meter.since(meter.edge())


def test_a_replayed_trial_is_one_draw_of_one_unit() -> None:
    device = FakeDevice(space=Space((limits(100.0, 200.0),)))
    with Claim(device, "a test") as claim:
        trial = Profiler(claim, device, JOB).measure(
            Setting({"power_limit": 100.0, "batch_size": 32})
        )
    assert len(device.draws) == 1
    assert trial.work == Work(1.0, WorkUnit.EPOCH)
    assert trial.overhead_s == 0.0


def test_the_baseline_is_what_is_in_force_when_the_run_begins() -> None:
    device = FakeDevice(power_of=power_is_limit)
    driver = drive(device, limited(100.0))
    device.values["power_limit"] = 150.0
    result = driver.run()
    assert result.default.setting == limited(150.0)
    assert max(float(write["power_limit"]) for write in device.writes) == 150.0
    notes = result.notes
    assert driver.run().notes == notes


def test_a_choice_that_is_no_better_by_its_own_figures_is_the_default() -> None:
    class Hopeful(Listed):
        def recommend(self) -> Recommendation:
            return Recommendation(
                setting=limited(200.0), time_s=1.0, energy_j=260.0, objective=260.0, uncertainty=1.0
            )

    device = FakeDevice(power_of=power_is_limit)
    driver = Driver(
        device,
        JOB,
        objective=PlainEnergy(),
        search=lambda problem: Hopeful(problem, [limited(200.0)]),
    )
    assert driver.run().chosen.setting == limited(250.0)


def test_nothing_breaks_even_for_good_where_the_chosen_setting_costs_more() -> None:
    trials = drive(FakeDevice(power_of=power_is_limit), limited(100.0)).run().trials

    def side(energy_j: float) -> Side:
        return Side(
            setting=limited(250.0), time_s=1.0, energy_j=energy_j, objective=0.0, uncertainty=None
        )

    job = Work(100, WorkUnit.EPOCH)
    assert Saving.of(trials, side(250.0), side(260.0), job).break_even_work is None
    assert Saving.of(trials, side(250.0), side(200.0), job).break_even_work == 2


def test_a_deadline_is_of_the_whole_job() -> None:
    device = FakeDevice(time_of=lambda s: 100.0 / s.number("power_limit"), power_of=power_is_limit)
    bound = Deadline(60.0)
    with pytest.raises(InvalidValueError, match="job"):
        drive(device, constraints=[bound])
    driver = drive(device, constraints=[bound], job=Work(90, WorkUnit.EPOCH))
    (kept,) = driver.constraints
    slow = Outcome(time_s=np.asarray(0.7), energy_j=np.asarray(1.0))
    fast = Outcome(time_s=np.asarray(0.6), energy_j=np.asarray(1.0))
    assert kept.excess(slow) > 0
    assert kept.excess(fast) <= 0
    assert kept.text == "deadline<=60s"


def test_objective_constraints_and_job_may_be_texts() -> None:
    device = SimulatedDevice(gpu("a40"), OpenOptions())
    texts = Driver(
        device,
        device.workload("resnet50"),
        objective="eds",
        constraints=["slowdown<=5%", "deadline<=6h"],
        job="10M samples",
        search=LinearSearch,
    )
    assert texts.objective == EDS()
    assert texts.constraints == (Slowdown(0.05), Deadline(21600.0, times=1e7))
    assert texts.job == Work(1e7, WorkUnit.SAMPLE)
