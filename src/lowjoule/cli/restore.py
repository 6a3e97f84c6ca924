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
@click.option(
    "--advise",
    is_flag=True,
    help="Write nothing; print the commands with which an administrator does it.",
)
@json_option
@click.pass_context
def restore(context: click.Context, dry_run: bool, advise: bool, as_json: bool) -> None:
    """Put back what processes that are gone have left turned.

    A knob that somebody else has changed since is left as it is, and what a living process holds
    is its own. Ends with code 2 when something could not be put back.
    """
    from lowjoule.cli import console
    from lowjoule.control import Journal, Outcome, replay_all

    journal = Journal()
    dry_run = dry_run or advise
    told = replay_all(journal, _open_seen, write=not dry_run)
    history = journal.history(_HISTORY)
    if as_json:
        console.emit_json(_json(journal, told, history, dry_run))
    else:
        _print(journal, told, history)
        _print_commands(told, advise)
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


def _print_commands(told: list[Replayed], asked: bool) -> None:
    """Print what an administrator types for what was not put back."""
    from lowjoule.cli import console

    commands = [one.command for one in told if one.command is not None]
    if commands:
        console.print_sentences(["", "an administrator puts it back by:", *commands])
    elif asked:
        console.print_sentences(["", "there is nothing for an administrator to type"])


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
                "command": one.command,
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
