"""A space: all allowed combinations of the values of some knobs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs.knob import Knob, Value
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


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0


@dataclass(frozen=True)
class Space:
    """The allowed settings of `knobs`: all combinations that meet `rules`.

    `listed`, where given, restricts the space to those settings (a table that measured only
    some combinations). The knobs' order is kept; settings run in it, the last knob fastest.
    """

    knobs: tuple[Knob, ...]
    rules: tuple[Rule, ...] = ()
    listed: frozenset[Setting] | None = None

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise InvalidValueError(f"a knob is named twice in {names}", cure="name each once")

    @property
    def names(self) -> tuple[str, ...]:
        """The knobs' names, in order."""
        return tuple(knob.name for knob in self.knobs)

    def knob(self, name: str) -> Knob:
        """Return the knob called `name`; raises `UnknownNameError`."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise UnknownNameError.among("knob", name, self.names)

    @property
    def default(self) -> Setting:
        """The setting in force when nobody turns a knob."""
        return Setting({knob.name: knob.default for knob in self.knobs})

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """All allowed settings, in order."""
        products = itertools.product(*(knob.values for knob in self.knobs))
        every = [Setting(zip(self.names, values, strict=True)) for values in products]
        if self.listed is not None:
            every = [setting for setting in every if setting in self.listed]
        if not every or not self.rules:
            return tuple(every)
        valid = np.ones(len(every), dtype=np.bool_)
        table = columns_of(every)
        for rule in self.rules:
            valid &= rule.allows(table)
        return tuple(setting for setting, good in zip(every, valid, strict=True) if good)

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    @cached_property
    def _members(self) -> frozenset[Setting]:
        return frozenset(self.settings)

    def __contains__(self, setting: object) -> bool:
        return setting in self._members

    def columns(self) -> Columns:
        """Return the allowed settings as one array a knob (float64, or str for names)."""
        return columns_of(self.settings)

    def check(self, setting: Setting) -> None:
        """Raise `InvalidValueError` unless `setting` gives each knob an allowed value."""
        for name, value in setting.items():
            self.knob(name).index(value)
        missing = [name for name in self.names if name not in setting]
        if missing:
            raise InvalidValueError(f"no value for {missing}", cure="give one for every knob")
        table = columns_of([setting])
        for rule in self.rules:
            if not rule.allows(table)[0]:
                raise InvalidValueError(f"{dict(setting)} is not allowed", cure=rule.reason())
        if self.listed is not None and setting not in self.listed:
            raise InvalidValueError(
                f"{dict(setting)} is not among the listed settings", cure="choose a listed one"
            )

    def neighbour(self, setting: Setting, name: str, steps: int) -> Setting | None:
        """Return the allowed setting `steps` values along knob `name`, or None beyond the end.

        Values of the knob that are not allowed with the other knobs as they are do not count.
        """
        row = self.line(setting, name)
        try:
            position = row.index(setting) + steps
        except ValueError:
            return None
        return row[position] if 0 <= position < len(row) else None

    def line(self, setting: Setting, name: str) -> list[Setting]:
        """Return the allowed settings that differ from `setting` at most in knob `name`."""
        knob = self.knob(name)
        row = (setting.replace(**{name: value}) for value in knob.values)
        return [one for one in row if one in self]

    def fixed(self, **values: Value) -> Space:
        """Return the space with some knobs held at one value."""
        knobs = []
        for knob in self.knobs:
            if knob.name in values:
                value = knob.values[knob.index(values[knob.name])]
                knob = _held(knob, value)
            knobs.append(knob)
        return Space(tuple(knobs), self.rules, self.listed)

    def free(self, names: Iterable[str]) -> Space:
        """Return the space in which only `names` may be turned, the rest held at the default."""
        wanted = set(names)
        for name in wanted:
            self.knob(name)
        held = {k.name: k.default for k in self.knobs if k.name not in wanted}
        return self.fixed(**held)


def _held(knob: Knob, value: Value) -> Knob:
    return Knob(
        name=knob.name,
        unit=knob.unit,
        values=(value,),
        default=value,
        scope=knob.scope,
        latency_s=knob.latency_s,
        privilege=knob.privilege,
        changes_learning=knob.changes_learning,
    )


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
