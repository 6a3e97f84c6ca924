from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_trees import ENERGY, ability, energy, opened, package
from cpu_trees import refusing as refusing
from cpu_trees import tree as tree
from lowjoule.devices.counter import BREAK_J, Counter, Moment
from lowjoule.errors import DeviceError
from lowjoule.knobs import POWER_LIMIT
from lowjoule.metering.meter import Meter
from lowjoule.testing.sysfs import PACKAGE_RANGE_UJ, FakeSysfs


def test_the_counter_wraps_at_its_range_for_any_number_of_readers(tree: FakeSysfs) -> None:
    tree.jump("intel-rapl:0", PACKAGE_RANGE_UJ - 100_000_000)
    first, second = opened(tree), opened(tree)
    begins = energy(first), energy(second)
    tree.clock.sleep(0.25)
    assert energy(first) - begins[0] == pytest.approx(57.5)
    tree.clock.sleep(0.75)
    for device, begin_j in zip((first, second), begins, strict=True):
        assert energy(device) - begin_j == pytest.approx(230.0)


def test_an_unreadable_range_makes_the_interval_missing(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(range_uj=None)])
    device = opened(tree)
    meter = Meter(device)
    begin = meter.edge()
    tree.clock.sleep(1.0)
    assert energy(device) - begin.energy_j == pytest.approx(200.0)
    tree.jump("intel-rapl:0", 5)
    tree.clock.sleep(1.0)
    assert device.read().energy_j is None
    tree.clock.sleep(1.0)
    with pytest.raises(DeviceError):
        meter.since(begin)
    after_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - after_j == pytest.approx(200.0)
    assert "where it wraps" in " ".join(one.detail for one in device.abilities())
    assert "where it wraps is not known" in device.notes[0]


@pytest.mark.parametrize("broken", ["", "many", "0"])
def test_a_senseless_range_is_an_unreadable_one(tree: FakeSysfs, broken: str) -> None:
    tree.path("intel-rapl:0", "max_energy_range_uj").write_text(broken)
    device = opened(tree)
    tree.jump("intel-rapl:0", 5)
    tree.clock.sleep(0.1)
    assert device.read().energy_j is None


def test_a_gap_in_which_it_can_wrap_twice_is_missing_and_a_window_after_it_is_not(
    tree: FakeSysfs,
) -> None:
    tree.zones["intel-rapl:0:0"].power_w = 20.0
    device = opened(tree)
    assert device.longest_gap_s == pytest.approx(65712.999613 / 500.0)
    meter = Meter(device)
    begin = meter.edge()
    tree.clock.sleep(0.99 * device.longest_gap_s)
    assert meter.since(begin).energy_j > 0
    tree.clock.sleep(1.01 * device.longest_gap_s)
    second = meter.edge()
    for _ in range(3):
        tree.clock.sleep(1.0)
        with pytest.raises(DeviceError, match="counter was reset"):
            meter.since(begin)
    assert meter.since(second).energy_j == pytest.approx(660.0)
    assert "may have wrapped" in device.notes[0]


def test_the_longest_gap_follows_the_largest_limit(tmp_path: Path) -> None:
    known = FakeSysfs(tmp_path / "a" / "sys", [package(max_w=300.0)])
    unknown = FakeSysfs(tmp_path / "b" / "sys", [package(max_w=0.0)])
    assert opened(known).longest_gap_s == pytest.approx(PACKAGE_RANGE_UJ / 1e6 / 600.0)
    assert opened(unknown).longest_gap_s == pytest.approx(PACKAGE_RANGE_UJ / 1e6 / 1000.0)


@given(
    range_uj=st.integers(10_000_000, PACKAGE_RANGE_UJ),
    start=st.floats(0, 1, exclude_max=True),
    steps=st.lists(st.tuples(st.floats(0.002, 30), st.floats(1, 600), st.sets(st.integers(0, 2)))),
)
def test_every_reader_of_a_wrapping_counter_sees_what_was_drawn_or_says_nothing(
    range_uj: int, start: float, steps: list[tuple[float, float, set[int]]]
) -> None:
    readers = [Counter(range_uj=range_uj, max_power_w=600.0) for _ in range(3)]
    begin_uj = drawn_uj = int(start * range_uj)
    now_s, last_s = 0.0, [0.0] * 3
    for reader in readers:
        reader.see(drawn_uj % range_uj, Moment(0.0, 0.0))
    for duration_s, power_w, looking in [*steps, (0.1, 100.0, {0, 1, 2})]:
        now_s += duration_s
        drawn_uj += int(duration_s * power_w * 1e6)
        for one in looking:
            late = now_s - last_s[one] > readers[one].longest_gap_s
            broke = readers[one].breaks
            assert readers[one].see(drawn_uj % range_uj, Moment(now_s, now_s))
            assert readers[one].breaks == broke + late
            last_s[one] = now_s
    for reader in readers:
        assert reader.total_uj >= 0
        if not reader.breaks:
            assert reader.total_uj == drawn_uj - begin_uj


# counters that cannot be believed


def test_a_disabled_zone_is_said(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(enabled=0)])
    device = opened(tree)
    assert "disabled" in ability(device, "package-0").detail
    limit = ability(device, POWER_LIMIT)
    assert not limit.works
    assert limit.cure == f"echo 1 | sudo tee {tree.path('intel-rapl:0', 'enabled')}"


def test_a_counter_that_stands_still_is_missing_not_zero(tree: FakeSysfs) -> None:
    device = opened(tree)
    meter = Meter(device)
    tree.freeze("intel-rapl:0")
    begin = meter.edge()
    tree.clock.sleep(0.5)
    assert device.read().energy_j is not None
    tree.clock.sleep(0.6)
    assert device.read().energy_j is None
    assert "stood still" in device.notes[0]
    assert not ability(device, "energy counter").works
    tree.thaw("intel-rapl:0")
    tree.clock.sleep(1.0)
    with pytest.raises(DeviceError):
        meter.since(begin)
    begin = meter.edge()
    tree.clock.sleep(1.0)
    assert meter.since(begin).energy_j == pytest.approx(230.0)


def test_a_reset_is_no_wrap(tree: FakeSysfs) -> None:
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    tree.jump("intel-rapl:0", 0)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j < -0.9 * BREAK_J
    assert "nothing can draw" in device.notes[0]


def test_a_sleep_of_the_machine_makes_the_interval_missing(tree: FakeSysfs) -> None:
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    tree.clock.suspend(3600.0)
    tree.jump("intel-rapl:0", 0)
    tree.clock.sleep(400.0 - 300.0)
    assert energy(device) < begin_j
    assert "slept" in device.notes[0]


def test_a_value_beyond_any_bound_is_rejected(tree: FakeSysfs) -> None:
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    tree.jump("intel-rapl:0", 200_000_000_000)
    assert energy(device) < begin_j


def test_a_read_that_fails_for_once_loses_nothing(tree: FakeSysfs) -> None:
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    path = tree.path("intel-rapl:0:0", ENERGY)
    good = path.read_text()
    for wrong in ("", "-1", "many"):
        path.write_text(wrong)
        assert device.read().energy_j is None
    assert "says" in ability(device, "energy counter").detail
    path.write_text(good)
    assert energy(device) - begin_j == pytest.approx(230.0)


def test_a_zone_that_is_gone_is_a_lost_device(tree: FakeSysfs) -> None:
    device = opened(tree)
    tree.path("intel-rapl:0", ENERGY).unlink()
    with pytest.raises(DeviceError, match="gone"):
        device.read()


def test_energy_never_falls_below_zero_however_often_it_broke() -> None:
    from lowjoule.devices.counter import cumulative_j

    assert cumulative_j(0, 1024) == 0.0
    assert cumulative_j(0, 1025) is None
