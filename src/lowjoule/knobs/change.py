"""What it takes to go from one setting to another."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.knobs.knob import Privilege, Scope
from lowjoule.knobs.setting import Setting
from lowjoule.knobs.space import Space


@dataclass(frozen=True, slots=True)
class Change:
    """The knobs that are turned, and what the dearest of them takes.

    Knobs that change together wait for the slowest and for the widest scope, not for the sum.
    """

    names: tuple[str, ...] = ()
    scope: Scope = Scope.LIVE
    latency_s: float = 0.0
    privilege: Privilege = Privilege.NONE
    changes_learning: bool = False


def change_between(start: Setting, goal: Setting, space: Space) -> Change:
    """Return what changing from `start` to `goal` (which may name only some knobs) takes.

    Raises `UnknownNameError` for a knob that `space` does not have.
    """
    knobs = [space.knob(name) for name in start.changed(goal)]
    if not knobs:
        return Change()
    privileged = any(knob.privilege is Privilege.ADMINISTRATOR for knob in knobs)
    return Change(
        names=tuple(knob.name for knob in knobs),
        scope=max(knob.scope for knob in knobs),
        latency_s=max(knob.latency_s for knob in knobs),
        privilege=Privilege.ADMINISTRATOR if privileged else Privilege.NONE,
        changes_learning=any(knob.changes_learning for knob in knobs),
    )
