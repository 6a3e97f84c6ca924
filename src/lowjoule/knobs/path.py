"""The order in which knobs are turned on the way from one setting to another."""

from __future__ import annotations

import itertools

from lowjoule.errors import InvalidValueError
from lowjoule.knobs.setting import Setting
from lowjoule.knobs.space import Rule, columns_of


def path(start: Setting, goal: Setting, rules: tuple[Rule, ...] = ()) -> list[Setting]:
    """Return the settings to write, one knob at a time, so that each meets `rules`.

    The last one is `goal` (completed by the knobs that only `start` names); the list is empty
    when nothing changes. A driver refuses a minimum above a maximum even for a moment, so the
    order matters. Raises `InvalidValueError` where no order is valid.
    """
    changed = start.changed(goal)
    for order in itertools.permutations(changed):
        steps = []
        here = start
        for name in order:
            here = here.replace(**{name: goal[name]})
            steps.append(here)
        if all(rule.allows(columns_of([step]))[0] for step in steps for rule in rules):
            return steps
    raise InvalidValueError(
        f"no order of changes leads from {dict(start)} to {dict(goal)}",
        cure="; ".join(rule.reason() for rule in rules),
    )
