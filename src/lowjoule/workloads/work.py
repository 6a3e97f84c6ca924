"""Amounts of work: time and energy are always of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.quantities import Unit, parse


class WorkUnit(StrEnum):
    """What work is counted in."""

    SAMPLE = "sample"
    TOKEN = "token"
    REQUEST = "request"
    STEP = "step"
    ITERATION = "iteration"
    EPOCH = "epoch"


_AMOUNT = re.compile(rf"\s*(.*?)\s*({'|'.join(unit.value for unit in WorkUnit)})s?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, order=False)
class Work:
    """A positive amount of work; only amounts of equal unit compare or compose.

    Steps and iterations of different batch sizes are different work: count in samples (or
    epochs, a fixed number of samples) when the batch size is among the knobs.
    """

    quantity: float
    unit: WorkUnit

    def __post_init__(self) -> None:
        if not 0 < self.quantity < float("inf"):
            raise InvalidValueError(
                f"an amount of work of {self.quantity} {self.unit.value}", cure="use a positive one"
            )

    def ratio(self, other: Work) -> float:
        """Return how many times `other` this is; raises `IncomparableError` on other units."""
        self.check(other)
        return self.quantity / other.quantity

    def check(self, other: Work) -> None:
        """Raise `IncomparableError` unless `other` is of the same unit."""
        if self.unit is not other.unit:
            raise IncomparableError(
                f"work in {self.unit.value}s does not compare with work in {other.unit.value}s",
                cure="express both in one unit",
            )

    def __mul__(self, factor: float) -> Work:
        return Work(self.quantity * factor, self.unit)

    def __add__(self, other: Work) -> Work:
        self.check(other)
        return Work(self.quantity + other.quantity, self.unit)

    def __str__(self) -> str:
        plural = "" if self.quantity == 1 else "s"
        return f"{self.quantity:g} {self.unit.value}{plural}"


def parse_work(text: str) -> Work:
    """Return the amount that `text` ("100 epochs", "1.5M samples") means.

    Raises `InvalidValueError` for anything else, and for an amount that is not positive.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        units = ", ".join(f"{unit.value}s" for unit in WorkUnit)
        raise InvalidValueError(
            f"{text[:40]!r} is not an amount of work",
            cure=f"write it like 100 epochs or 1.5M samples, in {units}",
        )
    return Work(parse(match[1], Unit.COUNT), WorkUnit(match[2]))
