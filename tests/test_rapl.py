from __future__ import annotations

import importlib
import math
import tomllib
from pathlib import Path

import pytest

from cpu_trees import ENERGY, ability, backend, energy, host, opened, package
from cpu_trees import refusing as refusing
from cpu_trees import tree as tree
from lowjoule.clock import VirtualClock
from lowjoule.devices.host import Host
from lowjoule.devices.interface import Coverage, Device
from lowjoule.devices.rapl import EstimatedCpu, RaplBackend
from lowjoule.devices.registry import OpenOptions
from lowjoule.errors import DeviceError, LowjouleError
from lowjoule.source import Source
from lowjoule.testing import DeviceConformance
from lowjoule.testing.sysfs import FakeSysfs


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


# registration


@pytest.mark.parametrize("name", ["rapl", "hwmon"])
def test_the_backend_is_registered(name: str) -> None:
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    points = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
    module, _, attribute = points["lowjoule.devices"][name].partition(":")
    made = getattr(importlib.import_module(module), attribute)()
    assert isinstance(made.available(), tuple)
