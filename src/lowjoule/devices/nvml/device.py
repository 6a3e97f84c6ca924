"""An NVIDIA GPU, or the module that it sits on, as a device."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.interface import Ability, Coverage, Identity, Reading
from lowjoule.devices.nvml import fields
from lowjoule.devices.nvml import sensors as reading
from lowjoule.devices.nvml.abilities import is_administrator, knob_abilities, sensor_abilities
from lowjoule.devices.nvml.controls import PERSISTENCE, LockedClock, controls
from lowjoule.devices.nvml.driver import DRIVER, Driver
from lowjoule.devices.nvml.fields import field_values
from lowjoule.devices.nvml.figures import board_figures
from lowjoule.devices.nvml.visible import Seen
from lowjoule.errors import UnsupportedError
from lowjoule.knobs import Applied, Setting, Space, Value
from lowjoule.source import Source
from lowjoule.workloads import DeviceFigures

_POLL_S = 0.001
_MOVES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterMeasure:
    """How an energy counter behaves: the median time between two moves, and what a read takes.

    `period_s` is None where it did not move twice in the time it was watched.
    """

    period_s: float | None
    read_s: float


class NvmlDevice:
    """A board as NVML shows it. Opening it asks what works and writes nothing.

    With `module` energy and power are those of the module that the GPU sits on (GPU, processor
    and memory); the knobs are the GPU's all the same. `known_locks` are clocks in hertz, by knob,
    to which the board is known to be held, as NVML does not tell them. Raises `DeviceError` where
    the driver or the board does not answer, `UnsupportedError` for a module that there is not.
    """

    def __init__(
        self,
        seen: Seen,
        *,
        module: bool = False,
        clock: Clock | None = None,
        known_locks: Mapping[str, float] | None = None,
        driver: Driver = DRIVER,
        root: Path = Path("/"),
    ) -> None:
        self.clock: Clock = clock or WallClock()
        self.seen = seen
        self._driver = driver
        self._uuid = seen.board.uuid
        self._root = root
        self._module = module
        self._lock = threading.RLock()
        self._sensors = reading.probe(driver, self._uuid, module=module)
        if module and not self._sensors.found["module power"].works:
            raise UnsupportedError(
                f"GPU {self._uuid} does not sit on a module with power of its own",
                cure=f"open nvml:{self._uuid}",
            )
        self._controls = controls(driver, self._uuid, dict(known_locks or {}))
        self._space = Space(tuple(control.knob for control in self._controls.values()))
        self._counter: CounterMeasure | None = None
        scope = Coverage.MODULE if module else seen.coverage
        self.identity = Identity(
            uuid=self._uuid,
            model=seen.board.model,
            vendor="NVIDIA",
            backend="nvml",
            driver=str(driver.machine("nvmlSystemGetDriverVersion")),
            source=Source.MEASURED,
            scope=scope,
            pci_bus_id=seen.board.pci_bus_id,
            spec=f"nvml:{self._uuid}",
        )

    @property
    def space(self) -> Space:
        """The board's knobs; a value that somebody else has set is among a knob's values."""
        return self._space

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the figures of this board."""
        return (*self._shared_notes(), *self._smoothing_notes())

    def _smoothing_notes(self) -> tuple[str, ...]:
        field = (fields.SMOOTHING, fields.GPU)
        if not field_values(self._driver, self._uuid, [field])[field].value:
            return ()
        return (
            f"power smoothing is on: {self._uuid} draws power on purpose where the work would not, "
            "which is in its figures",
        )

    def _shared_notes(self) -> tuple[str, ...]:
        if self.seen.coverage is not Coverage.MIG_PARENT:
            return ()
        named = ", ".join(one.uuid for one in self.seen.slices) or "its slices"
        return (
            f"energy, power, limit and clocks of {named} are those of all slices of "
            f"{self._uuid} together",
        )

    def read(self) -> Reading:
        """Return what the board says now; raises `LostDeviceError` when it is gone."""
        return reading.read(self._driver, self._uuid, self._sensors, self.clock)

    def sample(self) -> Reading:
        """Return time, energy and power alone, mostly in one call; raises `LostDeviceError`."""
        return reading.sample(self._driver, self._uuid, self._sensors, self.clock)

    def current(self) -> Setting:
        """Return the limit that is requested, the locks known here, and the persistence mode.

        Raises `DeviceError` where the board does not say.
        """
        with self._lock:
            return Setting({name: self._now(name) for name in self._controls})

    def apply(self, setting: Setting) -> Applied:
        """Write `setting` and return what is read back; all values are checked before any write.

        `enforced` holds a limit that another authority keeps. Raises `InvalidValueError`,
        `UnknownNameError`, `PermissionDeniedError` with the command that does it, and
        `LostDeviceError`.
        """
        with self._lock:
            values = {}
            for name, value in setting.items():
                knob = self._space.knob(name)
                values[name] = knob.values[knob.index(value)]
            for name in sorted(values, key=lambda name: _turn(name, values[name])):
                self._controls[name].write(values[name])
            achieved = {name: self._now(name) for name in values}
            kept = {name: self._kept(name, value) for name, value in achieved.items()}
            enforced = {name: value for name, value in kept.items() if value is not None}
            return Applied(setting, Setting(achieved), enforced)

    def abilities(self) -> tuple[Ability, ...]:
        """Return what was found to work when the board was opened, writing nothing."""
        found = sensor_abilities(self._sensors, self._uuid, self._module)
        if self._counter is not None:
            found = tuple(_detailed(one, self._counter) for one in found)
        administrator = is_administrator(self._root)
        with self._lock:
            return (
                *found,
                *knob_abilities(self._driver, self._uuid, self._controls, administrator),
            )

    def figures(self) -> DeviceFigures:
        """Return top clocks, memory and its bandwidth, and cores, as far as the driver says."""
        return board_figures(self._driver, self._uuid, self.identity.model)

    @property
    def unread(self) -> frozenset[str]:
        """The locked clocks, which NVML does not tell."""
        return frozenset(
            name for name, one in self._controls.items() if isinstance(one, LockedClock)
        )

    def assume(self, setting: Setting) -> None:
        """Take values found earlier as the knobs' own, and locks as in force; writes nothing."""
        with self._lock:
            for name, value in setting.items():
                control = self._controls.get(name)
                if isinstance(control, LockedClock):
                    control.assume(float(value))
                if control is not None:
                    self._admit(name, value)

    def command(self, name: str, value: Value) -> str:
        """Return the command with which an administrator turns the knob `name` to `value`."""
        self._space.knob(name)
        return self._controls[name].command(value)

    def measure_counter(self, limit_s: float = 1.0) -> CounterMeasure:
        """Watch the energy counter for at most `limit_s` and return its period and cost.

        Raises `UnsupportedError` where there is none.
        """
        if self._sensors.counter is None:
            raise UnsupportedError(
                f"GPU {self._uuid} has no energy counter", cure="integrate its power"
            )
        begin_s = self.clock.now_s()
        moves: list[float] = []
        costs: list[float] = []
        last: float | None = None
        while len(moves) < _MOVES and self.clock.now_s() - begin_s < limit_s:
            before_s = self.clock.now_s()
            now = self.sample()
            costs.append(self.clock.now_s() - before_s)
            if last is not None and now.energy_j not in {None, last}:
                moves.append(now.time_s)
            last = now.energy_j if now.energy_j is not None else last
            self.clock.sleep(_POLL_S)
        steps = [later - earlier for earlier, later in pairwise(moves)]
        self._counter = CounterMeasure(
            period_s=statistics.median(steps) if steps else None, read_s=statistics.median(costs)
        )
        return self._counter

    def _kept(self, name: str, value: Value) -> Value | None:
        """Return what another authority makes of a knob at `value`; None where it leaves it."""
        kept = self._controls[name].enforced()
        if kept not in {None, value}:
            # our own write may take a while to be kept
            self.clock.sleep(self._space.knob(name).latency_s)
            kept = self._controls[name].enforced()
        return None if kept == value else kept

    def _now(self, name: str) -> Value:
        """Return the value in force of a knob, which becomes one of its values."""
        value = self._controls[name].current()
        self._admit(name, value)
        return value

    def _admit(self, name: str, value: Value) -> None:
        knob = self._space.knob(name)
        if value in knob.values:
            return
        values = (*knob.values, value)
        if not isinstance(value, str):
            values = tuple(sorted(values, key=float))
        wider = replace(knob, values=values)
        kept = (wider if one.name == name else one for one in self._space.knobs)
        self._space = replace(self._space, knobs=tuple(kept))


def _turn(name: str, value: Value) -> int:
    # the driver may forget the rest while persistence is off
    if name != PERSISTENCE:
        return 1
    return 0 if value == "on" else 2


def _detailed(one: Ability, counter: CounterMeasure) -> Ability:
    if one.name != "energy counter" or not one.works:
        return one
    moves = "does not move" if counter.period_s is None else f"moves every {counter.period_s:.3g} s"
    return replace(one, detail=f"{moves}, a read takes {counter.read_s * 1e3:.3g} ms")
