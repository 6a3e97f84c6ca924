"""One thing that can be turned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from lowjoule.errors import InvalidValueError
from lowjoule.quantities import Unit, parse, show

Value = float | int | str


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
    learns, which a tuner leaves alone unless it is told otherwise.
    """

    name: str
    unit: Unit
    values: tuple[Value, ...]
    default: Value
    scope: Scope = Scope.LIVE
    latency_s: float = 0.0
    privilege: Privilege = Privilege.NONE
    changes_learning: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidValueError(f"knob {self.name} has no values", cure="give at least one")
        numbers = [v for v in self.values if not isinstance(v, str)]
        if numbers and (
            len(numbers) != len(self.values)
            or any(a >= b for a, b in zip(numbers, numbers[1:], strict=False))
        ):
            raise InvalidValueError(
                f"the values of knob {self.name} are not strictly ascending numbers",
                cure="sort them and drop repeated ones",
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
        numbers = [float(v) for v in self.values]
        return self.values[min(range(len(numbers)), key=lambda i: abs(numbers[i] - value))]

    def parse(self, text: str) -> Value:
        """Return the value that `text` ("250W", "1.2GHz", "64", "bf16") means for this knob."""
        if isinstance(self.values[0], str):
            self.index(text)
            return text
        value = parse(text, self.unit)
        for known in self.values:
            if known == value:
                return known
        return self.values[self.index(value)]

    def show(self, value: Value) -> str:
        """Return `value` for people, with its unit."""
        return value if isinstance(value, str) else show(float(value), self.unit, digits=4)

    def describe(self) -> str:
        """Return the domain in a few words."""
        shown = [self.show(value) for value in self.values]
        return ", ".join(shown) if len(shown) <= 6 else f"{shown[0]}, {shown[1]} ... {shown[-1]}"
