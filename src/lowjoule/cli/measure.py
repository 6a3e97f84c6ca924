"""`lowjoule measure`: the energy of any command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lowjoule.launch.measured import Outcome


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--device",
    "specs",
    multiple=True,
    metavar="KIND:NAME",
    help="What is measured. May be repeated; by default all visible boards that are awake and "
    "the CPU packages that can be read.",
)
@click.option(
    "--json",
    "place",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the result to FILE, which is replaced at once; - is standard output.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def measure(
    context: click.Context, specs: tuple[str, ...], place: str | None, command: tuple[str, ...]
) -> None:
    """Run COMMAND and tell on standard error what energy it took: measure -- python train.py

    The command has the terminal, the standard streams and the signals as if it ran alone, and
    its exit code becomes ours: 128 and the number of the signal that ended it, 127 where it is
    not found, 126 where it cannot be run.
    """
    # the signals are held before NumPy's threads are started, which would take them
    from lowjoule.launch.child import held_signals

    with held_signals() as mask:
        context.exit(_measured(command, specs, place, mask))


def _measured(
    command: tuple[str, ...], specs: tuple[str, ...], place: str | None, mask: set[int]
) -> int:
    import logging

    from lowjoule.launch.measured import run_measured
    from lowjoule.sink import Sink

    # what is logged of a measurement stands in its notes too
    logging.getLogger("lowjoule").addHandler(logging.NullHandler())
    if place is not None:
        Sink(place).check()
    outcome = run_measured(command, specs, mask)
    try:
        _tell(outcome)
    except OSError:
        # nobody reads: the exit code and the file are the result then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    if place is not None:
        _keep(outcome, place)
    return outcome.ending.exit_code


def _tell(outcome: Outcome) -> None:
    from lowjoule.cli import console
    from lowjoule.launch.telling import outcome_listing, outcome_sentences

    if outcome.devices:
        errors = console.output(errors=True)
        errors.print(outcome_listing(outcome).table(errors.width))
    for line in outcome_sentences(outcome):
        console.show_progress(f"lowjoule: {line}")


def _keep(outcome: Outcome, place: str) -> None:
    """Write the result; that it cannot be written does not change the command's exit code."""
    import json

    from lowjoule import __version__
    from lowjoule.cli import console
    from lowjoule.errors import InvalidValueError
    from lowjoule.launch.telling import outcome_dict
    from lowjoule.sink import Sink

    text = json.dumps(outcome_dict(outcome, __version__), indent=2, allow_nan=False)
    try:
        Sink(place).write(f"{text}\n")
    except InvalidValueError as error:
        console.show_progress(f"lowjoule: {error}")
    except BrokenPipeError:
        pass  # whoever asked for it has gone
