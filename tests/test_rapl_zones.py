from __future__ import annotations

from pathlib import Path

import pytest

from cpu_trees import (
    ENERGY,
    LIMIT,
    ability,
    backend,
    energy,
    host,
    inside,
    opened,
    package,
    reasons,
)
from cpu_trees import refusing as refusing
from cpu_trees import tree as tree
from lowjoule.devices.rapl import RaplBackend, discover
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.sysfs import Sysfs
from lowjoule.errors import InvalidValueError, UnknownNameError, UnsupportedError
from lowjoule.knobs import POWER_LIMIT, Setting
from lowjoule.testing.sysfs import DRAM_RANGE_UJ, PACKAGE_RANGE_UJ, FakeSysfs, FakeZone


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
