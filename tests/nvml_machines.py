"""Machines of NVIDIA boards that do not exist, behind the real binding."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.devices.nvml.driver import DRIVER
from lowjoule.devices.nvml.visible import Seen
from lowjoule.testing.nvml import Board, FakeNvml

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-12345678-0000-4106-c12f-000000000002"
LIMIT = "nvmlDeviceSetPowerManagementLimit"
CLOCKS = {2619e6: (1980e6, 1500e6, 900e6, 210e6), 1593e6: (1980e6, 210e6)}


@contextlib.contextmanager
def machine(folder: Path, *boards: Board) -> Iterator[FakeNvml]:
    """Boards that this process sees, a second after the driver's start."""
    with FakeNvml(list(boards), folder=folder, virtual=True) as fake, fake.loaded():
        fake.advance(1.0)
        try:
            yield fake
        finally:
            DRIVER.close()


def opened(fake: FakeNvml, uuid: str = A, *, module: bool = False) -> NvmlDevice:
    """The device of a board, in the machine's time, seen whatever the environment says."""
    (seen,) = (one for one in NvmlBackend(root=fake_root()).select(None) if one.board.uuid == uuid)
    return device_of(fake, seen, module=module)


def device_of(fake: FakeNvml, seen: Seen, *, module: bool = False) -> NvmlDevice:
    return NvmlDevice(seen, module=module, clock=fake.clock, root=fake_root())


def fake_root() -> Path:
    """A root without /sys and /proc, so that this machine's own boards do not matter."""
    return Path("/nonexistent")


def board(**more: object) -> Board:
    plain = {"uuid": A, "pci_bus_id": "00000000:3B:00.0", "clocks_hz": CLOCKS}
    return Board(**{**plain, **more})  # type: ignore[arg-type]


def ability(device: NvmlDevice, name: str) -> Ability:
    (found,) = (one for one in device.abilities() if one.name == name)
    return found
