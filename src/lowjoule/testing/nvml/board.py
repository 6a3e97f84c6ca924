"""What a board is, as a test describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lowjoule.errors import InvalidValueError
from lowjoule.testing.nvml.layout import (
    FUNCTIONS,
    MAX_GRAPHICS_CLOCKS,
    MAX_INSTANCES,
    MAX_MEMORY_CLOCKS,
    Epoch,
    SharedBoard,
)

NO_LIMIT_MW = 0xFFFFFFFF
_NOT_SUPPORTED = 3


def _h100_clocks_hz() -> dict[float, tuple[float, ...]]:
    return {2619e6: tuple(mhz * 1e6 for mhz in range(1980, 209, -15))}


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board; by default much like an H100. None in a scope's power: it has no such scope."""

    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    name: str = "NVIDIA H100 80GB HBM3"
    pci_bus_id: str | None = None
    """By default from its place in the list."""

    serial: str = "1650000000000"
    architecture: int = 9
    brand: int = 14
    compute_capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 80 << 30
    memory_used_bytes: int = 0
    limit_w: tuple[float, float] = (200.0, 700.0)
    default_limit_w: float | None = None
    """By default the largest."""

    other_limit_w: float | None = None
    """Another authority's limit, such as the management controller's; the lower one holds."""

    idle_w: float = 60.0
    clocks_hz: Mapping[float, Sequence[float]] = field(default_factory=_h100_clocks_hz)
    """The SM clocks by memory clock."""

    clock_scales_power: bool = False
    """Whether a locked SM clock scales what a load draws above idle."""

    temperature_c: int = 40
    persistence: bool = True
    instances: int = 0
    """MIG instances."""

    profiles: Sequence[int] = ()
    """Workload power profiles."""

    tick_s: float = 0.02
    """Period of the energy counter; 0 for a continuous one."""

    tick_phase_s: float = 0.0
    tick_jitter_s: float = 0.0
    """How late a tick can be at most."""

    sensor_period_s: float = 0.0
    """Period of the power sensor; 0 for a continuous one."""

    sensor_phase_s: float = 0.0
    sensor_window_s: float = 0.0
    """Over how long instant power is averaged; less than the period: a part-time sensor."""

    average_window_s: float = 1.0
    power_usage: Literal["average", "instant"] = "average"
    """Which of the two `nvmlDeviceGetPowerUsage` returns."""

    counter_gain: float = 1.0
    power_gain: float = 1.0
    module_w: float | None = None
    """What the module draws beside the GPU; the energy counter then covers the module."""

    module_limit_w: tuple[float, float] | None = None
    """The least and largest limit of the module, which is at the largest; None: it has none."""

    power_smoothing: bool | None = None
    """Whether the board holds its power above a floor on purpose; None: it knows no such thing."""

    memory_w: float | None = None
    missing: Sequence[str] = ()
    """Functions that are not supported."""

    def __post_init__(self) -> None:
        low, high = self.limit_w
        if not 0 < low <= high:
            raise InvalidValueError(f"limits {self.limit_w!r}", cure="give (least, largest) in W")
        least, most = self.module_limit_w or (1.0, 1.0)
        if not 0 < least <= most:
            raise InvalidValueError(
                f"module limits {self.module_limit_w!r}", cure="give (least, largest) in W"
            )
        if not 0 <= self.tick_jitter_s <= self.tick_s:
            raise InvalidValueError("jitter above the period", cure="make it at most tick_s")
        if not 0 <= self.instances <= MAX_INSTANCES:
            raise InvalidValueError(f"{self.instances} instances", cure="give at most 7")
        if len(self.clocks_hz) > MAX_MEMORY_CLOCKS or any(
            not 0 < len(clocks) <= MAX_GRAPHICS_CLOCKS for clocks in self.clocks_hz.values()
        ):
            raise InvalidValueError("too many clocks", cure="give 8 lists of 256 at most")


def describe(board: Board, number: int, shared: SharedBoard, now_s: float) -> None:
    """Write `board`, the `number`-th, into the shared state."""
    _identity(board, number, shared)
    _settings(board, shared, now_s)
    _sensors(board, shared)
    for name in board.missing:
        rule = shared.rules[FUNCTIONS.index(name)]
        rule.code, rule.left = _NOT_SUPPORTED, -1
    for profile in board.profiles:
        shared.profiles[profile // 32] |= 1 << (profile % 32)


def milliwatts(power_w: float | None) -> int:
    """Return `power_w` in mW, the highest number for None."""
    return NO_LIMIT_MW if power_w is None else round(1000 * power_w)


def megahertz(clock_hz: float) -> int:
    """Return `clock_hz` in MHz."""
    return round(clock_hz / 1e6)


def _identity(board: Board, number: int, shared: SharedBoard) -> None:
    shared.uuid = board.uuid.encode()
    shared.name = board.name.encode()
    shared.pci_bus_id = (board.pci_bus_id or f"00000000:{number + 1:02X}:00.0").encode()
    shared.serial = board.serial.encode()
    shared.architecture, shared.brand = board.architecture, board.brand
    shared.capability_major, shared.capability_minor = board.compute_capability
    shared.memory_bytes, shared.memory_used_bytes = board.memory_bytes, board.memory_used_bytes
    shared.instances = board.instances
    for row, memory_hz in enumerate(sorted(board.clocks_hz, reverse=True)):
        clocks = sorted((megahertz(hz) for hz in board.clocks_hz[memory_hz]), reverse=True)
        shared.memory_clocks_mhz[row] = megahertz(memory_hz)
        shared.graphics_clock_count[row] = len(clocks)
        shared.graphics_clocks_mhz[row][: len(clocks)] = clocks
    shared.memory_clock_count = len(board.clocks_hz)


def _settings(board: Board, shared: SharedBoard, now_s: float) -> None:
    low, high = board.limit_w
    default_w = high if board.default_limit_w is None else board.default_limit_w
    shared.limit_min_mw, shared.limit_max_mw = milliwatts(low), milliwatts(high)
    shared.limit_default_mw = shared.limit_requested_mw = milliwatts(default_w)
    module = board.module_limit_w
    shared.module_limit_min_mw = 0 if module is None else milliwatts(module[0])
    shared.module_limit_max_mw = 0 if module is None else milliwatts(module[1])
    shared.module_limit_default_mw = shared.module_limit_max_mw
    shared.module_limit_requested_mw = shared.module_limit_max_mw
    shared.power_smoothing = -1 if board.power_smoothing is None else board.power_smoothing
    shared.persistence = board.persistence
    shared.temperature_c = board.temperature_c
    shared.utilisation_percent = -1
    shared.epoch[0] = Epoch(
        begin_s=now_s,
        load_begin_s=now_s,
        limit_mw=milliwatts(default_w),
        other_limit_mw=milliwatts(board.other_limit_w),
        module_limit_mw=shared.module_limit_max_mw,
    )
    shared.epochs = shared.epochs_known = 1
    shared.reset_s = now_s


def _sensors(board: Board, shared: SharedBoard) -> None:
    for name in (
        "idle_w", "tick_phase_s", "tick_jitter_s", "sensor_period_s", "sensor_phase_s",
        "sensor_window_s", "average_window_s", "counter_gain", "power_gain", "clock_scales_power",
    ):  # fmt: skip
        setattr(shared, name, getattr(board, name))
    shared.tick_period_s = board.tick_s
    shared.module_w = -1.0 if board.module_w is None else board.module_w
    shared.memory_w = -1.0 if board.memory_w is None else board.memory_w
    shared.usage_is_average = board.power_usage == "average"
    shared.frozen_s = shared.power_reading_w = -1.0
