"""Loops of known truth, step by step: to try what measures them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.profiling.steady import Sample

STEP_S = 0.01
POWER_W = 300.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """Times and energies of single steps, and what they come to in the long run."""

    time_s: Floats
    energy_j: Floats
    true_time_s: float
    true_energy_j: float

    def samples(self, length_s: float = 0.5, tick_s: float = 0.0) -> list[Sample]:
        """Whole steps of at least `length_s` together, the energy by a counter with ticks."""
        end_s, energy_j = np.cumsum(self.time_s), np.cumsum(self.energy_j)
        samples = []
        last_s = last_j = 0.0
        last = -1
        while (number := int(np.searchsorted(end_s, last_s + length_s))) < len(end_s):
            shown_j = float(energy_j[number])
            if tick_s:
                shown_s = math.floor(end_s[number] / tick_s) * tick_s
                shown_j = float(np.interp(shown_s, end_s, energy_j))
            time_s = float(end_s[number] - last_s)
            samples.append(
                Sample(
                    work=number - last,
                    time_s=time_s,
                    energy_j=shown_j - last_j,
                    counter_j=tick_s * (shown_j - last_j) / time_s / math.sqrt(6.0),
                )
            )
            last, last_s, last_j = number, float(end_s[number]), shown_j
        return samples


def _base(random: np.random.Generator, steps: int) -> Floats:
    return STEP_S * np.exp(0.03 * random.standard_normal(steps) - 0.00045)


def plain(random: np.random.Generator) -> Trace:
    """A minute of steps with independent noise: 3 % of their time, 2 % of their power."""
    time_s = _base(random, 6000)
    power_w = POWER_W * (1 + 0.02 * random.standard_normal(6000))
    return Trace(time_s, time_s * power_w, STEP_S, STEP_S * POWER_W)


def ramp(
    random: np.random.Generator,
    constant_s: float = 20.0,
    *,
    amplitude: float = 0.05,
    length_s: float | None = None,
) -> Trace:
    """5 % more power and 2 % more time as it warms up; power noise correlated over a second.

    Or as much as `amplitude` says, for `length_s` instead of five time constants.
    """
    steps = round((5 * constant_s if length_s is None else length_s) / STEP_S)
    time_s = _base(random, steps)
    warmth = 1 - np.exp(-np.cumsum(time_s) / constant_s)
    noise = np.empty(steps)
    level = 0.0
    for number, shock in enumerate(0.004 * random.standard_normal(steps)):
        level = 0.98 * level + shock
        noise[number] = level
    slower = 0.4 * amplitude
    power_w = POWER_W * (1 + amplitude * warmth) * (1 + noise)
    time_s = time_s * (1 + slower * warmth)
    true_s = (1 + slower) * STEP_S
    return Trace(time_s, time_s * power_w, true_s, true_s * (1 + amplitude) * POWER_W)


def stalls(random: np.random.Generator) -> Trace:
    """Every fiftieth step waits for data, five steps on average, with a long tail."""
    steps = 6000
    waits = random.random(steps) < 0.02
    stall_s = waits * 0.05 * np.exp(random.standard_normal(steps) - 0.5)
    busy_s = _base(random, steps)
    mean_s = 0.02 * 0.05
    return Trace(
        busy_s + stall_s,
        POWER_W * busy_s + 80.0 * stall_s,
        STEP_S + mean_s,
        POWER_W * STEP_S + 80.0 * mean_s,
    )
