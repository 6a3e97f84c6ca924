"""`lowjoule study`: what each knob does alone."""

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
@html_option
@json_option
def study(
    device: DeviceChoice,
    objective: str,
    constraints: tuple[str, ...],
    knobs: tuple[str, ...] | None,
    html: str | None,
    as_json: bool,
) -> None:
    """Show what each knob does alone, the others at the default and at the best setting.

    Work per joule (throughput per watt) and throughput over every knob, batch size and
    precision included unless --knobs names others. Uses all that is already known.
    """
    from lowjoule.cli import console
    from lowjoule.cli.surveying import known
    from lowjoule.objectives import parse_constraint
    from lowjoule.reports.study import Study

    bounds = [parse_constraint(text) for text in constraints]
    found = known(device, knobs, every=True)
    result = Study.of(
        found.profile,
        identity=found.device.identity,
        workload=found.workload.name,
        space=found.space,
        objective=objective_on(found.device, objective),
        constraints=bounds,
    )
    if html is not None:
        result.page().write(html)
        console.show_progress(f"wrote {html}")
    if as_json:
        console.emit_json(result.to_dict())
    elif html is None:
        console.print_listing(result.summary())
        for one in result.knobs:
            console.print_listing(result.listing(one))
            console.print_chart(result.figures(one)[0])
        console.print_sentences(result.sentences())
