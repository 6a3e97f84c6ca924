"""What an administrator types to turn real boards to a setting that was found without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lowjoule.control import Advised
    from lowjoule.devices.interface import Device, Identity
    from lowjoule.knobs import Setting

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board that is to be advised on; `device` is None where it does not open, and `why`."""

    spec: str
    device: Device | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardAdvice:
    """The commands for one board, or why there are none."""

    board: Board
    advised: Advised

    @property
    def identity(self) -> Identity | None:
        """Which board it is."""
        return None if self.board.device is None else self.board.device.identity


def advise_options(command: F) -> F:
    """Add `--advise` (argument `advise`) and `--board` (argument `boards`)."""
    board = click.option(
        "--board",
        "boards",
        multiple=True,
        metavar="KIND:NAME",
        help="With --advise: a board that is here, like nvml:GPU-8932f937; by default all visible "
        "NVIDIA boards that are awake. May be repeated.",
    )
    asked = click.option(
        "--advise",
        is_flag=True,
        help="Print the commands with which an administrator turns the boards that are here to "
        "what was chosen; nothing is written to any device.",
    )
    return asked(board(command))


def opened_boards(specs: Sequence[str]) -> list[Board]:
    """Return the boards that `specs` name, by default those that are here; wakes none of these.

    Raises what the registry raises for a board that was named.
    """
    from lowjoule.devices.registry import backends, open_device
    from lowjoule.errors import LowjouleError

    if specs:
        return [Board(spec=spec, device=open_device(spec)) for spec in specs]
    found = []
    backend = backends().get("nvml")
    for one in [] if backend is None else backend.available():
        if one.asleep:
            found.append(Board(spec=one.spec, device=None, why="it is asleep: name it (--board)"))
            continue
        try:
            found.append(Board(spec=one.spec, device=open_device(one.spec)))
        except LowjouleError as error:
            found.append(Board(spec=one.spec, device=None, why=str(error)))
    return found


def advice_for(boards: Sequence[Board], setting: Setting) -> list[BoardAdvice]:
    """Return what turns each of `boards` to `setting`; writes nothing, raises nothing."""
    from lowjoule.control import Advised, advise
    from lowjoule.errors import LowjouleError

    found = []
    for one in boards:
        advised = Advised(notes=(one.why,))
        if one.device is not None:
            try:
                advised = advise(one.device, setting)
            except LowjouleError as error:  # it is lost meanwhile
                advised = Advised(notes=(str(error),))
        found.append(BoardAdvice(board=one, advised=advised))
    return found


def advice_dict(advice: Sequence[BoardAdvice]) -> list[dict[str, object]]:
    """Return the JSON form: a command, or a reason, for each knob of each board."""
    return [
        {
            "board": one.board.spec,
            "model": one.identity.model if one.identity else None,
            "uuid": one.identity.uuid if one.identity else None,
            "pci_bus_id": one.identity.pci_bus_id if one.identity else None,
            "commands": [
                {
                    "knob": each.knob,
                    "value": each.value,
                    "command": each.command,
                    "udev_rule": each.rule,
                }
                for each in one.advised.advice
            ],
            "notes": list(one.advised.notes),
        }
        for one in advice
    ]


def advice_sentences(advice: Sequence[BoardAdvice], found_on: str) -> list[str]:
    """Return the commands, a line each, ready to be copied; the setting was `found_on`."""
    if not advice:
        return [
            "",
            "No NVIDIA board is here to be turned: name one (--board) on the machine that has it.",
        ]
    lines = []
    for one in advice:
        model = one.identity.model if one.identity else "not opened"
        lines += [
            "",
            f"{one.board.spec} ({model}), to be typed by an administrator; found on {found_on}:",
        ]
        lines += [f"  {each.command}" for each in one.advised.advice]
        rules = [each.rule for each in one.advised.advice if each.rule is not None]
        lines += ["  for every start, in /etc/udev/rules.d/90-lowjoule.rules:"] if rules else []
        lines += [f"  {rule}" for rule in rules]
        lines += [f"  {note}" for note in one.advised.notes]
    return lines
