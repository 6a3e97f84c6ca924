"""`lowjoule study`: what each knob does alone."""

from __future__ import annotations

import click

from lowjoule.cli.surveying import Asked, survey_options


@click.command()
@survey_options
def study(asked: Asked) -> None:
    """Show what each knob does alone, the others at the default and at the best setting.

    Work per joule (throughput per watt) and throughput over every knob, batch size and
    precision included unless --knobs names others. Uses all that is already known.
    """
    from lowjoule.cli import console
    from lowjoule.reports.study import Study

    found = asked.known(every=True)
    report = Study.of(
        found.profile,
        identity=found.device.identity,
        workload=found.workload.name,
        space=found.space,
        objective=found.objective,
        constraints=found.constraints,
    )
    if asked.is_for_people(report):
        console.print_listing(report.summary())
        for one in report.knobs:
            console.print_listing(report.listing(one))
            console.print_chart(report.figures(one)[0])
        console.print_sentences(report.sentences())
