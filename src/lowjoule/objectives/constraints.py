"""The constraints that come with lowjoule: bounds on a figure, relative to the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.objectives.standard import baseline_of
from lowjoule.quantities import Unit, show


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
        return (
            f"slowdown<={self.ratio:.4g}"
            if abs(self.ratio) < 1e-4
            else f"slowdown<={self.ratio * 100:.4g}%"
        )

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the allowed time, each row is too slow."""
        allowed_s = baseline_of(baseline, "a slowdown").time_s * (1.0 + self.ratio)
        return np.asarray(outcome.time_s / allowed_s - 1.0)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The work, as large as the figures are for, takes at most `time_s`."""

    time_s: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.time_s, "time")

    @property
    def text(self) -> str:
        """The text form."""
        return f"deadline<={show(self.time_s, Unit.SECOND)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the deadline, each row is late."""
        return np.asarray(outcome.time_s / self.time_s - 1.0)


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
        return f"power<={show(self.max_w, Unit.WATT)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row draws too much."""
        return np.asarray(outcome.power_w / self.max_w - 1.0)


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
        return f"peak_power<={show(self.max_w, Unit.WATT)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row's peak is too high."""
        return np.asarray(_column(outcome.peak_power_w, "peak power") / self.max_w - 1.0)


@dataclass(frozen=True, slots=True)
class EnergyBudget:
    """The work, as large as the figures are for, takes at most `energy_j`."""

    energy_j: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self.energy_j, "energy")

    @property
    def text(self) -> str:
        """The text form."""
        return f"energy<={show(self.energy_j, Unit.JOULE)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the budget, each row takes too much."""
        return np.asarray(outcome.energy_j / self.energy_j - 1.0)


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
        return f"memory<={show(self.max_bytes, Unit.BYTE)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row needs too much."""
        return np.asarray(_column(outcome.memory_bytes, "memory") / self.max_bytes - 1.0)


@dataclass(frozen=True, slots=True)
class LatencyPercentile:
    """The measured latency, of the `percentile` that the column holds, is at most `max_s`.

    A profile keeps one latency a point; `percentile` (99 for p99) is carried for the text.
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
        return f"p{self.percentile:g}<={show(self.max_s, Unit.SECOND)}"

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, of the bound, each row is too late."""
        return np.asarray(_column(outcome.latency_s, "latency") / self.max_s - 1.0)
