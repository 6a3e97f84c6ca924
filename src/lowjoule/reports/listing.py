"""A table of texts, before anyone knows on what it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_ONE_LINE = 20
_GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A titled table; the columns named in `numbers` stand to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()

    def table(self, width: int = 80) -> Table:
        """Return it for a terminal of `width` cells, where names hold no markup.

        Figures stay on one line as long as that fits; nothing is ever cut off.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(self.title),
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
        )
        widest = [self._widest(place) for place in range(len(self.columns))]
        fits = sum(min(one, _ONE_LINE) + _GAP for one in widest) <= width
        for place, (name, cells) in enumerate(zip(self.columns, widest, strict=True)):
            table.add_column(
                Text(self._heading(place)),
                justify="right" if name in self.numbers else "left",
                no_wrap=fits and cells <= _ONE_LINE,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table

    def _widest(self, place: int) -> int:
        return max(len(text) for text in [*self._heading(place).split("\n"), *self._cells(place)])

    def _cells(self, place: int) -> list[str]:
        return [row[place] for row in self.rows]

    def _heading(self, place: int) -> str:
        """Return a heading, on several lines where that keeps its column narrow."""
        name = self.columns[place]
        fits = len(name) <= max((len(text) for text in self._cells(place)), default=0)
        return name if fits else name.replace(" ", "\n")


def spread(count: int, most: int, kept: tuple[int, ...] = ()) -> list[int]:
    """Return at most about `most` of the places 0 to count-1, evenly, and all of `kept`."""
    if count <= most:
        return list(range(count))
    even = {round(place * (count - 1) / (most - 1)) for place in range(most)}
    return sorted(even | set(kept))
