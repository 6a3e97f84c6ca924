"""The long-term power limit of a CPU package, in whole watts and whatever was found."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.rapl.zones import Package, Zone
from lowjoule.devices.sysfs import Sysfs
from lowjoule.errors import DeviceError
from lowjoule.knobs import POWER_LIMIT, Knob, standard_knob

LONG_TERM = "long_term"
_FIRMWARE = "set it in the firmware, or turn the limits of the GPUs"


def constraint(sysfs: Sysfs, zone: Zone) -> str | None:
    """Return the beginning ("constraint_0") of the long-term limit's files, None without one."""
    for name in sysfs.children(zone.folder):
        match = re.fullmatch(r"(constraint_\d+)_name", name)
        if match and sysfs.word(zone.folder / name) == LONG_TERM:
            return match[1]
    return None


def largest_power_w(sysfs: Sysfs, zone: Zone) -> float | None:
    """Return the largest power that any limit of `zone` says it can take, None where unsaid."""
    said = [
        sysfs.whole(zone.folder / name)
        for name in sysfs.children(zone.folder)
        if re.fullmatch(r"constraint_\d+_max_power_uw", name)
    ]
    return max((uw / 1e6 for uw in said if uw and uw > 0), default=None)


def design_power_w(sysfs: Sysfs, zone: Zone) -> float | None:
    """Return the power that `zone` is designed for, the most its long-term limit can be, in W."""
    stem = constraint(sysfs, zone)
    largest_uw = None if stem is None else sysfs.whole(zone.folder / f"{stem}_max_power_uw")
    return largest_uw / 1e6 if largest_uw and largest_uw > 0 else None


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """The limit of one zone, by its files; watts outside, microwatts in the files."""

    sysfs: Sysfs
    stem: Path

    @property
    def path(self) -> Path:
        """The file of the limit itself."""
        return self._file("power_limit_uw")

    def now_w(self) -> float | None:
        """Return the limit in force, in W; None where it cannot be read."""
        now_uw = self.sysfs.whole(self.path)
        return None if now_uw is None else now_uw / 1e6

    def write(self, value_w: float) -> None:
        """Write `value_w`; raises `DeviceError` with what the kernel answered."""
        try:
            self.sysfs.write(self.path, str(round(value_w * 1e6)))
        except OSError as error:
            raise _refused(self.path, value_w, self.command(value_w), error) from None

    def command(self, value_w: float) -> str:
        """Return the command with which an administrator writes `value_w`."""
        return f"echo {round(value_w * 1e6)} | sudo tee {self.path}"

    def rule(self, value_w: float) -> str:
        """Return the line of udev's rules that writes `value_w` at every start."""
        zone = self.path.parent.name
        return (
            f'ACTION=="add", SUBSYSTEM=="powercap", KERNEL=="{zone}", '
            f'ATTR{{{self.path.name}}}="{round(value_w * 1e6)}"'
        )

    def knob(self, now_w: float, seen_w: set[float]) -> Knob:
        """Return the knob: whole watts up to the largest, and every value that was in force.

        A largest power of 0 is "not known": the limit in force is then the largest.
        """
        largest_uw = self.sysfs.whole(self._file("max_power_uw")) or 0
        least_uw = self.sysfs.whole(self._file("min_power_uw")) or 0
        top_w = int((largest_uw / 1e6 if largest_uw > 0 else now_w) // 1)
        low_w = max(1, -(-least_uw // 1_000_000))
        values = {float(watts) for watts in range(low_w, top_w + 1)}
        window_us = self.sysfs.whole(self._file("time_window_us")) or 0
        latency_s = max(window_us, 0) / 1e6
        return standard_knob(POWER_LIMIT, values | seen_w | {now_w}, now_w, latency_s=latency_s)

    def _file(self, name: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{name}")


def limit_of(sysfs: Sysfs, package: Package) -> PowerLimit | None:
    """Return the limit of `package`, whether or not it may be written; None without one."""
    stem = constraint(sysfs, package.dies[0])
    if stem is None or len(package.dies) > 1:
        return None
    return PowerLimit(sysfs, package.dies[0].folder / stem)


def find_limit(sysfs: Sysfs, package: Package) -> tuple[PowerLimit | None, Ability]:
    """Return the limit of `package` where it can be turned, and what to say of it."""
    zone = package.dies[0]
    if len(package.dies) > 1:
        return None, _no(
            "the dies of this package have a limit each, which are left alone", _FIRMWARE
        )
    limit = limit_of(sysfs, package)
    if limit is None:
        return None, _no("the processor shows no long-term limit", _FIRMWARE)
    now_w = limit.now_w()
    if not now_w or now_w < 0:
        if now_w is None:
            cure = f"sudo chmod a+r {limit.path} (until the next start)"
            return None, _no("the limit cannot be read", cure)
        return None, _no("no limit is in force", "set one first: it is then one to go back to")
    if sysfs.whole(zone.folder / "enabled") == 0:
        cure = f"echo 1 | sudo tee {zone.folder / 'enabled'}"
        return None, _no(f"{now_w:g} W is set and not enforced (enabled is 0)", cure, True)
    refusal = sysfs.refusal(limit.path)
    if refusal is not None:
        why = f"{now_w:g} W is in force: {refusal.strerror}"
        return None, _no(why, _cure(limit, refusal), True)
    return limit, Ability(name=POWER_LIMIT, works=True, detail=f"{now_w:g} W is in force")


def _cure(limit: PowerLimit, refusal: OSError) -> str:
    if refusal.errno == errno.EROFS:
        return "set it outside of this container, where /sys can be written"
    return (
        f"set it yourself (echo MICROWATTS | sudo tee {limit.path}), or let us: "
        f"sudo chown $USER {limit.path}"
    )


def _no(why: str, cure: str, forbidden: bool = False) -> Ability:
    return Ability(name=POWER_LIMIT, works=False, detail=why, cure=cure, forbidden=forbidden)


def _refused(path: Path, value_w: float, command: str, error: OSError) -> DeviceError:
    cure = f"try {command}; where root is refused too, the firmware has locked the limit"
    problem = f"a limit of {value_w:g} W was refused at {path} ({error.strerror})"
    return DeviceError(problem, cure=cure)
