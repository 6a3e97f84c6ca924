"""Loads, boards and the passing of virtual time for `metering.py`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.devices.nvml.driver import DRIVER
from lowjoule.metering import Window, measure
from lowjoule.testing.nvml import Board, FakeNvml

IDLE_W = 60.0
Points = list[tuple[float, float]]
NO_ROOT = Path("/nonexistent")  # this machine's own boards do not matter
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"


@contextmanager
def machine(folder: Path, *boards: Board, virtual: bool = True) -> Iterator[FakeNvml]:
    """Yield boards that this process sees."""
    with FakeNvml(boards, folder=folder, virtual=virtual) as fake, fake.loaded():
        if virtual:
            fake.advance(1.0)
        try:
            yield fake
        finally:
            DRIVER.close()


def opened(fake: FakeNvml) -> list[NvmlDevice]:
    """Return the devices of a machine, in its time."""
    seen = NvmlBackend(root=NO_ROOT).select(None)
    return [NvmlDevice(one, clock=fake.clock, root=NO_ROOT) for one in seen]


def without_counter(fake: FakeNvml) -> None:
    """Take the boards' counters away."""
    for board in fake:
        board.field(83, code=3)
        board.fail(COUNTER, 3)


def pass_time(fake: FakeNvml, windows: Sequence[Window], duration_s: float) -> None:
    """Let virtual time pass, looking when a thread would."""
    end_s = fake.now_s() + duration_s
    while True:
        due_s = max(min(one.due_s or math.inf for one in windows), fake.now_s() + 1e-6)
        if due_s >= end_s:
            break
        fake.advance(due_s - fake.now_s())
        windows[0].poll()
    fake.advance(end_s - fake.now_s())


@dataclass(frozen=True, slots=True)
class Shot:
    """One window: the truth, what was said, and how wide the stated interval is."""

    true_j: float
    energy_j: float
    half_j: float
    flags: frozenset[str]

    @property
    def error_j(self) -> float:
        """What was said too much."""
        return self.energy_j - self.true_j

    @property
    def inside(self) -> bool:
        """Whether the truth is in the interval."""
        return abs(self.error_j) <= self.half_j

    @property
    def flagged(self) -> bool:
        """Whether the window says that its sensors have seen too little of the load."""
        return bool(self.flags & {"beating", "unresolved"})


Load = Callable[[np.random.Generator, float], tuple[Points, float | None]]


def step(random: np.random.Generator, _: float) -> tuple[Points, float | None]:
    return [(0.0, float(random.uniform(200, 690)))], None


def ramp(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    low, high = random.uniform(60, 300), random.uniform(300, 690)
    ends = (low, high) if random.uniform() < 0.5 else (high, low)
    grid = np.linspace(0, 1, 200, endpoint=False)
    return [(float(x * length_s), float(ends[0] + (ends[1] - ends[0]) * x)) for x in grid], None


def pulses(random: np.random.Generator, _: float) -> tuple[Points, float | None]:
    period_s = float(random.uniform(0.03, 0.4))
    duty = float(random.uniform(0.2, 0.8))
    phase = float(random.uniform(0, 1))
    on, off = float(random.uniform(300, 690)), float(random.uniform(60, 200))
    if phase < duty:
        points = [(0.0, on), ((duty - phase) * period_s, off), ((1 - phase) * period_s, on)]
    else:
        points = [(0.0, off), ((1 - phase) * period_s, on), ((1 - phase + duty) * period_s, off)]
    return points, period_s


def jitter(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    """Steps of a training loop: compute and wait, each of a random length."""
    points, at_s, on = [], 0.0, bool(random.uniform() < 0.5)
    while at_s < length_s + 0.5:
        points.append((at_s, float(random.uniform(350, 690) if on else random.uniform(60, 200))))
        at_s += float(random.uniform(0.02, 0.15) if on else random.uniform(0.005, 0.06))
        on = not on
    return points, None


LOADS: dict[str, Load] = {
    "step": step,
    "ramp": ramp,
    "pulses": pulses,
    "jitter": jitter,
    "running": jitter,
}
RUNNING_S = 0.37
PER_MACHINE = 20  # the fake has room for so many loads


def shoot(
    folder: Path,
    board: Board,
    load: Load,
    *,
    length_s: float,
    count: int,
    seed: int = 0,
    counter: bool = True,
    running: bool = False,
) -> list[Shot]:
    """Measure `count` windows of a random phase with a new load each.

    The load starts with the window, or was `running` before.
    """
    shots: list[Shot] = []
    while len(shots) < count:
        with single(folder, board, counter=counter) as (fake, device):
            for number in range(len(shots), min(count, len(shots) + PER_MACHINE)):
                random = np.random.default_rng([seed, number])
                about_s = length_s * float(random.uniform(0.97, 1.03))
                shots.append(shot(fake, device, load, about_s, random, running=running))
    return shots


@contextmanager
def single(folder: Path, board: Board, *, counter: bool) -> Iterator[tuple[FakeNvml, NvmlDevice]]:
    """Yield a machine of one board, and its device."""
    own = folder / f"{os.getpid()}"
    own.mkdir(exist_ok=True)
    with machine(own, board) as fake:
        if not counter:
            without_counter(fake)
        (device,) = opened(fake)
        yield fake, device


def shot(
    fake: FakeNvml,
    device: NvmlDevice,
    load: Load,
    length_s: float,
    random: np.random.Generator,
    *,
    running: bool,
) -> Shot:
    """Measure one window of `length_s`."""
    fake[0].load([(0.0, IDLE_W)])
    fake.advance(1.3 + float(random.uniform(0, 0.2)))
    points, period_s = load(random, length_s)
    if running:
        _let_run(fake, points, period_s)
        fake.advance(RUNNING_S)
    window = measure("shot", devices=[device], sync=None, sampling="manual").start()
    begin_s = fake.now_s()
    if not running:
        _let_run(fake, points, period_s)
    pass_time(fake, [window], length_s)
    window.stop()
    true_j = fake[0].true_energy_j(begin_s, fake.now_s())
    return Shot(
        true_j,
        math.nan if window.energy_j is None else window.energy_j,
        math.nan if window.uncertainty_j is None else window.uncertainty_j,
        frozenset(flag.value for flag in window.flags),
    )


def _let_run(fake: FakeNvml, points: Points, period_s: float | None) -> None:
    if period_s is None:
        fake[0].load(points)
    else:
        fake[0].load([one for one in points if one[0] < period_s], period_s)
