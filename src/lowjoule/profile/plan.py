"""What is applied: a tree whose leaves are settings with counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lowjoule.knobs import Setting


class Order(StrEnum):
    """How the parts of a plan run."""

    SEQUENCE = "one after the other"
    PARALLEL = "in parallel until the slowest is done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """`count` times the profile's work (a fraction for a share of it) at one setting."""

    setting: Setting
    count: float = 1.0

    def leaves(self) -> Iterator[Leaf]:
        """Yield this leaf."""
        yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Parts that run in `order`, `count` times."""

    order: Order
    parts: tuple[Leaf | Branch, ...]
    count: float = 1.0

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves with their counts multiplied out, in order."""
        for part in self.parts:
            for leaf in part.leaves():
                yield Leaf(setting=leaf.setting, count=leaf.count * self.count)


Plan = Leaf | Branch
