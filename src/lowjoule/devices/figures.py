"""The figures of a board: what it tells itself, then what is published of its kind."""

from __future__ import annotations

from dataclasses import replace

from lowjoule.devices.interface import Device, Figured
from lowjoule.devices.simulated.catalogue import GpuModel, published
from lowjoule.devices.simulated.demand import peak_rate, supported_precisions
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Space
from lowjoule.workloads import DeviceFigures, Workload

__all__ = ["figures_of", "published_figures"]


def figures_of(device: Device, workload: Workload | None = None) -> DeviceFigures:
    """Return what is known of `device`, for the units and precision that `workload` uses.

    What the board tells comes first, then the ranges of its knobs, then published peak rates and
    bandwidth of its kind (`published_figures`). What none of them says is None.
    """
    told = device.figures() if isinstance(device, Figured) else DeviceFigures(model="")
    told = replace(told, model=device.identity.model)
    for more in (_of_knobs(device.space), published_figures(device.identity.model, workload)):
        told = _filled(told, more)
    return told


def published_figures(model: str, workload: Workload | None = None) -> DeviceFigures:
    """Return what is published of boards that call themselves `model`; None for what is not.

    The sources stand beside the simulated GPUs' figures (devices/simulated/gpus.toml). A rate
    needs a workload: it is of the units and the precision that the work runs in.
    """
    known = published(model)
    if known is None:
        return DeviceFigures(model=model)
    return DeviceFigures(
        model=model,
        operations_per_s=None if workload is None else _rate(known, workload),
        bandwidth_bytes_per_s=known.bandwidth_bytes_s,
        memory_bytes=known.memory_bytes,
    )


def _rate(known: GpuModel, workload: Workload) -> float:
    return peak_rate(known, workload, supported_precisions(known, workload)[0])


def _of_knobs(space: Space) -> DeviceFigures:
    """Return the ends of the ranges of limits and clocks."""

    def end(name: str, place: int) -> float | None:
        return float(space.knob(name).values[place]) if name in space.names else None

    return DeviceFigures(
        model="",
        power_limit_w=end(POWER_LIMIT, -1),
        least_power_limit_w=end(POWER_LIMIT, 0),
        sm_clock_hz=end(SM_CLOCK, -1),
        memory_clock_hz=end(MEMORY_CLOCK, -1),
    )


def _filled(told: DeviceFigures, more: DeviceFigures) -> DeviceFigures:
    missing = {
        name: getattr(more, name)
        for name in DeviceFigures.__slots__
        if name != "model" and getattr(told, name) is None
    }
    return replace(told, **missing)
