"""Where the report of a command goes: a page, JSON, or people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lowjoule.cli.console import emit_json, show_progress

if TYPE_CHECKING:
    from lowjoule.reports.page import Page


class Report(Protocol):
    """What a command found."""

    def page(self) -> Page:
        """Return it as a page."""
        ...

    def to_dict(self) -> dict[str, object]:
        """Return its JSON form."""
        ...


def check_place(place: str | None) -> None:
    """Raise `InvalidValueError` where nothing could be written to `place`, before any work."""
    from lowjoule.sink import Sink

    if place is not None:
        Sink(place).check()


def is_for_people(report: Report, html: str | None, *, as_json: bool) -> bool:
    """Write the page and the JSON that were asked for; True where neither was."""
    if html is not None:
        report.page().write(html)
        show_progress(f"wrote {html}")
    if as_json:
        emit_json(report.to_dict())
    return html is None and not as_json
