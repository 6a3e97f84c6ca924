"""Our own column names: what each holds, and the unit that its suffix says.

A name is a quantity and a unit: `time_s`, `energy_mj`, `sm_clock_mhz`; without a unit it is in
SI. The same names are the keys of a mapping from ours to a table's own columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from lowjoule.errors import UnknownNameError
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, MICRO_BATCH, POWER_LIMIT, PRECISION, SM_CLOCK

KNOBS = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK, BATCH_SIZE, MICRO_BATCH, PRECISION)
TEXTS = ("workload", "unit", "device", "variant", "repeat", PRECISION)

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}
_JOULES = {"j": 1.0, "mj": 1e-3, "kj": 1e3, "wh": 3600.0, "kwh": 3.6e6}
_WATTS = {"w": 1.0, "mw": 1e-3, "kw": 1e3}
_HERTZ = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_BYTES = {"bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "mib": 2.0**20, "gib": 2.0**30}
_LEAST_CLOCK_HZ = 1e6


class Domain(Enum):
    """Which numbers a quantity can be."""

    POSITIVE = "a positive number"
    NOT_NEGATIVE = "a number that is not negative"
    WHOLE = "a positive whole number"
    CLOCK = "a clock of at least 1 MHz"

    def holds(self, value: float) -> bool:
        """Return whether the finite number `value`, in SI, is one of these."""
        if self is Domain.NOT_NEGATIVE:
            return value >= 0
        if self is Domain.WHOLE:
            return 1 <= value <= 2**53 and value == math.floor(value)
        return value >= _LEAST_CLOCK_HZ if self is Domain.CLOCK else value > 0


_QUANTITIES: dict[str, tuple[dict[str, float], Domain]] = {
    "time": (_SECONDS, Domain.POSITIVE),
    "energy": (_JOULES, Domain.POSITIVE),
    "power": (_WATTS, Domain.POSITIVE),
    "peak_power": (_WATTS, Domain.POSITIVE),
    "wait_power": (_WATTS, Domain.NOT_NEGATIVE),
    "latency": (_SECONDS, Domain.POSITIVE),
    "memory": (_BYTES, Domain.POSITIVE),
    "time_sd": (_SECONDS, Domain.NOT_NEGATIVE),
    "energy_sd": (_JOULES, Domain.NOT_NEGATIVE),
    "windows": ({}, Domain.WHOLE),
    "work": ({}, Domain.POSITIVE),
    POWER_LIMIT: (_WATTS, Domain.POSITIVE),
    SM_CLOCK: (_HERTZ, Domain.CLOCK),
    MEMORY_CLOCK: (_HERTZ, Domain.CLOCK),
    BATCH_SIZE: ({}, Domain.WHOLE),
    MICRO_BATCH: ({}, Domain.WHOLE),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One of our columns: the quantity and the factor from its unit to SI; 0 for a text."""

    quantity: str
    factor: float

    @property
    def domain(self) -> Domain | None:
        """Which numbers it can hold; None for a text."""
        return _QUANTITIES[self.quantity][1] if self.factor else None


def ours(name: str) -> Column | None:
    """Return the column of ours that `name` names, or None."""
    if name in TEXTS:
        return Column(name, 0.0)
    if name in _QUANTITIES:
        return Column(name, 1.0)
    quantity, _, suffix = name.rpartition("_")
    units, _ = _QUANTITIES.get(quantity, ({}, None))
    return Column(quantity, units[suffix]) if suffix in units else None


def named(name: str) -> Column:
    """Return the column of ours that `name` names; raises `UnknownNameError`."""
    column = ours(name)
    if column is None:
        raise UnknownNameError.among("column of a table", name, _every_name())
    return column


def _every_name() -> list[str]:
    names = list(TEXTS)
    for quantity, (units, _) in _QUANTITIES.items():
        names += [f"{quantity}_{unit}" for unit in units] or [quantity]
    return names
