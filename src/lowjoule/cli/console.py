"""What the commands print with: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

    from lowjoule.reports.figure import Figure
    from lowjoule.reports.listing import Listing

WIDEST_CHART = 100


def output(errors: bool = False) -> Console:
    """Return a console on standard output: colours only on a terminal and without NO_COLOR.

    With `errors` it is on standard error. Text is printed as it is: names hold no markup.
    """
    from rich.console import Console

    class Plain(Console):
        """A console that leaves a closed pipe to the command line, which has a code for it."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    plain = "NO_COLOR" in os.environ  # rich still sends bold then, which is an escape all the same
    color_system: Literal["auto"] | None = None if plain else "auto"
    return Plain(
        stderr=errors, markup=False, highlight=False, emoji=False, color_system=color_system
    )


def print_listing(listing: Listing) -> None:
    """Print a table on standard output."""
    console = output()
    console.print(listing.table(console.width))


def print_chart(figure: Figure) -> None:
    """Print a figure on standard output, as wide as the terminal, in signs that it can show."""
    from lowjoule.reports.chart import chart, signs_for

    console = output()
    width = min(console.width, WIDEST_CHART)
    text = chart(figure, width=width, signs=signs_for(console.encoding))
    console.print(text, soft_wrap=True)


def print_sentences(sentences: Iterable[str]) -> None:
    """Print sentences on standard output, a line each."""
    for sentence in sentences:
        click.echo(one_line(sentence))


def emit_json(value: object) -> None:
    """Print `value` on standard output as strict JSON, and nothing else there.

    NumPy values become plain ones; a number that is not finite is missing, so null.
    """
    click.echo(json.dumps(jsonable(value), indent=2, allow_nan=False))


def jsonable(value: object) -> Any:
    """Return `value` made of dict, list, str, int, float, bool and None alone."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, Enum):
        return jsonable(value.value)
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(one) for one in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars, without importing NumPy
        return jsonable(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show_progress(text: str) -> None:
    """Print one line on standard error."""
    click.echo(one_line(text), err=True)


def one_line(text: str) -> str:
    """Return `text` with everything that is no printable sign (line ends, escapes) spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
