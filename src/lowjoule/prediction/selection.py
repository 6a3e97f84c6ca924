"""Which measured tasks can be learned from, and which part of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.prediction.boards import with_limit
from lowjoule.prediction.features import KNOBS, MeasuredTask
from lowjoule.prediction.tasks import prepare


def usable(
    tasks: Sequence[MeasuredTask], clock_anchors: int = 1
) -> tuple[list[MeasuredTask], list[str]]:
    """Return the tasks that can be learned from, and why each other one cannot.

    Of a task in which a knob is turned whose effect cannot be predicted, the settings with that
    knob at its default are kept.
    """
    found, reasons = [], []
    for task in tasks:
        try:
            one = _at_home(task)
            prepare(one, clock_anchors)
        except InvalidValueError as error:
            reasons.append(f"{task.name} is left out: {error.problem}")
            continue
        found.append(one)
    return found, reasons


def _at_home(task: MeasuredTask) -> MeasuredTask:
    profile = task.profile
    home = profile.default or Setting()
    keep = np.ones(len(profile), dtype=np.bool_)
    for name, column in profile.settings.items():
        if name not in KNOBS and name in home:
            keep &= column == home[name]
    device = with_limit(task.device, profile)
    return replace(task, device=device, profile=profile if keep.all() else profile.take(keep))
