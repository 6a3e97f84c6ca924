"""Simulated GPUs: time and power from the mechanism, under real names and public figures."""

from lowjoule.devices.simulated.backend import SimulatedBackend
from lowjoule.devices.simulated.catalogue import GpuModel, gpu, gpu_names
from lowjoule.devices.simulated.device import SimulatedDevice

__all__ = ["GpuModel", "SimulatedBackend", "SimulatedDevice", "gpu", "gpu_names"]
