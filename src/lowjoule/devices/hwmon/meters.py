"""Which hwmon meters are of CPUs, what each includes, and which of them do not overlap.

The meters of NVIDIA Grace say in `power1_oem_info` what they are of, one of four a socket:

    Module      Grace and the GPU beside it, its memory and the losses of the regulators
      Grace       all of the CPU
        CPU         the rail of its cores
        SysIO       the rail of the rest

A sum takes one level of each socket: Grace, else its two rails, else the module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lowjoule.devices.interface import Ability, Coverage
from lowjoule.devices.rapl.zones import discover as discover_zones
from lowjoule.devices.sysfs import Sysfs

GRACE = re.compile(r"(Module|Grace|CPU|SysIO) Power Socket (\d+)")
_SOCKET = re.compile(r"Esocket(\d+)")
_LEVELS = (("grace",), ("cpu", "sysio"), ("module",))
_MORE = {
    "module": "includes the GPU, its memory and the losses of the regulators",
    "cpu": "the rail of the cores alone",
    "sysio": "the rail of what is beside the cores",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HwmonMeter:
    """One meter: what it is called ("grace-0"), what it includes, and its files.

    `file` holds a counter in uJ where it `counts`, else an average in uW over the ms in
    `interval`. `remark` says what is inside that the name does not tell.
    """

    name: str
    kind: str
    socket: int
    scope: Coverage
    title: str
    driver: str
    file: Path
    counts: bool
    interval: Path | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HwmonLayout:
    """The meters that do not overlap, the others, and what is no meter of a CPU."""

    counted: tuple[HwmonMeter, ...]
    overlapping: tuple[HwmonMeter, ...]
    left_out: tuple[Ability, ...]

    @property
    def meters(self) -> dict[str, HwmonMeter]:
        """All meters that can be opened, by name."""
        return {one.name: one for one in (*self.counted, *self.overlapping)}


def discover(sysfs: Sysfs) -> HwmonLayout:
    """Return the meters under `sysfs`, by their labels, never by the number of their chip."""
    found: dict[str, HwmonMeter] = {}
    left: list[Ability] = []
    top = sysfs.root / "class" / "hwmon"
    for chip in sysfs.children(top):
        folder = top / chip
        kind = sysfs.word(folder / "name") or sysfs.word(folder / "device" / "name")
        meters: list[HwmonMeter] = []
        if kind == "amd_energy":
            meters = _sockets(sysfs, folder)
        elif kind in ("power_meter", "acpi_power_meter") or _label(sysfs, folder):
            meters = _grace(sysfs, folder)
            if not meters:
                left.append(_unknown(chip))
        for meter in meters:
            found.setdefault(meter.name, meter)
    return _layout(sorted(found.values(), key=lambda one: one.name), left, sysfs)


def _label(sysfs: Sysfs, folder: Path) -> str | None:
    for place in (folder, folder / "device"):
        if text := sysfs.word(place / "power1_oem_info"):
            return text
    return None


def _grace(sysfs: Sysfs, folder: Path) -> list[HwmonMeter]:
    match = GRACE.search(_label(sysfs, folder) or "")
    if match is None:
        return []
    # the driver hangs its files on the ACPI device, newer kernels on the hwmon device
    places = (folder, folder / "device")
    home = next((one for one in places if "power1_average" in sysfs.children(one)), folder)
    kind = match[1].lower()
    meter = HwmonMeter(
        name=f"{kind}-{match[2]}",
        kind=kind,
        socket=int(match[2]),
        scope=Coverage.MODULE if kind == "module" else Coverage.PACKAGE,
        title=f"NVIDIA Grace, {match[1]} of socket {match[2]}",
        driver="acpi_power_meter",
        file=home / "power1_average",
        counts=False,
        interval=home / "power1_average_interval",
        remark=_MORE.get(kind, ""),
    )
    return [meter]


def _sockets(sysfs: Sysfs, folder: Path) -> list[HwmonMeter]:
    """Return the sockets of `amd_energy`; its cores are inside them."""
    meters = []
    for file in sysfs.children(folder):
        number = re.fullmatch(r"energy(\d+)_label", file)
        match = _SOCKET.fullmatch(sysfs.word(folder / file) or "") if number else None
        if number and match:
            meters.append(
                HwmonMeter(
                    name=f"socket-{match[1]}",
                    kind="socket",
                    socket=int(match[1]),
                    scope=Coverage.PACKAGE,
                    title=f"AMD socket {match[1]}",
                    driver="amd_energy",
                    file=folder / f"energy{number[1]}_input",
                    counts=True,
                )
            )
    return meters


def _layout(meters: list[HwmonMeter], left: list[Ability], sysfs: Sysfs) -> HwmonLayout:
    by_zone = bool(discover_zones(sysfs).packages)
    counted: list[HwmonMeter] = []
    overlapping: list[HwmonMeter] = []
    for meter in meters:
        here = {one.kind for one in meters if one.socket == meter.socket}
        level = next((level for level in _LEVELS if here & set(level)), ())
        fits = not by_zone if meter.kind == "socket" else meter.kind in level
        (counted if fits else overlapping).append(meter)
        if not fits:
            why = "the powercap package (rapl:) is the same" if meter.kind == "socket" else ""
            why = why or f"{'around' if meter.kind == 'module' else 'inside'} what is counted"
            name, why = f"hwmon:{meter.name}", f"left out: {why}"
            cure = "none is needed: nothing is lost; it can be opened by its name"
            left.append(Ability(name=name, works=False, detail=why, cure=cure))
    return HwmonLayout(counted=tuple(counted), overlapping=tuple(overlapping), left_out=tuple(left))


def _unknown(chip: str) -> Ability:
    detail = "left out: a power meter that does not say what it is of"
    cure = "none is known: its power is not that of a processor"
    return Ability(name=f"power_meter ({chip})", works=False, detail=detail, cure=cure)
