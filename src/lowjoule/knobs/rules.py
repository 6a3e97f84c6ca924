"""Rules: conditions between knobs that a setting must meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs.setting import Setting

Columns = Mapping[str, NDArray[Any]]


class Rule(Protocol):
    """A condition between knobs that a setting must meet."""

    def allows(self, columns: Columns) -> NDArray[np.bool_]:
        """Return which rows of the settings in `columns` (one array a knob) are valid."""
        ...

    def reason(self) -> str:
        """Return the condition in words."""
        ...


@dataclass(frozen=True, slots=True)
class AtMost:
    """`low` may not exceed `high`: a minimum and a maximum clock, a lock under a cap."""

    low: str
    high: str

    def allows(self, columns: Columns) -> NDArray[np.bool_]:
        """Return the rows in which `low` <= `high`; all of them where a knob is absent."""
        if self.low not in columns or self.high not in columns:
            return np.ones(_rows(columns), dtype=np.bool_)
        return np.asarray(columns[self.low] <= columns[self.high], dtype=np.bool_)

    def reason(self) -> str:
        """Return the condition in words."""
        return f"{self.low} must not exceed {self.high}"


@dataclass(frozen=True, slots=True)
class Divides:
    """`part` divides `whole`: a micro-batch and its global batch."""

    part: str
    whole: str

    def allows(self, columns: Columns) -> NDArray[np.bool_]:
        """Return the rows in which `whole` is a multiple of `part`."""
        if self.part not in columns or self.whole not in columns:
            return np.ones(_rows(columns), dtype=np.bool_)
        return np.asarray(columns[self.whole] % columns[self.part] == 0, dtype=np.bool_)

    def reason(self) -> str:
        """Return the condition in words."""
        return f"{self.part} must divide {self.whole}"


def allowed(settings: Sequence[Setting], rules: Iterable[Rule]) -> NDArray[np.bool_]:
    """Return which of `settings`, all of the same knobs, meet all `rules`."""
    good = np.ones(len(settings), dtype=np.bool_)
    table: Columns = {}
    for rule in rules if settings and settings[0] else ():
        table = table or columns_of(settings)
        good &= rule.allows(table)
    return good


def columns_of(settings: Iterable[Setting]) -> dict[str, NDArray[Any]]:
    """Return `settings`, all of the same knobs, as one array a knob."""
    rows = list(settings)
    if not rows:
        return {}
    return {
        name: np.array(
            [row[name] for row in rows],
            dtype=None if isinstance(rows[0][name], str) else np.float64,
        )
        for name in rows[0]
    }


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0
