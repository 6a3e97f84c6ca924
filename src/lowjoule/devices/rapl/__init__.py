"""CPU packages with their memory, by the kernel's powercap zones (RAPL)."""

from lowjoule.devices.rapl.backend import RaplBackend
from lowjoule.devices.rapl.device import RaplDevice
from lowjoule.devices.rapl.estimate import EstimatedCpu
from lowjoule.devices.rapl.zones import Layout, Package, Zone, discover

__all__ = ["EstimatedCpu", "Layout", "Package", "RaplBackend", "RaplDevice", "Zone", "discover"]
