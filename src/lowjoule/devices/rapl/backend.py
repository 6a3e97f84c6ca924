"""CPU packages under the name "rapl": "rapl:package-0", and "rapl:estimate" where asked for."""

from __future__ import annotations

from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.kernel import KernelBackend
from lowjoule.devices.rapl.device import RaplDevice
from lowjoule.devices.rapl.estimate import EstimatedCpu, no_design_power
from lowjoule.devices.rapl.limit import design_power_w
from lowjoule.devices.rapl.zones import Layout, discover
from lowjoule.devices.registry import Available, OpenOptions
from lowjoule.errors import InvalidValueError, UnknownNameError, UnsupportedError
from lowjoule.quantities import Unit, parse

ESTIMATE = "estimate"


class RaplBackend(KernelBackend):
    """Opens the CPU packages of the tree at `root`, each with its memory; they do not overlap."""

    def available(self) -> tuple[Available, ...]:
        """Return the packages, whether or not their energy may be read; an estimate is none."""
        model, _ = self._host.cpu()
        return tuple(
            Available(
                spec=f"rapl:{package.name}",
                title=f"{model}, {package.name}{' and its DRAM' if package.dram else ''}",
                remark="" if self._readable(package.dies[0].energy) else "energy not permitted",
            )
            for package in self._layout().packages
        )

    def open(self, argument: str, options: OpenOptions) -> RaplDevice | EstimatedCpu:
        """Open the package called `argument`, or "estimate", or "estimate=225W".

        Raises `UnsupportedError` where there is no RAPL and `UnknownNameError` for another name.
        """
        if options.default:
            raise InvalidValueError(
                "a real processor's default is the limit that is found in force",
                cure="leave the default away, or set the limit beforehand",
            )
        name, equals, power = argument.partition("=")
        if name == ESTIMATE:
            return self._estimate(power if equals else None)
        packages = {package.name: package for package in self._layout().packages}
        if not packages:
            raise UnsupportedError(
                f"no CPU package is measured: {self._sysfs.root / 'class/powercap'} shows none "
                "(as in most containers and virtual machines)",
                cure="run on the host, or ask for an estimate (rapl:estimate=225W)",
            )
        if argument not in packages:
            raise UnknownNameError.among("CPU package", argument, packages)
        return RaplDevice(packages[argument], sysfs=self._sysfs, host=self._host, clock=self._clock)

    def abilities(self) -> tuple[Ability, ...]:
        """Return what this machine measures of its CPUs, and what is left out and why."""
        layout = self._layout()
        if not layout.packages:
            missing = Ability(
                name="CPU energy",
                works=False,
                detail="no powercap zone of a package: packages and memory are not measured",
                cure="run on the host, or load the kernel module intel_rapl_msr",
            )
            return (missing, *layout.left_out)
        said: list[Ability] = []
        for package in layout.packages:
            detail = ", ".join(f"{zone.name} ({zone.ident})" for zone in package.zones)
            said.append(Ability(name=f"rapl:{package.name}", works=True, detail=detail))
            said += package.left_out
        return (*said, *layout.left_out)

    def _layout(self) -> Layout:
        return discover(self._sysfs)

    def _readable(self, path: Path) -> bool:
        return self._sysfs.word(path) is not None

    def _estimate(self, power: str | None) -> EstimatedCpu:
        if power is not None:
            full_w = parse(power, Unit.WATT)
            if not 0 < full_w < 1e6:
                raise InvalidValueError(
                    f"a design power of {power}", cure="give watts, as in rapl:estimate=225W"
                )
        else:
            packages = self._layout().packages
            each_w = [design_power_w(self._sysfs, package.dies[0]) for package in packages]
            full_w = sum(one_w for one_w in each_w if one_w is not None)
            if not each_w or None in each_w:
                raise no_design_power()
        return EstimatedCpu(full_w, host=self._host, clock=self._clock)
