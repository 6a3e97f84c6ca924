from __future__ import annotations

import numpy as np
import pytest

from lowjoule.clock import VirtualClock, WallClock
from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.replay import ReplayDevice, Table, parse_table
from lowjoule.errors import (
    IncomparableError,
    InvalidValueError,
    NotMeasuredError,
    UnknownNameError,
)
from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.workloads import Work, WorkUnit

TEXT = """workload,unit,power_limit_w,sm_clock_mhz,batch_size,time_s,energy_j
a,sample,200,1000,8,1.0,100
a,sample,200,1000,16,0.8,90
a,sample,200,1000,32,0.7,85
a,sample,100,1000,8,1.5,80
a,sample,100,900,8,1.6,78
b,sample,150,900,4,3.0,300
"""
ONE = Work(1.0, WorkUnit.SAMPLE)


def table(text: str = TEXT) -> Table:
    return parse_table(text.encode(), name="runs.csv", stem="runs")


def run(device: WorkDevice, name: str, work: Work = ONE, **own: float) -> tuple[float, float]:
    before = device.read()
    device.submit(device.workload(name), work, Setting(own)).wait()
    after = device.read()
    assert before.energy_j is not None
    assert after.energy_j is not None
    return after.time_s - before.time_s, after.energy_j - before.energy_j


def test_work_takes_what_was_measured_at_the_setting_in_force() -> None:
    device = ReplayDevice(table())
    assert run(device, "a", batch_size=8) == pytest.approx((1.0, 100.0))
    device.apply(Setting({"power_limit": 100.0}))
    assert run(device, "a", ONE * 4.0, batch_size=8) == pytest.approx((6.0, 320.0))
    assert device.draws == 2
    assert device.told == {
        Setting({"power_limit": 200.0, "sm_clock": 1e9, "batch_size": 8}),
        Setting({"power_limit": 100.0, "sm_clock": 1e9, "batch_size": 8}),
    }


def test_identity_says_replayed_and_follows_the_content() -> None:
    device = ReplayDevice(table())
    assert device.identity.source is Source.REPLAYED
    assert device.identity == ReplayDevice(table()).identity
    other = ReplayDevice(table(TEXT.replace("300", "301")))
    assert other.identity.uuid != device.identity.uuid


def test_only_what_was_measured_is_answered_and_the_nearest_named() -> None:
    device = ReplayDevice(table())
    workload = device.workload("a")
    device.apply(Setting({"power_limit": 100.0}))
    with pytest.raises(NotMeasuredError) as caught:
        device.submit(workload, ONE, Setting({"batch_size": 16}))
    assert "batch_size=16, power_limit=100 W, sm_clock=1 GHz" in caught.value.problem
    # One knob away, and the least far along it.
    assert caught.value.cure.startswith(
        "nearest are batch_size=16, power_limit=200 W, sm_clock=1 GHz or "
        "batch_size=8, power_limit=100 W, sm_clock=1 GHz or "
    )
    assert device.draws == 0
    assert device.told == frozenset()
    assert device.read().energy_j == 0.0


def test_the_default_is_the_largest_limit_and_the_median_batch_with_a_note() -> None:
    device = ReplayDevice(table())
    workload = device.workload("a")
    assert device.joint_space(workload).default == Setting(
        {"power_limit": 200.0, "sm_clock": 1e9, "batch_size": 16}
    )
    assert any("assumed: 16, the median" in note for note in device.notes)
    assert device.survey(workload).default == device.joint_space(workload).default


def test_a_default_that_was_not_measured_together_is_refused() -> None:
    wanted = {"batch_size": "16", "power_limit": "100"}
    device = ReplayDevice(table(), OpenOptions(default=wanted))
    with pytest.raises(NotMeasuredError, match="power_limit can be one of"):
        device.workload("a")
    with pytest.raises(InvalidValueError, match="batch_size cannot be 7"):
        ReplayDevice(table(), OpenOptions(default={"batch_size": "7"})).workload("a")
    with pytest.raises(UnknownNameError, match="did you mean 'batch_size'"):
        ReplayDevice(table(), OpenOptions(default={"batchsize": "8"})).workload("a")


def test_spaces_list_what_was_measured() -> None:
    device = ReplayDevice(table())
    workload = device.workload("a")
    joint = device.joint_space(workload)
    assert joint.names == ("power_limit", "sm_clock", "batch_size")
    assert len(joint) == 5
    assert joint.listed is not None
    assert device.workload_space(workload).names == ("batch_size",)
    assert len(device.workload_space(workload)) == 3
    assert len(device.joint_space(device.workload("b"))) == 1


def test_an_untouched_device_stands_at_the_default_of_the_workload_asked_for() -> None:
    device = ReplayDevice(table())
    assert device.current() == Setting({"power_limit": 200.0, "sm_clock": 1e9})
    device.workload("b")
    assert device.current() == Setting({"power_limit": 150.0, "sm_clock": 9e8})
    assert run(device, "b") == pytest.approx((3.0, 300.0))
    device.apply(Setting({"power_limit": 100.0}))
    device.workload("a")
    assert device.current() == Setting({"power_limit": 100.0, "sm_clock": 9e8})


def test_work_comes_one_after_the_other_and_idle_time_is_free() -> None:
    device = ReplayDevice(table())
    workload = device.workload("a")
    first = device.submit(workload, ONE, Setting({"batch_size": 8}))
    second = device.submit(workload, ONE, Setting({"batch_size": 32}))
    device.clock.sleep(0.5)
    reading = device.read()
    assert reading.energy_j == pytest.approx(50.0)
    assert reading.power_w == pytest.approx(100.0)
    second.wait()
    first.wait()
    assert device.clock.now_s() == pytest.approx(1.7)
    device.clock.sleep(10.0)
    reading = device.read()
    assert reading.energy_j == pytest.approx(185.0)
    assert reading.power_w is None


def test_nothing_is_lost_after_a_long_time() -> None:
    device = ReplayDevice(table("power_limit_w,time_us,energy_mj\n100,3.1,7\n"))
    device.clock.sleep(3e7)
    for _ in range(100):
        device.submit(device.workload(), Work(1.0, WorkUnit.ITERATION), Setting()).wait()
    assert device.read().energy_j == pytest.approx(0.7)
    assert device.read().power_w is None


def draws(noise: float, seed: int, count: int = 4000) -> np.ndarray:
    device = ReplayDevice(table(), OpenOptions(noise=noise, seed=seed))
    return np.array([run(device, "a", batch_size=8) for _ in range(count)])


def test_noise_has_the_stated_spread_on_time_and_energy_each() -> None:
    time_s, energy_j = draws(0.015, seed=1).T
    for values, mean in ((time_s, 1.0), (energy_j, 100.0)):
        assert values.mean() == pytest.approx(mean, rel=0.001)
        assert values.std() / mean == pytest.approx(0.015, rel=0.05)
    assert abs(np.corrcoef(time_s, energy_j)[0, 1]) < 0.05


def test_noise_is_repeated_by_its_seed_and_absent_by_default() -> None:
    assert np.array_equal(draws(0.1, 3, 20), draws(0.1, 3, 20))
    assert not np.array_equal(draws(0.1, 3, 20), draws(0.1, 4, 20))
    assert np.ptp(draws(0.0, 3, 20), axis=0) == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("noise", [-0.01, 0.3, float("nan")])
def test_impossible_noise_is_refused(noise: float) -> None:
    with pytest.raises(InvalidValueError, match="0 to 25%"):
        ReplayDevice(table(), OpenOptions(noise=noise))


def test_unknown_names_are_answered_with_known_ones() -> None:
    device = ReplayDevice(table())
    with pytest.raises(UnknownNameError, match="2 workloads; choose one of a, b"):
        device.workload()
    with pytest.raises(UnknownNameError, match="known are a, b"):
        device.workload("resnet50")
    with pytest.raises(UnknownNameError, match="batch_size"):
        device.submit(device.workload("a"), ONE, Setting({"batchsize": 8}))
    with pytest.raises(UnknownNameError, match="knob of a"):
        device.submit(device.workload("a"), ONE, Setting({"power_limit": 100.0}))
    with pytest.raises(IncomparableError):
        device.submit(device.workload("a"), Work(1.0, WorkUnit.EPOCH), Setting())


def test_a_survey_holds_all_points_and_tells_no_search() -> None:
    device = ReplayDevice(table())
    profile = device.survey(device.workload("a"))
    assert profile.time_s.tolist() == [1.0, 0.8, 0.7, 1.5, 1.6]
    assert profile.settings["batch_size"].tolist() == [8, 16, 32, 8, 8]
    assert profile.source is Source.REPLAYED
    assert device.told == frozenset()
    assert device.draws == 0


def test_it_lives_in_virtual_time_unless_real_time_is_wanted() -> None:
    assert isinstance(ReplayDevice(table()).clock, VirtualClock)
    assert isinstance(ReplayDevice(table(), OpenOptions(wall_time=True)).clock, WallClock)
