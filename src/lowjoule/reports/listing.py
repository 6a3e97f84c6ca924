"""A table of texts, before anyone knows on what it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_ONE_LINE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A titled table; the columns named in `numbers` stand to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()

    def table(self) -> Table:
        """Return it for a terminal; names hold no markup there."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        title = Text(self.title)
        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
        )
        for place, name in enumerate(self.columns):
            longest = max((len(row[place]) for row in self.rows), default=0)
            table.add_column(
                Text(name),
                justify="right" if name in self.numbers else "left",
                no_wrap=name in self.numbers or longest <= _ONE_LINE,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def spread(count: int, most: int, kept: tuple[int, ...] = ()) -> list[int]:
    """Return at most about `most` of the places 0 to count-1, evenly, and all of `kept`."""
    if count <= most:
        return list(range(count))
    even = {round(place * (count - 1) / (most - 1)) for place in range(most)}
    return sorted(even | set(kept))
