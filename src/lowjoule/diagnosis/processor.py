"""Checks of what tells the energy of the CPU."""

from __future__ import annotations

import re

from lowjoule.devices.hwmon.meters import discover as discover_meters
from lowjoule.devices.rapl.zones import Layout, discover
from lowjoule.devices.sysfs import Sysfs
from lowjoule.diagnosis.check import Check, not_applicable, ok, warn
from lowjoule.diagnosis.machine import Machine

_CAP_PERFMON, _CAP_SYS_ADMIN = 38, 21
_ESTIMATE = "ask for an estimate (rapl:estimate=225W)"


def powercap(machine: Machine) -> Check:
    """Check that the CPU's energy counters are here and may be read."""
    name = "CPU energy"
    sysfs = Sysfs(machine.root / "sys")
    layout = discover(sysfs)
    if not layout.packages:
        return _absent(machine, name)
    closed = _unreadable(layout, sysfs)
    if closed:
        files = " ".join(closed)
        cure = f"sudo chmod a+r {files} (until the next start; every user can then watch it)"
        return warn(name, "the counters are for root alone", cure)
    names = ", ".join(f"rapl:{package.name}" for package in layout.packages)
    return ok(name, names)


def _absent(machine: Machine, name: str) -> Check:
    meters = discover_meters(Sysfs(machine.root / "sys")).counted
    if meters:
        return ok(name, ", ".join(f"hwmon:{meter.name}" for meter in meters))
    if machine.container and _is_masked(machine):
        cure = f"run on the host, show /sys/devices/virtual/powercap to it, or {_ESTIMATE}"
        return warn(name, "the container hides powercap", cure)
    if machine.guest:
        cure = f"measure on the host, or {_ESTIMATE}"
        return warn(name, "this virtual machine is not shown its processor's energy", cure)
    return warn(
        name,
        "no powercap zone of a package",
        f"sudo modprobe intel_rapl_msr, or {_ESTIMATE}",
    )


def _is_masked(machine: Machine) -> bool:
    """Whether something empty is mounted over powercap, as container engines do."""
    mounts = machine.text("proc/self/mounts") or ""
    masked = re.search(r"^\S+ /sys/(devices/virtual|class)/powercap ", mounts, re.MULTILINE)
    # the kernel of a virtual machine has none that could be hidden
    return masked is not None or not (machine.guest or machine.names("sys/class/powercap"))


def _unreadable(layout: Layout, sysfs: Sysfs) -> list[str]:
    files = [zone.energy for package in layout.packages for zone in package.zones]
    return [str(one) for one in files if sysfs.word(one) is None]


def perf_events(machine: Machine) -> Check:
    """Tell what the kernel allows of perf events; lowjoule does not need them."""
    name = "perf events"
    level = machine.text("proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return not_applicable(name, "the kernel does not tell perf_event_paranoid")
    allowed = level.lstrip("-").isdigit() and int(level) <= 0
    if allowed or _has(machine, _CAP_PERFMON) or _has(machine, _CAP_SYS_ADMIN):
        return ok(name, f"perf_event_paranoid is {level}: open to this process")
    return not_applicable(
        name, f"perf_event_paranoid is {level}: closed to this process, and not needed"
    )


def _has(machine: Machine, capability: int) -> bool:
    status = machine.text("proc/self/status") or ""
    mask = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    return mask is not None and bool(int(mask[1], 16) >> capability & 1)
