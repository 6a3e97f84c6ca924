"""Quantities as people write them ("6h", "300W", "1.2GHz", "2kWh", "15ms", "5%") and SI numbers.

Conversions live here, at the edge: everything inside the package is in seconds, watts, joules,
hertz, bytes and plain ratios.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

from lowjoule.errors import InvalidValueError


class Unit(StrEnum):
    """The SI unit that a number inside the package is in."""

    SECOND = "s"
    WATT = "W"
    JOULE = "J"
    HERTZ = "Hz"
    BYTE = "B"
    RATIO = "ratio"
    COUNT = "count"
    NONE = ""


_LARGE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL = {"n": 1e-9, "µ": 1e-6, "m": 1e-3}
_ASCII = {"u": 1e-6}
_BINARY = {p + "iB": 1024.0**n for n, p in enumerate(("K", "M", "G", "T", "P"), start=1)}
_LONG_TIMES = {"min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME_NAMES = {"sec": 1.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0} | {
    "day": 86400.0,
    "days": 86400.0,
}


def _scaled(symbol: str, *tables: Mapping[str, float]) -> dict[str, float]:
    return {p + symbol: f for table in tables for p, f in table.items()}


_PARSED: dict[Unit, dict[str, float]] = {
    Unit.SECOND: {"s": 1.0} | _scaled("s", _SMALL, _ASCII) | _LONG_TIMES | _TIME_NAMES,
    Unit.WATT: _scaled("W", _LARGE, _SMALL, _ASCII),
    Unit.JOULE: _scaled("J", _LARGE, _SMALL, _ASCII)
    | {p + "Wh": f * 3600.0 for p, f in _LARGE.items()},
    Unit.HERTZ: _scaled("Hz", _LARGE),
    Unit.BYTE: _scaled("B", _LARGE) | _BINARY,
    Unit.RATIO: {"%": 0.01, "": 1.0},
    Unit.COUNT: _LARGE | {"K": 1e3, "B": 1e9},
    Unit.NONE: {"": 1.0},
}

# What `show` chooses from, ascending.
_SHOWN: dict[Unit, dict[str, float]] = {
    Unit.SECOND: _scaled("s", _SMALL) | {"s": 1.0} | _LONG_TIMES,
    Unit.WATT: _scaled("W", _SMALL, _LARGE),
    Unit.JOULE: _scaled("J", _SMALL, _LARGE),
    Unit.HERTZ: _scaled("Hz", _LARGE),
    Unit.BYTE: _scaled("B", _LARGE),
    Unit.RATIO: {"%": 0.01},
    Unit.COUNT: {"": 1.0},
    Unit.NONE: {"": 1.0},
}

_EXAMPLES = {
    Unit.SECOND: "6h, 90min or 15ms",
    Unit.WATT: "300W or 1.2kW",
    Unit.JOULE: "500J, 3MJ or 2kWh",
    Unit.HERTZ: "1.2GHz or 1410MHz",
    Unit.BYTE: "40GB or 16GiB",
    Unit.RATIO: "5% or 0.05",
    Unit.COUNT: "90 or 1.5M",
    Unit.NONE: "1.5",
}

# [0-9], not \d: float() would take digits of other scripts too, and people mistype them.
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_TERM = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ%]*)\s*")
_COMPOUND = re.compile(
    r"\s*(?:([0-9]+)\s*d)?\s*(?:([0-9]+)\s*h)?\s*(?:([0-9]+)\s*m(?:in)?)?\s*(?:([0-9]+)\s*s)?\s*"
)
_COMPOUND_PARTS = 2
_LONG_S = 600.0
_MOST_DIGITS = 1e15
_EXACT = 1e-12


def parse(text: str, unit: Unit) -> float:
    """Return the number in SI `unit` that `text` means; "1h30m" is read as a duration too.

    A bare number is taken as already in `unit`, a ratio above 1 excepted ("5" would be 500 %,
    and people mean 5 %). Raises `InvalidValueError` for anything else: another unit, an unknown
    prefix, a number that is not finite.
    """
    value = _single(text, unit)
    if unit is Unit.RATIO and value is not None and abs(value) > 1.0 and "%" not in text:
        raise InvalidValueError(
            f"{text.strip()[:40]!r} is a ratio above 1", cure="write it like 5% or 500%"
        )
    if value is None and unit is Unit.SECOND:
        value = _compound(text)
    if value is not None and math.isfinite(value):
        return value
    kind = "a plain number" if unit is Unit.NONE else f"a quantity in {_plural(unit)}"
    shown = text if len(text) <= 40 else text[:40] + "..."
    raise InvalidValueError(f"{shown!r} is not {kind}", cure=f"write it like {_EXAMPLES[unit]}")


def show(value: float | None, unit: Unit, digits: int = 3) -> str:
    """Return `value` in SI `unit` for people; None (and NaN) is "n/a".

    It is rounded to `digits` significant digits, but whole parts are kept ("131072"), and what
    is an integer is written as one ("90", "300 W"). Times of ten minutes and more are in
    minutes, hours or days. `parse` reads it back, within the digits printed.
    """
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    scales = _SHOWN[unit]
    suffix, factor = _scale(_rounded(value, digits), unit, scales)
    number = _digits(value / factor, digits)
    return f"{number} {suffix}".rstrip()


def _plural(unit: Unit) -> str:
    name = unit.name.lower()
    return name if unit is Unit.HERTZ else name + "s"


def _single(text: str, unit: Unit) -> float | None:
    match = _TERM.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    factor = 1.0 if suffix == "" else _factor(suffix, unit)
    if suffix == "%" and factor is not None and 1.0 < abs(float(number)) < _MOST_DIGITS:
        return float(Decimal(number).scaleb(-2))  # in decimal: what is written reads back exactly
    return None if factor is None else float(number) * factor


def _factor(suffix: str, unit: Unit) -> float | None:
    """Return what `suffix` multiplies by; its case may be wrong where that leaves no doubt."""
    known = _PARSED[unit]
    alike = {factor for one, factor in known.items() if one.lower() == suffix.lower()}
    return known.get(suffix, alike.pop() if len(alike) == 1 else None)


def _compound(text: str) -> float | None:
    match = _COMPOUND.fullmatch(text)
    if match is None or sum(part is not None for part in match.groups()) < _COMPOUND_PARTS:
        return None
    factors = (86400.0, 3600.0, 60.0, 1.0)
    parts = zip(match.groups(), factors, strict=True)
    return sum(float(part) * factor for part, factor in parts if part is not None)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def _scale(rounded: float, unit: Unit, scales: Mapping[str, float]) -> tuple[str, float]:
    """Return the largest scale that leaves at least 1 in front of the point, else the smallest."""
    size = abs(rounded)
    if size == 0:
        plain = "%" if unit is Unit.RATIO else unit.value if unit.value in scales else ""
        return plain, scales[plain]
    if unit is Unit.SECOND and 1.0 <= size < _LONG_S:
        return "s", 1.0
    fitting = [(suffix, factor) for suffix, factor in scales.items() if size >= factor]
    return fitting[-1] if fitting else next(iter(scales.items()))


def _digits(value: float, digits: int) -> str:
    """Return `value` with `digits` significant digits, all of its whole part, or scientific."""
    size = abs(_rounded(value, digits))
    if size == 0:
        return "0"
    if size >= _MOST_DIGITS:
        return f"{value:.{digits - 1}e}"
    if math.isclose(value, round(value), rel_tol=_EXACT):
        return f"{value:.0f}"
    exponent = math.floor(math.log10(size))
    if exponent < -digits - 1:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - exponent)}f}"
