"""A CPU package, with the memory at its controllers, as a device."""

from __future__ import annotations

import threading
from dataclasses import replace

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.host import Host
from lowjoule.devices.interface import Ability, Coverage, Identity, Reading
from lowjoule.devices.rapl.limit import PowerLimit, find_limit, limit_of
from lowjoule.devices.rapl.meter import PackageMeter
from lowjoule.devices.rapl.zones import UNMEASURED, Package, Zone
from lowjoule.devices.sysfs import SYS, Sysfs
from lowjoule.errors import DeviceError, UnknownNameError
from lowjoule.knobs import POWER_LIMIT, Applied, Setting, Space, Value
from lowjoule.source import Source


class RaplDevice:
    """One CPU package: its energy with that of its memory, and its long-term power limit.

    The energy is `package` + `dram`, of all dies; core and uncore are inside the package, psys is
    around it. It is unwrapped here, by each device object for itself: it has to be read at
    least every `longest_gap_s`. An interval that cannot be known makes the energy fall by
    `counter.BREAK_J`, so that no window across it has an energy; `notes` says why.

    Without permission to read the counter the energy is None; without permission to write the
    limit there is no knob. `abilities` says both, with the command that helps.
    """

    def __init__(
        self,
        package: Package,
        *,
        sysfs: Sysfs | None = None,
        host: Host | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.package = package
        self.clock: Clock = WallClock() if clock is None else clock
        self._sysfs = Sysfs() if sysfs is None else sysfs
        host = Host() if host is None else host
        self._lock = threading.Lock()
        self._meter = PackageMeter(self._sysfs, package, self.clock)
        self._limit, self._limit_told = find_limit(self._sysfs, package)
        self._seen_w: set[float] = set()
        self._space = Space(())
        # a tree of files elsewhere is nothing that another process would find
        spec = f"rapl:{package.name}" if self._sysfs.root == SYS else None
        self.identity = replace(_identity(package, host), spec=spec)
        self.read()
        self.current()

    @property
    def space(self) -> Space:
        """The power limit, where it may be written; its default is the one found at opening.

        Its domain is whole watts and every value that was found in force, whoever set it.
        """
        return self._space

    @property
    def longest_gap_s(self) -> float:
        """How far two readings may be apart, in s, for the energy between them to be known."""
        return self._meter.longest_gap_s

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known so far and why, a sentence each."""
        with self._lock:
            return self._meter.doubts()

    def read(self) -> Reading:
        """Return the time and the energy so far, None where it is not known or not permitted.

        There is no power sensor: power is the difference of two energies. Raises `DeviceError`
        when the zones are gone.
        """
        with self._lock:
            energy_j = self._meter.energy_j()
            return Reading(time_s=self.clock.now_s(), energy_j=energy_j)

    def current(self) -> Setting:
        """Return the limit in force; raises `DeviceError` when it cannot be read."""
        if self._limit is None:
            return Setting()
        now_w = self._limit.now_w()
        if now_w is None:
            raise DeviceError(
                f"the power limit of {self.package.name} can no longer be read",
                cure=f"look whether {self._limit.path} is still there",
            )
        with self._lock:
            known = self._space.knobs[0].values if self._space.knobs else ()
            if now_w not in known:
                # a value of somebody else's, or a clamped one, is one to be put back later
                self._seen_w.add(now_w)
                found_w = float(self._space.knobs[0].default) if known else now_w
                self._space = Space((self._limit.knob(found_w, self._seen_w),))
        return Setting({POWER_LIMIT: now_w})

    def apply(self, setting: Setting) -> Applied:
        """Write the limit, in W, and return what was read back, which may be clamped.

        Raises `InvalidValueError` or `UnknownNameError` and writes nothing, or `DeviceError` when
        the kernel refuses.
        """
        for name, value in setting.items():
            self.space.knob(name).index(value)
        if self._limit is None or POWER_LIMIT not in setting:
            return Applied(setting, Setting())
        self._limit.write(float(setting[POWER_LIMIT]))
        return Applied(setting, self.current().only(setting))

    @property
    def unread(self) -> frozenset[str]:
        """No knob: the limit is read."""
        return frozenset()

    def assume(self, setting: Setting) -> None:
        """Take a limit that was found earlier as one of the knob's values; writes nothing."""
        if self._limit is None or POWER_LIMIT not in setting or not self._space.knobs:
            return
        with self._lock:
            self._seen_w.add(setting.number(POWER_LIMIT))
            found_w = float(self._space.knobs[0].default)
            self._space = Space((self._limit.knob(found_w, self._seen_w),))

    def command(self, name: str, value: Value) -> str:
        """Return the command with which an administrator turns the limit to `value`, in W.

        Also where this process may not. Raises `UnknownNameError` for what is no knob here.
        """
        return self._advised(name).command(float(value))

    def rule(self, name: str, value: Value) -> str:
        """Return the line of udev's rules that turns the limit at every start; raises the same."""
        return self._advised(name).rule(float(value))

    def _advised(self, name: str) -> PowerLimit:
        limit = limit_of(self._sysfs, self.package)
        if name != POWER_LIMIT or limit is None:
            raise UnknownNameError.among("knob", name, [] if limit is None else [POWER_LIMIT])
        return limit

    def abilities(self) -> tuple[Ability, ...]:
        """Return what was tried, what is left out of the energy and why, writing nothing."""
        return (self._energy_told(), *self._parts_told(), self._limit_told, *self.package.left_out)

    def _energy_told(self) -> Ability:
        before_s = self.clock.now_s()
        with self._lock:
            energy_j = self._meter.energy_j()
            refused = self._meter.refused
        cost_s = self.clock.now_s() - before_s
        name = "energy counter"
        if isinstance(refused, PermissionError):
            cure = _cure(self.package)
            return Ability(
                name=name, works=False, detail="not permitted", cure=cure, forbidden=True
            )
        if refused is not None:
            cure = "load the kernel module intel_rapl_msr again, and see the kernel's log"
            detail = refused.strerror or str(refused)
            return Ability(name=name, works=False, detail=detail, cure=cure)
        if energy_j is None:
            cure = (
                f"read it at least every {self.longest_gap_s:.0f} s; windows from here on are right"
            )
            detail = "; ".join(self._meter.doubts()) or "its value is not known"
            return Ability(name=name, works=False, detail=detail, cure=cure)
        detail = f"of {', '.join(zone.name for zone in self.package.zones)}; "
        detail += f"wraps: read it at least every {self.longest_gap_s:.0f} s"
        if cost_s > 0:
            detail += f"; a read takes {cost_s * 1e3:.2g} ms"
        return Ability(name=name, works=True, detail=detail)

    def _parts_told(self) -> tuple[Ability, ...]:
        told = []
        for zone in self.package.zones:
            if self._sysfs.whole(zone.folder / "max_energy_range_uj") in (None, 0):
                why = "where it wraps cannot be read: an interval with a wrap is missing"
                path = zone.folder / "max_energy_range_uj"
                told.append(_about(zone, why, f"sudo chmod a+r {path} (until the next start)"))
            if self._sysfs.whole(zone.folder / "enabled") == 0 and zone in self.package.dies:
                why = "it is disabled: its counter may stand still"
                told.append(_about(zone, why, f"echo 1 | sudo tee {zone.folder / 'enabled'}"))
        for domain in self._meter.domains:
            if domain.repeats:
                why = f"shows the counter of {domain.zones[0].ident} again: counted once"
                told += [_about(zone, why, "none is needed") for zone in domain.zones[1:]]
        if not self.package.dram and not any("dram" in o.name for o in self.package.left_out):
            why = "the processor shows none"
            told.append(Ability(name="dram", works=False, detail=why, cure=UNMEASURED))
        return tuple(told)


def _identity(package: Package, host: Host) -> Identity:
    model, vendor = host.cpu()
    covered = "package and DRAM" if package.dram else "package"
    return Identity(
        uuid=f"rapl-{host.anonymous_id(package.name)}",
        model=f"{model} ({covered})",
        vendor=vendor,
        backend="rapl",
        driver="powercap intel-rapl",
        source=Source.MEASURED,
        scope=Coverage.PACKAGE,
    )


def _about(zone: Zone, why: str, cure: str) -> Ability:
    return Ability(name=f"{zone.name} ({zone.ident})", works=False, detail=why, cure=cure)


def _cure(package: Package) -> str:
    files = " ".join(str(zone.energy) for zone in package.zones)
    return (
        f"sudo chmod a+r {files} (until the next start; it lets every user of this machine watch "
        "its power), or run with CAP_DAC_READ_SEARCH, or ask for an estimate (rapl:estimate)"
    )
