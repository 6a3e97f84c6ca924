"""The constraints that come with lowjoule: bounds on a figure, relative to the bound."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.objectives.standard import baseline_of, digits_of
from lowjoule.quantities import Unit, parse, show

_ROUNDING = 1e-12


def _positive(bound: float, what: str) -> None:
    if not 0 < bound < float("inf"):
        raise InvalidValueError(f"a bound of {bound} on {what}", cure="give a positive number")


def _column(values: Floats | None, what: str) -> Floats:
    if values is None:
        raise IncomparableError(
            f"{what} was not measured here",
            cure="drop the constraint or use a device that shows it",
        )
    return values


def _beyond(figures: Floats, bound: Floats | float) -> Floats:
    """Return the excess over `bound`, relative to it; what meets it but for rounding keeps it."""
    excess = figures / bound - 1.0
    return np.asarray(np.where(np.abs(excess) < _ROUNDING, 0.0, excess))


def _written(bound: float, unit: Unit) -> str:
    """Return `bound` for people, as short as it reads back exactly."""
    if unit is Unit.RATIO:
        plain = digits_of(bound) if abs(bound) <= 1.0 else f"{Decimal(repr(bound)).scaleb(2):f}%"
    else:
        plain = digits_of(bound) + unit.value
    for digits in range(1, 18):
        text = show(bound, unit, digits).replace(" ", "")
        if parse(text, unit) == bound:
            return min(text, plain, key=len)
    return plain


@dataclass(frozen=True, slots=True)
class Slowdown:
    """No more than `ratio` slower than the baseline (0.05 is 5 %)."""

    ratio: float
    needs_baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not -1 < self.ratio < float("inf"):
            raise InvalidValueError(f"a slowdown of {self.ratio}", cure="use one like 5%")

    @property
    def text(self) -> str:
        """The text form."""
        return f"slowdown<={_written(self.ratio, Unit.RATIO)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the allowed time, each row is too slow."""
        allowed_s = baseline_of(baseline, "a slowdown").time_s * (1.0 + self.ratio)
        return _beyond(outcome.time_s, allowed_s)


@dataclass(frozen=True, slots=True)
class Deadline:
    """`times` the work that the figures are for takes at most `time_s`."""

    time_s: float
    times: float = 1.0
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.time_s, "time")

    @property
    def text(self) -> str:
        """The text form."""
        return f"deadline<={_written(self.time_s, Unit.SECOND)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the deadline, each row is late."""
        return _beyond(outcome.time_s * self.times, self.time_s)

    def over(self, times: float) -> Deadline:
        """Return the same bound on `times` the work of the figures."""
        return Deadline(self.time_s, times)


@dataclass(frozen=True, slots=True)
class Power:
    """Average power of at most `max_w`."""

    max_w: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.max_w, "power")

    @property
    def text(self) -> str:
        """The text form."""
        return f"power<={_written(self.max_w, Unit.WATT)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row draws too much."""
        return _beyond(outcome.power_w, self.max_w)


@dataclass(frozen=True, slots=True)
class PeakPower:
    """Peak power of at most `max_w`."""

    max_w: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.max_w, "peak power")

    @property
    def text(self) -> str:
        """The text form."""
        return f"peak_power<={_written(self.max_w, Unit.WATT)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row's peak is too high."""
        return _beyond(_column(outcome.peak_power_w, "peak power"), self.max_w)


@dataclass(frozen=True, slots=True)
class EnergyBudget:
    """`times` the work that the figures are for takes at most `energy_j`."""

    energy_j: float
    times: float = 1.0
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.energy_j, "energy")

    @property
    def text(self) -> str:
        """The text form."""
        return f"energy<={_written(self.energy_j, Unit.JOULE)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the budget, each row takes too much."""
        return _beyond(outcome.energy_j * self.times, self.energy_j)

    def over(self, times: float) -> EnergyBudget:
        """Return the same bound on `times` the work of the figures."""
        return EnergyBudget(self.energy_j, times)


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory of at most `max_bytes`."""

    max_bytes: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.max_bytes, "memory")

    @property
    def text(self) -> str:
        """The text form."""
        return f"memory<={_written(self.max_bytes, Unit.BYTE)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row needs too much."""
        return _beyond(_column(outcome.memory_bytes, "memory"), self.max_bytes)


@dataclass(frozen=True, slots=True)
class LatencyPercentile:
    """The measured latency, of the `percentile` that the column holds, is at most `max_s`.

    A profile keeps one latency a point, of whatever percentile it was measured; `percentile` (99
    for p99) is carried for the text.
    """

    max_s: float
    percentile: float = 99.0
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.max_s, "latency")
        if not 0 < self.percentile < 100:
            raise InvalidValueError(f"a percentile of {self.percentile}", cure="use one like p99")

    @property
    def text(self) -> str:
        """The text form."""
        return f"p{self.percentile:g}<={_written(self.max_s, Unit.SECOND)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row is too late."""
        return _beyond(_column(outcome.latency_s, "latency"), self.max_s)
