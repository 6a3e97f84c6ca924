"""Putting back what a dead process has left turned, as its journal tells: compare and restore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from lowjoule.control.journal import Entry, Journal, Unreadable, Value
from lowjoule.control.ownership import RESTORE, holding_knob, is_held_elsewhere
from lowjoule.control.process import boot_id
from lowjoule.devices.interface import Advising, Device, Reminded
from lowjoule.errors import BusyError, DeviceError, LowjouleError
from lowjoule.knobs import Knob, Setting

Opener = Callable[[str], Device]


class Outcome(StrEnum):
    """What became of an entry of the journal."""

    PUT_BACK = "put back"
    AS_FOUND = "as it was found"
    LEFT_ALONE = "left alone"
    CLEARED = "cleared"
    HELD = "held"
    FAILED = "failed"
    UNREADABLE = "unreadable"

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to be done."""
        return self in {self.PUT_BACK, self.AS_FOUND, self.LEFT_ALONE, self.CLEARED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of one knob; `in_force` is what was found on it now, None if not known.

    `command` is what an administrator would type to put it back, where it is not and one is known.
    """

    knob: str
    model: str
    uuid: str
    prior: Value | None
    in_force: Value | None
    outcome: Outcome
    text: str
    command: str | None = None


def is_stale(entry: Entry) -> bool:
    """Whether the owner of `entry` is dead."""
    lives = entry.owner.lives()
    if lives is None:  # numbers of another namespace: its locks tell
        return not is_held_elsewhere(entry.uuid, entry.knob)
    return not lives


def replay_all(journal: Journal, opener: Opener, *, write: bool = True) -> list[Replayed]:
    """Replay all stale entries of `journal`, by devices that `opener` opens; raises nothing.

    Without `write` nothing is written and the journal stays: what would be done is told.
    """
    listed = [*journal.entries(), *journal.asides()]
    said = [_unreadable(one) for one in listed if isinstance(one, Unreadable)]
    found = [one for one in listed if isinstance(one, Entry)]
    said += [_held(one) for one in found if not is_stale(one)]
    stale = [one for one in found if is_stale(one)]
    for _, entries in groupby(stale, key=lambda one: one.uuid):
        said += replay_device(journal, list(entries), opener, write=write)
    return said


def replay_device(
    journal: Journal, entries: list[Entry], device: Device | Opener, *, write: bool = True
) -> list[Replayed]:
    """Replay the stale `entries`, all of one device, each on its own; raises nothing.

    The device is opened only when one of them can be held and has something to put back.
    """
    said: list[Replayed] = []
    with contextlib.ExitStack() as held:
        mine = []
        for entry in entries:
            try:
                held.enter_context(holding_knob(entry.uuid, entry.knob, RESTORE, model=entry.model))
            except BusyError as error:
                said.append(_told(entry, Outcome.HELD, error.problem))
                continue
            now = journal.find(entry.uuid, entry.knob)
            if isinstance(now, Entry) and is_stale(now):
                mine.append(now)
        for result in _replayed(mine, device, write=write):
            if write and result.outcome is Outcome.UNREADABLE:
                result = _set_aside(journal, result)
            if write and result.outcome.is_final:
                with contextlib.suppress(DeviceError):  # found again and seen to be as found
                    journal.remove(result.uuid, result.knob)
            said.append(result)
    return said


def _set_aside(journal: Journal, result: Replayed) -> Replayed:
    """Move an entry that nobody can act on out of the way of the next claim."""
    found = Unreadable(journal.path(result.uuid, result.knob), result.text)
    try:
        aside = journal.set_aside(found)
    except DeviceError as error:
        return replace(result, text=f"{found.path} {result.text}; {error}")
    return replace(result, text=f"{found.path} {result.text}: kept aside as {aside.name}")


def _replayed(entries: list[Entry], device: Device | Opener, *, write: bool) -> Iterator[Replayed]:
    done = [one for one in entries if one.expired is not None]
    for entry in done:
        yield _told(entry, Outcome.AS_FOUND, f"was put back when it expired: {entry.expired}")
    left = [one for one in entries if one.expired is None]
    if not left:
        return
    try:
        opened = device if isinstance(device, Device) else _opened(left[0], device)
    except Exception as error:  # noqa: BLE001 - a device that fails must not stop the others
        for entry in left:
            yield _told(entry, Outcome.FAILED, f"the device cannot be opened: {_problem(error)}")
        return
    yield from replay(left, opened, write=write)


def _opened(entry: Entry, opener: Opener) -> Device:
    if entry.spec is None:
        raise DeviceError(
            "only the program that turned it can open it", cure="claim the device there again"
        )
    device = opener(entry.spec)
    if device.identity.uuid != entry.uuid:
        raise DeviceError(
            f"{entry.spec} is another board now ({device.identity.uuid})",
            cure="run where the board is seen",
        )
    return device


def replay(entries: Iterable[Entry], device: Device, *, write: bool = True) -> list[Replayed]:
    """Compare each of `entries` with `device` and put it back; the journal is not touched.

    One that is refused is tried again once the others are back: limits may forbid an order.
    """
    waiting = sorted(entries, key=lambda one: _turn(one, device))
    told: dict[str, Replayed] = {}
    while waiting:
        for entry in waiting:
            told[entry.knob] = _one(entry, device, write=write)
        refused = [one for one in waiting if told[one.knob].outcome is Outcome.FAILED]
        if len(refused) == len(waiting):
            break
        waiting = refused
    return list(told.values())


def _turn(entry: Entry, device: Device) -> int:
    """Return when it is an entry's turn: what keeps a device's state goes on first, off last."""
    if entry.knob not in device.space.names or not device.space.knob(entry.knob).upkeep:
        return 1
    return 2 if entry.prior == "off" else 0


def _one(entry: Entry, device: Device, *, write: bool) -> Replayed:
    now: Value | None = None
    command: str | None = None
    try:
        if (why := mistaken(entry, device)) is not None:
            return _told(entry, Outcome.UNREADABLE, why)
        here = entry.owner.boot_id == boot_id()
        blind = isinstance(device, Reminded) and entry.knob in device.unread
        if blind and not here:
            return _told(entry, Outcome.CLEARED, "the machine has started anew since, unlocked")
        if isinstance(device, Reminded):
            # what was found is a value to go back to; what was written is what is in force
            for value in (entry.prior, *entry.written[-1:]):
                device.assume(Setting({entry.knob: value}))
        now = device.current()[entry.knob]
        knob = device.space.knob(entry.knob)
        outcome = _compared(entry, now, knob, here=here, blind=blind)
        if isinstance(device, Advising) and outcome is Outcome.PUT_BACK:
            command = device.command(entry.knob, entry.prior)
        if outcome is Outcome.PUT_BACK and write:
            device.apply(Setting({entry.knob: entry.prior}))
            after = device.current()[entry.knob]
            if after != entry.prior:
                text = f"asked for {knob.show(entry.prior)}, it stays at {knob.show(after)}"
                return _told(entry, Outcome.FAILED, text, after, command)
        text = _sentence(entry, now, knob, outcome, write)
        return _told(entry, outcome, text, now, None if write else command)
    except Exception as error:  # noqa: BLE001 - the others are put back, and it is said
        return _told(entry, Outcome.FAILED, _problem(error), now, command)


def mistaken(entry: Entry, device: Device) -> str | None:
    """Return what is wrong with an entry whose values are of another kind than its knob's."""
    if entry.knob not in device.space.names:
        return None
    knob = device.space.knob(entry.knob)
    names = isinstance(knob.values[0], str)
    for value in (entry.prior, *entry.written):
        if isinstance(value, str) is not names:
            return f"says that {entry.knob} was at {value!r}, which is no value of it"
    return None


def _compared(entry: Entry, now: Value, knob: Knob, *, here: bool, blind: bool) -> Outcome:
    if blind:  # cannot be compared: what we wrote last is taken to be in force
        return Outcome.PUT_BACK
    if now == entry.prior:
        return Outcome.AS_FOUND
    if not here and now == knob.default:
        return Outcome.CLEARED
    return Outcome.PUT_BACK if now in entry.written else Outcome.LEFT_ALONE


def _sentence(entry: Entry, now: Value, knob: Knob, outcome: Outcome, write: bool) -> str:
    match outcome:
        case Outcome.PUT_BACK:
            verb = "" if write else "would be "
            return f"{verb}put back from {knob.show(now)} to {knob.show(entry.prior)}"
        case Outcome.LEFT_ALONE:
            return f"was changed by someone else to {knob.show(now)} and is left as it is"
        case Outcome.CLEARED:
            return f"the machine has started anew since and is at its default, {knob.show(now)}"
        case _:
            return f"is at {knob.show(now)}, as it was found"


def _problem(error: Exception) -> str:
    return str(error) if isinstance(error, LowjouleError) else f"{type(error).__name__}: {error}"


def _told(
    entry: Entry,
    outcome: Outcome,
    text: str,
    now: Value | None = None,
    command: str | None = None,
) -> Replayed:
    return Replayed(
        knob=entry.knob,
        model=entry.model,
        uuid=entry.uuid,
        prior=entry.prior,
        in_force=now,
        outcome=outcome,
        text=text,
        command=command,
    )


def _held(entry: Entry) -> Replayed:
    return _told(entry, Outcome.HELD, f"is held by {entry.owner.text}")


def _unreadable(found: Unreadable) -> Replayed:
    text = f"{found.path} {found.why}: left there"
    return Replayed(
        knob="",
        model="",
        uuid="",
        prior=None,
        in_force=None,
        outcome=Outcome.UNREADABLE,
        text=text,
    )


def expire(journal: Journal, entry: Entry, device: Device | Opener) -> Replayed | None:
    """Put back what a living owner has turned without progress, and tell it in its entry.

    The entry has to be locked. None where it was not put back and has to be tried again.
    """
    (told,) = _replayed([entry], device, write=True)
    if not told.outcome.is_final:
        return None
    journal.write(replace(entry, expired=f"{entry.knob} {told.text}"))
    return told
