"""A device without physics, for tests of what stands above devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from lowjoule.clock import VirtualClock
from lowjoule.devices.interface import Identity, Reading, Told
from lowjoule.errors import DeviceError, OutOfMemoryError
from lowjoule.knobs import (
    BATCH_SIZE,
    POWER_LIMIT,
    SM_CLOCK,
    Applied,
    Knob,
    Setting,
    Space,
    standard_knob,
)
from lowjoule.knobs.space import columns_of
from lowjoule.profile import Profile
from lowjoule.quantities import Unit
from lowjoule.source import Source
from lowjoule.workloads import Work, Workload


def limits(*values: float, default: float | None = None) -> Knob:
    """A power limit knob."""
    return standard_knob(POWER_LIMIT, values, values[-1] if default is None else default)


def plain_knob(name: str, values: tuple[float, ...], default: float) -> Knob:
    """A live knob of no standard name."""
    return Knob(name=name, unit=Unit.NONE, values=values, default=default)


@dataclass
class FakeDevice:
    """Time and power are given functions of the whole setting; every write is on record.

    A knob in `broken` refuses every write, one in `deaf` pretends to accept it.
    """

    time_of: Callable[[Setting], float] = lambda setting: 1.0
    power_of: Callable[[Setting], float] = lambda setting: 100.0
    space: Space = field(
        default_factory=lambda: Space(
            (limits(100.0, 150.0, 200.0, 250.0), standard_knob(SM_CLOCK, (1e9, 1.4e9), 1.4e9))
        )
    )
    batches: tuple[int, ...] = (32, 64, 128)
    default_batch: int = 64
    too_big: int = 10**9
    source: Source = Source.REPLAYED
    tick_s: float = 0.0
    idle_w: float = 0.0
    broken: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.values = dict(self.space.default)
        self.writes: list[Setting] = []
        self.draws: list[Setting] = []
        self.energy_j = 0.0
        self._last_s = 0.0
        self._ticks: list[tuple[float, float]] = [(0.0, 0.0)]

    @property
    def identity(self) -> Identity:
        return Identity(
            uuid=f"fake-{id(self)}",
            model="fake",
            vendor="tests",
            backend="fake",
            driver="1",
            source=self.source,
        )

    def read(self) -> Reading:
        now_s = self.clock.now_s()
        self.energy_j += self.idle_w * (now_s - self._last_s)
        self._last_s = now_s
        shown_j = self.energy_j
        if self.tick_s and self.idle_w:
            since_tick_s = now_s - math.floor(now_s / self.tick_s + 1e-9) * self.tick_s
            shown_j = round(shown_j - self.idle_w * since_tick_s, 6)
        return Reading(time_s=now_s, energy_j=shown_j)

    def current(self) -> Setting:
        return Setting(self.values)

    def apply(self, setting: Setting) -> Applied:
        for name, value in setting.items():
            self.space.knob(name).index(value)
            if name in self.broken:
                raise DeviceError(f"{name} refused", cure="mend it")
        self.writes.append(setting)
        new = {k: v for k, v in setting.items() if k not in self.deaf}
        trial = Setting({**self.values, **new})
        for rule in self.space.rules:
            if not rule.allows(columns_of([trial]))[0]:
                raise DeviceError("minimum above maximum", cure="order the writes")
        self.values.update(new)
        return Applied(setting, self.current().only(setting))

    @property
    def notes(self) -> tuple[str, ...]:
        return ("a fake",)

    def workload_names(self) -> tuple[str, ...]:
        return ("job",)

    def workload(self, name: str | None = None) -> Workload:
        return Workload(name=name or "job")

    def workload_space(self, workload: Workload) -> Space:
        return Space((standard_knob(BATCH_SIZE, self.batches, self.default_batch),))

    def joint_space(self, workload: Workload) -> Space:
        return Space((*self.space.knobs, *self.workload_space(workload).knobs), self.space.rules)

    def submit(self, workload: Workload, work: Work, setting: Setting) -> FakeExecution:
        full = Setting({**self.values, **setting})
        if setting.number(BATCH_SIZE) >= self.too_big:
            raise OutOfMemoryError("too big", cure="use a smaller batch")
        self.draws.append(full)
        return FakeExecution(self, full, work.quantity)

    def survey(self, workload: Workload, space: Space | None = None) -> Profile:
        raise NotImplementedError

    def run(self, setting: Setting, quantity: float) -> None:
        self.read()
        time_s = self.time_of(setting) * quantity
        self.clock.sleep(time_s)
        self._last_s = self.clock.now_s()
        self.energy_j += time_s * self.power_of(setting)


@dataclass
class FakeExecution:
    """Work on a fake device."""

    device: FakeDevice
    setting: Setting
    quantity: float
    told: Told = field(default_factory=Told)

    def wait(self) -> None:
        self.device.run(self.setting, self.quantity)
