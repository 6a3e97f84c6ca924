from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lowjoule.devices.host import Host
from lowjoule.devices.hwmon import HwmonBackend, HwmonDevice
from lowjoule.devices.interface import Coverage, Device
from lowjoule.devices.registry import OpenOptions
from lowjoule.errors import DeviceError, InvalidValueError, UnknownNameError, UnsupportedError
from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.testing import DeviceConformance
from lowjoule.testing.sysfs import FakeChip, FakeSysfs, FakeZone, unprivileged

AMD = FakeChip(
    ident="hwmon3",
    name="amd_energy",
    files={
        "energy1_label": "Ecore000",
        "energy1_input": "7000000",
        "energy2_label": "Esocket0",
        "energy2_input": "90000000",
        "energy3_label": "Esocket1",
        "energy3_input": "50000000",
    },
)


def grace_hopper(sockets: int = 1) -> list[FakeChip]:
    powers = {"Module": 600.0, "Grace": 150.0, "CPU": 100.0, "SysIO": 40.0}
    labels = [(f"{k} Power Socket {n}", p + n) for n in range(sockets) for k, p in powers.items()]
    # the numbers of the chips run against the sockets
    return [
        FakeChip.grace(f"hwmon{20 - at}", label, power_w)
        for at, (label, power_w) in enumerate(labels)
    ]


def backend(tree: FakeSysfs) -> HwmonBackend:
    folder = tree.root.parent
    return HwmonBackend(
        sysfs=tree, host=Host(folder / "proc", folder / "machine-id"), clock=tree.clock
    )


def opened(tree: FakeSysfs, name: str) -> HwmonDevice:
    return backend(tree).open(name, OpenOptions())


def specs(tree: FakeSysfs) -> list[str]:
    return [one.spec for one in backend(tree).available()]


@pytest.fixture
def grace(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path / "sys", chips=grace_hopper(2))


@pytest.fixture
def amd(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path / "sys", chips=[AMD])


@pytest.fixture
def refusing() -> Iterator[None]:
    with unprivileged():
        yield


class TestGraceConformance(DeviceConformance):
    @pytest.fixture(autouse=True)
    def _tree(self, grace: FakeSysfs) -> None:
        self.tree = grace

    def open(self, seed: int = 0) -> Device:
        return opened(self.tree, "grace-1")


def test_grace_has_power_over_an_interval_and_no_counter(grace: FakeSysfs) -> None:
    device = opened(grace, "grace-1")
    reading = device.read()
    assert (reading.power_w, reading.power_window_s) == (151.0, 0.05)
    assert reading.energy_j is None
    assert device.identity.source is Source.MEASURED
    assert device.identity.scope is Coverage.PACKAGE
    assert device.identity.vendor == "NVIDIA"
    told = {one.name: one for one in device.abilities()}
    assert told["average power"].works
    assert told["average power"].detail == "over 0.05 s"
    assert not told["energy counter"].works
    assert not told["power_limit"].works


def test_a_module_says_that_it_includes_the_gpu(grace: FakeSysfs) -> None:
    device = opened(grace, "module-0")
    assert device.identity.scope is Coverage.MODULE
    assert "GPU" in device.identity.model
    assert "includes the GPU" in device.abilities()[0].detail
    assert device.read().power_w == 600.0


def test_module_and_cpu_of_one_socket_are_never_both_summed(grace: FakeSysfs) -> None:
    assert specs(grace) == ["hwmon:grace-0", "hwmon:grace-1"]
    left = {one.name: one.detail for one in backend(grace).abilities() if not one.works}
    assert left["hwmon:module-0"] == "left out: around what is counted"
    assert left["hwmon:cpu-1"] == "left out: inside what is counted"
    assert len(left) == 6


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("Module", "CPU", "SysIO"), ["hwmon:cpu-0", "hwmon:sysio-0"]),
        (("Module", "CPU"), ["hwmon:cpu-0"]),
        (("Module",), ["hwmon:module-0"]),
        (("Grace", "SysIO"), ["hwmon:grace-0"]),
    ],
)
def test_the_set_that_is_summed_never_overlaps(
    tmp_path: Path, kinds: tuple[str, ...], expected: list[str]
) -> None:
    chips = [
        FakeChip.grace(f"hwmon{n}", f"{kind} Power Socket 0", 100.0) for n, kind in enumerate(kinds)
    ]
    assert specs(FakeSysfs(tmp_path / "sys", chips=chips)) == expected


def test_without_an_interval_power_is_an_average_of_unknown_length(tmp_path: Path) -> None:
    chip = FakeChip.grace("hwmon0", "Grace Power Socket 0", 120.0, interval_ms=None)
    reading = opened(FakeSysfs(tmp_path / "sys", chips=[chip]), "grace-0").read()
    assert reading.power_w is None
    assert reading.power_window_s is None
    assert reading.average_power_w == 120.0


@pytest.mark.parametrize("wrong", ["", "-5", "many"])
def test_a_power_that_is_none_is_missing_not_zero(grace: FakeSysfs, wrong: str) -> None:
    device = opened(grace, "grace-0")
    device.meter.file.write_text(wrong)
    assert device.read().power_w is None
    assert not device.abilities()[0].works


def test_files_beside_the_hwmon_device_are_found_too(tmp_path: Path) -> None:
    nested = FakeChip.grace("hwmon0", "CPU Power Socket 0", 99.0)
    files = {name.removeprefix("device/"): text for name, text in nested.files.items()}
    flat = FakeChip(ident="hwmon0", name="power_meter", files=files)
    assert opened(FakeSysfs(tmp_path / "sys", chips=[flat]), "cpu-0").read().power_w == 99.0


def test_a_power_meter_of_something_unknown_is_left_out_and_said(tmp_path: Path) -> None:
    chip = FakeChip(ident="hwmon1", name="power_meter", files={"device/power1_average": "500000"})
    other = FakeChip(ident="hwmon2", name="nvme", files={"temp1_input": "40000"})
    tree = FakeSysfs(tmp_path / "sys", chips=[chip, other])
    assert specs(tree) == []
    (told,) = backend(tree).abilities()
    assert told.name == "power_meter (hwmon1)"
    with pytest.raises(UnsupportedError):
        opened(tree, "grace-0")


def test_amd_sockets_have_counters_and_their_cores_are_inside(amd: FakeSysfs) -> None:
    assert specs(amd) == ["hwmon:socket-0", "hwmon:socket-1"]
    device = opened(amd, "socket-0")
    begin_j = device.read().energy_j
    amd.path("hwmon3", "energy2_input").write_text("92500000\n")
    amd.clock.sleep(0.1)
    end_j = device.read().energy_j
    assert begin_j is not None
    assert end_j is not None
    assert end_j - begin_j == pytest.approx(2.5)
    assert device.identity.scope is Coverage.PACKAGE
    assert device.read().power_w is None


def test_a_socket_that_powercap_measures_too_is_not_summed_again(tmp_path: Path) -> None:
    zone = FakeZone(ident="intel-rapl:0", name="package-0")
    tree = FakeSysfs(tmp_path / "sys", [zone], [AMD])
    assert specs(tree) == []
    assert "rapl:" in backend(tree).abilities()[0].detail
    assert opened(tree, "socket-1").read().energy_j is not None


def test_a_counter_that_falls_is_a_new_start_never_a_wrap(amd: FakeSysfs) -> None:
    device = opened(amd, "socket-0")
    begin_j = device.read().energy_j or 0.0
    amd.path("hwmon3", "energy2_input").write_text("1\n")
    amd.clock.sleep(0.1)
    assert (device.read().energy_j or 0.0) < begin_j
    assert "it fell" in device.notes[0]


@pytest.mark.usefixtures("refusing")
def test_a_meter_that_may_not_be_read_is_missing_with_the_remedy(amd: FakeSysfs) -> None:
    path = amd.path("hwmon3", "energy2_input")
    amd.deny(path)
    device = opened(amd, "socket-0")
    assert device.read().energy_j is None
    told = device.abilities()[0]
    assert not told.works
    assert told.cure is not None
    assert f"sudo chmod a+r {path}" in told.cure


def test_a_meter_that_is_gone_is_a_lost_device(grace: FakeSysfs) -> None:
    device = opened(grace, "grace-0")
    device.meter.file.unlink()
    with pytest.raises(DeviceError, match="gone"):
        device.read()


def test_nothing_can_be_turned(grace: FakeSysfs) -> None:
    device = opened(grace, "grace-0")
    with pytest.raises(UnknownNameError):
        device.apply(Setting({"power_limit": 100.0}))
    with pytest.raises(InvalidValueError):
        backend(grace).open("grace-0", OpenOptions(default={"power_limit": "100W"}))
    with pytest.raises(UnknownNameError, match="grace-0"):
        opened(grace, "grace-7")


def test_an_empty_tree_lists_nothing(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys")
    assert specs(tree) == []
    assert backend(tree).abilities() == ()
