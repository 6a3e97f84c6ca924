"""`lowjoule restore`: put back what processes that are gone have left turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import json_option

if TYPE_CHECKING:
    from lowjoule.control import Journal, Replayed
    from lowjoule.devices.interface import Device

_HISTORY = 5
NOT_ALL = 2


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@json_option
@click.pass_context
def restore(context: click.Context, dry_run: bool, as_json: bool) -> None:
    """Put back what processes that are gone have left turned.

    A knob that somebody else has changed since is left as it is, and what a living process holds
    is its own. Ends with code 2 when something could not be put back.
    """
    from lowjoule.cli import console
    from lowjoule.control import Journal, Outcome, replay_all

    journal = Journal()
    told = replay_all(journal, _open_seen, write=not dry_run)
    history = journal.history(_HISTORY)
    if as_json:
        console.emit_json(_json(journal, told, history, dry_run))
    else:
        _print(journal, told, history)
    if any(one.outcome in {Outcome.FAILED, Outcome.UNREADABLE} for one in told):
        context.exit(NOT_ALL)


def _print(journal: Journal, told: list[Replayed], history: list[str]) -> None:
    from lowjoule.cli import console
    from lowjoule.reports.listing import Listing

    if told:
        rows = tuple((one.model or "-", one.knob or "-", one.outcome, one.text) for one in told)
        title = f"Journal {journal.folder}"
        columns = ("device", "knob", "outcome", "what it is")
        console.print_listing(Listing(title=title, columns=columns, rows=rows))
    else:
        console.print_sentences([f"nothing is left turned ({journal.folder})"])
    if history:
        console.print_sentences(["", "lately, by watchdogs:", *history])


def _json(
    journal: Journal, told: list[Replayed], history: list[str], dry_run: bool
) -> dict[str, object]:
    return {
        "version": 1,
        "journal": str(journal.folder),
        "dry_run": dry_run,
        "entries": [
            {
                "device": one.model,
                "device_uuid": one.uuid,
                "knob": one.knob,
                "prior": one.prior,
                "in_force": one.in_force,
                "outcome": one.outcome,
                "text": one.text,
            }
            for one in told
        ],
        "history": history,
    }


def _open_seen(spec: str) -> Device:
    """Open a device by what it is, also one that this terminal does not show to CUDA."""
    import os

    from lowjoule.control.guard import HIDING
    from lowjoule.devices.registry import open_device

    hidden = {name: os.environ.pop(name) for name in HIDING if name in os.environ}
    try:
        return open_device(spec)
    finally:
        os.environ.update(hidden)
