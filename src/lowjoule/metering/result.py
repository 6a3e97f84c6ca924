"""What a window says of a device, and of all its devices together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lowjoule.devices.interface import Identity
from lowjoule.metering.estimate import Estimate, estimate
from lowjoule.metering.flags import Flag
from lowjoule.metering.spread import gain_half_width_j, joined_half_width_j
from lowjoule.metering.watch import Settled, Stay, Watch

SCHEMA = 1
"""Version of `to_dict` and of the files that are written from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEnergy:
    """What one device took in a window; None is "not known".

    `uncertainty_j` is half the width of the 95 % interval, `calibration_j` the part of it that a
    gain common to all windows on the board makes (0 unless a calibration is given); `sd_j` is
    the standard deviation without that. `idle_energy_j` is what the device would have taken idle:
    beside `energy_j`, never subtracted from it.
    """

    identity: Identity
    time_s: float | None
    energy_j: float | None
    uncertainty_j: float | None
    sd_j: float | None
    calibration_j: float
    peak_power_w: float | None
    method: str | None
    counter_j: float | None
    integral_j: float | None
    idle_energy_j: float | None
    ticks: int
    tick_s: float | None
    read_s: float | None
    flags: frozenset[Flag] = field(default_factory=frozenset)
    throttle_reasons: frozenset[str] = field(default_factory=frozenset)
    notes: tuple[str, ...] = ()

    @property
    def power_w(self) -> float | None:
        """Mean power in W."""
        return None if self.energy_j is None or not self.time_s else self.energy_j / self.time_s

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; missing ones are None."""
        identity = self.identity
        return {
            "device": identity.uuid,
            "model": identity.model,
            "scope": identity.scope.value,
            "source": identity.source.value,
            "method": self.method,
            "time_s": self.time_s,
            "energy_j": self.energy_j,
            "uncertainty_j": self.uncertainty_j,
            "calibration_j": self.calibration_j,
            "power_w": self.power_w,
            "peak_power_w": self.peak_power_w,
            "counter_j": self.counter_j,
            "integral_j": self.integral_j,
            "idle_energy_j": self.idle_energy_j,
            "ticks": self.ticks,
            "tick_s": self.tick_s,
            "read_s": self.read_s,
            "flags": sorted(flag.value for flag in self.flags),
            "throttle_reasons": sorted(self.throttle_reasons),
            "notes": list(self.notes),
        }


class Pending(Settled):
    """A device's figures, computed when first asked for."""

    def __init__(
        self, watch: Watch, stay: Stay, *, calibration_sd: float, idle_w: float | None
    ) -> None:
        self.watch, self.stay = watch, stay
        self._calibration_sd, self._idle_w = calibration_sd, idle_w
        self._result: DeviceEnergy | None = None

    def settle(self) -> None:
        """Compute the figures now."""
        self.result()

    def result(self) -> DeviceEnergy:
        """Return the figures of the device."""
        if self._result is None:
            self._result = self._computed()
        return self._result

    def _computed(self) -> DeviceEnergy:
        watch, stay = self.watch, self.stay
        view = stay.view()
        flags = {Flag.LOST} if stay.lost else set()
        if watch.identity.scope in {"mig_parent", "module"}:
            flags.add(Flag.SHARED)
        if view is None or view.length_s <= 0:
            known = Estimate(energy_j=None, half_width_j=None, sd_j=None, method=None)
            flags |= {Flag.MISSING, Flag.UNRESOLVED}
        else:
            known = estimate(view, most_power_w=watch.most_power_w, exact=watch.exact)
        energy_j, half_j = known.energy_j, known.half_width_j
        if energy_j is None:
            flags.add(Flag.MISSING)
        calibration_j = gain_half_width_j(energy_j or 0.0, self._calibration_sd)
        time_s = None if view is None else view.length_s
        idle_j = None if self._idle_w is None or time_s is None else self._idle_w * time_s
        return DeviceEnergy(
            identity=watch.identity,
            time_s=time_s,
            energy_j=energy_j,
            uncertainty_j=None if half_j is None else math.hypot(half_j, calibration_j),
            sd_j=known.sd_j,
            calibration_j=calibration_j,
            peak_power_w=known.peak_power_w,
            method=known.method,
            counter_j=known.counter_j,
            integral_j=known.integral_j,
            idle_energy_j=idle_j,
            ticks=known.ticks,
            tick_s=watch.habits.tick_s,
            read_s=watch.habits.read_s or None,
            flags=frozenset(flags) | known.flags,
            throttle_reasons=frozenset() if view is None else view.throttled,
            notes=(stay.problem,) if stay.problem else (),
        )


def total_j(results: Iterable[DeviceEnergy]) -> float | None:
    """Return the sum of what is known in J; None where nothing is, and of unlike sources."""
    known = [one for one in results if one.energy_j is not None]
    if len({one.identity.source for one in known}) != 1:
        return None  # simulated joules are not added to measured ones
    return math.fsum(one.energy_j for one in known if one.energy_j is not None)


def total_uncertainty_j(results: Iterable[DeviceEnergy]) -> float | None:
    """Return the half width of the sum in J, if there is one; boards err independently."""
    every = list(results)
    known = [one.uncertainty_j for one in every if one.uncertainty_j is not None]
    if total_j(every) is None:
        return None
    return joined_half_width_j(known) if known else None
