"""`lowjoule doctor`: what keeps this machine from measuring or controlling, and the cure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowjoule.diagnosis.check import Check

FAILED = 1
_MORE = " --all shows each."


@click.command()
@click.option(
    "--device",
    "asked",
    multiple=True,
    metavar="KIND:NAME",
    help="A device that must measure here. May be repeated.",
)
@click.option("--control", is_flag=True, help="Limits and clocks must be open to this process.")
@click.option("--all", "everything", is_flag=True, help="Show what is in order too.")
@json_option
@click.pass_context
def doctor(
    context: click.Context, asked: tuple[str, ...], control: bool, everything: bool, as_json: bool
) -> None:
    """Find what keeps this machine from measuring or controlling, each with the cure.

    Ends with 0 where nothing fails and with 1 where something is broken, or a device asked for
    cannot do what was asked. Nothing is written, and no GPU that sleeps is woken.
    """
    from lowjoule.cli import console
    from lowjoule.diagnosis.examination import examine, failed
    from lowjoule.diagnosis.machine import Machine

    checks = examine(Machine(), asked, control)
    if as_json:
        console.emit_json(_dict(checks))
    else:
        _print(checks, everything)
    if failed(checks):
        context.exit(FAILED)


def _dict(checks: Sequence[Check]) -> dict[str, object]:
    from lowjoule.diagnosis.examination import failed

    return {
        "version": 1,
        "fit": not failed(checks),
        "checks": [
            {
                "name": one.name,
                "about": one.about or None,
                "verdict": one.verdict,
                "found": one.found,
                "cure": one.cure,
            }
            for one in checks
        ],
    }


def _print(checks: Sequence[Check], everything: bool) -> None:
    from collections import Counter

    from lowjoule.cli import console
    from lowjoule.diagnosis.check import Verdict
    from lowjoule.diagnosis.words import short_uuid
    from lowjoule.reports.listing import Listing

    bad = (Verdict.FAIL, Verdict.WARN)
    shown = [one for one in checks if everything or one.verdict in bad]
    shown.sort(key=lambda one: one.verdict is not Verdict.FAIL)
    uuids = [one.about for one in shown]
    rows = [
        (
            str(one.verdict),
            f"{one.name}\n{short_uuid(one.about, uuids)}" if one.about else one.name,
            one.found,
            one.cure or "",
        )
        for one in shown
    ]
    if rows:
        console.print_listing(
            Listing(
                title="Checks",
                columns=("verdict", "what", "found", "cure"),
                rows=tuple(rows),
            )
        )
    counted = Counter(one.verdict for one in checks)
    said = ", ".join(f"{counted[one]} {one}" for one in Verdict if counted[one])
    console.print_sentences([f"{len(checks)} checks: {said}." + ("" if everything else _MORE)])
