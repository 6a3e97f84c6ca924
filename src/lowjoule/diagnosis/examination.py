"""All checks of a machine, in the order in which one depends on the other."""

from __future__ import annotations

from collections.abc import Sequence

from lowjoule.control.places import claims_folder
from lowjoule.devices.interface import Ability, Device, Probed
from lowjoule.devices.nvml.boards import inventory
from lowjoule.devices.nvml.visible import Board
from lowjoule.devices.registry import open_device
from lowjoule.diagnosis import boards as of_boards
from lowjoule.diagnosis import nvidia, processor, system
from lowjoule.diagnosis.check import Check, Verdict, fail, ok
from lowjoule.diagnosis.machine import Machine
from lowjoule.errors import LowjouleError
from lowjoule.store.location import default_location


def examine(
    machine: Machine, asked: Sequence[str] = (), control: bool = False
) -> tuple[Check, ...]:
    """Return what was found. The devices `asked` for must measure, and with `control` be turned.

    Nothing is written, and no board that sleeps is woken unless it is asked for.
    """
    answers = nvidia.driver(machine)
    boards, said = _boards(machine, answers)
    return (
        system.container(machine),
        answers,
        nvidia.binding(machine),
        nvidia.nodes(machine),
        nvidia.permission(machine, boards, control),
        nvidia.hidden(machine, boards),
        nvidia.order(machine, boards),
        *said,
        processor.powercap(machine),
        processor.perf_events(machine),
        system.clock(machine),
        system.claims(claims_folder()),
        system.store(machine, default_location()),
        system.journals(),
        system.other_programs(machine),
        *(device(spec, control) for spec in asked),
    )


def _boards(machine: Machine, answers: Check) -> tuple[tuple[Board, ...], list[Check]]:
    """Return the boards, and the checks of each that is awake."""
    if answers.verdict not in (Verdict.OK, Verdict.WARN):
        return (), []
    try:
        found = inventory(machine.driver, machine.root)
    except LowjouleError as error:
        return (), [fail("boards", error.problem, error.cure)]
    said = [fail("board", note, "see the kernel's log (dmesg | grep Xid)") for note in found.notes]
    facts = []
    for board in found.boards:
        if board.asleep:
            said.append(ok("board", "asleep, and left so", board.uuid))
            continue
        try:
            facts.append(of_boards.facts_of(machine.driver, board))
        except LowjouleError as error:
            said.append(fail("board", error.problem, error.cure, board.uuid))
    return found.boards, [*said, *of_boards.board_checks(facts)]


def device(spec: str, control: bool = False) -> Check:
    """Check that the device that was asked for opens, measures, and can be turned if it must."""
    name = "asked for"
    try:
        opened = open_device(spec)
        reading = opened.read()
    except LowjouleError as error:
        return fail(name, error.problem, error.cure, spec)
    if reading.energy_j is None and reading.power_w is None and reading.average_power_w is None:
        cure = next((one.cure for one in _lacking(opened, "energy counter") if one.cure), None)
        return fail(name, "it tells neither energy nor power", cure, spec)
    if control and (refused := _refused(opened)):
        return fail(name, refused[0], refused[1], spec)
    return ok(name, "measures and can be turned" if control else "measures", spec)


def _refused(opened: Device) -> tuple[str, str | None] | None:
    """Return why no knob of the device can be turned, and the cure; None where one can."""
    knobs = [knob for knob in opened.space.knobs if not knob.upkeep]
    lacking = {one.name: one for one in _lacking(opened)}
    if any(knob.name not in lacking for knob in knobs):
        return None
    if not knobs:
        cure = next((one.cure for one in lacking.values() if one.name == "power_limit"), None)
        return "nothing can be turned on it", cure
    one = lacking[knobs[0].name]
    return f"{one.name}: {one.detail}", one.cure


def _lacking(opened: Device, name: str | None = None) -> list[Ability]:
    told = opened.abilities() if isinstance(opened, Probed) else ()
    return [one for one in told if not one.works and name in (None, one.name)]


def failed(checks: Sequence[Check]) -> bool:
    """Return whether any check failed."""
    return any(one.verdict is Verdict.FAIL for one in checks)
