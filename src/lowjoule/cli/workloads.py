"""`lowjoule workloads`: what can be run by name, and all that is known of one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import DeviceChoice, column_option, json_option

if TYPE_CHECKING:
    from lowjoule.reports.listing import Listing
    from lowjoule.workloads import Workload


@click.command()
@click.argument("name", required=False)
@click.option("--device", "spec", metavar="KIND:NAME", help="List what this device can run.")
@column_option
@json_option
def workloads(name: str | None, spec: str | None, columns: dict[str, str], as_json: bool) -> None:
    """List the workloads that can be named, or tell all about NAME.

    NAME may also be MODULE:FUNCTION, a function that returns a torch.nn.Module.
    """
    from lowjoule.cli import console

    found = _of_device(spec, columns, name) if spec else _of_catalogue(name)
    if as_json:
        console.emit_json({"version": 1, "workloads": [_dict(one) for one in found]})
    elif name is None:
        console.print_listing(_listing(found))
    else:
        console.print_listing(_details(found[0]))


def _of_catalogue(name: str | None) -> list[Workload]:
    from lowjoule.workloads import load, names

    return [load(one) for one in (names() if name is None else (name,))]


def _of_device(spec: str, columns: dict[str, str], name: str | None) -> list[Workload]:
    device = DeviceChoice(spec=spec, columns=columns).open_device()
    names = device.workload_names() if name is None else (name,)
    return [device.workload(one) for one in names]


def _dict(workload: Workload) -> dict[str, object]:
    """Return the JSON form; SI units, what is not known is null."""
    plain = {
        field.name: getattr(workload, field.name)
        for field in fields(workload)
        if field.name not in ("knobs", "job")
    }
    knobs = [
        {
            "name": knob.name,
            "unit": knob.unit,
            "values": knob.values,
            "default": knob.default,
            "changes_learning": knob.changes_learning,
        }
        for knob in workload.knobs
    ]
    job = workload.job
    return {
        **plain,
        "job": None if job is None else {"quantity": job.quantity, "unit": job.unit},
        "knobs": knobs,
    }


def _listing(found: list[Workload]) -> Listing:
    from lowjoule.reports.listing import Listing

    rows = [
        (
            one.name,
            one.unit.value,
            ", ".join(f"{knob.name} {knob.show(knob.default)}" for knob in one.knobs),
            "" if one.job is None else str(one.job),
            one.description,
        )
        for one in found
    ]
    return Listing(
        title="Workloads",
        columns=("workload", "work in", "default", "usual job", "what it is"),
        rows=tuple(rows),
    )


def _details(workload: Workload) -> Listing:
    """Return every field that is known, a row each."""
    from lowjoule.reports.listing import Listing

    rows: list[tuple[str, str]] = []
    for field in fields(workload):
        value = getattr(workload, field.name)
        if field.name == "knobs":
            rows += [
                (knob.name, f"{knob.describe()} (default {knob.show(knob.default)})")
                for knob in value
            ]
        elif value is None or value in ("", ()):
            continue
        elif isinstance(value, tuple):
            rows.append((_words(field.name), "\n".join(str(one) for one in value)))
        else:
            rows.append((_words(field.name), _text(value)))
    return Listing(title=workload.name, columns=("what", "value"), rows=tuple(rows))


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _words(name: str) -> str:
    """Return a field's name in words, its unit in brackets."""
    stem, _, unit = name.rpartition("_")
    units = {"s": "s", "bytes": "bytes"}
    return f"{stem.replace('_', ' ')} ({units[unit]})" if unit in units else name.replace("_", " ")
