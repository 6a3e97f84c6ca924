"""`lowjoule devices`: what can be opened."""

from __future__ import annotations

import click

from lowjoule.cli.options import json_option


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """List the devices that can be opened, waking none of them.

    A table of measurements is a device too: --device replay:FILE.
    """
    from lowjoule.cli import console
    from lowjoule.devices.registry import backends
    from lowjoule.reports.listing import Listing

    kinds = backends()
    found = [(kind, one) for kind in sorted(kinds) for one in kinds[kind].available()]
    if as_json:
        console.emit_json(
            {
                "version": 1,
                "kinds": sorted(kinds),
                "devices": [
                    {"device": one.spec, "kind": kind, "title": one.title, "remark": one.remark}
                    for kind, one in found
                ],
            }
        )
        return
    console.print_listing(
        Listing(
            title="Devices",
            columns=("device", "what it is", "remark"),
            rows=(
                *((one.spec, one.title, one.remark) for _, one in found),
                ("replay:FILE", "a table of measurements (CSV)", "replayed"),
            ),
        )
    )
