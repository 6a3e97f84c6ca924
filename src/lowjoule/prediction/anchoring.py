"""Anchors for a space: measured settings with a value for each of its knobs, and what they lack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting, Space
from lowjoule.prediction.features import KNOBS, anchor_settings
from lowjoule.profile import Profile


def anchors_for(profile: Profile, space: Space) -> Profile:
    """Return the points of `profile` as anchors for `space`: a knob they do not name is at home.

    Points with another value of a knob that `space` holds and whose effect is not predicted are
    left out. Raises `InvalidValueError` where none is left, or a value is text where the space has
    numbers.
    """
    columns = {}
    keep = np.ones(len(profile), dtype=np.bool_)
    for knob in space.knobs:
        column = profile.settings.get(knob.name)
        if column is None:
            column = np.full(len(profile), knob.default)
        if (column.dtype.kind in "OU") != isinstance(knob.default, str):
            raise InvalidValueError(
                f"{knob.name} is {column[0]!r} in the anchors and {knob.default!r} here",
                cure="give anchors of the same knobs",
            )
        columns[knob.name] = column
        if knob.name not in KNOBS and len(knob.values) == 1:
            keep &= column == knob.default
    if not keep.any():
        held = [k.name for k in space.knobs if k.name not in KNOBS and len(k.values) == 1]
        raise InvalidValueError(
            f"no anchor has the default of {', '.join(held)}", cure="measure one that has"
        )
    found = Profile(
        work=profile.work,
        time_s=profile.time_s,
        energy_j=profile.energy_j,
        settings=columns,
        source=profile.source,
        sources=profile.sources,
    )
    return found.take(keep)


def at_settings(profile: Profile, settings: Sequence[Setting]) -> Profile:
    """Return the points of `profile` at some settings of its knobs."""
    wanted = set(settings)
    rows = [row for row in range(len(profile)) if profile.setting(row) in wanted]
    return profile.take(np.array(rows, dtype=np.intp))


def lacking(space: Space, anchors: Profile | None) -> tuple[Setting, ...]:
    """Return the settings worth measuring that `anchors` (None is no anchor at all) do not have.

    They are those of `anchor_settings`, and for each predicted knob that none of them turns the
    middle of its values.
    """
    names = [knob.name for knob in space.knobs]
    worth = dict.fromkeys(anchor_settings(space))
    for knob in space.knobs:
        if knob.name in KNOBS and len({one[knob.name] for one in worth}) == 1 < len(knob.values):
            line = space.line(space.default, knob.name)
            worth[line[len(line) // 2] if len(line) > 2 else line[0]] = None
    known: set[Setting] = set()
    if anchors is not None:
        known = {anchors.setting(row).only(names) for row in range(len(anchors))}
    return tuple(one for one in worth if one not in known)
