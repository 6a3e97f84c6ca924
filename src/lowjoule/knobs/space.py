"""A space: all allowed combinations of the values of some knobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs.knob import Knob, Value
from lowjoule.knobs.rules import AtMost, Columns, Divides, Rule, allowed, columns_of
from lowjoule.knobs.setting import Setting

__all__ = ["AtMost", "Columns", "Divides", "Rule", "Space", "columns_of"]


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

    @cached_property
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
        if not self.knobs:
            return (Setting(),) * len(self)
        names = tuple(sorted(self.names))
        domains = {knob.name: knob.values for knob in self.knobs}
        rows = dict(zip(self.names, self._index, strict=True))
        values = [map(domains[name].__getitem__, rows[name].tolist()) for name in names]
        return tuple(Setting._sorted(names, row) for row in zip(*values, strict=True))

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __len__(self) -> int:
        return int(self._index.shape[1])

    def __contains__(self, setting: object) -> bool:
        if not isinstance(setting, Setting) or self._place(setting) is None:
            return False
        if self.listed is not None and setting not in self.listed:
            return False
        return bool(allowed([setting], self.rules)[0])

    def columns(self) -> Columns:
        """Return the allowed settings as one array a knob (float64, or str for names)."""
        return self._table(self._index)

    @cached_property
    def _index(self) -> NDArray[np.intp]:
        """The allowed settings as positions in the knobs' domains, shape (knobs, settings)."""
        if self.listed is None:
            shape = tuple(len(knob.values) for knob in self.knobs)
            index = np.indices(shape, dtype=np.intp).reshape(len(shape), math.prod(shape))
        else:
            placed = (self._place(setting) for setting in self.listed)
            rows = sorted(row for row in placed if row is not None)
            index = np.array(rows, dtype=np.intp).reshape(len(rows), len(self.knobs)).T
        good = np.ones(index.shape[1], dtype=np.bool_)
        if self.rules and self.knobs:
            table = self._table(index)
            for rule in self.rules:
                good &= rule.allows(table)
        return index[:, good]

    def _table(self, index: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        table = {}
        for knob, rows in zip(self.knobs, index, strict=True):
            named = isinstance(knob.values[0], str)
            table[knob.name] = np.array(knob.values, dtype=None if named else np.float64)[rows]
        return table

    @cached_property
    def _positions(self) -> dict[str, dict[Value, int]]:
        return {k.name: {value: i for i, value in enumerate(k.values)} for k in self.knobs}

    def _place(self, setting: Setting) -> tuple[int, ...] | None:
        """Return the positions of the values of `setting`, None where it is of other knobs."""
        if len(setting) != len(self.knobs):
            return None
        try:
            return tuple(known[setting[name]] for name, known in self._positions.items())
        except KeyError:
            return None

    def check(self, setting: Setting) -> None:
        """Raise `InvalidValueError` unless `setting` gives each knob an allowed value."""
        for name, value in setting.items():
            self.knob(name).index(value)
        missing = [name for name in self.names if name not in setting]
        if missing:
            raise InvalidValueError(f"no value for {missing}", cure="give one for every knob")
        for rule in self.rules:
            if not allowed([setting], [rule])[0]:
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
        row = [setting.replace(**{name: value}) for value in knob.values]
        if self._place(row[0]) is None:
            return []
        if self.listed is not None:
            row = [one for one in row if one in self.listed]
        return [one for one, good in zip(row, allowed(row, self.rules), strict=True) if good]

    def fixed(self, **values: Value) -> Space:
        """Return the space with some knobs held at one value.

        Raises `UnknownNameError` for another knob, `InvalidValueError` for another value.
        """
        held = {}
        for name, value in values.items():
            knob = self.knob(name)
            known = knob.values[knob.index(value)]
            held[name] = replace(knob, values=(known,), default=known)
        knobs = tuple(held.get(knob.name, knob) for knob in self.knobs)
        return Space(knobs, self.rules, self.listed)

    def free(self, names: Iterable[str]) -> Space:
        """Return the space in which only `names` may be turned, the rest held at the default."""
        wanted = set(names)
        for name in wanted:
            self.knob(name)
        held = {k.name: k.default for k in self.knobs if k.name not in wanted}
        return self.fixed(**held)
