"""How often a device is looked at while a window is open."""

from __future__ import annotations

from enum import StrEnum

from lowjoule.metering.trace import Habits

DUTY = 0.03
"""Which part of the time looks may take."""

_FIRST_S = 1e-3  # before anything is known
_LEAST_S = 1e-3  # to wake a thread costs more than most looks
_PER_TICK = 50
_PER_REFRESH = 25
_OF_AGE = 1e-4  # what the edges may be off, relative to the window
_MOST_S = 0.02
_EARLY = 12
_EDGE_S = 3e-5  # a jump of power at the begin is placed by looks that follow one another closely
_GOLDEN = 0.6180339887498949


class Sampling(StrEnum):
    """Who looks at a device between the edges of a window."""

    AUTO = "auto"
    """A thread in real time; on a device in virtual time, looks around the edges."""
    THREAD = "thread"
    EDGES = "edges"
    MANUAL = "manual"
    """Nobody: `Window.poll` is called by who lets the time pass."""


def interval_s(habits: Habits, age_s: float, number: int, *, inside: int, real_time: bool) -> float:
    """Return the time in s until the next look, after `number` looks, `inside` of the last window.

    A fiftieth of a tick places the edges of a window to a hundredth of a tick; a long window needs
    it less exactly. The first looks follow the begin at doubling distances. Looks are dithered, so
    that they are in step neither with the counter nor with a load.
    """
    wanted_s = _FIRST_S
    if habits.tick_s:
        wanted_s = habits.tick_s / _PER_TICK
    elif habits.refresh_s:
        wanted_s = habits.refresh_s / _PER_REFRESH
    if real_time:
        wanted_s = max(wanted_s, _LEAST_S)
    wanted_s = max(wanted_s, min(_OF_AGE * age_s, _MOST_S), habits.read_s / DUTY)
    if inside < _EARLY:
        wanted_s = min(wanted_s, _EDGE_S * 2**inside)
    return wanted_s * (0.5 + number * number * _GOLDEN % 1.0)
