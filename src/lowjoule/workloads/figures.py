"""What is known beside times and powers: of a kind of board, and of what counters say of work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """What is known of a kind of board; None is "not known".

    `power_limit_w` is the largest limit (and what holds where the limit is not a knob),
    `least_power_limit_w` the smallest; `sm_clock_hz` and `memory_clock_hz` are the top clocks.
    `operations_per_s` is the dense peak rate of the units and precision that a work uses,
    `bandwidth_bytes_per_s` the peak of the memory of `memory_bytes`; `cores` counts the scalar
    arithmetic units.
    """

    model: str
    power_limit_w: float | None = None
    least_power_limit_w: float | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    operations_per_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    memory_bytes: float | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What counters say of the default setting, shares of time or peak; None is "not known".

    `compute` is the activity of the busiest arithmetic pipe, `memory` that of the memory's bus
    (DCGM's pipe and DRAM activity, say), `busy` the share of time in which cores have work,
    `running` that in which anything at all runs on the device (DCGM's engine activity, NVML's
    utilisation): in the rest the device waits for its host. `clock` is the core clock in force
    over the one asked for: below 1 something, a power limit say, held it down.
    """

    compute: float | None = None
    memory: float | None = None
    busy: float | None = None
    running: float | None = None
    clock: float | None = None
