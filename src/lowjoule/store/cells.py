"""Values of knobs as text cells that keep integers, floats and names apart."""

from __future__ import annotations

import json
import math
import re

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Value

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


def cell_of(value: Value) -> str:
    """Return the text for `value`: numbers bare, names bare where they cannot be mistaken."""
    if not isinstance(value, str):
        return repr(value)
    return value if _reads_as(value) else json.dumps(value)


def value_of(cell: str) -> Value | None:
    """Return what `cell` says, None for an empty one; raises `InvalidValueError`.

    A text in double quotes is the name that this JSON string means.
    """
    text = cell.strip()
    if not text:
        return None
    if text.startswith('"'):
        return _unquoted(text)
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.nan if text.lower() in _NOT_FINITE else text


def number_of(cell: str) -> float | None:
    """Return the number in `cell`, None for an empty one; raises `InvalidValueError`."""
    value = value_of(cell)
    if not isinstance(value, str):
        return value
    raise InvalidValueError(f"{cell[:40]!r} is not a number", cure="write it like 12.5")


def _reads_as(name: str) -> bool:
    return not name.startswith('"') and value_of(name) == name


def _unquoted(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, str):
        return value
    raise InvalidValueError(
        f"{text[:40]} is not a name in double quotes", cure="quote it as JSON does, or not at all"
    )
