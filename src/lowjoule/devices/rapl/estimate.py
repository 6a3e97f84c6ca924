"""CPU energy that nobody measured: how busy the machine is, times what it may draw."""

from __future__ import annotations

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.host import Host
from lowjoule.devices.interface import Ability, Coverage, Identity, Reading
from lowjoule.errors import DeviceError
from lowjoule.knobs import Applied, Setting, Space
from lowjoule.quantities import Unit, show
from lowjoule.source import Source


class EstimatedCpu:
    """All CPU packages of a machine, estimated: the share of time it is busy x `full_w`.

    `full_w` is the design power of all packages together. An idle machine counts as none, and
    every busy second as full power: easily wrong by half. The source is `estimated`, and
    whatever is made of it says so.
    """

    def __init__(
        self, full_w: float, *, host: Host | None = None, clock: Clock | None = None
    ) -> None:
        self.full_w = full_w
        self.clock: Clock = WallClock() if clock is None else clock
        self.space = Space(())
        self._host = Host() if host is None else host
        model, vendor = self._host.cpu()
        self.identity = Identity(
            uuid=f"rapl-estimate-{self._host.anonymous_id('estimate')}",
            model=f"{model} (estimated at {show(full_w, Unit.WATT)})",
            vendor=vendor,
            backend="rapl",
            driver="/proc/stat",
            source=Source.ESTIMATED,
            scope=Coverage.PACKAGE,
        )

    def read(self) -> Reading:
        """Return the time and the estimated energy since the machine's start, in J."""
        busy_s = self._host.busy_s()
        energy_j = None if busy_s is None else busy_s * self.full_w
        return Reading(time_s=self.clock.now_s(), energy_j=energy_j)

    def current(self) -> Setting:
        """Return the empty setting: nothing can be turned."""
        return Setting()

    def apply(self, setting: Setting) -> Applied:
        """Take the empty setting; raises `UnknownNameError` for any knob."""
        for name in setting:
            self.space.knob(name)
        return Applied(setting, Setting())

    def abilities(self) -> tuple[Ability, ...]:
        """Return that the energy is an estimate, and of what."""
        known = self._host.busy_s() is not None
        detail = f"estimated, not measured: busy time x {show(self.full_w, Unit.WATT)}; no DRAM"
        lost = None if known else "run where /proc/stat tells how busy the machine is"
        cure = "open the package itself (rapl:package-0), where there is one"
        why = "an estimate turns nothing"
        return (
            Ability(name="energy counter", works=known, detail=detail, cure=lost),
            Ability(name="power_limit", works=False, detail=why, cure=cure),
        )


def no_design_power() -> DeviceError:
    """Return the error for a machine whose design power nothing here says."""
    return DeviceError(
        "nothing here says what this processor may draw",
        cure="give its design power, all packages together: rapl:estimate=225W",
    )
