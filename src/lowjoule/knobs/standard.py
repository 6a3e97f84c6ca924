"""The knobs that every backend and workload shares, and what a change of each takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lowjoule.errors import InvalidValueError
from lowjoule.knobs.knob import Knob, Privilege, Scope, Value
from lowjoule.quantities import Unit

POWER_LIMIT = "power_limit"
MODULE_POWER_LIMIT = "module_power_limit"
SM_CLOCK = "sm_clock"
MEMORY_CLOCK = "memory_clock"
BATCH_SIZE = "batch_size"
MICRO_BATCH = "micro_batch"
PRECISION = "precision"


@dataclass(frozen=True, slots=True)
class _Kind:
    unit: Unit
    scope: Scope
    privilege: Privilege
    changes_learning: bool


_KINDS = {
    POWER_LIMIT: _Kind(Unit.WATT, Scope.LIVE, Privilege.ADMINISTRATOR, False),
    SM_CLOCK: _Kind(Unit.HERTZ, Scope.LIVE, Privilege.ADMINISTRATOR, False),
    MEMORY_CLOCK: _Kind(Unit.HERTZ, Scope.LIVE, Privilege.ADMINISTRATOR, False),
    BATCH_SIZE: _Kind(Unit.COUNT, Scope.RESTART, Privilege.NONE, True),
    MICRO_BATCH: _Kind(Unit.COUNT, Scope.STEP, Privilege.NONE, False),
    PRECISION: _Kind(Unit.NONE, Scope.RESTART, Privilege.NONE, True),
}

STANDARD_NAMES = tuple(_KINDS)


def standard_knob(
    name: str, values: Iterable[Value], default: Value, *, latency_s: float = 0.0
) -> Knob:
    """Return the knob of a standard `name` over `values`; numbers are sorted, repeats dropped.

    A name that is not standard gives a plain live count.
    """
    kind = _KINDS.get(name, _Kind(Unit.NONE, Scope.LIVE, Privilege.NONE, False))
    unique = tuple(dict.fromkeys(values))
    numeric = not any(isinstance(value, str) for value in unique)
    return Knob(
        name=name,
        unit=kind.unit,
        values=tuple(sorted(unique, key=float)) if numeric else unique,
        default=default,
        scope=kind.scope,
        latency_s=latency_s,
        privilege=kind.privilege,
        changes_learning=kind.changes_learning,
    )


def micro_batch_knob(global_batch: int, default: int | None = None) -> Knob:
    """Return the knob of how many samples run at once of a fixed `global_batch`.

    Its values are the divisors: `global_batch / value` micro-batches are accumulated in each
    step, so that what is learned stays the same. By default the batch runs whole.
    """
    if global_batch < 1:
        raise InvalidValueError(f"a global batch of {global_batch}", cure="use one of at least 1")
    small = [n for n in range(1, math.isqrt(global_batch) + 1) if global_batch % n == 0]
    values = {*small, *(global_batch // n for n in small)}
    return standard_knob(MICRO_BATCH, values, global_batch if default is None else default)
