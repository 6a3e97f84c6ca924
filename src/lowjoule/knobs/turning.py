"""Which knobs of a space a tuner may turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowjoule.knobs.space import Space
from lowjoule.knobs.standard import BATCH_SIZE, MICRO_BATCH


def turnable(space: Space, names: Iterable[str] | None = None) -> Space:
    """Return `space` free in `names` alone, by default in what leaves learning and upkeep alone.

    A batch size that is turned runs whole, so the micro-batch is then left out of the space
    unless it is named too (in a table that lists its settings it stays). Raises
    `UnknownNameError` for a name that is no knob there.
    """
    if names is None:
        left_alone = {k.name for k in space.knobs if k.changes_learning or k.upkeep}
        return space.free(set(space.names) - left_alone)
    wanted = set(names)
    free = space.free(wanted)
    if BATCH_SIZE not in wanted or MICRO_BATCH in wanted or space.listed is not None:
        return free
    return replace(free, knobs=tuple(knob for knob in free.knobs if knob.name != MICRO_BATCH))
