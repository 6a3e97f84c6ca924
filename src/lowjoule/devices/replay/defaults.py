"""The default setting of a table's task: what would be in force if nobody turned a knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowjoule.devices.replay.table import Task, show
from lowjoule.errors import NotMeasuredError
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Setting,
    Value,
    standard_knob,
)

DEVICE_KNOBS = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK)
WORKLOAD_KNOBS = (BATCH_SIZE, MICRO_BATCH, PRECISION)


def chosen(task: Task, knob: str, text: str) -> Value:
    """Return the measured value of `knob` that `text` means; raises `InvalidValueError`."""
    values = task.values(knob)
    return standard_knob(knob, values, values[0]).parse(text)


def default_setting(task: Task, wanted: Mapping[str, str]) -> tuple[Setting, tuple[str, ...]]:
    """Return the default setting of `task`, a measured one, and notes on what was assumed.

    What the user `wanted` (text by knob) comes first; then the published batch size, or the
    largest measured below it, or the median one; the first precision; then the largest limit
    and clocks that were measured with these. Raises `NotMeasuredError` where what the user
    wants was not measured together, `InvalidValueError` where a value was not at all.
    """
    left = list(task.points)
    for knob, text in wanted.items():
        if knob in task.knobs:
            value = chosen(task, knob, text)
            narrowed = [one for one in left if one[knob] == value]
            if not narrowed:
                raise NotMeasuredError(
                    f"{task.name} was not measured at the default {dict(wanted)}",
                    cure=f"{knob} can be one of "
                    + ", ".join(dict.fromkeys(show(one.only([knob])) for one in left)),
                )
            left = narrowed
    notes: list[str] = []
    for knob in (*WORKLOAD_KNOBS, *DEVICE_KNOBS):
        if knob in task.knobs:
            value = _value(task, knob, left, notes)
            left = [one for one in left if one[knob] == value]
    return left[0], tuple(notes)


def _value(task: Task, knob: str, left: Sequence[Setting], notes: list[str]) -> Value:
    values = list(dict.fromkeys(one[knob] for one in left))
    if len(values) == 1:
        return values[0]
    if knob == PRECISION:
        notes.append(f"the default {knob} of {task.name} is assumed: {values[0]}")
        return values[0]
    numbers = sorted(values, key=float)
    if knob == BATCH_SIZE:
        published = task.published.get(knob)
        fitting = [one for one in numbers if published is not None and float(one) <= published]
        if fitting:
            return fitting[-1]
        middle = numbers[0] if published is not None else numbers[(len(numbers) - 1) // 2]
        reason = "the smallest" if published is not None else "the median"
        notes.append(f"the default {knob} of {task.name} is assumed: {middle}, {reason} measured")
        return middle
    return numbers[-1]
