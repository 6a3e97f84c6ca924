"""Which devices a window is on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import cast

from lowjoule.devices.interface import Device
from lowjoule.devices.registry import backends, open_device
from lowjoule.errors import LowjouleError
from lowjoule.metering.ranks import local_rank
from lowjoule.source import Source

Devices = str | Device | Sequence["str | Device"] | None

_DEFAULT = ("nvml", "rapl", "hwmon")
_NOTHING = (
    "no device here can be measured: no visible NVIDIA GPU and no CPU package whose energy may be "
    "read (lowjoule devices says why)"
)
_LEFT_TO_FIRST = (
    "rank {} of this node leaves to the first, which measures for all: {}; name devices to measure "
    "them here too"
)
_log = logging.getLogger("lowjoule")
_opened: dict[tuple[object, ...], Device] = {}
_found: dict[tuple[object, ...], tuple[tuple[Device, ...], tuple[str, ...]]] = {}
_told: set[str] = set()
_guard = threading.Lock()


def select(devices: Devices) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices that are meant, each board once, and what is to be said of them.

    None means the visible NVIDIA GPUs and the CPU packages that can be read; an empty list
    none. Of several ranks on a node that see the same devices the first measures them, so that
    what all report can be added; another has its own GPU where it sees one alone. A name that
    opens nothing is left out, named in a note and logged, as a measurement never ends the work
    that it measures.
    """
    if devices is None:
        return _default()
    if isinstance(devices, str):
        devices = [one.strip() for one in devices.split(",") if one.strip()]
    elif not isinstance(devices, list | tuple):
        # asking whether it is a `Device` costs more than all the rest
        devices = [cast(Device, devices)] if hasattr(devices, "read") else list(devices)
    if len(devices) == 1 and not isinstance(devices[0], str):
        return (devices[0],), ()
    found: dict[str, Device] = {}
    notes: list[str] = []
    for one in devices:
        try:
            device = _open(one) if isinstance(one, str) else one
            found.setdefault(device.identity.uuid, device)
        except Exception as error:  # noqa: BLE001  # a wrong name is no reason to end the work
            notes.append(f"{one!r} is not measured: {error}")
    _warn(notes)
    return tuple(found.values()), tuple(notes)


def _open(spec: str) -> Device:
    key = (spec, *_environment())
    with _guard:
        if key in _opened:
            return _opened[key]
    device = open_device(spec)
    # a simulated or replayed device of that name is a new one each time
    if device.identity.source is Source.MEASURED:
        with _guard:
            return _opened.setdefault(key, device)
    return device


def _environment() -> tuple[object, ...]:
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return (os.getpid(), local_rank(), *(os.environ.get(name) for name in names))


def _default() -> tuple[tuple[Device, ...], tuple[str, ...]]:
    key = _environment()
    with _guard:
        known = _found.get(key)
    if known is not None:
        return known
    devices: list[Device] = []
    notes: list[str] = []
    registered = backends()
    for name in _DEFAULT:
        if name in registered:
            _add(name, devices, notes)
    if not devices:
        notes.insert(0, _NOTHING)
    elif (rank := local_rank()) > 0:
        devices, left = _of_rank(devices)
        notes += [_LEFT_TO_FIRST.format(rank, ", ".join(one.identity.uuid for one in left))]
    _warn(notes)
    with _guard:
        return _found.setdefault(key, (tuple(devices), tuple(notes)))


def _of_rank(devices: list[Device]) -> tuple[list[Device], list[Device]]:
    """Return what a rank after the first measures, and what the first does for the whole node."""
    boards = [one for one in devices if one.identity.backend == "nvml"]
    own = boards if len(boards) == 1 else []
    return own, [one for one in devices if one not in own]


def _add(backend: str, devices: list[Device], notes: list[str]) -> None:
    try:
        listed = backends()[backend].available()
    except Exception as error:  # noqa: BLE001  # a broken driver is a note
        notes.append(f"{backend}: {error}")
        return
    for one in listed:
        if one.remark == "estimate" or "asleep" in one.remark:
            continue  # what sleeps is not woken unless it is named
        try:
            device = _open(one.spec)
            reading = device.read()
        except LowjouleError as error:
            notes.append(f"{one.spec} is not measured: {error}")
            continue
        except Exception as error:  # noqa: BLE001
            notes.append(f"{one.spec} is not measured: {error}")
            continue
        if reading.energy_j is None and reading.power_w is None:
            notes.append(f"{one.spec} is not measured: {one.remark or 'it tells no energy'}")
        elif device.identity.source is Source.MEASURED:
            devices.append(device)


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        if note not in _told:
            _told.add(note)
            _log.warning("%s", note)
