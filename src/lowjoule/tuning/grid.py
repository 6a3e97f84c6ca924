"""The settings of a large space that a search looks at: a coarse grid, and fine lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from lowjoule.knobs import Knob, Setting, Space
from lowjoule.tuning.lines import line


def coarse(space: Space, most: int) -> Space:
    """Return `space` with every second value of the knob with most left out while it is too large.

    It is too large while its knobs span more than `most` settings; ends and defaults stay, and
    names are never left out.
    """
    knobs = list(space.knobs)
    while prod(len(knob.values) for knob in knobs) > most:
        longest = max(knobs, key=_thinnable)
        if _thinnable(longest) < 4:
            break
        knobs[knobs.index(longest)] = _half(longest)
    return Space(tuple(knobs), space.rules, space.listed)


def _thinnable(knob: Knob) -> int:
    return 0 if isinstance(knob.values[0], str) else len(knob.values)


def _half(knob: Knob) -> Knob:
    # from the top down: that is where defaults and the steepest power are
    kept = {*knob.values[::-2], knob.values[0], knob.default}
    return replace(knob, values=tuple(value for value in knob.values if value in kept))


def lines_through(space: Space, settings: Sequence[Setting]) -> list[Setting]:
    """Return every setting that differs from one of `settings` in a single knob, once."""
    found: dict[Setting, None] = {}
    for here in settings:
        for knob in space.knobs:
            if len(knob.values) > 1:
                found.update(dict.fromkeys(line(space, here, knob)))
    return list(found)
