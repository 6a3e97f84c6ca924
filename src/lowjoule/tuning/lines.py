"""The lines through a setting, and how far along them a search may look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import Knob, Setting, Space
from lowjoule.knobs.space import columns_of
from lowjoule.objectives.objective import Floats
from lowjoule.tuning.surface import Coordinates

FEW_VALUES = 3  # both neighbours of a value in a single step: nothing to walk along
_ROUNDING = 1e-9


class Lines:
    """Candidates of a linear search: settings that differ from one in a single knob.

    A line is looked at as far as it was told, and beyond by `first_step` of the knob's range; by
    as much again as was told where the best is outermost: steps double while they pay.
    """

    def __init__(self, space: Space, coordinates: Coordinates, first_step: float) -> None:
        self._space = space
        self._coordinates = coordinates
        self._first_step = first_step

    def candidates(
        self, here: Setting, told: list[Setting], failed: list[Setting]
    ) -> list[Setting]:
        """Return the untold settings within reach on the lines through `here`."""
        known = set(told) | set(failed)
        rows = self._coordinates.of(told)
        found: list[Setting] = []
        for k, knob in enumerate(self._space.knobs):
            row = [one for one in line(self._space, here, knob) if one not in known]
            places = [self._coordinates.one(knob, one[knob.name]) for one in row]
            now = self._coordinates.one(knob, here[knob.name])
            bottom, top = self._reach(k, now, rows[:, k], places)
            for one, place in zip(row, places, strict=True):
                if self._coordinates.named[k] or bottom <= place <= top:
                    found.append(one)
        return found

    def rivals(self, told: Sequence[Setting], ranked: Sequence[int]) -> list[Setting]:
        """Return the best told setting of each value of a knob that has few, the best's left out.

        A memory clock or a precision leaves no line to walk along, and its other values may have
        their own best place in the other knobs. `ranked` are rows of `told`, the best first.
        """
        found: list[Setting] = []
        for knob in self._space.knobs:
            if len(knob.values) > FEW_VALUES and not isinstance(knob.values[0], str):
                continue
            seen = {told[ranked[0]][knob.name]}
            for row in ranked:
                if told[row][knob.name] not in seen:
                    seen.add(told[row][knob.name])
                    found.append(told[row])
        return found

    def _reach(self, k: int, now: float, told: Floats, places: list[float]) -> tuple[float, float]:
        """Return the least and largest coordinate of knob `k` to look at; one value at least."""
        low, high = float(told.min()), float(told.max())
        first = self._first_step * self._coordinates.spans[k]
        doubled = max(first, high - low)
        bottom = low - (doubled if now <= low else first)
        top = high + (doubled if now >= high else first)
        beyond = [place for place in places if place > high]
        before = [place for place in places if place < low]
        return min([bottom, *before[-1:]]) - _ROUNDING, max([top, *beyond[:1]]) + _ROUNDING

    def away(self, start: Setting, failed: list[Setting]) -> Setting | None:
        """Return the setting on the lines through `start` that is farthest from all `failed`.

        From all settings where the lines are used up, or pass through none; None at the end.
        """
        known = set(failed)
        knobs = self._space.knobs
        row = [one for knob in knobs for one in line(self._space, start, knob) if one not in known]
        row = row or [one for one in self._space.settings if one not in known]
        if not row:
            return None
        if not failed:
            return row[0]
        spans = np.maximum(np.abs(self._coordinates.spans), 1e-9)
        gaps = self._coordinates.of(row)[:, None, :] - self._coordinates.of(failed)[None, :, :]
        nearest = np.abs(gaps / spans).sum(axis=2).min(axis=1)
        return row[int(np.argmax(nearest))]


def line(space: Space, here: Setting, knob: Knob) -> list[Setting]:
    """Return the allowed settings that differ from `here` at most in `knob`, in its order.

    Asks the space's rules, so that a space too large to list is none too large to search.
    """
    row = [here.replace(**{knob.name: value}) for value in knob.values]
    if space.listed is not None:
        row = [one for one in row if one in space.listed]
    if not row or not space.rules:
        return row
    table = columns_of(row)
    valid = np.ones(len(row), dtype=np.bool_)
    for rule in space.rules:
        valid &= rule.allows(table)
    return [one for one, good in zip(row, valid, strict=True) if good]


def behind_walls(
    rows: Floats, told: int, best: int, worse: NDArray[np.bool_], walls: int = 2
) -> NDArray[np.bool_]:
    """Return which untold rows lie beyond `walls` walls on the way from the row `best`.

    A wall stands at a told row that is worse than another told row of its line, on the side
    away from that one: `worse[i, j]` says that row j is worse than row i. `rows` are
    coordinates, of shape (n, knobs), the first `told` of them told.
    """
    behind = np.zeros(len(rows), dtype=np.bool_)
    tried = rows[:told]
    same = tried[:, None, :] == tried[None, :, :]
    for k in range(rows.shape[1]):
        aligned = np.delete(same, k, axis=2).all(axis=2)
        step = tried[None, :, k] - tried[:, None, k]
        for side in (-1.0, 1.0):
            stands = np.any(worse & aligned & (step * side > 0), axis=0)
            places = np.unique((tried[stands, k] - rows[best, k]) * side)
            ahead = places[places > 0]
            if len(ahead) >= walls:
                behind |= (rows[:, k] - rows[best, k]) * side > ahead[walls - 1]
    behind[:told] = False
    return behind


def unhemmed(rows: Floats, best: int, walls: Floats) -> NDArray[np.bool_]:
    """Return which rows lie from `best` along a knob on a side where none of `walls` stands."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for side in (-1.0, 1.0):
        free = ~np.any((walls - rows[best]) * side > 0, axis=0)
        found |= np.any(((rows - rows[best]) * side > 0) & free, axis=1)
    return found
