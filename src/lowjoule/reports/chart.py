"""A figure in a terminal: one sign a cell, in whatever signs the terminal can show."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowjoule.reports.figure import Axis, Figure, Role, Series

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {
    Role.POINTS: "dim",
    Role.LINE: "cyan",
    Role.SECOND: "magenta",
    Role.ANCHOR: "bold blue",
    Role.DEFAULT: "bold yellow",
    Role.CHOSEN: "bold green",
}
_ORDER = (Role.POINTS, Role.SECOND, Role.LINE, Role.ANCHOR, Role.DEFAULT, Role.CHOSEN)
_NARROWEST = 24


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs that a chart is made of."""

    marks: dict[Role, str]
    joint: str
    upright: str
    level: str
    corner: str
    tick_y: str
    tick_x: str

    @property
    def every(self) -> str:
        """All of them."""
        return "".join(self.marks.values()) + self.joint + self.upright + self.level + self.corner


UNICODE = Signs(
    {
        Role.POINTS: "·",
        Role.LINE: "●",
        Role.SECOND: "○",
        Role.ANCHOR: "■",
        Role.DEFAULT: "◆",
        Role.CHOSEN: "★",
    },
    joint="∙",
    upright="│",
    level="─",
    corner="└",
    tick_y="┤",
    tick_x="┬",
)
ASCII = Signs(
    {
        Role.POINTS: ".",
        Role.LINE: "o",
        Role.SECOND: "x",
        Role.ANCHOR: "A",
        Role.DEFAULT: "D",
        Role.CHOSEN: "C",
    },
    joint="-",
    upright="|",
    level="-",
    corner="+",
    tick_y="+",
    tick_x="+",
)


def signs_for(encoding: str | None) -> Signs:
    """Return the signs that text in `encoding` can hold."""
    try:
        (UNICODE.every + "┤┬µ").encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def chart(figure: Figure, *, width: int = 80, height: int = 16, signs: Signs = UNICODE) -> Text:
    """Return the figure as lines of at most `width` cells, axes, units and legend included."""
    from rich.text import Text

    texts = [text for _, text in figure.y.ticks(4)]
    gutter = max((len(text) for text in texts), default=0)
    columns = max(_NARROWEST, width - gutter - 3)
    cells = _cells(figure, columns, height, signs)
    rows = {round(float(1 - figure.y.place(v)) * (height - 1)): t for v, t in figure.y.ticks(4)}
    lines = [
        Text(f"{figure.source.value.upper()}: {figure.title}", style="bold"),
        Text(_ascii(figure.y.title, signs)),
    ]
    for row in range(height):
        mark = signs.tick_y if row in rows else signs.upright
        line = Text(f"{rows.get(row, ''):>{gutter}} {mark}")
        for sign, role in cells[row]:
            line.append(sign, style=_STYLES[role] if role else "")
        lines.append(line)
    lines += [Text(one) for one in _base(figure.x, gutter, columns, signs)]
    lines.append(_legend(figure, signs))
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


Cell = tuple[str, Role | None]


def _cells(figure: Figure, columns: int, height: int, signs: Signs) -> list[list[Cell]]:
    """Return the field of the chart, the most telling series on top."""
    cells: list[list[Cell]] = [[(" ", None)] * columns for _ in range(height)]
    for role in _ORDER:
        for series in figure.series:
            if series.role is role:
                _draw(series, figure, cells, signs)
    return cells


def _draw(series: Series, figure: Figure, cells: list[list[Cell]], signs: Signs) -> None:
    columns, height = len(cells[0]), len(cells)
    across = figure.x.place(series.x) * (columns - 1)
    down = (1.0 - figure.y.place(series.y)) * (height - 1)
    spots = [(round(float(a)), round(float(d))) for a, d in zip(across, down, strict=True)]
    if series.role.joined and not figure.x.names:
        for (left, top), (right, bottom) in itertools.pairwise(spots):
            for step in range(1, abs(right - left)):
                part = step / abs(right - left)
                row = round(top + part * (bottom - top))
                cells[row][left + (step if right > left else -step)] = (signs.joint, series.role)
    for column, row in spots:
        cells[row][column] = (signs.marks[series.role], series.role)


def _base(axis: Axis, gutter: int, columns: int, signs: Signs) -> list[str]:
    """Return the horizontal axis: its line, the numbers under it, and its title."""
    line = [signs.level] * columns
    numbers = [" "] * (columns + gutter)
    free = 0
    for value, text in axis.ticks(max(2, columns // 12)):
        at = round(float(axis.place(value)) * (columns - 1))
        start = max(0, min(at - len(text) // 2, columns - len(text)))
        line[at] = signs.tick_x
        if start >= free:
            numbers[start : start + len(text)] = text
            free = start + len(text) + 2
    pad = " " * (gutter + 1)
    title = _ascii(axis.title, signs)
    return [
        pad + signs.corner + "".join(line),
        pad + " " + "".join(numbers[:columns]),
        pad + " " + title.rjust(columns)[:columns],
    ]


def _legend(figure: Figure, signs: Signs) -> Text:
    from rich.text import Text

    parts = []
    for series in figure.series:
        parts.append(Text(signs.marks[series.role], style=_STYLES[series.role]))
        parts[-1].append(f" {series.name}", style="not bold default")
    return Text("   ").join(parts)


def _ascii(text: str, signs: Signs) -> str:
    return text.replace("µ", "u") if signs is ASCII else text
