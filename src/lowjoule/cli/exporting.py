"""`lowjoule export`: the store's points go to a file."""

from __future__ import annotations

import click

from lowjoule.cli.options import json_option


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--model", metavar="NAME", help="Points of this model of device alone.")
@click.option("--workload", metavar="NAME", help="Points of this workload alone.")
@click.option("--store", metavar="PLACE", help="The store: a path or a database URL.")
@json_option
def export_command(
    file: str, model: str | None, workload: str | None, store: str | None, as_json: bool
) -> None:
    """Write the store's points to FILE (.csv, .jsonl or .parquet), which is replaced at once."""
    from lowjoule.cli import console
    from lowjoule.errors import StoreError, UnknownNameError
    from lowjoule.store import Store, write_records

    with Store.open(store, create=False) as opened:
        kinds = opened.kinds()
        for what, name, known in (
            ("model of device", model, {kind.device_model for kind in kinds}),
            ("workload", workload, {kind.workload for kind in kinds}),
        ):
            if name is not None and name not in known:
                raise UnknownNameError.among(f"{what} in {opened.name}", name, known)
        records = opened.records(device_model=model, workload=workload)
    if not records:
        raise StoreError("there is no such point in the store", cure="import or tune --store first")
    written = write_records(records, file)
    if as_json:
        console.emit_json({"version": 1, "file": file, "written": written})
    else:
        console.print_sentences([f"{written} points were written to {file}."])
