"""Trees of files as the kernel shows them, for tests of CPU devices: powercap and hwmon.

    tree = FakeSysfs(folder, zones=[
        FakeZone(ident="intel-rapl:0", name="package-0", power_w=200.0, limit_w=250.0, max_w=300.0),
        FakeZone(ident="intel-rapl:0:0", name="dram", power_w=30.0),
    ])
    device = RaplBackend(sysfs=tree, clock=tree.clock).open("package-0", OpenOptions())
    tree.clock.sleep(10.0)  # the counters have moved by 10 s of each zone's power

The files are real ones, and what is read of them is what the operating system answers; only
writing passes through the tree, since a real limit is clamped behind the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lowjoule.clock import VirtualClock
from lowjoule.devices.sysfs import Sysfs

PACKAGE_RANGE_UJ = 262_143_328_850
DRAM_RANGE_UJ = 65_712_999_613


@dataclass(kw_only=True)
class FakeZone:
    """One powercap zone. Limits are in W; what is None has no file.

    `repeats` is the zone whose counter this one shows; `max_w` of 0 is "unknown", as on real
    processors. The range is a typical one of its kind unless `range_uj` says another.
    """

    ident: str
    name: str
    power_w: float = 0.0
    energy_uj: int = 1_000_000_000
    range_uj: int | None = -1
    enabled: int | None = 1
    limit_w: float | None = None
    max_w: float | None = None
    least_w: float | None = None
    window_s: float | None = None
    repeats: str | None = None

    def __post_init__(self) -> None:
        if self.range_uj == -1:
            self.range_uj = DRAM_RANGE_UJ if self.name == "dram" else PACKAGE_RANGE_UJ

    def files(self) -> dict[str, str]:
        """Return the files of the zone but its counter."""
        numbers = {
            "max_energy_range_uj": self.range_uj,
            "enabled": self.enabled,
            "constraint_0_power_limit_uw": _micro(self.limit_w),
            "constraint_0_max_power_uw": _micro(self.max_w),
            "constraint_0_min_power_uw": _micro(self.least_w),
            "constraint_0_time_window_us": _micro(self.window_s),
        }
        texts = {"name": self.name}
        if self.limit_w is not None:
            texts["constraint_0_name"] = "long_term"
        return texts | {name: str(n) for name, n in numbers.items() if n is not None}


@dataclass(kw_only=True)
class FakeChip:
    """One hwmon chip: its name and its files, those of its ACPI device under `device/`."""

    ident: str
    name: str
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def grace(
        cls, ident: str, label: str, power_w: float, interval_ms: int | None = 50
    ) -> FakeChip:
        """Return a power meter of NVIDIA Grace, `label` as in "Module Power Socket 0"."""
        files = {"power1_oem_info": label, "power1_average": str(round(power_w * 1e6))}
        if interval_ms is not None:
            files["power1_average_interval"] = str(interval_ms)
        return cls(ident=ident, name="power_meter", files={f"device/{n}": files[n] for n in files})


class TreeClock(VirtualClock):
    """Virtual time in which the counters of a tree move."""

    def __init__(self, tree: FakeSysfs) -> None:
        super().__init__()
        self._tree = tree

    def sleep(self, duration_s: float) -> None:
        """Let time pass and the counters move."""
        super().sleep(duration_s)
        self._tree.advance(max(duration_s, 0.0))

    def suspend(self, duration_s: float) -> None:
        """Let time of day pass alone, as while the machine sleeps."""
        self._start_unix_s += duration_s


class FakeSysfs(Sysfs):
    """A tree in `folder` that behaves as the kernel's; `clock` moves its counters."""

    def __init__(
        self, folder: Path, zones: Iterable[FakeZone] = (), chips: Iterable[FakeChip] = ()
    ) -> None:
        super().__init__(folder)
        self.clock = TreeClock(self)
        self.zones = {zone.ident: zone for zone in zones}
        self.written: list[tuple[Path, str]] = []
        self._exact_uj = {ident: float(zone.energy_uj) for ident, zone in self.zones.items()}
        self._frozen: set[str] = set()
        self._clamps: dict[Path, tuple[float, float]] = {}
        self._refusals: dict[Path, int] = {}
        for zone in sorted(self.zones.values(), key=lambda one: one.ident):
            self._build(zone)
        for chip in chips:
            for name, text in {"name": chip.name, **chip.files}.items():
                _put(folder / "class" / "hwmon" / chip.ident / name, text)

    def path(self, ident: str, name: str) -> Path:
        """Return the file `name` of the zone or chip `ident`."""
        kind = "powercap" if ident in self.zones else "hwmon"
        return self.root / "class" / kind / ident / name

    def advance(self, duration_s: float) -> None:
        """Move every counter that is not frozen by `duration_s` of its zone's power."""
        for ident, zone in self.zones.items():
            self.add(ident, zone.power_w * duration_s)

    def add(self, ident: str, energy_j: float) -> None:
        """Move one counter by `energy_j`, over its end where that is near."""
        zone = self.zones[ident]
        exact_uj = self._exact_uj[ident] + energy_j * 1e6
        self._exact_uj[ident] = exact_uj if zone.range_uj is None else exact_uj % zone.range_uj
        if ident not in self._frozen:
            self._show(ident)

    def jump(self, ident: str, energy_uj: int) -> None:
        """Set one counter to a value, as a reset does."""
        self._exact_uj[ident] = float(energy_uj)
        self._show(ident)

    def freeze(self, ident: str) -> None:
        """Let a counter stand still, whatever is drawn."""
        self._frozen.add(ident)

    def thaw(self, ident: str) -> None:
        """Let a counter move again."""
        self._frozen.discard(ident)

    def deny(self, *paths: Path) -> None:
        """Take all permissions from files; under `unprivileged` the system then refuses them."""
        for path in paths:
            path.chmod(0)

    def clamp(self, ident: str, low_w: float, high_w: float) -> None:
        """Keep every limit written to a zone within bounds, in W, as processors do."""
        self._clamps[self.path(ident, "constraint_0_power_limit_uw")] = (low_w, high_w)

    def refuse(self, path: Path, number: int = errno.EACCES) -> None:
        """Refuse writes to a file that can be opened, as for a limit locked by the firmware."""
        self._refusals[path] = number

    def write(self, path: Path, text: str) -> None:
        """Write as the kernel would: refused, clamped or as it is."""
        if path in self._refusals:
            raise OSError(self._refusals[path], os.strerror(self._refusals[path]))
        self.written.append((path, text))
        if path in self._clamps:
            low_w, high_w = self._clamps[path]
            text = str(round(min(max(int(text) / 1e6, low_w), high_w) * 1e6))
        super().write(path, text)

    def _build(self, zone: FakeZone) -> None:
        """Make a zone's folder inside its parent's, and the link to it that the class shows."""
        parts = zone.ident.split(":")
        chain = [":".join(parts[:n]) for n in range(1, len(parts) + 1)]
        home = self.root.joinpath("devices", "virtual", "powercap", *chain)
        for name, text in zone.files().items():
            _put(home / name, text)
        _put(home / "energy_uj", str(zone.energy_uj))
        links = self.root / "class" / "powercap"
        links.mkdir(parents=True, exist_ok=True)
        for one, target in ((chain[0], home.parents[len(parts) - 2]), (zone.ident, home)):
            if not (links / one).exists():
                (links / one).symlink_to(target)

    def _show(self, ident: str) -> None:
        _put(self.path(ident, "energy_uj"), str(int(self._exact_uj[ident])))
        for other, zone in self.zones.items():
            if zone.repeats == ident:
                self._exact_uj[other] = self._exact_uj[ident]
                _put(self.path(other, "energy_uj"), str(int(self._exact_uj[ident])))


def _micro(value: float | None) -> int | None:
    return None if value is None else round(value * 1e6)


def _put(path: Path, text: str) -> None:
    """Write as the kernel does, whatever the permissions say."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    if not mode & 0o200:
        path.chmod(0o600)
    path.write_text(text + "\n", "utf-8")
    path.chmod(mode)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_uint32) for n in ("effective", "permitted", "inheritable"))


_CAPABILITIES_3 = 0x20080522
_IGNORE_PERMISSIONS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Let this thread be refused what the permissions of a file refuse, even as root.

    Linux only: it lays down the two capabilities for it and takes them up again. Elsewhere, and
    where root keeps them, it raises `OSError`.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, before = _Header(_CAPABILITIES_3, 0), (_Sets * 2)()
    _checked(libc.capget(ctypes.byref(header), before))
    kept = before[0].effective
    before[0].effective = kept & ~_IGNORE_PERMISSIONS
    _checked(libc.capset(ctypes.byref(header), before))
    try:
        yield
    finally:
        before[0].effective = kept
        _checked(libc.capset(ctypes.byref(header), before))


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
