"""Quantities as people write them ("6h", "300W", "1.2GHz", "2kWh", "15ms", "5%") and SI numbers.

Conversions live here, at the edge: everything inside the package is in seconds, watts, joules,
hertz, bytes and plain ratios.
"""

from __future__ import annotations

import math
import re
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


_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}


def _scaled(symbol: str, *tables: dict[str, float]) -> dict[str, float]:
    return {p + symbol: f for table in tables for p, f in table.items()}


_BINARY = {p + "iB": 1024.0**n for n, p in enumerate(("K", "M", "G", "T", "P"), start=1)}

_SPELLINGS: dict[Unit, dict[str, float]] = {
    Unit.SECOND: _scaled("s", _SMALL)
    | {"min": 60.0, "h": 3600.0, "d": 86400.0}
    | {"sec": 1.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0, "day": 86400.0, "days": 86400.0},
    Unit.WATT: _scaled("W", _PREFIXES, {"m": 1e-3}),
    Unit.JOULE: _scaled("J", _PREFIXES, {"m": 1e-3})
    | {p + "Wh": f * 3600.0 for p, f in _PREFIXES.items()},
    Unit.HERTZ: _scaled("Hz", _PREFIXES),
    Unit.BYTE: _scaled("B", _PREFIXES) | _BINARY,
    Unit.RATIO: {"%": 0.01, "": 1.0},
    Unit.COUNT: {p: f for p, f in _PREFIXES.items() if p in ("", "k", "M", "G")},
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

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ%]*)\s*")
_COMPOUND = re.compile(
    r"\s*(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m(?:in)?)?\s*(?:(\d+)\s*s)?"
)


def parse(text: str, unit: Unit) -> float:
    """Return the number in SI `unit` that `text` means; "1h30m" is read as a duration too.

    A bare number is taken as already in `unit`. Raises `InvalidValueError` for anything else:
    another unit, an unknown prefix, a number that is not finite.
    """
    spellings = _SPELLINGS[unit]
    match = _TERM.fullmatch(text)
    if match:
        number, suffix = match.groups()
        factor = 1.0 if suffix == "" else spellings.get(suffix)
        if factor is not None and math.isfinite(value := float(number) * factor):
            return value
    if unit is Unit.SECOND and text.strip() and (parts := _COMPOUND.fullmatch(text)):
        factors = (86400.0, 3600.0, 60.0, 1.0)
        value = sum(float(p) * f for p, f in zip(parts.groups(), factors, strict=True) if p)
        if math.isfinite(value):
            return value
    name = unit.name.lower()
    raise InvalidValueError(
        f"{text!r} is not a quantity in {'plain numbers' if unit is Unit.NONE else name + 's'}",
        cure=f"write it like {_EXAMPLES[unit]}",
    )


def show(value: float | None, unit: Unit, digits: int = 3) -> str:
    """Return `value` in SI `unit` for people, with `digits` significant digits; None is "n/a"."""
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    if unit is Unit.RATIO:
        return _digits(value * 100.0, digits) + " %"
    if unit is Unit.SECOND and abs(value) >= 600.0:
        return _long_time(value, digits)
    if unit in (Unit.NONE, Unit.COUNT):
        return _digits(value, digits)
    prefix, factor = _prefix(value, small=unit is Unit.SECOND, digits=digits)
    return f"{_digits(value / factor, digits)} {prefix}{unit.value}"


def _prefix(value: float, *, small: bool, digits: int) -> tuple[str, float]:
    table = (_SMALL if small else {}) | ({} if small else _PREFIXES) | {"": 1.0}
    table.pop("u", None)
    size = abs(float(f"{value:.{digits - 1}e}"))
    fitting = [(p, f) for p, f in table.items() if size >= f]
    if not fitting:
        return min(table.items(), key=lambda item: item[1]) if size else ("", 1.0)
    return max(fitting, key=lambda item: item[1])


def _long_time(value: float, digits: int) -> str:
    for suffix, factor in (("d", 86400.0), ("h", 3600.0)):
        if abs(value) >= factor:
            return f"{_digits(value / factor, digits)} {suffix}"
    return f"{_digits(value / 60.0, digits)} min"


def _digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}" if abs(value) < 1e15 else f"{value:.{digits - 1}e}"
    return text
