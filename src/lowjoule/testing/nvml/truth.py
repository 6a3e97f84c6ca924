"""The true energy of a load, integrated here and not by the library that is under test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Load:
    """A piecewise-constant power from `begin_s` on: points of (seconds since then, W)."""

    begin_s: float
    points: tuple[tuple[float, float], ...]
    period_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cap:
    """What holds from `begin_s` on: the limit, and the share of power that the clock leaves."""

    begin_s: float
    limit_w: float
    clock_share: float = 1.0


def true_energy_j(
    loads: Sequence[Load], caps: Sequence[Cap], idle_w: float, begin_s: float, end_s: float
) -> float:
    """Return the exact integral of what `loads` draw under `caps`, each in order of begin."""
    pieces = []
    for load, (first_s, last_s) in _held(loads, begin_s, end_s):
        for start_s, stop_s, power_w in _steps(load, idle_w, first_s, last_s):
            for cap, (from_s, to_s) in _held(caps, start_s, stop_s):
                pieces.append((to_s - from_s) * drawn_w(power_w, cap, idle_w))
    return math.fsum(pieces)


def drawn_w(power_w: float, cap: Cap, idle_w: float) -> float:
    """Return what a board draws that is asked for `power_w`."""
    above_w = max(0.0, power_w - idle_w)
    return min(power_w - above_w + above_w * cap.clock_share, cap.limit_w)


_Held = TypeVar("_Held", Load, Cap)


def _held(
    things: Sequence[_Held], begin_s: float, end_s: float
) -> Iterator[tuple[_Held, tuple[float, float]]]:
    """Yield each thing with the part of the window in which it holds."""
    for number, thing in enumerate(things):
        last = number + 1 == len(things)
        start_s = begin_s if number == 0 else max(begin_s, thing.begin_s)
        stop_s = end_s if last else min(end_s, things[number + 1].begin_s)
        if start_s < stop_s:
            yield thing, (start_s, stop_s)


def _steps(
    load: Load, idle_w: float, begin_s: float, end_s: float
) -> Iterator[tuple[float, float, float]]:
    """Yield (from, to, power asked for) over the window."""
    if begin_s < load.begin_s:
        yield begin_s, min(end_s, load.begin_s), idle_w
    for start_s, stop_s, power_w in _passes(load, idle_w, begin_s):
        if start_s >= end_s:
            return
        if stop_s > begin_s:
            yield max(start_s, begin_s), min(stop_s, end_s), power_w


def _passes(load: Load, idle_w: float, begin_s: float) -> Iterator[tuple[float, float, float]]:
    """Yield the load's steps, pass after pass, from the pass of `begin_s`."""
    period_s = math.inf if load.period_s is None else load.period_s
    points = [point for point in load.points if point[0] < period_s]
    if not points or points[0][0] > 0.0:
        points.insert(0, (0.0, idle_w))
    ends_s = [point[0] for point in points[1:]] + [period_s]
    first = max(0, math.floor((begin_s - load.begin_s) / period_s) - 1) if load.period_s else 0
    for number in itertools.count(first):
        origin_s = load.begin_s + (number * period_s if load.period_s else 0.0)
        for (start_s, power_w), stop_s in zip(points, ends_s, strict=True):
            yield origin_s + start_s, origin_s + stop_s, power_w
        if not load.period_s:
            return
