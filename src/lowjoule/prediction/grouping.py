"""Which tasks are of one model: what no split may share.

One network on two data sets, with two optimisers or on three boards is one model. Names tell:
those that share a part between slashes (squad/bert, sst2/bert) are taken to be one, which may put
too many together but never takes a model apart; a pattern says it exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lowjoule.errors import InvalidValueError
from lowjoule.prediction.features import MeasuredTask

_REPEAT = re.compile(r"#\d+$")
_SIGNS = re.compile(r"[^a-z0-9.]+")


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a workload's name by which it is told to be of the same model.

    They are between slashes, without the number of a repetition (`sort#2`), in lower case and with
    one kind of hyphen.
    """
    parts = (_SIGNS.sub("-", _REPEAT.sub("", one).casefold()).strip("-") for one in name.split("/"))
    return tuple(dict.fromkeys(one for one in parts if one)) or (name,)


def matched(name: str, pattern: str) -> tuple[str, ...]:
    """Return what `pattern`, a regular expression, finds in `name`: its first group, or all of it.

    Raises `InvalidValueError` where it finds nothing or is no regular expression.
    """
    try:
        found = re.search(pattern, name)
    except re.error as error:
        raise InvalidValueError(
            f"{pattern!r} is no regular expression ({error})", cure="correct it, or leave it out"
        ) from None
    if found is None:
        raise InvalidValueError(
            f"{pattern!r} finds no model in the name {name!r}",
            cure="give a pattern that fits every workload's name",
        )
    return (found[1] if found.re.groups and found[1] else found[0],)


def models(parts: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the model of each task by the parts of its name: tasks that share one are of one.

    A model is called by the part that most of its tasks have.
    """
    home: dict[str, str] = {}

    def root(part: str) -> str:
        while home.setdefault(part, part) != part:
            part = home[part]
        return part

    for own in parts:
        for other in own[1:]:
            home[root(other)] = root(own[0])
    counts = Counter(part for own in parts for part in own)
    # of those that are as frequent the last: data sets come first (squad/bert)
    places = {part: place for own in parts for place, part in enumerate(own)}
    names: dict[str, str] = {}
    for part in sorted(counts, key=lambda one: (-counts[one], -places[one], one)):
        names.setdefault(root(part), part)
    return [names[root(own[0])] for own in parts]


def workload_of(task: MeasuredTask) -> str:
    """Return the name of a task's workload."""
    return task.model if task.workload is None else task.workload.name


def grouped(tasks: Sequence[MeasuredTask], pattern: str | None = None) -> list[MeasuredTask]:
    """Return `tasks` with the models that their workloads' names tell, or `pattern` finds there.

    Where a workload says its model, that is what counts. Raises as `matched`.
    """

    def parts(task: MeasuredTask) -> tuple[str, ...]:
        if pattern is not None:
            return matched(workload_of(task), pattern)
        told = None if task.workload is None else task.workload.model
        return parts_of(told or workload_of(task))

    named = models([parts(task) for task in tasks])
    return [replace(task, model=model) for task, model in zip(tasks, named, strict=True)]
