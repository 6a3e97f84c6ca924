"""One thing that can be turned."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from lowjoule.errors import InvalidValueError
from lowjoule.quantities import Unit, parse, show

Value = float | int | str

_SAME = 1e-12
_FEWEST_DIGITS = 4
_MOST_DIGITS = 17
_ALL_SHOWN = 6


class Scope(IntEnum):
    """What a change of a knob takes, from the cheapest to the dearest."""

    LIVE = 0
    STEP = 1
    EPOCH = 2
    RESTART = 3


class Privilege(StrEnum):
    """Whom the hardware lets turn a knob."""

    NONE = "none"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A knob: its unit, its domain, the privilege it needs and what a change takes.

    `values` is the domain, ascending for numbers and in the given order for names; `default` is
    the value in force when nobody turns it. `latency_s` is how long a change takes to show.
    `changes_learning` marks knobs (batch size, precision) whose turning changes what a training
    learns, `upkeep` knobs of how a device is kept (persistence); a tuner leaves both alone unless
    it is told otherwise.
    """

    name: str
    unit: Unit
    values: tuple[Value, ...]
    default: Value
    scope: Scope = Scope.LIVE
    latency_s: float = 0.0
    privilege: Privilege = Privilege.NONE
    changes_learning: bool = False
    upkeep: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidValueError(f"knob {self.name} has no values", cure="give at least one")
        numbers = [v for v in self.values if not isinstance(v, str)]
        if numbers and (
            len(numbers) != len(self.values)
            or not all(math.isfinite(number) for number in numbers)
            or any(a >= b for a, b in itertools.pairwise(numbers))
        ):
            raise InvalidValueError(
                f"the values of knob {self.name} are not strictly ascending numbers",
                cure="sort them and drop repeated ones",
            )
        if len(set(self.values)) != len(self.values):
            raise InvalidValueError(
                f"a value of knob {self.name} is named twice", cure="name each once"
            )
        if not 0 <= self.latency_s < math.inf:
            raise InvalidValueError(
                f"a latency of {self.latency_s} s of knob {self.name}", cure="use one from 0 s"
            )
        if self.default not in self.values:
            raise InvalidValueError(
                f"the default {self.default} of knob {self.name} is not among its values",
                cure=f"use one of {self.describe()}",
            )

    def index(self, value: Value) -> int:
        """Return the position of `value` in the domain; raises `InvalidValueError` if absent."""
        try:
            return self.values.index(value)
        except ValueError:
            raise InvalidValueError(
                f"{self.name} cannot be {self.show(value)}", cure=f"it takes {self.describe()}"
            ) from None

    def nearest(self, value: float) -> Value:
        """Return the value of a numeric domain that is closest to `value` (the lower on a tie)."""
        if isinstance(self.values[0], str):
            raise InvalidValueError(
                f"{self.name} has names, of which none is near {value:g}",
                cure=f"it takes {self.describe()}",
            )
        return min(self.values, key=lambda known: abs(float(known) - value))

    def parse(self, text: str) -> Value:
        """Return the value that `text` ("250W", "1.2GHz", "64", "bf16") means for this knob.

        Raises `InvalidValueError` for what is not a quantity or not in the domain.
        """
        if isinstance(self.values[0], str):
            name = text.strip()
            return self.values[self.index(name)]
        value = parse(text, self.unit)
        near = self.nearest(value)
        # "1.335GHz" may differ from 1335 MHz in the last bit
        same = math.isclose(value, float(near), rel_tol=_SAME)
        return near if same else self.values[self.index(value)]

    def show(self, value: Value) -> str:
        """Return `value` for people, with its unit, in digits enough for `parse`."""
        if isinstance(value, str):
            return value
        number = float(value)
        for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
            text = show(number, self.unit, digits)
            if not math.isfinite(number) or math.isclose(
                parse(text, self.unit), number, rel_tol=_SAME
            ):
                return text
        return show(number, self.unit, _MOST_DIGITS)

    def describe(self) -> str:
        """Return the domain in a few words."""
        if len(self.values) <= _ALL_SHOWN:
            return ", ".join(self.show(value) for value in self.values)
        first, second, *_, last = self.values
        return f"{self.show(first)}, {self.show(second)} ... {self.show(last)}"
