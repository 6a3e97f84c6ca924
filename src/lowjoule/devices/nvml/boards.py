"""The boards of this machine, listed without waking those that sleep."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowjoule.devices.nvml.codes import words
from lowjoule.devices.nvml.driver import DRIVER, Driver
from lowjoule.devices.nvml.visible import Board, Slice, pci_address

_VENDOR = "0x10de"
_DISPLAY = "0x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The boards that were found, and what could not be told of others."""

    boards: tuple[Board, ...]
    notes: tuple[str, ...] = ()


def inventory(driver: Driver = DRIVER, root: Path = Path("/")) -> Inventory:
    """Return the boards here; raises `DeviceError` where there is no driver.

    A board that the kernel has suspended is known by what the kernel says of it alone, as a
    question to NVML wakes it. `root` is where /sys and /proc are found.
    """
    addresses = _addresses(root)
    asleep = [one for one in addresses if is_asleep(one, root)]
    if asleep:
        names: list[tuple[str, Any]] = [
            ("nvmlDeviceGetHandleByPciBusId", one) for one in addresses if one not in asleep
        ]
    else:
        count = int(driver.machine("nvmlDeviceGetCount"))
        names = [("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    boards = [_sleeping(address, root) for address in asleep]
    notes = []
    for function, argument in names:
        handle = driver.machine_attempt(function, argument)
        if handle.works:
            boards.append(_board(driver, handle.value))
        elif not asleep:
            notes.append(f"GPU {argument} of the driver does not answer ({words(handle.code)})")
    return Inventory(boards=tuple(boards), notes=tuple(notes))


def is_asleep(pci_bus_id: str, root: Path = Path("/")) -> bool:
    """Whether the kernel has suspended the device at `pci_bus_id`; False where it says nothing."""
    status = root / "sys/bus/pci/devices" / pci_bus_id / "power/runtime_status"
    return _text(status) in {"suspended", "suspending"}


def _addresses(root: Path) -> list[str]:
    folder = root / "sys/bus/pci/devices"
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        entry.name
        for entry in entries
        if _text(entry / "vendor") == _VENDOR
        and (_text(entry / "class") or "").startswith(_DISPLAY)
    ]


def _sleeping(address: str, root: Path) -> Board:
    said = _text(root / "proc/driver/nvidia/gpus" / address / "information") or ""
    known = dict(re.findall(r"^([^:\n]+):\s*(.+?)\s*$", said, re.MULTILINE))
    uuid = known.get("GPU UUID", "")
    return Board(
        # the driver shows a masked UUID of a board that it has not started yet
        uuid=uuid if uuid and "?" not in uuid else f"asleep-{address}",
        pci_bus_id=address,
        model=known.get("Model", "NVIDIA GPU"),
        asleep=True,
    )


def _board(driver: Driver, handle: Any) -> Board:
    raw = driver.machine("nvmlDeviceGetPciInfo", handle).busId
    address = raw.decode() if isinstance(raw, bytes) else str(raw)
    mode = driver.machine_attempt("nvmlDeviceGetMigMode", handle)
    partitioned = bool(mode.works and mode.value[0])
    return Board(
        uuid=str(driver.machine("nvmlDeviceGetUUID", handle)),
        pci_bus_id=pci_address(address) or address.lower(),
        model=str(driver.machine("nvmlDeviceGetName", handle)),
        slices=_slices(driver, handle) if partitioned else (),
        partitioned=partitioned,
    )


def _slices(driver: Driver, handle: Any) -> tuple[Slice, ...]:
    count = driver.machine_attempt("nvmlDeviceGetMaxMigDeviceCount", handle).value or 0
    found = []
    for index in range(count):
        piece = driver.machine_attempt("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        uuid = driver.machine_attempt("nvmlDeviceGetUUID", piece.value) if piece.works else piece
        # the count is of what there may be: places in between are empty
        if uuid.works:
            gpu = driver.machine_attempt("nvmlDeviceGetGpuInstanceId", piece.value)
            compute = driver.machine_attempt("nvmlDeviceGetComputeInstanceId", piece.value)
            found.append(
                Slice(uuid=str(uuid.value), gpu_instance=gpu.value, compute_instance=compute.value)
            )
    return tuple(found)


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return None


def woken(driver: Driver, board: Board) -> Board:
    """Return `board` as NVML tells it, which wakes it; raises `DeviceError`."""
    return _board(driver, driver.machine("nvmlDeviceGetHandleByPciBusId", board.pci_bus_id))
