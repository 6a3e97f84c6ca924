"""CPU power and energy by hwmon: the power meters of NVIDIA Grace, the sockets of amd_energy."""

from lowjoule.devices.hwmon.backend import HwmonBackend
from lowjoule.devices.hwmon.device import HwmonDevice
from lowjoule.devices.hwmon.meters import HwmonLayout, HwmonMeter, discover

__all__ = ["HwmonBackend", "HwmonDevice", "HwmonLayout", "HwmonMeter", "discover"]
