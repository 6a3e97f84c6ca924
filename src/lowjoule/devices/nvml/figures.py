"""What a board tells of its kind: top clocks, memory, cores."""

from __future__ import annotations

from lowjoule.devices.nvml.driver import Driver
from lowjoule.workloads import DeviceFigures

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_PER_CLOCK = 2.0  # the clock that NVML tells is half of a pin's data rate, on GDDR and HBM alike


def board_figures(driver: Driver, uuid: str, model: str) -> DeviceFigures:
    """Return what the driver says of the board `uuid`; None is "does not say".

    Bandwidth is bus width x 2 x the top memory clock. Raises `LostDeviceError`.
    """

    def number(function: str, *arguments: int) -> float | None:
        value = driver.ask(uuid, function, *arguments)
        return float(value) if value else None

    memory = driver.ask(uuid, "nvmlDeviceGetMemoryInfo")
    top_mhz = number("nvmlDeviceGetMaxClockInfo", _MEMORY_CLOCK)
    sm_mhz = number("nvmlDeviceGetMaxClockInfo", _SM_CLOCK)
    bus_bits = number("nvmlDeviceGetMemoryBusWidth")
    bandwidth = None
    if bus_bits is not None and top_mhz is not None:
        bandwidth = _PER_CLOCK * top_mhz * 1e6 * bus_bits / 8.0
    return DeviceFigures(
        model=model,
        sm_clock_hz=None if sm_mhz is None else sm_mhz * 1e6,
        memory_clock_hz=None if top_mhz is None else top_mhz * 1e6,
        bandwidth_bytes_per_s=bandwidth,
        memory_bytes=None if memory is None else float(memory.total),
        cores=number("nvmlDeviceGetNumGpuCores"),
    )
