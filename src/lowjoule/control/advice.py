"""What to tell an administrator: where a process may not turn a knob itself, or is not to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowjoule.devices.interface import Ability, Advising, Device, Probed, Reminded, Ruled
from lowjoule.errors import LowjouleError, PermissionDeniedError
from lowjoule.knobs import Setting, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A knob that this process may not or is not to turn, and the command that turns it.

    `command` turns it to `value` now, `rule` is the line of udev's rules that does so at every
    start, where there is such a thing; `problem` says why nothing is written.
    """

    knob: str
    value: Value
    problem: str
    command: str
    rule: str | None = None

    def error(self) -> PermissionDeniedError:
        """Return the error that says it."""
        return PermissionDeniedError(self.problem, cure=self.command)


def refused(device: Device, knobs: Iterable[str]) -> dict[str, Ability]:
    """Return those of `knobs` of which the device itself says that they may not be turned."""
    if not isinstance(device, Probed):
        return {}
    wanted = set(knobs)
    told = (one for one in device.abilities() if one.name in wanted)
    return {one.name: one for one in told if not one.works and one.forbidden}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """What an administrator is to type to turn a device to a setting, and what needs no word."""

    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()


def advise(device: Device, setting: Setting) -> Advised:
    """Return the commands that turn `device` to `setting`, as near as it can be; writes nothing.

    Knobs that it has not, values out of its range and those already in force are told in `notes`.
    """
    found: list[Advice] = []
    notes: list[str] = []
    for name, value in setting.items():
        try:
            one, note = _advised(device, name, value)
        except LowjouleError as error:
            one, note = None, f"{name}: {error}"
        found += [] if one is None else [one]
        notes += [] if note is None else [note]
    return Advised(advice=tuple(found), notes=tuple(notes))


def _advised(device: Device, name: str, value: Value) -> tuple[Advice | None, str | None]:
    board = device.identity.model
    if not isinstance(device, Advising):
        return None, f"nobody knows a command that turns {name} of {board}"
    note = None
    if name in device.space.names:
        knob = device.space.knob(name)
        now, wanted = device.current()[name], value
        if not isinstance(value, str):
            least, most = float(knob.values[0]), float(knob.values[-1])
            if not least <= float(value) <= most:
                said = f"{knob.show(least)} to {knob.show(most)}"
                return None, f"{name} of {board} takes {said}, not {knob.show(value)}"
            value = knob.nearest(float(value))
        knob.index(value)
        if value == now and not _is_blind(device, name):
            return None, f"{name} of {board} is at {knob.show(value)} already"
        if value != wanted:
            note = f"{name} of {board} cannot be {knob.show(wanted)}: the nearest is taken"
    return Advice(
        knob=name,
        value=value,
        problem=f"{name} of {board} is left as it is: nothing is written",
        command=device.command(name, value),
        rule=device.rule(name, value) if isinstance(device, Ruled) else None,
    ), note


def _is_blind(device: Device, name: str) -> bool:
    return isinstance(device, Reminded) and name in device.unread


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
