"""A card that a training loop runs on, in virtual time, with the faults that tests want."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lowjoule.clock import Clock, VirtualClock
from lowjoule.devices.interface import Identity, Reading
from lowjoule.errors import DeviceError
from lowjoule.knobs import POWER_LIMIT, SM_CLOCK, Applied, Setting, Space, standard_knob
from lowjoule.source import Source

LIMITS_W = tuple(float(watts) for watts in range(100, 301, 25))
CLOCKS_HZ = tuple(1e6 * mega for mega in (600, 800, 1000, 1200, 1400))


def clock_share(setting: Setting) -> float:
    """The clock that the setting lets it reach, over the largest."""
    return min(setting.number(SM_CLOCK) / 1.4e9, math.sqrt(setting.number(POWER_LIMIT) / 260.0))


def slowness(setting: Setting) -> float:
    """Time of a unit of work over the least: the limit holds the clock down."""
    return 0.3 + 0.7 / clock_share(setting)


def power_w(setting: Setting) -> float:
    """Power while it works: rises steeply with the clock."""
    return 60.0 + 200.0 * clock_share(setting) ** 3


@dataclass
class LoopCard:
    """Reads and is written like a real card; `work` is what the loop runs on it.

    `calls` counts what is asked of the driver, by name.
    """

    space: Space = field(
        default_factory=lambda: Space(
            (
                standard_knob(POWER_LIMIT, LIMITS_W, 300.0),
                standard_knob(SM_CLOCK, CLOCKS_HZ, 1.4e9),
            )
        )
    )
    sample_s: float = 0.001
    noise: float = 0.005
    idle_w: float = 50.0
    heat: Callable[[float], float] = lambda now_s: 1.0
    seed: int = 0
    clock: Clock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        self.values = dict(self.space.default)
        self.writes: list[Setting] = []
        self.calls = {"read": 0, "current": 0, "apply": 0}
        self.energy_j = 0.0
        self.reasons: frozenset[str] = frozenset()
        self.refuses: Callable[[Setting], bool] = lambda setting: False
        self.silent: Callable[[], bool] = lambda: False
        self.counter = True
        self._last_s = self.clock.now_s()
        self._random = np.random.default_rng(self.seed)

    @property
    def identity(self) -> Identity:
        return Identity(
            uuid=f"card-{id(self)}",
            model="card",
            vendor="tests",
            backend="fake",
            driver="1",
            source=Source.SIMULATED,
            shared=False,
        )

    def read(self) -> Reading:
        self.calls["read"] += 1
        if self.silent():
            raise DeviceError("the card is gone", cure="look for it")
        now_s = self.clock.now_s()
        self.energy_j += self.idle_w * (now_s - self._last_s)
        self._last_s = now_s
        return Reading(
            time_s=now_s,
            energy_j=self.energy_j if self.counter else None,
            throttle_reasons=self.reasons,
        )

    def current(self) -> Setting:
        self.calls["current"] += 1
        return Setting(self.values)

    def apply(self, setting: Setting) -> Applied:
        self.calls["apply"] += 1
        if self.refuses(setting):
            raise DeviceError("refused", cure="ask for less")
        self.writes.append(setting)
        self.values.update(setting)
        return Applied(setting, self.current().only(setting))

    def work(self, samples: float = 32.0, passes: int = 1) -> None:
        """Run one step of the loop at the setting in force; each pass has its fixed cost."""
        self._idle_until_now()
        setting = Setting(self.values)
        spread = np.exp(self.noise * self._random.standard_normal(2))
        time_s = (samples * self.sample_s * slowness(setting) + 0.001 * passes) * float(spread[0])
        watts = power_w(setting) * float(spread[1]) * self.heat(self.clock.now_s())
        self.clock.sleep(time_s)
        self._last_s = self.clock.now_s()
        self.energy_j += watts * time_s

    def _idle_until_now(self) -> None:
        now_s = self.clock.now_s()
        self.energy_j += self.idle_w * (now_s - self._last_s)
        self._last_s = now_s

    def true_eds(self, setting: Setting) -> float:
        """The energy-delay sum of a setting against the default, without noise."""
        default = self.space.default
        figures = []
        for one in (setting, default):
            time_s = 32.0 * self.sample_s * slowness(one) + 0.001
            figures.append((time_s, time_s * power_w(one)))
        (time_s, energy_j), (base_s, base_j) = figures
        return 0.5 * energy_j / base_j + 0.5 * time_s / base_s

    def best_eds(self) -> float:
        return min(self.true_eds(one) for one in self.space)


def hot_after(start_s: float, factor: float) -> Callable[[float], float]:
    return lambda now_s: factor if now_s >= start_s else 1.0


def warming(share: float, constant_s: float) -> Callable[[float], float]:
    return lambda now_s: 1.0 + share * (1.0 - math.exp(-now_s / constant_s))
