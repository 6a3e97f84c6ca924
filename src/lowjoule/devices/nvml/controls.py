"""The knobs of a board: what is in force, and how each is written."""

from __future__ import annotations

import math
from typing import Protocol

from lowjoule.devices.nvml import fields
from lowjoule.devices.nvml.driver import Driver
from lowjoule.devices.nvml.fields import field_values
from lowjoule.devices.nvml.module_limit import module_limit
from lowjoule.devices.nvml.profiles import POWER_PROFILE, power_profile
from lowjoule.errors import DeviceError
from lowjoule.knobs import (
    MEMORY_CLOCK,
    MODULE_POWER_LIMIT,
    POWER_LIMIT,
    SM_CLOCK,
    Knob,
    Privilege,
    Value,
)
from lowjoule.knobs.standard import standard_knob
from lowjoule.quantities import Unit

PERSISTENCE = "persistence"
# typical times until a change shows; what settles is for the profiler to see
_LIMIT_LATENCY_S = 0.2
_CLOCK_LATENCY_S = 0.1
_ON_OFF = ("off", "on")


class Control(Protocol):
    """One knob of one board."""

    knob: Knob

    def current(self) -> Value:
        """Return the value in force; raises `DeviceError` where it cannot be told."""
        ...

    def write(self, value: Value) -> None:
        """Write `value`; raises what the driver's refusal means."""
        ...

    def enforced(self) -> Value | None:
        """Return what another authority makes of it, None where nobody says."""
        ...

    def command(self, value: Value) -> str:
        """Return the command with which an administrator writes `value`."""
        ...


class PowerLimit:
    """The power limit that this machine asks for; others may enforce a lower one."""

    def __init__(self, driver: Driver, uuid: str, least_w: float, most_w: float) -> None:
        self._driver = driver
        self._uuid = uuid
        found = self.current()
        default_mw = driver.ask(uuid, "nvmlDeviceGetPowerManagementDefaultLimit")
        default_w = default_mw / 1e3 if default_mw else found
        whole = range(math.ceil(least_w), math.floor(most_w) + 1)
        values = {float(value) for value in whole} | {least_w, most_w, float(found), default_w}
        self.knob = standard_knob(POWER_LIMIT, values, default_w, latency_s=_LIMIT_LATENCY_S)

    def current(self) -> float:
        """Return the requested limit in watts; raises `DeviceError`."""
        limit_mw = _requested_mw(self._driver, self._uuid)
        if limit_mw is None:
            raise DeviceError(
                f"GPU {self._uuid} does not say its power limit now", cure="try again"
            )
        return limit_mw / 1e3

    def write(self, value: Value) -> None:
        """Write `value` in watts."""
        self._driver.tell(
            self._uuid,
            "nvmlDeviceSetPowerManagementLimit",
            round(float(value) * 1e3),
            cure=self.command(value),
        )

    def enforced(self) -> float | None:
        """Return the limit in watts that the board keeps, however it came about."""
        return enforced_limit_w(self._driver, self._uuid)

    def command(self, value: Value) -> str:
        """Return the command that writes `value`."""
        return f"sudo nvidia-smi -i {self._uuid} -pl {float(value):g}"


class LockedClock:
    """A clock held to at most a value; the highest one means not held.

    NVML does not tell a lock. In force is what was last written here, at first `known_hz`.
    """

    def __init__(
        self,
        driver: Driver,
        uuid: str,
        name: str,
        clocks_mhz: list[int],
        known_hz: float | None = None,
    ) -> None:
        self._driver = driver
        self._uuid = uuid
        self._memory = name == MEMORY_CLOCK
        self._least_mhz = min(clocks_mhz)
        self._most_hz = max(clocks_mhz) * 1e6
        self._now_hz = self._most_hz if known_hz is None else float(known_hz)
        self.knob = standard_knob(
            name,
            {*(mhz * 1e6 for mhz in clocks_mhz), self._now_hz},
            self._most_hz,
            latency_s=_CLOCK_LATENCY_S,
        )

    def current(self) -> float:
        """Return the clock in hertz to which this object holds the board."""
        return self._now_hz

    def assume(self, value_hz: float) -> None:
        """Take it that the board is held to `value_hz`."""
        self._now_hz = value_hz

    def write(self, value: Value) -> None:
        """Hold the clock to at most `value` in hertz, or no more, where it is the highest."""
        kind = "Memory" if self._memory else "Gpu"
        # the range goes down to the lowest clock, so that an idle board still rests
        clocks_mhz = (self._least_mhz, round(float(value) / 1e6))
        free = value == self._most_hz
        self._driver.tell(
            self._uuid,
            f"nvmlDevice{'Reset' if free else 'Set'}{kind}LockedClocks",
            *(() if free else clocks_mhz),
            cure=self.command(value),
        )
        self._now_hz = float(value)

    def enforced(self) -> None:
        """Return None: nothing tells."""

    def command(self, value: Value) -> str:
        """Return the command that writes `value`."""
        lock, reset = ("-lmc", "-rmc") if self._memory else ("-lgc", "-rgc")
        if value == self._most_hz:
            return f"sudo nvidia-smi -i {self._uuid} {reset}"
        clocks = f"{self._least_mhz},{round(float(value) / 1e6)}"
        return f"sudo nvidia-smi -i {self._uuid} {lock} {clocks}"


class Persistence:
    """Whether the driver keeps the board when nobody uses it; off, it forgets limit and clocks."""

    def __init__(self, driver: Driver, uuid: str) -> None:
        self._driver = driver
        self._uuid = uuid
        self.knob = Knob(
            name=PERSISTENCE,
            unit=Unit.NONE,
            values=_ON_OFF,
            default=self.current(),
            privilege=Privilege.ADMINISTRATOR,
            upkeep=True,
        )

    def current(self) -> str:
        """Return "on" or "off"; raises `DeviceError`."""
        mode = self._driver.ask(self._uuid, "nvmlDeviceGetPersistenceMode")
        if mode is None:
            raise DeviceError(
                f"GPU {self._uuid} does not say its persistence mode now", cure="try again"
            )
        return _ON_OFF[bool(mode)]

    def write(self, value: Value) -> None:
        """Turn it "on" or "off"."""
        mode = _ON_OFF.index(str(value))
        self._driver.tell(
            self._uuid, "nvmlDeviceSetPersistenceMode", mode, cure=self.command(value)
        )

    def enforced(self) -> None:
        """Return None: nobody else has a say."""

    def command(self, value: Value) -> str:
        """Return the command that writes `value`."""
        return f"sudo nvidia-smi -i {self._uuid} -pm {_ON_OFF.index(str(value))}"


def controls(driver: Driver, uuid: str, known_locks: dict[str, float]) -> dict[str, Control]:
    """Return the knobs that the board `uuid` has, by name; nothing is written.

    One that cannot be read, or has one value only, is not there.
    """
    found: dict[str, Control] = {}
    if (limit := _power_limit(driver, uuid)) is not None:
        found[POWER_LIMIT] = limit
    if (module := module_limit(driver, uuid)) is not None:
        found[MODULE_POWER_LIMIT] = module
    memory_mhz = list(driver.ask(uuid, "nvmlDeviceGetSupportedMemoryClocks") or ())
    sm_mhz: list[int] = []
    if memory_mhz:
        sm_mhz = list(
            driver.ask(uuid, "nvmlDeviceGetSupportedGraphicsClocks", max(memory_mhz)) or ()
        )
    for name, clocks_mhz in ((SM_CLOCK, sm_mhz), (MEMORY_CLOCK, memory_mhz)):
        if len(set(clocks_mhz)) > 1:
            found[name] = LockedClock(driver, uuid, name, clocks_mhz, known_locks.get(name))
    if driver.ask(uuid, "nvmlDeviceGetPersistenceMode") is not None:
        found[PERSISTENCE] = Persistence(driver, uuid)
    if (profile := power_profile(driver, uuid)) is not None:
        found[POWER_PROFILE] = profile
    return found


def _power_limit(driver: Driver, uuid: str) -> PowerLimit | None:
    constraints = driver.ask(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")
    if constraints is None or _requested_mw(driver, uuid) is None:
        return None
    least_w, most_w = (float(limit_mw) / 1e3 for limit_mw in constraints)
    return PowerLimit(driver, uuid, least_w, most_w) if 0 < least_w < most_w else None


def _requested_mw(driver: Driver, uuid: str) -> float | None:
    limit_mw = driver.ask(uuid, "nvmlDeviceGetPowerManagementLimit")
    if not limit_mw:
        field = (fields.REQUESTED_LIMIT, fields.GPU)
        limit_mw = field_values(driver, uuid, [field])[field].value
    return float(limit_mw) if limit_mw else None


def enforced_limit_w(driver: Driver, uuid: str) -> float | None:
    """Return the limit in watts that the board keeps, None where it does not say."""
    limit_mw = driver.ask(uuid, "nvmlDeviceGetEnforcedPowerLimit")
    if not limit_mw:
        field = (fields.ENFORCED_LIMIT, fields.GPU)
        limit_mw = field_values(driver, uuid, [field])[field].value
    return float(limit_mw) / 1e3 if limit_mw else None
