"""A CPU's hwmon meter as a device: readings, nothing to turn."""

from __future__ import annotations

import threading

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.counter import Counter, Moment, cumulative_j
from lowjoule.devices.host import Host
from lowjoule.devices.hwmon.meters import HwmonMeter
from lowjoule.devices.interface import Ability, Coverage, Identity, Reading
from lowjoule.devices.sysfs import Sysfs
from lowjoule.errors import DeviceError
from lowjoule.knobs import Applied, Setting, Space
from lowjoule.source import Source

_RELOAD = "load its kernel module again, and see the kernel's log"
_SOCKET_MAX_W = 1000.0  # more than any socket draws


class HwmonDevice:
    """One meter. Grace has power alone, averaged over an interval; amd_energy a counter alone."""

    def __init__(
        self,
        meter: HwmonMeter,
        *,
        sysfs: Sysfs | None = None,
        host: Host | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.meter = meter
        self.clock: Clock = WallClock() if clock is None else clock
        self.space = Space(())
        self._sysfs = Sysfs() if sysfs is None else sysfs
        self._lock = threading.Lock()
        # the driver sums 64 bits of its own: it does not wrap
        self._counter = Counter(range_uj=None, max_power_w=_SOCKET_MAX_W, wraps=False)
        self.identity = _identity(meter, Host() if host is None else host)
        self.read()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known so far and why."""
        why = self._counter.why
        return (f"energy of {self.meter.name} is missing for a while: {why}",) if why else ()

    def read(self) -> Reading:
        """Return power and its averaging interval, or energy; raises `DeviceError` when lost.

        Power whose interval cannot be read is given as `average_power_w`.
        """
        now_s = self.clock.now_s()
        if self.meter.counts:
            return Reading(time_s=now_s, energy_j=self._energy_j())
        power_uw = self._value()
        power_w = None if power_uw is None or power_uw < 0 else power_uw / 1e6
        window_s = self._window_s()
        if window_s is None:
            return Reading(time_s=now_s, average_power_w=power_w)
        return Reading(time_s=now_s, power_w=power_w, power_window_s=window_s)

    def current(self) -> Setting:
        """Return the empty setting: nothing can be turned."""
        return Setting()

    def apply(self, setting: Setting) -> Applied:
        """Take the empty setting; raises `UnknownNameError` for any knob."""
        for name in setting:
            self.space.knob(name)
        return Applied(setting, Setting())

    def abilities(self) -> tuple[Ability, ...]:
        """Return what was tried, and what the meter includes beside the CPU, writing nothing."""
        name = "energy counter" if self.meter.counts else "average power"
        told = [self._tried(name)]
        if not self.meter.counts:
            why = "the meter has none: energy is the sum of power over time"
            cure = "none is needed: windows integrate its power"
            told.append(Ability(name="energy counter", works=False, detail=why, cure=cure))
        why = f"nothing can be written beside {self.meter.file}"
        cure = "turn the limits of the GPUs, or that of the processor in its firmware"
        told.append(Ability(name="power_limit", works=False, detail=why, cure=cure))
        return tuple(told)

    def _tried(self, name: str) -> Ability:
        try:
            self._sysfs.text(self.meter.file)
        except PermissionError:
            cure = f"sudo chmod a+r {self.meter.file} (until the next start)"
            return Ability(
                name=name, works=False, detail="not permitted", cure=cure, forbidden=True
            )
        except OSError as error:
            detail = error.strerror or str(error)
            return Ability(name=name, works=False, detail=detail, cure=_RELOAD)
        reading = self.read()
        known = (reading.energy_j, reading.power_w, reading.average_power_w)
        window_s = reading.power_window_s
        details = [] if window_s is None else [f"over {window_s:g} s"]
        details += [self.meter.remark] if self.meter.remark else []
        if any(one is not None for one in known):
            return Ability(name=name, works=True, detail="; ".join(details))
        said = "; ".join([*self.notes, *details]) or "it says no number"
        return Ability(name=name, works=False, detail=said, cure=_RELOAD)

    def _energy_j(self) -> float | None:
        value_uj = self._value()
        if value_uj is None or value_uj < 0:
            return None
        with self._lock:
            moment = Moment(self.clock.now_s(), self.clock.unix_s())
            if not self._counter.see(value_uj, moment):
                return None
            return cumulative_j(self._counter.total_uj, self._counter.breaks)

    def _window_s(self) -> float | None:
        path = self.meter.interval
        interval_ms = None if path is None else self._sysfs.whole(path)
        return interval_ms / 1e3 if interval_ms and interval_ms > 0 else None

    def _value(self) -> int | None:
        """Return the number that the meter says; raises `DeviceError` when it is gone."""
        try:
            return int(self._sysfs.text(self.meter.file))
        except FileNotFoundError:
            raise DeviceError(
                f"the meter {self.meter.name} is gone ({self.meter.file})",
                cure="look whether its kernel module is loaded, and open the device again",
            ) from None
        except (OSError, ValueError):
            return None


def _identity(meter: HwmonMeter, host: Host) -> Identity:
    model, vendor = host.cpu()
    grace = meter.driver == "acpi_power_meter"
    kind = "Grace" if meter.kind == "grace" else f"Grace {meter.kind}"
    if meter.scope is Coverage.MODULE:
        kind = "Grace module, with its GPU"
    return Identity(
        uuid=f"hwmon-{host.anonymous_id(meter.name)}",
        model=f"NVIDIA {kind}" if grace else f"{model} (socket)",
        vendor="NVIDIA" if grace else vendor,
        backend="hwmon",
        driver=meter.driver,
        source=Source.MEASURED,
        scope=meter.scope,
    )
