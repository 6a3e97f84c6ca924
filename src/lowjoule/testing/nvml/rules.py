"""The rules of how functions behave."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from lowjoule.errors import UnknownNameError
from lowjoule.testing.nvml.layout import FUNCTIONS, Rule


def rules_of(rules: ctypes.Array[Rule], functions: str | Iterable[str]) -> list[Rule]:
    """Return the rules of `functions`, a name or several."""
    return [rules[index] for index in _indices(functions)]


def heal_rules(rules: ctypes.Array[Rule], functions: str | Iterable[str]) -> None:
    """Let `functions` behave as usual; they stay counted."""
    for index in _indices(functions):
        rules[index] = Rule(calls=rules[index].calls)


def _indices(functions: str | Iterable[str]) -> list[int]:
    names = [functions] if isinstance(functions, str) else list(functions)
    for name in names:
        if name not in FUNCTIONS:
            raise UnknownNameError.among("function of the fake NVML", name, FUNCTIONS)
    return [FUNCTIONS.index(name) for name in names]
