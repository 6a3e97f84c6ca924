"""Processes by number and start, so that a number used again is not taken for its first owner."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

BOOT = "LOWJOULE_BOOT_ID"  # for tests of a reboot
_PROC = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/PID/stat behind the name, which may hold anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, and what it was doing; None is "this system does not tell".

    `start` is when it began, in ticks since the boot called `boot_id`; `namespace` tells whose
    numbers of processes its `pid` is one of.
    """

    pid: int
    start: str | None
    namespace: str | None
    boot_id: str | None
    name: str

    @property
    def text(self) -> str:
        """What people are told of it."""
        return f"{self.name} (process {self.pid})"

    def is_process(self, pid: int, start: str | None) -> bool:
        """Whether this is the process `pid` of this boot that began at `start`."""
        return (self.pid, self.start, self.boot_id) == (pid, start, boot_id())

    def lives(self) -> bool | None:
        """Whether the process still runs; None where its numbers are not of this namespace."""
        if self.boot_id != boot_id():
            return False
        if self.namespace != _namespace():
            return None
        if self.start is not None:
            return start_of(self.pid) == self.start
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


def this_process(name: str) -> Owner:
    """Return this process as an owner that does `name`."""
    return Owner(
        pid=os.getpid(),
        start=start_of(os.getpid()),
        namespace=_namespace(),
        boot_id=boot_id(),
        name=name,
    )


def start_of(pid: int) -> str | None:
    """Return when the process `pid` began, None where it is gone, or dead and not yet waited for.

    The text is to be compared and means nothing else.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _START or fields[_STATE] in {"Z", "X", "x"}:
        return None
    return fields[_START]


def boot_id() -> str | None:
    """Return the name of this run of the system, None where it has none."""
    if named := os.environ.get(BOOT):
        return named
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None
