"""What is publicly known of a kind of board, found by whatever a table or a driver calls it."""

from __future__ import annotations

import re

from lowjoule.devices.simulated.catalogue import GpuModel, gpu, gpu_names
from lowjoule.devices.simulated.demand import peak_rate, supported_precisions
from lowjoule.errors import UnknownNameError
from lowjoule.prediction.features import DeviceFigures
from lowjoule.workloads import Workload

_NOISE = {"nvidia", "amd", "tesla", "geforce", "instinct", "gpu", "graphics"}


def recognised(name: str) -> GpuModel | None:
    """Return the catalogue's board of a `name` like "NVIDIA A100-SXM4-80GB", None if it has none.

    Where a name leaves open which version it is (an A100 without its memory), it is the one that
    the catalogue calls so.
    """
    for one in gpu_names():
        if gpu(one).title.casefold() == name.casefold():
            return gpu(one)
    text = re.sub(r"(\d+)\s*gb\b", r"\1gb", name.casefold())
    text = re.sub(r"\b(sxm|pcie)\d*\b", r"\1", text)
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and word not in _NOISE]
    for count in range(len(words), 0, -1):
        for joint in ("-", ""):
            try:
                return gpu(joint.join(words[:count]))
            except UnknownNameError:
                continue
    return None


def figures_of(model: GpuModel, workload: Workload | None = None) -> DeviceFigures:
    """Return the public figures of a board; its peak rate is that of what `workload` runs in."""
    rate = None
    if workload is not None:
        rate = peak_rate(model, workload, supported_precisions(model, workload)[0])
    return DeviceFigures(
        model=model.title,
        power_limit_w=model.limits_w[-1],
        sm_clock_hz=model.clocks_hz[-1],
        memory_clock_hz=model.memory_clocks_hz[-1],
        operations_per_s=rate,
        bandwidth_bytes_per_s=model.bandwidth_bytes_s,
    )
