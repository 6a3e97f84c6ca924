"""A setting: one value for each knob."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import overload

from lowjoule.knobs.knob import Value


class Setting(Mapping[str, Value]):
    """An immutable, hashable map from a knob's name to its value, in SI units.

    Two settings are equal when they give equal values to the same knobs, in whatever order.
    """

    __slots__ = ("_hash", "_values")

    # overloads, so that a checker sees the values of a literal {"a": 1, "b": "x"} as `Value`
    @overload
    def __init__(self, values: Mapping[str, Value] = ...) -> None: ...
    @overload
    def __init__(self, values: Iterable[tuple[str, Value]]) -> None: ...
    def __init__(self, values: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        self._values: dict[str, Value] = dict(sorted(dict(values).items()))
        self._hash = hash(tuple(self._values.items()))

    @classmethod
    def _sorted(cls, names: tuple[str, ...], values: Iterable[Value]) -> Setting:
        """Return the setting of `names`, sorted already; for spaces of very many settings."""
        made = cls.__new__(cls)
        made._values = dict(zip(names, values, strict=True))
        made._hash = hash(tuple(made._values.items()))
        return made

    def __reduce__(self) -> tuple[type[Setting], tuple[dict[str, Value]]]:
        # the hash of text differs between processes, so it is not to travel with the setting
        return Setting, (self._values,)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Setting):
            return self._values == other._values
        return NotImplemented

    def __repr__(self) -> str:
        return f"Setting({self._values!r})"

    def number(self, name: str) -> float:
        """Return the value of a numeric knob as a float."""
        return float(self._values[name])

    def replace(self, **values: Value) -> Setting:
        """Return this setting with some knobs turned (or added)."""
        return Setting({**self._values, **values})

    def only(self, names: Iterable[str]) -> Setting:
        """Return the part of this setting that concerns `names`; absent names are left out."""
        wanted = set(names)
        return Setting({k: v for k, v in self._values.items() if k in wanted})

    def changed(self, other: Setting) -> tuple[str, ...]:
        """Return the names whose value in `other` differs from, or is absent in, this one."""
        return tuple(k for k, v in other.items() if self._values.get(k) != v)


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a setting: the one asked and the one the hardware confirms.

    `enforced` are values read back that another authority keeps different from what was
    requested (a limit set out-of-band), by knob.
    """

    asked: Setting
    achieved: Setting
    enforced: Mapping[str, Value] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the hardware does just what was asked."""
        return self.asked == self.achieved and not self.enforced
