"""Whether what was written is still in force, or was dropped by the hardware."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lowjoule.devices.interface import Device, Reading, Reminded
from lowjoule.errors import DeviceError
from lowjoule.knobs import MEMORY_CLOCK, SM_CLOCK, Setting, Value

_BIN_HZ = 16e6
_MOST = 3  # how often a value is written again that does not hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of values: those dropped, those changed by others, and what to say."""

    dropped: dict[str, Value] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Watch:
    """Looks whether values hold. A counter that falls tells of a reload of the driver."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._energy_j: float | None = None
        self._dropped: Counter[str] = Counter()
        self._read()

    @property
    def unread(self) -> frozenset[str]:
        """The knobs whose value in force cannot be read."""
        return self._device.unread if isinstance(self._device, Reminded) else frozenset()

    def look(self, ours: Setting) -> Kept:
        """Compare `ours`, the values written last, with what is in force."""
        before_j = self._energy_j
        reading = self._read()
        fell = self._fell(before_j)
        now, space = self._device.current(), self._device.space
        gone, foreign, notes = set(), [], []
        for name, value in ours.items():
            if now[name] == value:
                continue
            if now[name] == space.knob(name).default or fell:
                gone.add(name)
            else:
                foreign.append(name)
                notes.append(
                    f"{name} was changed by someone else to {space.knob(name).show(now[name])}"
                )
        reloaded = fell or bool(gone)
        gone |= {
            name for name in self.unread & set(ours) if reloaded or _above(name, ours, reading)
        }
        dropped = {}
        for name in sorted(gone):
            self._dropped[name] += 1
            if self._dropped[name] <= _MOST:
                dropped[name] = ours[name]
            else:
                notes.append(f"{name} does not hold {space.knob(name).show(ours[name])}")
        return Kept(dropped=dropped, foreign=tuple(foreign), notes=tuple(notes))

    def _fell(self, before_j: float | None) -> bool:
        return before_j is not None and self._energy_j is not None and self._energy_j < before_j

    def _read(self) -> Reading | None:
        try:
            reading = self._device.read()
        except DeviceError:
            return None
        self._energy_j = reading.energy_j
        return reading


def _above(name: str, ours: Setting, reading: Reading | None) -> bool:
    """Whether a clock runs above what it is held to."""
    if reading is None or name not in {SM_CLOCK, MEMORY_CLOCK}:
        return False
    clock_hz = reading.sm_clock_hz if name == SM_CLOCK else reading.memory_clock_hz
    return clock_hz is not None and clock_hz > ours.number(name) + _BIN_HZ
