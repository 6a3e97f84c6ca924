"""What a claim writes into the journal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from lowjoule.clock import WallClock
from lowjoule.control.guard import ensure_watchdog
from lowjoule.control.journal import Entry, Journal, Unreadable, Value
from lowjoule.control.process import this_process
from lowjoule.control.replay import Replayed, is_stale, mistaken, replay_device
from lowjoule.devices.interface import Device, Reminded
from lowjoule.errors import BusyError, DeviceError
from lowjoule.knobs import Setting

_BEATS = 10  # how often within its time a claim that makes progress says so


class Record:
    """The journal of one claim: every write is known there before it is made.

    A device that no other process sees has none, as nothing of it is left behind.
    """

    def __init__(self, device: Device, owner: str, expires_s: float | None) -> None:
        identity = device.identity
        self.notes: list[str] = []
        self._device = device
        self._uuid = identity.uuid
        self._owner = owner
        self._expires_s = expires_s
        self._journal = Journal() if identity.shared else None
        self._clock = WallClock()
        self._next_beat_s = 0.0
        self._knobs: set[str] = set()

    def replay_stale(self) -> list[Replayed]:
        """Put back what dead processes left turned on the device; return what became of it."""
        if self._journal is None:
            return []
        found = [one for one in self._journal.entries() if isinstance(one, Entry)]
        stale = [one for one in found if one.uuid == self._uuid and is_stale(one)]
        return replay_device(self._journal, stale, self._device) if stale else []

    def owed(self, knobs: Iterable[str]) -> dict[str, Entry]:
        """Return what the journal still has of knobs that are held by now.

        A dead process left it and it could not be put back, or a claim of this process whose end
        was interrupted. The device is told what it cannot read.
        """
        if self._journal is None:
            return {}
        left = {}
        for knob in knobs:
            entry = self._journal.find(self._uuid, knob)
            if not isinstance(entry, Entry):
                continue
            if entry.expired is not None:  # is back already
                self._journal.remove(self._uuid, knob)
                continue
            if (why := mistaken(entry, self._device)) is not None:
                self._aside(Unreadable(self._journal.path(self._uuid, knob), why))
                continue
            left[knob] = entry
            if isinstance(self._device, Reminded):
                for value in (entry.prior, *entry.written[-1:]):
                    self._device.assume(Setting({knob: value}))
        return left

    @contextlib.contextmanager
    def writing(self, knob: str, value: Value, prior: Value) -> Iterator[None]:
        """Keep the intent to write `value`, then hold the entry while it is written.

        Raises `BusyError` when the claim has expired and `DeviceError` when it cannot be kept.
        """
        if self._journal is None:
            yield
            return
        with self._journal.locked(self._uuid, knob):
            found = self._found(knob)
            entry = self._entry(found, knob, prior).with_written(value)
            if entry.expired is not None:
                raise BusyError(
                    f"the claim of {self._owner} has expired: {entry.expired}",
                    cure="claim the device again, and call touch() as the work goes on",
                )
            # watched before there is an entry, so that no kill leaves one alone; and looked at
            # again after it, as a watchdog without entries may just have ended
            self._watch(entry)
            if entry != found:
                self._journal.write(entry)
                self._watch(entry)
            self._knobs.add(knob)
            yield

    def saw(self, knob: str, value: Value) -> None:
        """Keep that `value` was read back after a write; called while `writing`."""
        if self._journal is None:
            return
        entry = self._journal.find(self._uuid, knob)
        if isinstance(entry, Entry) and value not in entry.written:
            self._journal.write(entry.with_written(value))

    def put_back(self, knob: str) -> None:
        """Forget a knob that is as it was found, or somebody else's."""
        if self._journal is None:
            return
        self._knobs.discard(knob)
        try:
            with self._journal.locked(self._uuid, knob):
                self._journal.remove(self._uuid, knob)
        except DeviceError as error:
            self._note(str(error))

    def expired(self, knob: str) -> str | None:
        """Return what the watchdog did to a knob when the claim expired, None where it did not."""
        if self._journal is None or self._expires_s is None or knob not in self._knobs:
            return None
        with contextlib.ExitStack() as stack:
            # it may be about to do it
            with contextlib.suppress(DeviceError):
                stack.enter_context(self._journal.locked(self._uuid, knob))
            return self._expired(knob)

    def _expired(self, knob: str) -> str | None:
        entry = None if self._journal is None else self._journal.find(self._uuid, knob)
        return entry.expired if isinstance(entry, Entry) else None

    def touch(self) -> bool:
        """Tell that there is progress; cheap. False once the claim has expired."""
        if self._journal is None or self._expires_s is None:
            return True
        now_s = self._clock.now_s()
        if now_s < self._next_beat_s:
            return True
        self._next_beat_s = now_s + self._expires_s / _BEATS
        for knob in tuple(self._knobs):
            with contextlib.suppress(OSError):
                os.utime(self._journal.path(self._uuid, knob))
        alive = not any(self._expired(knob) for knob in tuple(self._knobs))
        if not alive:
            self._next_beat_s = 0.0
        return alive

    def _found(self, knob: str) -> Entry | None:
        """Return the entry of a knob, what cannot be read kept aside."""
        if self._journal is None:
            return None
        found = self._journal.find(self._uuid, knob)
        if isinstance(found, Unreadable):
            self._aside(found)
            return None
        return found

    def _aside(self, found: Unreadable) -> None:
        if self._journal is not None:
            aside = self._journal.set_aside(found)
            self._note(f"{found.path} {found.why}: kept aside as {aside.name}")

    def _entry(self, found: Entry | None, knob: str, prior: Value) -> Entry:
        """Return the entry of a knob as this claim is to keep it, not yet written."""
        me = this_process(self._owner)
        if found is not None and found.owner.is_process(me.pid, me.start):
            return found
        identity = self._device.identity
        return Entry(
            uuid=identity.uuid,
            model=identity.model,
            spec=identity.spec,
            knob=knob,
            prior=prior if found is None else found.prior,
            written=() if found is None else found.written,
            owner=me,
            time_unix_s=self._clock.unix_s(),
            expires_s=self._expires_s,
        )

    def _watch(self, entry: Entry) -> None:
        if self._journal is not None and entry.spec is not None:
            self._note(ensure_watchdog(self._journal.folder))

    def _note(self, text: str | None) -> None:
        if text is not None and text not in self.notes:
            self.notes.append(text)


def sentences(told: list[Replayed]) -> list[str]:
    """Return what was done about what dead processes had left, for people."""
    return [f"left over from a process that has ended: {one.knob} {one.text}" for one in told]
