"""CPU meters under the name "hwmon": "hwmon:grace-0", "hwmon:module-0", "hwmon:socket-0"."""

from __future__ import annotations

from lowjoule.devices.hwmon.device import HwmonDevice
from lowjoule.devices.hwmon.meters import discover
from lowjoule.devices.interface import Ability
from lowjoule.devices.kernel import KernelBackend
from lowjoule.devices.registry import Available, OpenOptions
from lowjoule.errors import InvalidValueError, UnknownNameError, UnsupportedError


class HwmonBackend(KernelBackend):
    """Opens the CPU meters of the tree at `root`.

    Only meters that do not overlap are listed; one that lies inside or around those (a module
    with its GPU, a rail) can be opened by name.
    """

    def available(self) -> tuple[Available, ...]:
        """Return the meters whose figures may be added."""
        return tuple(
            Available(spec=f"hwmon:{meter.name}", title=meter.title, remark=meter.remark)
            for meter in discover(self._sysfs).counted
        )

    def open(self, argument: str, options: OpenOptions) -> HwmonDevice:
        """Open the meter called `argument`.

        Raises `UnsupportedError` where there is none and `UnknownNameError` for another name.
        """
        if options.default:
            raise InvalidValueError("a meter has no knob", cure="leave the default away")
        meters = discover(self._sysfs).meters
        if not meters:
            raise UnsupportedError(
                f"no CPU is measured: {self._sysfs.root / 'class/hwmon'} has no meter of one",
                cure="on x86 look for rapl:, and on Grace load acpi_power_meter",
            )
        if argument not in meters:
            raise UnknownNameError.among("CPU meter", argument, meters)
        return HwmonDevice(meters[argument], sysfs=self._sysfs, host=self._host, clock=self._clock)

    def abilities(self) -> tuple[Ability, ...]:
        """Return what this machine measures of its CPUs by hwmon, and what is left out."""
        layout = discover(self._sysfs)
        told = [
            Ability(name=f"hwmon:{meter.name}", works=True, detail=meter.remark)
            for meter in layout.counted
        ]
        return (*told, *layout.left_out)
