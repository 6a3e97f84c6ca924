"""Checks of this machine, whatever its devices: container, clock, folders, other programs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from lowjoule.diagnosis.check import Check, fail, not_applicable, ok, warn
from lowjoule.diagnosis.machine import Machine, may
from lowjoule.store.location import VARIABLE as STORE
from lowjoule.store.location import is_network

_READS = 200
_YEAR_2020_S = 1_577_836_800.0
_SLOW_SOURCES = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_SQLITE = b"SQLite format 3\0"
_WAL = 2
_TURNERS = {
    "nv-hostengine": "reads, and may set, GPU limits",
    "nvidia-powerd": "moves power between CPU and GPU",
    "power-profiles-": "sets CPU limits by profile",
    "tuned": "sets CPU limits by profile",
    "thermald": "lowers CPU limits with the temperature",
    "tlp": "sets CPU limits by profile",
    "auto-cpufreq": "sets CPU clocks",
}
"""Programs that turn what lowjoule turns, by the first 15 signs of their names."""


def container(machine: Machine) -> Check:
    """Tell whether this is a container, a guest, or Linux under Windows."""
    name = "where this runs"
    if machine.wsl:
        cure = "measure CPUs and turn limits in Windows"
        return warn(name, "WSL: the GPU's driver is that of Windows, its setters refuse", cure)
    where = [f"in a container ({machine.container})"] if machine.container else []
    where += ["in a virtual machine"] if machine.guest else []
    return ok(name, " ".join(where) or "on the machine itself")


def clock(machine: Machine) -> Check:
    """Check that time moves, forwards, and is near what the calendar says."""
    name = "clock"
    times_s = [machine.clock.now_s() for _ in range(_READS)]
    if any(later < earlier for earlier, later in pairwise(times_s)):
        return fail(name, "monotonic time goes backwards", "update the kernel or the hypervisor")
    if machine.clock.unix_s() < _YEAR_2020_S:
        cure = "set it (sudo timedatectl set-ntp true): records carry it"
        return warn(name, "the time of day is before 2020", cure)
    source = machine.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source in _SLOW_SOURCES:
        cure = "let the kernel use tsc (see dmesg on why it does not)"
        return warn(name, f"the kernel's clock is {source}, which is slow to read", cure)
    return ok(name, f"monotonic{f', {source}' if source else ''}")


def claims(folder: Path) -> Check:
    """Check that claims on knobs can be kept in `folder`; nothing is made to find out."""
    name = "claims"
    closed = closed_to_us(folder)
    if closed is None:
        return ok(name, str(folder))
    cure = f"make {closed} writable, or name another folder in $LOWJOULE_CLAIMS"
    return fail(name, f"{folder} cannot be written: no knob can be held", cure)


def store(machine: Machine, place: str) -> Check:
    """Check that the store can be written, and how its journal is kept; it is not opened."""
    name = "store"
    if "://" in place and not place.startswith("sqlite:///"):
        return not_applicable(name, "a database elsewhere, which is not asked")
    path = Path(place.removeprefix("sqlite:///")).expanduser()
    closed = closed_to_us(path)
    if closed is not None:
        cure = f"make {closed} writable, or name another place in ${STORE}"
        return fail(name, f"{path} cannot be written", cure)
    if not path.exists():
        return ok(name, f"{path} (not made yet)")
    journal = journal_of(path)
    if journal is None:
        cure = "move it away, or name another place in $" + STORE
        return fail(name, f"{path} is no database", cure)
    if is_network(path, machine.root / "proc/self/mounts"):
        cure = "keep it on a local disk, or use a server (postgresql+psycopg://...)"
        return warn(name, f"{path} is on a network file system (journal: {journal})", cure)
    return ok(name, f"{path} (journal: {journal})")


def journal_of(path: Path) -> str | None:
    """Return how an SQLite file's journal is kept, by its header; None where it is none."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if not head:
        return "none yet"
    if len(head) < 20 or not head.startswith(_SQLITE):
        return None
    return "wal" if head[18] == _WAL else "delete"


def closed_to_us(path: Path) -> Path | None:
    """Return what keeps `path` from being written or made, None where nothing does."""
    for place in (path, *path.parents):
        if place.exists():
            # anything but a folder has no place for what is to be made in it
            usable = place == path or place.is_dir()
            return None if usable and may(place, os.W_OK) else place
    return path


def journals(find: Callable[[], Iterable[str] | None] | None = None) -> Check:
    """Check whether a process that died has left settings behind.

    `find` returns what is left, None where nothing is journalled; by default it asks
    `lowjoule.control`.
    """
    name = "settings left behind"
    left = (find or _left_behind)()
    if left is None:
        return not_applicable(name, "nothing is journalled")
    left = list(left)
    if not left:
        return ok(name, "none")
    return warn(name, "; ".join(left), "lowjoule restore")


def _left_behind() -> Iterable[str] | None:
    # asked by name: what control offers for it is its own affair
    control: Any = importlib.import_module("lowjoule.control")
    if hasattr(control, "stale"):
        return [str(one) for one in control.stale()]
    if not hasattr(control, "Journal"):
        return None
    replay: Any = importlib.import_module("lowjoule.control.replay")
    said = []
    for one in control.Journal().entries():
        if not hasattr(one, "knob"):
            said.append(f"{one.path} {one.why}")
        elif replay.is_stale(one):
            said.append(f"{one.knob} of {one.model or one.uuid}, by {one.owner.text}")
    return said


def other_programs(machine: Machine) -> Check:
    """Tell which programs run that turn what we turn."""
    name = "other programs"
    running = {machine.text(f"proc/{one}/comm") for one in machine.names("proc") if one.isdigit()}
    found = [f"{one} ({why})" for one, why in sorted(_TURNERS.items()) if one in running]
    if not found:
        return ok(name, "none that turns limits or clocks")
    return warn(name, "; ".join(found), "stop them while searching, if limits move by themselves")
