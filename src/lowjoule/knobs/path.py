"""The order in which knobs are turned on the way from one setting to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowjoule.errors import InvalidValueError
from lowjoule.knobs.knob import Knob
from lowjoule.knobs.rules import Rule, allowed
from lowjoule.knobs.setting import Setting


def path(
    start: Setting, goal: Setting, rules: tuple[Rule, ...] = (), knobs: Iterable[Knob] = ()
) -> list[Setting]:
    """Return the settings to write, one knob at a time, so that each meets `rules`.

    The last one is `goal` (completed by the knobs that only `start` names); the list is empty
    when nothing changes. A driver refuses a minimum above a maximum even for a moment, so the
    order matters. Where no order of the changes alone is valid, the shortest way through other
    values of the changed knobs is taken, if their domains are given as `knobs` (a micro-batch
    goes from 2 of 4 to 3 of 9 over 1). Raises `InvalidValueError` where there is no way.
    """
    end = start.replace(**dict(goal))
    changed = start.changed(end)
    direct = _in_order(start, goal, changed, rules, set())
    if direct is not None:
        return direct
    turnable = [knob for knob in knobs if knob.name in changed]
    detour = _shortest(start, end, turnable, rules)
    if detour is not None:
        return detour
    reasons = "; ".join(rule.reason() for rule in rules)
    raise InvalidValueError(
        f"no order of changes leads from {dict(start)} to {dict(end)}",
        cure=f"choose a goal that keeps to the rules: {reasons}",
    )


def _in_order(
    here: Setting,
    goal: Setting,
    left: tuple[str, ...],
    rules: Sequence[Rule],
    dead: set[frozenset[str]],
) -> list[Setting] | None:
    """Return the first valid order of the changes that are `left`; `dead` remembers dead ends."""
    if not left:
        return []
    if frozenset(left) in dead:
        return None
    steps = [here.replace(**{name: goal[name]}) for name in left]
    for name, step, good in zip(left, steps, allowed(steps, rules), strict=True):
        if good:
            others = tuple(one for one in left if one != name)
            rest = _in_order(step, goal, others, rules, dead)
            if rest is not None:
                return [step, *rest]
    dead.add(frozenset(left))
    return None


def _shortest(
    start: Setting, goal: Setting, knobs: Sequence[Knob], rules: Sequence[Rule]
) -> list[Setting] | None:
    """Return a shortest way through the domains of `knobs`, breadth first."""
    came_from: dict[Setting, Setting | None] = {start: None}
    layer = [start]
    while layer and goal not in came_from:
        steps: dict[Setting, Setting] = {}
        for here in layer:
            for knob in knobs:
                for value in knob.values:
                    steps.setdefault(here.replace(**{knob.name: value}), here)
        new = [step for step in steps if step not in came_from]
        layer = [step for step, good in zip(new, allowed(new, rules), strict=True) if good]
        came_from |= {step: steps[step] for step in layer}
    if goal not in came_from:
        return None
    way = [goal]
    while (before := came_from[way[-1]]) is not None:
        way.append(before)
    return way[-2::-1]
