"""Simulated GPUs under the name "sim": "sim:a100", "sim:h100-pcie"."""

from __future__ import annotations

from lowjoule.devices.registry import Available, OpenOptions
from lowjoule.devices.simulated.catalogue import gpu, gpu_names
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.source import Source


class SimulatedBackend:
    """Opens simulated GPUs by their names in the catalogue."""

    def available(self) -> tuple[Available, ...]:
        """Return the catalogue, with how far each entry's figures can be trusted."""
        found = []
        for name in gpu_names():
            model = gpu(name)
            remark = "calibrated" if model.calibrated else "uncalibrated"
            found.append(
                Available(
                    spec=f"sim:{name}", title=model.title, remark=remark, source=Source.SIMULATED
                )
            )
        return tuple(found)

    def open(self, argument: str, options: OpenOptions) -> SimulatedDevice:
        """Open the GPU called `argument`; raises `UnknownNameError`."""
        return SimulatedDevice(gpu(argument), options)
