"""Time and power of a step of work on a GPU, from the mechanism alone.

Pure functions on NumPy arrays that broadcast; `x` is the SM clock over its maximum, `m` the
memory clock over its maximum. No figure of any workload or board stands here: `Chip` holds the
board's, `Load` the work's.

Time is the 2-norm of a compute, a memory and a host part (launches, input), which overlap in
part: their sum bounds it from above, the longest of them from below. Power is idle + leakage, which
grows with temperature, + a dynamic part c V(f)^2 f weighted by what the units do, + the energy
of the memory traffic (the usual CMOS model; V(f) is flat up to a knee and rises above it, which
is why energy has a minimum inside the range of clocks).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEAKAGE_AT_C = 60.0
LEAKAGE_PER_C = 0.008


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What a board draws and how it slows, with everything else at its maximum.

    `idle_w` is static, `leakage_w` the leakage at 60 °C, `dynamic_w` what full activity adds at
    the top clock, `memory_w` what full traffic adds and `memory_idle_w` what a memory at its top
    clock draws while work runs. `voltage_floor` is the lowest voltage over that of the top
    clock, `voltage_knee` the clock (over the top) up to which it holds. `waiting` is the
    activity of units that wait for memory, over that of units that compute. `issue` is how much
    memory bandwidth the SMs can ask for at their top clock, over what the memory gives.
    """

    idle_w: float
    leakage_w: float
    dynamic_w: float
    memory_w: float
    memory_idle_w: float
    voltage_floor: float = 0.7
    voltage_knee: float = 0.74
    waiting: float = 0.35
    issue: float = 2.0
    ambient_c: float = 30.0
    resistance_c_per_w: float = 0.1
    time_constant_s: float = 20.0
    throttle_c: float = 90.0


@dataclass(frozen=True, slots=True)
class Load:
    """One step of work: seconds at top clocks that each unit alone would take; arrays broadcast.

    `overhead_s` is the host's, whatever the clocks. `useful` is the part of `compute_s` in which
    the compute units are filled (small batches leave many of them empty); `intensity` scales the
    power of a filled one (1 is matrix units at their peak rate).
    """

    compute_s: ArrayLike
    memory_s: ArrayLike
    overhead_s: ArrayLike = 0.0
    useful: ArrayLike = 1.0
    intensity: ArrayLike = 1.0


def voltage(chip: Chip, x: ArrayLike) -> Floats:
    """Return the core voltage at clock `x`, over that at the top clock."""
    slope = (1.0 - chip.voltage_floor) / (1.0 - chip.voltage_knee)
    return np.asarray(chip.voltage_floor + slope * np.maximum(np.subtract(x, chip.voltage_knee), 0))


def step_time_s(chip: Chip, load: Load, x: ArrayLike, m: ArrayLike) -> Floats:
    """Return the time of one step."""
    compute = np.divide(load.compute_s, x)
    # the SMs have to ask for the data: a low SM clock limits bandwidth, mildly
    share = np.divide(1.0, m) ** 2 + np.divide(1.0 / chip.issue, x) ** 2
    memory_squared = np.square(load.memory_s) * share / (1.0 + chip.issue**-2)
    return np.asarray(np.sqrt(compute**2 + memory_squared + np.square(load.overhead_s)))


def busy_share(load: Load, time_s: ArrayLike) -> Floats:
    """Return the part of a step in which the board computes or moves data."""
    host = np.minimum(np.divide(load.overhead_s, time_s), 1.0)
    return np.asarray(np.sqrt(1.0 - host**2))


def activity_power_w(chip: Chip, load: Load, x: ArrayLike, m: ArrayLike, time_s: Floats) -> Floats:
    """Return the mean power of a step that takes `time_s`, less idle power and leakage."""
    filled = np.multiply(load.compute_s, load.useful) / x / time_s
    busy = busy_share(load, time_s)
    activity = chip.waiting * busy + (1.0 - chip.waiting) * filled
    core = chip.dynamic_w * np.multiply(load.intensity, activity) * x * voltage(chip, x) ** 2
    traffic = np.divide(load.memory_s, time_s)
    return np.asarray(core + chip.memory_w * traffic + np.multiply(chip.memory_idle_w, m))


def leakage_w(chip: Chip, temperature_c: ArrayLike) -> Floats:
    """Return the leakage at a temperature, never below a fifth of that at 60 °C."""
    growth = 1.0 + LEAKAGE_PER_C * np.subtract(temperature_c, LEAKAGE_AT_C)
    return np.asarray(chip.leakage_w * np.maximum(growth, 0.2))


def steady_power_w(chip: Chip, activity_w: ArrayLike) -> Floats:
    """Return the total power once the temperature that it makes has settled (closed form)."""
    growth = chip.leakage_w * LEAKAGE_PER_C
    cold = chip.leakage_w + growth * (chip.ambient_c - LEAKAGE_AT_C)
    total = np.add(activity_w, chip.idle_w + cold) / (1.0 - growth * chip.resistance_c_per_w)
    return np.asarray(total)


def steady_temperature_c(chip: Chip, power_w: ArrayLike) -> Floats:
    """Return the temperature at which a constant power leaves the board."""
    return np.asarray(chip.ambient_c + np.multiply(chip.resistance_c_per_w, power_w))


def thermal_limit_w(chip: Chip) -> float:
    """Return the power that the cooler can carry away at the throttling temperature."""
    return (chip.throttle_c - chip.ambient_c) / chip.resistance_c_per_w
