"""`lowjoule frontier`: the trade of time against energy, in the terminal or as a file."""

from __future__ import annotations

import click

from lowjoule.cli.surveying import Asked, survey_options


@click.command()
@survey_options
@click.option("--job", metavar="AMOUNT", help="Show figures of so much work, like '90 epochs'.")
@click.option(
    "--wait-power",
    metavar="POWER",
    help="Power drawn while waiting, like 84W: energy is counted beyond it.",
)
def frontier(asked: Asked, job: str | None, wait_power: str | None) -> None:
    """Show the trade of time against energy, and what would be chosen.

    Uses all that is already known of the workload (a table, a simulation); nothing is searched.
    Constraints are applied first, waiting is priced second, then dominated points are dropped.
    """
    from lowjoule.cli import console
    from lowjoule.quantities import Unit, parse
    from lowjoule.reports.frontier import FrontierReport
    from lowjoule.workloads.work import parse_work

    found = asked.known()
    profile = found.profile.scaled(parse_work(job)) if job else found.profile
    if wait_power is not None:
        profile = profile.priced(parse(wait_power, Unit.WATT))
    report = FrontierReport.of(
        profile,
        identity=found.device.identity,
        workload=found.workload.name,
        space=found.space,
        objective=found.objective,
        constraints=found.constraints,
    )
    if asked.is_for_people(report):
        console.print_chart(report.figure())
        console.print_listing(report.listing())
        console.print_sentences(report.sentences())
