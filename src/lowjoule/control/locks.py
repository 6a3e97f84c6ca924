"""Locks on files that die with the process that took them.

They are the process's own (POSIX record locks): children that a `fork` left behind do not keep
them, as they would keep `flock`. Between the threads of a process they say nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO

from lowjoule.clock import WallClock

_POLL_S = 0.005


class LockedError(Exception):
    """Another process has the lock; `holder` is what it wrote there."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock(contextlib.AbstractContextManager["FileLock"]):
    """A lock on the file at `path`, in which `holder` is written; waits for at most `wait_s`.

    Raises `LockedError` when another process has it, and `OSError`. Where the system has no
    such locks nothing is locked.
    """

    def __init__(self, path: Path, holder: str = "", wait_s: float = 0.0) -> None:
        self.path = path
        self.holder = holder
        self._wait_s = wait_s
        self._file: IO[str] | None = None

    def __enter__(self) -> FileLock:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - not on POSIX
            return self
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a+", encoding="utf-8", errors="replace")
        clock = WallClock()
        end_s = clock.now_s() + self._wait_s
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if clock.now_s() >= end_s:
                    with file:
                        file.seek(0)
                        raise LockedError(file.read(200).strip()) from None
                clock.sleep(_POLL_S)
        self._file = file
        if self.holder:
            file.truncate(0)
            file.write(self.holder)
            file.flush()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def is_locked(path: Path) -> bool:
    """Whether another process has the lock at `path`; not to be asked of a lock of one's own."""
    if not path.exists():
        return False
    try:
        with FileLock(path):
            return False
    except LockedError:
        return True
