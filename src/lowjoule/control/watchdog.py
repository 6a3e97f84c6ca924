"""The watchdog of one process: it waits for its death and puts back what it had turned.

    python -c "...watchdog.main" PID START FOLDER

It knows its client by number and start, holds no descriptor of it, and looks at a device only
to put something back. It ends when its client has ended, or has had nothing in the journal for
a while.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lowjoule.clock import WallClock
from lowjoule.control.guard import lock_path
from lowjoule.control.journal import Entry, Journal
from lowjoule.control.locks import FileLock, LockedError
from lowjoule.control.process import start_of
from lowjoule.errors import LowjouleError

if TYPE_CHECKING:
    from lowjoule.control.replay import Replayed
    from lowjoule.devices.interface import Device

_LOOK_S = 2.0
_NO_ENTRY_LOOK_S = 0.2
_POLL_S = 0.2  # without pidfd
_IDLE_S = 10.0
_LEAST_LOOK_S = 0.02
_RETRIES_S = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def main(arguments: Sequence[str]) -> None:
    """Watch over process PID that began at START and has its journal in FOLDER."""
    pid, start, folder = int(arguments[0]), arguments[1] or None, Path(arguments[2])
    read, write = os.pipe()
    if os.fork() > 0:
        # whoever started us goes on once the watch has begun
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    Watchdog(pid, start, Journal(folder)).run(lambda: os.close(write))


class Watchdog:
    """Waits for the end of a process, or of its progress, and puts back what it had turned."""

    def __init__(
        self, pid: int, start: str | None, journal: Journal, *, idle_s: float = _IDLE_S
    ) -> None:
        self._pid = pid
        self._start = start
        self._journal = journal
        self._idle_s = idle_s
        self._clock = WallClock()
        self._client = _Client(pid, start)
        self._beats: dict[str, tuple[tuple[int, int], float]] = {}

    def run(self, begun: Callable[[], None] | None = None) -> None:
        """Watch until there is nothing left to watch; `begun` is called once, at the start."""
        lock = lock_path(self._journal.folder, self._pid, self._start)
        while True:
            try:
                with FileLock(lock, wait_s=1.0):
                    if begun is not None:
                        begun()
                        begun = None
                    ended = self._watch()
                    with contextlib.suppress(OSError):
                        lock.unlink()
                    _tidy(self._journal.folder)
            except (LockedError, OSError):
                return
            # the client may have written between our last look and the end of our lock
            if ended or not self._mine():
                return

    def _watch(self) -> bool:
        """Return True when the client has ended and is cleaned up after, False when it is idle."""
        idle_since_s = self._clock.now_s()
        while True:
            mine = self._mine()
            if mine:
                idle_since_s = self._clock.now_s()
            elif self._clock.now_s() - idle_since_s >= self._idle_s:
                return False
            if self._client.ended_within(self._interval_s(mine)):
                self._finish()
                return True
            self._expire()

    def _mine(self) -> list[Entry]:
        found = (one for one in self._journal.entries() if isinstance(one, Entry))
        return [one for one in found if one.owner.is_process(self._pid, self._start)]

    def _interval_s(self, entries: list[Entry]) -> float:
        # the first entry comes right after the start, and may expire soon
        look_s = _LOOK_S if entries else _NO_ENTRY_LOOK_S
        limits = [one.expires_s / 4 for one in entries if one.expires_s and not one.expired]
        return max(_LEAST_LOOK_S, min([look_s, self._idle_s, *limits]))

    def _finish(self) -> None:
        """Put back all that the client had turned; again and again for what is refused."""
        from lowjoule.control.replay import Outcome, replay_device

        for delay_s in _RETRIES_S:
            self._clock.sleep(delay_s)
            mine = self._mine()
            if not mine:
                return
            for uuid in sorted({one.uuid for one in mine}):
                entries = [one for one in mine if one.uuid == uuid]
                for told in replay_device(self._journal, entries, _opened):
                    if told.outcome is not Outcome.HELD:
                        self._log(told, "ended")

    def _expire(self) -> None:
        """Put back what was turned by claims that make no progress any more."""
        from_s = self._clock.now_s()
        for entry in self._mine():
            if not entry.expires_s or entry.expired:
                continue
            key = f"{entry.uuid} {entry.knob}"
            beat = self._beat(entry)
            if key not in self._beats or self._beats[key][0] != beat:
                # by our own clock: that of files may be set
                self._beats[key] = (beat, from_s)
            elif from_s - self._beats[key][1] >= entry.expires_s:
                self._expire_one(entry, beat)

    def _beat(self, entry: Entry) -> tuple[int, int]:
        try:
            found = self._journal.path(entry.uuid, entry.knob).stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_ino)

    def _expire_one(self, entry: Entry, beat: tuple[int, int]) -> None:
        from lowjoule.control.replay import expire

        # a client that hangs in a write has the lock, and is looked at again
        with (
            contextlib.suppress(LowjouleError),
            self._journal.locked(entry.uuid, entry.knob, wait_s=0.0),
        ):
            now = self._journal.find(entry.uuid, entry.knob)
            if isinstance(now, Entry) and self._beat(now) == beat:
                told = expire(self._journal, now, _opened)
                if told is not None:
                    self._log(told, f"made no progress in {entry.expires_s:g} s")

    def _log(self, told: Replayed, why: str) -> None:
        when = datetime.fromtimestamp(self._clock.unix_s(), UTC).isoformat(timespec="seconds")
        self._journal.log(
            f"{when} process {self._pid} {why}: {told.knob} of {told.model} ({told.uuid}) "
            f"{told.text} [{told.outcome}]"
        )


class _Client:
    """A process that ends some time."""

    def __init__(self, pid: int, start: str | None) -> None:
        self._pid = pid
        self._start = start
        self._poll: select.poll | None = None
        self._clock = WallClock()
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # gone already, or a kernel without
                handle = os.pidfd_open(pid)
                self._poll = select.poll()
                self._poll.register(handle, select.POLLIN)
        # looked at once the handle is open: from here on the number cannot be another's
        self._gone = not self._runs()

    def ended_within(self, limit_s: float) -> bool:
        """Return True once the process has ended, False after `limit_s`."""
        if self._gone:
            return True
        if self._poll is not None:
            return bool(self._poll.poll(limit_s * 1e3))
        end_s = self._clock.now_s() + limit_s
        while self._runs():
            left_s = end_s - self._clock.now_s()
            if left_s <= 0:
                return False
            self._clock.sleep(min(_POLL_S, left_s))
        return True

    def _runs(self) -> bool:
        if self._start is not None:
            return start_of(self._pid) == self._start
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


def _tidy(folder: Path) -> None:
    """Remove the locks of watchdogs that were killed, those whose clients are gone."""
    with contextlib.suppress(OSError):
        for path in folder.glob("watchdog-*.lock"):
            _, pid, start = path.stem.split("-")
            if start_of(int(pid)) != start:
                path.unlink(missing_ok=True)


def _opened(spec: str) -> Device:
    from lowjoule.devices.registry import open_device

    return open_device(spec)
