"""`lowjoule devices`: what is here, what it measures and controls, what is missing."""

from __future__ import annotations

import click

from lowjoule.cli.options import json_option


@click.command()
@click.option("--all", "everything", is_flag=True, help="Tell of simulated devices one by one.")
@json_option
def devices(everything: bool, as_json: bool) -> None:
    """List the devices that are here: what each measures and controls, and what it lacks.

    Nothing is written, and no device that sleeps is woken. Simulated devices and tables of
    measurements (--device replay:FILE) follow.
    """
    from lowjoule.cli import console
    from lowjoule.diagnosis import words
    from lowjoule.diagnosis.here import look, registered

    found = look(*registered())
    if as_json:
        console.emit_json(words.found_dict(found))
        return
    if found.devices:
        console.print_listing(words.devices_listing(found))
    else:
        console.print_sentences(["No device is measured here (lowjoule doctor tells why)."])
    missing = words.missing_listing(found)
    if missing.rows:
        console.print_listing(missing)
    if everything:
        console.print_listing(words.others_listing(found.others))
    else:
        console.print_sentences(words.others_sentences(found.others))
