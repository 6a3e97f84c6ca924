"""What to tell an administrator where a process may not turn a knob itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowjoule.devices.interface import Ability, Advising, Device, Probed
from lowjoule.errors import PermissionDeniedError
from lowjoule.knobs import Setting, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A knob that this process may not turn, and the command that turns it to `value`."""

    knob: str
    value: Value
    problem: str
    command: str

    def error(self) -> PermissionDeniedError:
        """Return the error that says it."""
        return PermissionDeniedError(self.problem, cure=self.command)


def refused(device: Device, knobs: Iterable[str]) -> dict[str, Ability]:
    """Return those of `knobs` of which the device itself says that they may not be turned."""
    if not isinstance(device, Probed):
        return {}
    wanted = set(knobs)
    told = (one for one in device.abilities() if one.name in wanted)
    return {one.name: one for one in told if not one.works and one.cure is not None}


def advice(device: Device, setting: Setting, told: dict[str, Ability]) -> tuple[Advice, ...]:
    """Return what an administrator is to type for those of `setting` that are refused (`told`)."""
    found = []
    for knob, value in setting.items():
        if knob not in told:
            continue
        command = told[knob].cure or ""
        if isinstance(device, Advising):
            command = device.command(knob, value)
        found.append(
            Advice(
                knob=knob,
                value=value,
                problem=f"{knob} of {device.identity.model} may not be turned by this process "
                f"({told[knob].detail}), so nothing is written",
                command=command,
            )
        )
    return tuple(found)


def probed(device: Device, knobs: Iterable[str]) -> tuple[Advice, ...]:
    """Write the values in force again, and return what is refused."""
    now, found = device.current(), []
    for knob in knobs:
        try:
            device.apply(now.only([knob]))
        except PermissionDeniedError as error:
            found.append(
                Advice(knob=knob, value=now[knob], problem=error.problem, command=error.cure)
            )
    return tuple(found)
