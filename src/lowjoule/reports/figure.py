"""A figure as data: what is drawn, before anyone knows on what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lowjoule.quantities import Unit
from lowjoule.source import Source

Floats = NDArray[np.float64]

_MARGIN = 0.05
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SYMBOLS: dict[Unit, tuple[tuple[str, float], ...]] = {
    Unit.SECOND: (
        ("ns", 1e-9),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("min", 60.0),
        ("h", 3600.0),
        ("d", 86400.0),
    ),
    Unit.JOULE: (("µJ", 1e-6), ("mJ", 1e-3), ("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("GJ", 1e9)),
    Unit.WATT: (("mW", 1e-3), ("W", 1.0), ("kW", 1e3), ("MW", 1e6)),
    Unit.HERTZ: (("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)),
    Unit.BYTE: (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)),
    Unit.RATIO: (("%", 0.01),),
}
_LEAST_SHOWN = {Unit.SECOND: 10.0, Unit.HERTZ: 10.0}


class Role(StrEnum):
    """What a series is in a figure; each has its own shape and colour."""

    POINTS = "points"
    LINE = "line"
    SECOND = "second"
    ANCHOR = "anchor"
    DEFAULT = "default"
    CHOSEN = "chosen"

    @property
    def joined(self) -> bool:
        """Whether a line joins the points."""
        return self in (Role.LINE, Role.SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one meaning, in SI units; `hovers` are one text a point, or none at all.

    `x_ends` and `y_ends` are low and high ends of intervals, arrays like `x`; NaN draws none.
    """

    name: str
    role: Role
    x: Floats
    y: Floats
    hovers: tuple[str, ...] = ()
    x_ends: tuple[Floats, Floats] | None = None
    y_ends: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from `low` to `high` in SI; a number is shown divided by `factor`, in `symbol`.

    `names`, where given, stand at 0, 1, 2... in place of numbers.
    """

    label: str
    symbol: str
    factor: float
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()

    @classmethod
    def over(cls, label: str, values: Floats, unit: Unit | str, *, log: bool = False) -> Axis:
        """Return an axis that holds all `values`, finite and at least one, with a margin.

        `unit` is an SI unit, shown with a fitting prefix, or a text that is shown as it is.
        """
        low, high = float(values.min()), float(values.max())
        symbol, factor = _prefix(max(abs(low), abs(high)), unit)
        if log and low > 0:
            margin = max(high / low, 1.2) ** _MARGIN
            return cls(
                label=label,
                symbol=symbol,
                factor=factor,
                low=low / margin,
                high=high * margin,
                log=True,
            )
        span = (high - low) or abs(high) * 0.1 or 1.0
        ends = low - _MARGIN * span, high + _MARGIN * span
        return cls(label=label, symbol=symbol, factor=factor, low=ends[0], high=ends[1])

    @classmethod
    def named(cls, label: str, names: Sequence[str]) -> Axis:
        """Return an axis of names."""
        return cls(
            label=label,
            symbol="",
            factor=1.0,
            low=-0.5,
            high=len(names) - 0.5,
            names=tuple(names),
        )

    @property
    def title(self) -> str:
        """The label with its unit."""
        return f"{self.label} ({self.symbol})" if self.symbol else self.label

    def place(self, values: Floats | float) -> Floats:
        """Return where `values` are, 0 at `low` and 1 at `high`."""
        if self.log:
            return np.asarray(np.log(np.divide(values, self.low)) / np.log(self.high / self.low))
        return np.asarray((np.asarray(values) - self.low) / (self.high - self.low))

    def ticks(self, count: int) -> list[tuple[float, str]]:
        """Return at most about `count` round values in the range, in SI, and their texts."""
        if self.names:
            return [(float(place), name) for place, name in enumerate(self.names)]
        low, high = self.low / self.factor, self.high / self.factor
        values = _log_ticks(low, high, count) if self.log else []
        if len(values) < 2:
            values = _ticks(low, high, count)
        return [(value * self.factor, f"{value:.6g}") for value in values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: axes and series, the provenance of its numbers, and itself in words."""

    title: str
    description: str
    source: Source
    x: Axis
    y: Axis
    series: tuple[Series, ...]

    def thinned(self, most: int) -> Figure:
        """Return the figure with at most `most` points in each series that is no line."""
        return replace(self, series=tuple(_thinned(one, most) for one in self.series))


def _thinned(series: Series, most: int) -> Series:
    count = len(series.x)
    if series.role is not Role.POINTS or count <= most:
        return series
    rows = np.linspace(0, count - 1, most).astype(int)
    return replace(
        series,
        name=f"{series.name} ({most} of {count} drawn)",
        x=series.x[rows],
        y=series.y[rows],
        hovers=tuple(series.hovers[row] for row in rows) if series.hovers else (),
    )


def _prefix(largest: float, unit: Unit | str) -> tuple[str, float]:
    """Return the symbol and factor in which `largest` is a number of a few digits."""
    if not isinstance(unit, Unit):
        if largest <= 0 or 0.1 <= largest < 1e4:
            return unit, 1.0
        thousands = 3 * math.floor(math.log10(largest) / 3)
        return f"1e{thousands} {unit}", 10.0**thousands
    table = _SYMBOLS.get(unit, (("", 1.0),))
    least = _LEAST_SHOWN.get(unit, 1.0)
    fitting = [(s, f) for s, f in table if largest >= f * (least if f > 1.0 else 1.0)]
    return fitting[-1] if fitting else table[0]


def _ticks(low: float, high: float, count: int) -> list[float]:
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in _STEPS if s * power >= raw * (1.0 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    """Return powers of two (the usual batch sizes), every n-th of them so that few are left."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    stride = max(1, math.ceil((last - first + 1) / max(count, 1)))
    return [2.0**power for power in range(first, last + 1, stride)]
