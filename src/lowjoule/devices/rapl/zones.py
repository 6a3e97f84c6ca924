"""Which powercap zones there are, and which of them make up each CPU package.

Zones are told by what they are called, never by their number: `intel-rapl:0` may well be
package 1. What lies inside another (core, uncore), around it (psys) or beside it a second time
(the mmio copy) is left out, and said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.sysfs import Sysfs

CONTROL = "intel-rapl"
UNMEASURED = "measure the machine at the wall or by its management controller"
_COPY = "intel-rapl-mmio"
_PACKAGE = re.compile(r"(package-\d+)(?:-die-\d+)?")
_INSIDE = {
    "core": "the cores, inside the package",
    "uncore": "the rest of the chip (its GPU, say), inside the package",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One powercap zone: the kernel's name of its folder, what it is called, where it lies."""

    ident: str
    name: str
    folder: Path

    @property
    def parent(self) -> str:
        """The folder's name of the zone around this one, or of its control type."""
        return self.ident.rpartition(":")[0]

    @property
    def energy(self) -> Path:
        """The file of the energy counter, in uJ."""
        return self.folder / "energy_uj"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The zones that make up one CPU package; more than one `dies` where its dies have their own.

    `dram` is the memory at its controllers, beside the package, not in it. `left_out` are the
    zones that belong to it and are not counted, with the reason.
    """

    name: str
    dies: tuple[Zone, ...]
    dram: tuple[Zone, ...] = ()
    left_out: tuple[Ability, ...] = ()

    @property
    def zones(self) -> tuple[Zone, ...]:
        """All zones that are counted."""
        return (*self.dies, *self.dram)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The packages of a machine, by name, and the zones that are of none of them."""

    packages: tuple[Package, ...]
    left_out: tuple[Ability, ...]


def discover(sysfs: Sysfs) -> Layout:
    """Return the packages under `sysfs` and what is left out; nothing is opened but names."""
    zones = _zones(sysfs)
    of_package = _named_packages(zones)
    packages = tuple(
        _package(name, of_package[name], zones, sysfs)
        for name in sorted(of_package, key=lambda one: (len(one), one))
    )
    used = {zone.ident for package in packages for zone in package.zones}
    told = {ability.name for package in packages for ability in package.left_out}
    rest = [_left(zone, bool(packages)) for zone in zones if zone.ident not in used]
    return Layout(packages=packages, left_out=tuple(one for one in rest if one.name not in told))


def _zones(sysfs: Sysfs) -> list[Zone]:
    """Return every zone of RAPL, each once, whether nested folders or links show it."""
    found: dict[str, Zone] = {}
    waiting = [sysfs.root / "class" / "powercap"]
    while waiting:
        folder = waiting.pop(0)
        for ident in sysfs.children(folder):
            control, colon, _ = ident.partition(":")
            if not control.startswith(CONTROL) or ident in found:
                continue
            name = sysfs.word(folder / ident / "name")
            if colon and name:
                found[ident] = Zone(ident=ident, name=name, folder=folder / ident)
            waiting.append(folder / ident)
    return sorted(found.values(), key=lambda zone: zone.ident)


def _named_packages(zones: list[Zone]) -> dict[str, list[Zone]]:
    """Return the zones of each package's own counters: the copy only where it is all there is."""
    own: dict[str, list[Zone]] = {}
    copies: dict[str, list[Zone]] = {}
    for zone in zones:
        match = _PACKAGE.fullmatch(zone.name)
        if match:
            where = copies if zone.ident.startswith(_COPY) else own
            where.setdefault(match[1], []).append(zone)
    return {**copies, **own}


def _package(name: str, dies: list[Zone], zones: list[Zone], sysfs: Sysfs) -> Package:
    around = {zone.ident for zone in dies}
    dram, left = [], []
    for zone in zones:
        match = _PACKAGE.fullmatch(zone.name)
        if zone.parent in around and zone.name == "dram":
            # some servers have the zone and no meter behind it
            if sysfs.whole(zone.energy) == 0:
                left.append(_ability(zone, "the memory reports 0 J: not measured", UNMEASURED))
            else:
                dram.append(zone)
        elif zone.parent in around:
            left.append(_ability(zone, _INSIDE.get(zone.name, "inside the package")))
        elif match and match[1] == name and zone.ident not in around:
            left.append(_ability(zone, "a copy of the package by another way"))
    return Package(
        name=name,
        dies=tuple(sorted(dies, key=lambda zone: (zone.name, zone.ident))),
        dram=tuple(dram),
        left_out=tuple(left),
    )


def _left(zone: Zone, packages: bool) -> Ability:
    if zone.name.startswith("psys"):
        inside = "the packages are in it" if packages else "it is no CPU"
        return _ability(zone, f"the whole platform: {inside}")
    why = f"not a part of a package that is known here ({zone.parent})"
    return _ability(zone, why, "load the kernel module intel_rapl_msr for the packages")


def _ability(zone: Zone, why: str, cure: str = "none is needed: nothing is lost") -> Ability:
    name = f"{zone.name} ({zone.ident})"
    return Ability(name=name, works=False, detail=f"left out: {why}", cure=cure)
