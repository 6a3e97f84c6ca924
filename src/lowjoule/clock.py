"""Clocks: the only place where time is read or slept away.

Everything that needs the time is handed a `Clock`, so that a simulation or a test runs through
hours in milliseconds and a real run uses the same code.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time, time of day, and waiting."""

    def now_s(self) -> float:
        """Return monotonic seconds from an arbitrary start."""
        ...

    def unix_s(self) -> float:
        """Return seconds since 1970-01-01 UTC; for labels, never for durations."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Let `duration_s` seconds pass; nothing happens when it is not positive."""
        ...


class WallClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def unix_s(self) -> float:
        """Return `time.time()`."""
        return time.time()

    def sleep(self, duration_s: float) -> None:
        """Sleep for real."""
        if duration_s > 0:
            time.sleep(duration_s)


class VirtualClock:
    """A clock that moves only when told, at no cost in real time."""

    def __init__(self, start_unix_s: float = 0.0) -> None:
        self._start_unix_s = start_unix_s
        self._now_s = 0.0

    def now_s(self) -> float:
        """Return the seconds slept so far."""
        return self._now_s

    def unix_s(self) -> float:
        """Return the start's time of day plus the seconds slept so far."""
        return self._start_unix_s + self._now_s

    def sleep(self, duration_s: float) -> None:
        """Move the clock forward by `duration_s` when it is positive."""
        if duration_s > 0:
            self._now_s += duration_s
