"""A command run to its end, and what the devices took meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowjoule.devices.interface import Coverage, Device
from lowjoule.devices.registry import OpenOptions, backends, open_device
from lowjoule.errors import DeviceError, InvalidValueError, UnsupportedError
from lowjoule.launch.child import Child, CommandError, Ending, let_through
from lowjoule.metering import DeviceEnergy, Window, measure
from lowjoule.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command. None is "not known"; `uncertainty_j` is half the 95 % interval.

    `energy_j` is the sum over `devices`, of those that tell theirs; None where none does and
    where they overlap. `notes` says what is not in it.
    """

    command: tuple[str, ...]
    ending: Ending
    time_s: float | None = None
    energy_j: float | None = None
    uncertainty_j: float | None = None
    devices: tuple[DeviceEnergy, ...] = ()
    notes: tuple[str, ...] = ()


def run_measured(command: Sequence[str], specs: Sequence[str], mask: set[int]) -> Outcome:
    """Run `command` with our standard streams and return what it took.

    To be called on the main thread under `held_signals`, which gives the `mask`.

    Measured are the devices that `specs` name, by default the visible boards that are awake and
    the CPU packages that can be read. What cannot be measured ends nothing: the notes say it.
    Raises `UnknownNameError`, `InvalidValueError` or `UnsupportedError` for a name that can
    never be measured, before anything is run.
    """
    devices, notes = _named(specs) if specs else (None, _asleep())
    # the command synchronises with its devices itself, by ending
    window = measure("command", devices=devices, sync=None).start()
    let_through(mask)
    try:
        child = Child(command, mask)
    except CommandError as error:
        window.stop()
        return Outcome(command=tuple(command), ending=Ending(error.exit_code), notes=(str(error),))
    ending = child.wait()
    window.stop()
    return _outcome(command, ending, window, notes)


def _named(specs: Sequence[str]) -> tuple[list[Device], list[str]]:
    """Open the devices that were named; one that fails now is left out, with a note."""
    devices: dict[str, Device] = {}
    notes: list[str] = []
    for spec in specs:
        try:
            device = open_device(spec, OpenOptions(wall_time=True))
        except UnsupportedError:
            raise
        except DeviceError as error:
            notes.append(f"{spec} is not measured: {error}")
            continue
        if device.identity.source is Source.REPLAYED:
            raise InvalidValueError(
                f"{spec} is a table, which takes no energy for a command",
                cure="name a device that is here (lowjoule devices)",
            )
        devices.setdefault(device.identity.uuid, device)
    return list(devices.values()), notes


def _asleep() -> list[str]:
    """Return which devices are left out as nobody named them and they sleep."""
    try:
        listed = [one for backend in backends().values() for one in backend.available()]
    except Exception as error:  # noqa: BLE001 - a broken backend never ends the command
        return [f"which devices sleep is not known: {error}"]
    return [
        f"{one.spec} was asleep and is not measured: name it (--device) to wake it"
        for one in listed
        if one.asleep
    ]


def _outcome(
    command: Sequence[str], ending: Ending, window: Window, notes: Sequence[str]
) -> Outcome:
    devices = tuple(window.devices.values())
    said = list(dict.fromkeys((*notes, *window.notes)))
    energy_j, uncertainty_j = window.energy_j, window.uncertainty_j
    if _overlap(devices):
        energy_j = uncertainty_j = None
        said.append("a module includes what other devices here measure: there is no sum of them")
    elif energy_j is not None:
        said += [
            f"{one.identity.uuid} tells no energy: it is not in the sum"
            for one in devices
            if one.energy_j is None
        ]
    return Outcome(
        command=tuple(command),
        ending=ending,
        time_s=window.time_s,
        energy_j=energy_j,
        uncertainty_j=uncertainty_j,
        devices=devices,
        notes=tuple(said),
    )


def _overlap(devices: Sequence[DeviceEnergy]) -> bool:
    scopes = {one.identity.scope for one in devices if one.energy_j is not None}
    return Coverage.MODULE in scopes and len(scopes) > 1
