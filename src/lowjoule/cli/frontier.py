"""`lowjoule frontier`: the trade of time against energy, in the terminal or as a file."""

from __future__ import annotations

import click

from lowjoule.cli.options import (
    DeviceChoice,
    html_option,
    json_option,
    knobs_option,
    known_options,
    objective_on,
    objective_options,
)


@click.command()
@known_options
@objective_options
@knobs_option
@click.option("--job", metavar="AMOUNT", help="Show figures of so much work, like '90 epochs'.")
@click.option(
    "--wait-power",
    metavar="POWER",
    help="Power drawn while waiting, like 84W: energy is counted beyond it.",
)
@html_option
@json_option
def frontier(
    device: DeviceChoice,
    objective: str,
    constraints: tuple[str, ...],
    knobs: tuple[str, ...] | None,
    job: str | None,
    wait_power: str | None,
    html: str | None,
    as_json: bool,
) -> None:
    """Show the trade of time against energy, and what would be chosen.

    Uses all that is already known of the workload (a table, a simulation); nothing is searched.
    Constraints are applied first, waiting is priced second, then dominated points are dropped.
    """
    from lowjoule.cli import console
    from lowjoule.cli.surveying import known
    from lowjoule.objectives import parse_constraint
    from lowjoule.quantities import Unit, parse
    from lowjoule.reports.frontier import FrontierReport
    from lowjoule.workloads.work import parse_work

    bounds = [parse_constraint(text) for text in constraints]
    found = known(device, knobs)
    profile = found.profile.scaled(parse_work(job)) if job else found.profile
    if wait_power is not None:
        profile = profile.priced(parse(wait_power, Unit.WATT))
    report = FrontierReport.of(
        profile,
        identity=found.device.identity,
        workload=found.workload.name,
        space=found.space,
        objective=objective_on(found.device, objective),
        constraints=bounds,
    )
    if html is not None:
        report.page().write(html)
        console.show_progress(f"wrote {html}")
    if as_json:
        console.emit_json(report.to_dict())
    elif html is None:
        console.print_chart(report.figure())
        console.print_listing(report.listing())
        console.print_sentences(report.sentences())
