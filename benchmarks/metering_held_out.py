"""Held-out kinds of `metering.py`: loads and boards that no interval was developed with.

Everything is drawn at random: what the load is like, the counter's tick and its jitter, the power
sensor's period and the part of it that it sees, how long the window is and whether the load was
running before. Boards are drawn anew every `PER_MACHINE` windows.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from lowjoule.testing.nvml import Board
from metering_cases import PER_MACHINE, Load, Points, Shot, shot, single

SEED = 2026
MARGIN_S = 0.6  # a load that was running before needs more points than the window is long


def _between(random: np.random.Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(random.uniform(math.log(low), math.log(high))))


def square(random: np.random.Generator, _: float) -> tuple[Points, float | None]:
    """Pulses of a period of 5 ms to 3 s."""
    period_s, duty = _between(random, 0.005, 3.0), float(random.uniform(0.05, 0.95))
    low_w, high_w = sorted(float(one) for one in random.uniform(60, 690, 2))
    return [(0.0, high_w), (duty * period_s, low_w)], period_s


def saw(random: np.random.Generator, _: float) -> tuple[Points, float | None]:
    """Teeth that rise and fall at once, of 20 ms to 3 s."""
    period_s, first = _between(random, 0.02, 3.0), float(random.uniform(0, 1))
    low_w, high_w = sorted(float(one) for one in random.uniform(60, 690, 2))
    parts = np.arange(64) / 64
    return [
        (float(x * period_s), float(low_w + (high_w - low_w) * ((x + first) % 1.0))) for x in parts
    ], period_s


def steps(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    """A few changes anywhere, or none."""
    whole_s = length_s + MARGIN_S
    at_s = np.sort(random.uniform(0, whole_s, int(random.integers(0, 7))))
    return [(float(one), float(random.uniform(60, 690))) for one in (0.0, *at_s)], None


def walk(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    """Power that wanders, by steps of random size and length."""
    mean_s, size_w = _between(random, 0.003, 0.3), float(random.uniform(5, 120))
    power_w, at_s, points = float(random.uniform(100, 650)), 0.0, []
    while at_s < length_s + MARGIN_S:
        points.append((at_s, power_w))
        at_s += 1e-4 + float(random.exponential(mean_s))
        power_w = float(np.clip(power_w + size_w * random.normal(), 60, 690))
    return points, None


def noise(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    """A slow rise or fall with noise on it that fades within a random time."""
    grid_s = np.arange(0, length_s + MARGIN_S, 0.003)
    kept = math.exp(-0.003 / _between(random, 0.003, 0.2))
    ends_w, sd_w, off_w = random.uniform(100, 600, 2), float(random.uniform(0, 40)), 0.0
    points = []
    for at_s in grid_s:
        off_w = kept * off_w + math.sqrt(1 - kept**2) * sd_w * float(random.normal())
        power_w = ends_w[0] + (ends_w[1] - ends_w[0]) * at_s / grid_s[-1] + off_w
        points.append((float(at_s), float(np.clip(power_w, 60, 690))))
    return points, None


def training(random: np.random.Generator, length_s: float) -> tuple[Points, float | None]:
    """Steps of nearly equal length with a forward and a backward part, and stalls now and then."""
    step_s, waits_s = _between(random, 0.03, 0.5), float(random.uniform(0, 0.1))
    forward_w, backward_w, wait_w = (float(random.uniform(*one)) for one in _TRAINING_W)
    at_s, points = 0.0, []
    while at_s < length_s + MARGIN_S:
        this_s = step_s * float(random.uniform(0.95, 1.05))
        points += [(at_s, forward_w), (at_s + this_s / 3, backward_w), (at_s + this_s, wait_w)]
        stalled = random.uniform() < 0.1
        at_s += this_s + waits_s * step_s + 1e-4 + (float(random.uniform(0, 0.3)) if stalled else 0)
    return points, None


_TRAINING_W = ((250.0, 500.0), (400.0, 690.0), (60.0, 150.0))
LOADS: dict[str, Load] = {
    "square": square, "saw": saw, "steps": steps, "walk": walk, "noise": noise,
    "training": training,
}  # fmt: skip
SENSORS = ("counter", "counter, held sensor", "no counter", "no counter, held sensor")


def board_of(random: np.random.Generator, sensors: str) -> Board:
    """Return a board with a tick of 10 to 200 ms, and a sensor held for 15 to 150 ms or not."""
    tick_s, period_s = _between(random, 0.01, 0.2), _between(random, 0.015, 0.15)
    held = "held" in sensors
    return Board(
        tick_s=tick_s,
        tick_phase_s=float(random.uniform(0, tick_s)),
        tick_jitter_s=float(random.choice([0.0, random.uniform(0, 0.5)])) * tick_s,
        sensor_period_s=period_s if held else 0.0,
        sensor_phase_s=float(random.uniform(0, period_s)),
        sensor_window_s=float(random.uniform(0.1, 1.0)) * period_s if held else 0.0,
    )


def shoot_held_out(folder: Path, sensors: str, load: str, count: int) -> list[Shot]:
    """Measure `count` windows of 0.3 to 3 s."""
    shots: list[Shot] = []
    kind = [SEED, SENSORS.index(sensors), sorted(LOADS).index(load)]
    while len(shots) < count:
        board = board_of(np.random.default_rng([*kind, len(shots)]), sensors)
        with single(folder, board, counter=sensors.startswith("counter")) as (fake, device):
            for number in range(len(shots), min(count, len(shots) + PER_MACHINE)):
                random = np.random.default_rng([*kind, 1, number])
                length_s, running = _between(random, 0.3, 3.0), bool(random.uniform() < 0.5)
                shots.append(shot(fake, device, LOADS[load], length_s, random, running=running))
    return shots
