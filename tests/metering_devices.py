"""Devices for tests of windows: figures as told, in virtual or real time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from lowjoule.clock import Clock, VirtualClock
from lowjoule.devices.interface import Coverage, Identity, Reading
from lowjoule.errors import LostDeviceError
from lowjoule.knobs import Applied, Setting, Space
from lowjoule.metering import Window, measure
from lowjoule.source import Source


@dataclass(eq=False)
class ToldDevice:
    """A counter with ticks and a power sensor, over a power that is a function of time."""

    power_of: Callable[[float], float] = lambda time_s: 100.0
    tick_s: float = 0.02
    phase_s: float = 0.0
    uuid: str = "told"
    backend: str = "told"
    has_counter: bool = True
    has_power: bool = True
    source: Source = Source.MEASURED
    scope: Coverage = Coverage.GPU
    clock: Clock = field(default_factory=VirtualClock)
    space: Space = field(default_factory=lambda: Space(()))
    lost: bool = False
    failures: int = 0
    frozen_j: float | None = None
    shift_j: float = 5000.0
    gain: float = 1.0
    reasons: frozenset[str] = frozenset()
    reads: int = 0
    sums_j: list[float] = field(default_factory=lambda: [0.0])

    @property
    def identity(self) -> Identity:
        return Identity(
            uuid=self.uuid,
            model="told",
            vendor="tests",
            backend=self.backend,
            driver="1",
            source=self.source,
            scope=self.scope,
        )

    def true_j(self, begin_s: float, end_s: float) -> float:
        """The integral of the power, which is constant in each millisecond."""
        return self._until_j(end_s) - self._until_j(begin_s)

    def _until_j(self, time_s: float) -> float:
        if time_s < 0:
            return self.power_of(0.0) * time_s
        whole = int(time_s / 1e-3)
        while len(self.sums_j) <= whole + 1:
            middle_s = (len(self.sums_j) - 0.5) * 1e-3
            self.sums_j.append(self.sums_j[-1] + self.power_of(middle_s) * 1e-3)
        share = time_s / 1e-3 - whole
        return self.sums_j[whole] * (1 - share) + self.sums_j[whole + 1] * share

    def read(self) -> Reading:
        self.reads += 1
        if self.lost:
            raise LostDeviceError("the board is gone", cure="reset it")
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError("unknown error")
        now_s = self.clock.now_s()
        tick_s = now_s
        if self.tick_s:
            ticks = math.floor((now_s - self.phase_s) / self.tick_s + 1e-9)
            tick_s = max(0.0, ticks * self.tick_s + self.phase_s)
        energy_j = self.shift_j + self.gain * self.true_j(0.0, tick_s)
        if self.frozen_j is not None:
            energy_j = self.frozen_j
        return Reading(
            time_s=now_s,
            energy_j=energy_j if self.has_counter else None,
            power_w=self.power_of(now_s) if self.has_power else None,
            power_window_s=0.0 if self.has_power else None,
            throttle_reasons=self.reasons,
        )

    def current(self) -> Setting:
        return Setting()

    def apply(self, setting: Setting) -> Applied:
        raise NotImplementedError


def let(device: ToldDevice, duration_s: float, *windows: Window) -> None:
    """Let time pass, looking when a thread would."""
    clock = device.clock
    end_s = clock.now_s() + duration_s
    while windows:
        due_s = max(min(one.due_s or math.inf for one in windows), clock.now_s() + 1e-6)
        if due_s >= end_s:
            break
        clock.sleep(due_s - clock.now_s())
        windows[0].poll()
    clock.sleep(end_s - clock.now_s())


def manual(device: ToldDevice, duration_s: float = 1.0, **options: object) -> Window:
    """A window of `duration_s` on a device."""
    window = measure("w", devices=[device], sampling="manual", sync=None, **options).start()  # type: ignore[arg-type]
    let(device, duration_s, window)
    return window.stop()
