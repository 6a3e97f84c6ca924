from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.clock import VirtualClock
from lowjoule.control import Claim
from lowjoule.devices.counter import BREAK_J, Counter, Moment
from lowjoule.devices.host import Host
from lowjoule.devices.interface import Ability, Coverage, Device, Probed
from lowjoule.devices.rapl import EstimatedCpu, RaplBackend, RaplDevice, discover
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.sysfs import Sysfs
from lowjoule.errors import (
    DeviceError,
    InvalidValueError,
    LowjouleError,
    UnknownNameError,
    UnsupportedError,
)
from lowjoule.knobs import POWER_LIMIT, Setting
from lowjoule.metering.meter import Meter
from lowjoule.source import Source
from lowjoule.testing import DeviceConformance
from lowjoule.testing.sysfs import (
    DRAM_RANGE_UJ,
    PACKAGE_RANGE_UJ,
    FakeSysfs,
    FakeZone,
    unprivileged,
)

LIMIT = "constraint_0_power_limit_uw"
ENERGY = "energy_uj"


def package(number: int = 0, at: int | None = None, **other: object) -> FakeZone:
    made = FakeZone(
        ident=f"intel-rapl:{number if at is None else at}",
        name=f"package-{number}",
        power_w=200.0,
        limit_w=250.0,
        max_w=300.0,
        window_s=1.0,
    )
    for name, value in other.items():
        setattr(made, name, value)
    return made


def inside(ident: str, name: str, power_w: float = 30.0, **other: object) -> FakeZone:
    made = FakeZone(ident=ident, name=name, power_w=power_w)
    for key, value in other.items():
        setattr(made, key, value)
    return made


def host(folder: Path, cpuinfo: str = "model name\t: Xeon 1\nvendor_id\t: GenuineIntel\n") -> Host:
    (folder / "proc").mkdir(parents=True, exist_ok=True)
    (folder / "proc" / "cpuinfo").write_text(cpuinfo)
    (folder / "machine-id").write_text("abc\n")
    return Host(folder / "proc", folder / "machine-id")


def backend(tree: FakeSysfs) -> RaplBackend:
    return RaplBackend(sysfs=tree, host=host(tree.root.parent), clock=tree.clock)


def opened(tree: FakeSysfs, name: str = "package-0") -> RaplDevice:
    device = backend(tree).open(name, OpenOptions())
    assert isinstance(device, RaplDevice)
    return device


def energy(device: Device) -> float:
    value = device.read().energy_j
    assert value is not None
    return value


def ability(device: Probed, name: str) -> Ability:
    (found,) = [one for one in device.abilities() if one.name.startswith(name)]
    return found


def reasons(abilities: tuple[Ability, ...]) -> dict[str, str]:
    return {one.name: one.detail for one in abilities if not one.works}


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path / "sys", [package(), inside("intel-rapl:0:0", "dram")])


@pytest.fixture
def refusing() -> Iterator[None]:
    with unprivileged():
        yield


class TestRaplConformance(DeviceConformance):
    @pytest.fixture(autouse=True)
    def _tree(self, tree: FakeSysfs) -> None:
        self.tree = tree

    def open(self, seed: int = 0) -> Device:
        return opened(self.tree)


class TestClampedRaplConformance(TestRaplConformance):
    """With limits that the processor cannot hold in full: written in whole watts, kept in 1/8."""

    @pytest.fixture(autouse=True)
    def _tree(self, tmp_path: Path) -> None:
        zone = package(limit_w=125.375, least_w=60.0)
        self.tree = FakeSysfs(tmp_path / "sys", [zone])


class TestEstimateConformance(DeviceConformance):
    @pytest.fixture(autouse=True)
    def _host(self, tmp_path: Path) -> None:
        self.host = host(tmp_path)
        (tmp_path / "proc" / "stat").write_text("cpu 100 0 100 9 9 0 0 0\ncpu0 1\ncpu1 1\n")

    def open(self, seed: int = 0) -> Device:
        return EstimatedCpu(200.0, host=self.host, clock=VirtualClock())


# permission


@pytest.mark.usefixtures("refusing")
def test_a_counter_of_root_alone_is_said_once_with_the_remedy_then_missing(tree: FakeSysfs) -> None:
    paths = [tree.path(zone, ENERGY) for zone in ("intel-rapl:0", "intel-rapl:0:0")]
    tree.deny(*paths)
    with pytest.raises(PermissionError):
        tree.text(paths[0])
    device = opened(tree)
    assert [device.read().energy_j for _ in range(3)] == [None] * 3
    (told,) = [one for one in device.abilities() if one.cure]
    assert not told.works
    assert told.cure is not None
    assert all(str(path) in told.cure for path in paths)
    assert "sudo chmod a+r" in told.cure
    assert "CAP_DAC_READ_SEARCH" in told.cure
    assert backend(tree).available()[0].remark == "energy not permitted"
    assert device.identity.source is Source.MEASURED


@pytest.mark.usefixtures("refusing")
def test_permission_given_later_is_used(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0:0", ENERGY)
    tree.deny(path)
    device = opened(tree)
    assert device.read().energy_j is None
    path.chmod(0o444)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j == pytest.approx(230.0)


def test_an_estimate_is_made_only_where_asked_and_says_so(tree: FakeSysfs) -> None:
    assert [one.spec for one in backend(tree).available()] == ["rapl:package-0"]
    stat = tree.root.parent / "proc" / "stat"
    device = backend(tree).open("estimate", OpenOptions())
    assert isinstance(device, EstimatedCpu)
    assert device.read().energy_j is None
    stat.write_text("cpu  100 0 100 9999 999 0 0 0\ncpu0 1\ncpu1 1\n")
    begin_j = energy(device)
    stat.write_text("cpu  150 0 150 9999 999 0 0 0\ncpu0 1\ncpu1 1\n")
    assert energy(device) - begin_j == pytest.approx(0.5 * 300.0)
    assert device.full_w == 300.0
    assert device.identity.source is Source.ESTIMATED
    assert "estimated" in device.identity.model
    assert "estimated" in ability(device, "energy counter").detail


def test_an_estimate_without_a_known_power_needs_one(tmp_path: Path) -> None:
    bare = backend(FakeSysfs(tmp_path / "sys"))
    with pytest.raises(DeviceError, match="estimate=225W"):
        bare.open("estimate", OpenOptions())
    device = bare.open("estimate=225W", OpenOptions())
    assert isinstance(device, EstimatedCpu)
    assert device.full_w == 225.0
    for wrong in ("estimate=", "estimate=0W", "estimate=-3W", "estimate=many"):
        with pytest.raises(LowjouleError):
            bare.open(wrong, OpenOptions())


# wrap


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


# which zones


def test_one_set_that_does_not_overlap_and_it_is_shown(tmp_path: Path) -> None:
    tree = FakeSysfs(
        tmp_path / "sys",
        [
            FakeZone(ident="intel-rapl:0", name="psys", power_w=999.0),
            package(0, at=1),
            inside("intel-rapl:1:0", "core", 100.0),
            inside("intel-rapl:1:1", "uncore", 50.0),
            inside("intel-rapl:1:2", "dram", 30.0),
            FakeZone(ident="intel-rapl-mmio:0", name="package-0", power_w=200.0),
        ],
    )
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j == pytest.approx(230.0)
    left = reasons(backend(tree).abilities())
    assert list(left) == [
        "package-0 (intel-rapl-mmio:0)",
        "core (intel-rapl:1:0)",
        "uncore (intel-rapl:1:1)",
        "psys (intel-rapl:0)",
    ]
    assert "copy" in left["package-0 (intel-rapl-mmio:0)"]
    assert "inside the package" in left["core (intel-rapl:1:0)"]
    assert "the packages are in it" in left["psys (intel-rapl:0)"]
    assert "package, dram" not in ability(device, "energy counter").detail
    assert "package-0, dram" in ability(device, "energy counter").detail
    assert reasons(device.abilities()).keys() >= {"core (intel-rapl:1:0)"}


def test_psys_alone_is_no_cpu_and_is_said(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [FakeZone(ident="intel-rapl:0", name="psys")])
    assert backend(tree).available() == ()
    assert "it is no CPU" in reasons(backend(tree).abilities())["psys (intel-rapl:0)"]
    with pytest.raises(UnsupportedError):
        opened(tree)


def test_the_mmio_copy_is_used_where_it_is_all_there_is(tmp_path: Path) -> None:
    zone = FakeZone(ident="intel-rapl-mmio:0", name="package-0", power_w=10.0)
    device = opened(FakeSysfs(tmp_path / "sys", [zone]))
    assert device.read().energy_j is not None


def test_two_dies_that_show_one_counter_are_counted_once(tmp_path: Path) -> None:
    tree = FakeSysfs(
        tmp_path / "sys",
        [
            FakeZone(ident="intel-rapl:0", name="package-0-die-0", power_w=200.0),
            FakeZone(ident="intel-rapl:1", name="package-0-die-1", repeats="intel-rapl:0"),
        ],
    )
    device = opened(tree)
    begin_j = energy(device)
    for _ in range(3):
        tree.clock.sleep(1.0)
        device.read()
    assert energy(device) - begin_j == pytest.approx(600.0)
    told = reasons(device.abilities())
    assert "counted once" in told["package-0-die-1 (intel-rapl:1)"]


@pytest.mark.parametrize("start_uj", [1_000_000_000, 5_000_000])
def test_two_dies_with_counters_of_their_own_add(tmp_path: Path, start_uj: int) -> None:
    """Even where both stand at the same value at first."""
    tree = FakeSysfs(
        tmp_path / "sys",
        [
            FakeZone(ident="intel-rapl:0", name="package-0-die-0", power_w=200.0),
            FakeZone(
                ident="intel-rapl:1", name="package-0-die-1", power_w=90.0, energy_uj=start_uj
            ),
        ],
    )
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j == pytest.approx(290.0)
    assert device.space.names == ()
    assert "a limit each" in ability(device, POWER_LIMIT).detail


def test_dies_are_one_counter_though_it_moves_between_the_reads(tmp_path: Path) -> None:
    zones = [
        FakeZone(ident="intel-rapl:0", name="package-0-die-0"),
        FakeZone(ident="intel-rapl:1", name="package-0-die-1", repeats="intel-rapl:0"),
    ]

    class Hurried(FakeSysfs):
        def text(self, path: Path) -> str:
            if path.name == ENERGY:
                self.add("intel-rapl:0", 0.2)
            return super().text(path)

    tree = Hurried(tmp_path / "sys", zones)
    tree.jump("intel-rapl:0", PACKAGE_RANGE_UJ - 1_000_000)
    device = opened(tree)
    begin_j = energy(device)
    for _ in range(5):
        tree.clock.sleep(0.1)
        device.read()
    # six looks, each of two or three reads that move it by 0.2 J
    assert energy(device) - begin_j == pytest.approx(6 * 2 * 0.2, abs=0.4)
    assert "counted once" in reasons(device.abilities())["package-0-die-1 (intel-rapl:1)"]


def test_zones_are_told_by_name_where_their_order_is_not_that_of_the_sockets(
    tmp_path: Path,
) -> None:
    tree = FakeSysfs(
        tmp_path / "sys",
        [
            package(1, at=0, power_w=111.0),
            package(0, at=1, power_w=222.0),
            inside("intel-rapl:1:0", "dram", 10.0),
        ],
    )
    assert [one.spec for one in backend(tree).available()] == ["rapl:package-0", "rapl:package-1"]
    zero, one = opened(tree, "package-0"), opened(tree, "package-1")
    begins = energy(zero), energy(one)
    tree.clock.sleep(1.0)
    assert energy(zero) - begins[0] == pytest.approx(232.0)
    assert energy(one) - begins[1] == pytest.approx(111.0)
    zero.apply(Setting({POWER_LIMIT: 100.0}))
    assert tree.whole(tree.path("intel-rapl:1", LIMIT)) == 100_000_000
    assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 250_000_000
    assert zero.identity.uuid != one.identity.uuid


def test_package_10_is_not_package_1(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(number) for number in (10, 1, 2)])
    specs = [one.spec for one in backend(tree).available()]
    assert specs == ["rapl:package-1", "rapl:package-2", "rapl:package-10"]


def test_a_server_without_dram_says_so(tmp_path: Path) -> None:
    device = opened(FakeSysfs(tmp_path / "sys", [package()]))
    assert not ability(device, "dram").works
    assert device.identity.model == "Xeon 1 (package)"


def test_memory_that_reports_nothing_is_left_out_and_said(tmp_path: Path) -> None:
    tree = FakeSysfs(
        tmp_path / "sys", [package(), inside("intel-rapl:0:0", "dram", 0.0, energy_uj=0)]
    )
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(2.0)
    assert energy(device) - begin_j == pytest.approx(400.0)
    assert "reports 0 J" in ability(device, "dram").detail


def test_the_counter_of_dram_has_a_range_of_its_own(tree: FakeSysfs) -> None:
    tree.jump("intel-rapl:0:0", DRAM_RANGE_UJ - 1_000_000)
    device = opened(tree)
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j == pytest.approx(230.0)


def test_an_amd_processor_has_a_package_and_its_cores_no_memory_and_no_limit(
    tmp_path: Path,
) -> None:
    zones = [
        FakeZone(ident="intel-rapl:0", name="package-0", power_w=100.0, range_uj=65_532_610_987),
        inside("intel-rapl:0:0", "core", 60.0),
    ]
    tree = FakeSysfs(tmp_path / "sys", zones)
    made = host(tmp_path, "vendor_id : AuthenticAMD\nmodel name : EPYC\n")
    device = RaplBackend(sysfs=tree, host=made, clock=tree.clock).open("package-0", OpenOptions())
    begin_j = energy(device)
    tree.clock.sleep(1.0)
    assert energy(device) - begin_j == pytest.approx(100.0)
    assert device.identity.vendor == "AMD"
    assert device.space.names == ()
    assert "no long-term limit" in ability(device, POWER_LIMIT).detail


def test_without_powercap_it_is_said_what_is_not_measured(tmp_path: Path) -> None:
    bare = backend(FakeSysfs(tmp_path / "sys"))
    assert bare.available() == ()
    (told,) = bare.abilities()
    assert not told.works
    assert "packages and memory are not measured" in told.detail
    with pytest.raises(UnsupportedError, match="rapl:estimate"):
        bare.open("package-0", OpenOptions())


def test_odd_trees_are_no_errors(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package()])
    zones = tmp_path / "sys" / "class" / "powercap"
    (zones / "intel-rapl:7").mkdir()
    (zones / "intel-rapl:8").write_text("a file")
    (zones / "intel-rapl:9").symlink_to(zones / "nowhere")
    (zones / "dtpm:0").mkdir()
    (zones / "dtpm:0" / "name").write_text("package-5")
    (zones / "intel-rapl:10").mkdir()
    (zones / "intel-rapl:10" / "name").write_bytes(b"\xff\x00")
    tree.path("intel-rapl:0", "constraint_0_max_power_uw").write_text("?")
    assert [one.spec for one in backend(tree).available()] == ["rapl:package-0"]
    assert len(discover(tree).packages) == 1
    backend(tree).abilities()


def test_nested_folders_without_links_are_found(tmp_path: Path) -> None:
    for name, text in (("", "package-0"), ("intel-rapl:0:0/", "dram")):
        folder = tmp_path / "sys/class/powercap/intel-rapl:0" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(text)
        (folder / "energy_uj").write_text("5000")
    (found,) = discover(Sysfs(tmp_path / "sys")).packages
    assert [zone.name for zone in found.zones] == ["package-0", "dram"]


def test_an_unknown_package_is_named(tree: FakeSysfs) -> None:
    with pytest.raises(UnknownNameError, match="package-0"):
        opened(tree, "package-3")
    with pytest.raises(InvalidValueError):
        backend(tree).open("package-0", OpenOptions(default={"power_limit": "100W"}))


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


# the limit


def test_the_limit_is_written_in_whole_watts_and_the_one_found_is_put_back(
    tmp_path: Path,
) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(limit_w=125.375)])
    device = opened(tree)
    knob = device.space.knob(POWER_LIMIT)
    assert knob.default == 125.375
    assert knob.values[0] == 1.0
    assert knob.values[-1] == 300.0
    assert len(knob.values) == 301
    assert knob.latency_s == 1.0
    with Claim(device, "test") as claim:
        claim.apply(Setting({POWER_LIMIT: 100.0}))
        assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 100_000_000
    assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 125_375_000


def test_a_clamped_limit_is_shown_as_achieved(tree: FakeSysfs) -> None:
    tree.clamp("intel-rapl:0", 80.125, 260.0)
    device = opened(tree)
    applied = device.apply(Setting({POWER_LIMIT: 50.0}))
    assert applied.achieved == Setting({POWER_LIMIT: 80.125})
    assert not applied.exact
    device.space.knob(POWER_LIMIT).index(80.125)
    assert device.space.knob(POWER_LIMIT).default == 250.0


def test_a_limit_that_somebody_else_sets_later_can_be_put_back(tree: FakeSysfs) -> None:
    device = opened(tree)
    tree.path("intel-rapl:0", LIMIT).write_text("123456789\n")
    with Claim(device, "test") as claim:
        claim.apply(Setting({POWER_LIMIT: 100.0}))
    assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 123_456_789


@pytest.mark.parametrize(
    ("found_w", "max_w", "least_w", "domain"),
    [
        (250.5, 0.0, None, (1.0, 250.5, 251)),
        (250.0, None, None, (1.0, 250.0, 250)),
        (4095.0, 125.0, None, (1.0, 4095.0, 126)),
        (200.0, 225.5, 90.5, (91.0, 225.0, 135)),
        (0.5, 0.0, None, (0.5, 0.5, 1)),
    ],
)
def test_the_domain_keeps_to_what_the_processor_says(
    tmp_path: Path,
    found_w: float,
    max_w: float | None,
    least_w: float | None,
    domain: tuple[float, float, int],
) -> None:
    zone = package(limit_w=found_w, max_w=max_w, least_w=least_w)
    values = opened(FakeSysfs(tmp_path / "sys", [zone])).space.knob(POWER_LIMIT).values
    assert (values[0], values[-1], len(values)) == domain


@pytest.mark.usefixtures("refusing")
def test_without_permission_there_is_no_knob_and_the_command_is_said(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0", LIMIT)
    path.chmod(0o444)
    device = opened(tree)
    assert device.space.names == ()
    assert device.current() == Setting()
    told = ability(device, POWER_LIMIT)
    assert not told.works
    assert told.detail == "250 W is in force: Permission denied"
    assert told.cure is not None
    assert f"| sudo tee {path}" in told.cure
    with pytest.raises(UnknownNameError):
        device.apply(Setting({POWER_LIMIT: 100.0}))


def test_a_limit_in_a_read_only_tree_is_no_knob(tree: FakeSysfs) -> None:
    class ReadOnly(FakeSysfs):
        def refusal(self, path: Path) -> OSError:
            return OSError(errno.EROFS, "Read-only file system")

    device = opened(ReadOnly(tree.root.parent / "other" / "sys", tree.zones.values()))
    told = ability(device, POWER_LIMIT)
    assert device.space.names == ()
    assert told.cure is not None
    assert "container" in told.cure


def test_a_limit_locked_by_the_firmware_is_an_error_with_its_cure(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0", LIMIT)
    tree.refuse(path)
    device = opened(tree)
    with pytest.raises(DeviceError, match=f"sudo tee {path}.*firmware"):
        device.apply(Setting({POWER_LIMIT: 100.0}))
    assert device.current() == Setting({POWER_LIMIT: 250.0})


def test_a_limit_of_nothing_is_none(tmp_path: Path) -> None:
    device = opened(FakeSysfs(tmp_path / "sys", [package(limit_w=0.0)]))
    assert device.space.names == ()
    assert "no limit is in force" in ability(device, POWER_LIMIT).detail


def test_the_long_term_limit_is_told_by_its_name(tree: FakeSysfs) -> None:
    folder = tree.path("intel-rapl:0", "")
    (folder / "constraint_0_name").write_text("peak_power\n")
    (folder / "constraint_1_name").write_text("long_term\n")
    (folder / "constraint_1_power_limit_uw").write_text("180000000\n")
    device = opened(tree)
    device.apply(Setting({POWER_LIMIT: 100.0}))
    assert tree.whole(folder / "constraint_1_power_limit_uw") == 100_000_000
    assert tree.whole(folder / "constraint_0_power_limit_uw") == 250_000_000


def test_opening_and_asking_write_nothing(tree: FakeSysfs) -> None:
    device = opened(tree)
    device.abilities()
    device.read()
    device.current()
    backend(tree).available()
    assert tree.written == []


# identity


def test_identity_is_of_machine_and_name_and_does_not_tell_the_machine(tree: FakeSysfs) -> None:
    one = opened(tree).identity
    assert one == opened(tree).identity
    assert "abc" not in one.uuid
    assert one.scope is Coverage.PACKAGE
    assert one.model == "Xeon 1 (package and DRAM)"
    assert one.vendor == "Intel"
    (tree.root.parent / "machine-id").write_text("other\n")
    host_of = Host(tree.root.parent / "proc", tree.root.parent / "machine-id")
    other = RaplBackend(sysfs=tree, host=host_of).open("package-0", OpenOptions())
    assert other.identity.uuid != one.uuid


def test_a_machine_that_says_nothing_of_itself_is_still_one(tmp_path: Path) -> None:
    nothing = Host(tmp_path / "no", tmp_path / "none")
    assert nothing.cpu() == ("CPU", "unknown")
    assert nothing.anonymous_id("x") == nothing.anonymous_id("x")
    assert nothing.busy_s() is None
    assert math.isfinite(Host().busy_s() or 0.0)
