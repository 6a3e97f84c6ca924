"""Powercap trees and what tests ask of the devices on them; fixtures of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lowjoule.devices.host import Host
from lowjoule.devices.interface import Ability, Device, Probed
from lowjoule.devices.rapl import RaplBackend, RaplDevice
from lowjoule.devices.registry import OpenOptions
from lowjoule.testing.sysfs import FakeSysfs, FakeZone, unprivileged

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
