"""`lowjoule import`: measurements made elsewhere go into the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import column_option, json_option

if TYPE_CHECKING:
    from lowjoule.store import Record


@click.command("import")
@click.argument("table", type=click.Path(dir_okay=False))
@click.option("--workload", metavar="NAME", help="Import this workload of the table alone.")
@column_option
@click.option("--store", metavar="PLACE", help="The store: a path or a database URL.")
@json_option
def import_command(
    table: str, workload: str | None, columns: dict[str, str], store: str | None, as_json: bool
) -> None:
    """Put the measurements of TABLE into the store, all or none.

    TABLE is a file that `lowjoule export` wrote (.csv, .jsonl, .parquet) or any CSV table that
    --device replay:TABLE can open. Importing a file again adds nothing.
    """
    from lowjoule.cli import console
    from lowjoule.store import Store

    records = _records(Path(table), workload, columns)
    with Store.open(store) as opened:
        added = opened.add(records)
        place = opened.name
    if as_json:
        console.emit_json({"version": 1, "store": place, "read": len(records), "added": added})
    else:
        console.print_sentences([f"{added} of {len(records)} points are new in {place}."])


def _records(path: Path, workload: str | None, columns: dict[str, str]) -> list[Record]:
    from lowjoule.errors import UnknownNameError
    from lowjoule.store import read_records

    if columns or not is_export(path):
        return _replayed(path, workload, columns)
    records = read_records(path)
    if workload is None:
        return records
    names = {record.workload for record in records}
    if workload not in names:
        raise UnknownNameError.among(f"workload of {path.name}", workload, names)
    return [record for record in records if record.workload == workload]


def is_export(path: Path) -> bool:
    """Return whether `path` looks like a file of ours: by its name, a CSV by its first column."""
    if path.suffix.lower() in (".jsonl", ".parquet"):
        return True
    try:
        with path.open("rb") as file:
            return file.readline(4096).removeprefix(b"\xef\xbb\xbf").startswith(b"schema,")
    except (OSError, ValueError):
        return False  # the reader of tables says what is wrong


def _replayed(path: Path, workload: str | None, columns: dict[str, str]) -> list[Record]:
    from lowjoule.devices.figures import figures_of
    from lowjoule.devices.registry import OpenOptions
    from lowjoule.devices.replay import ReplayDevice, read_table
    from lowjoule.store import records_of
    from lowjoule.workloads import Signature

    table = read_table(path, columns)
    device = ReplayDevice(table, OpenOptions(columns=columns))
    names = device.workload_names() if workload is None else (workload,)
    provenance = {"table": table.name, "sha256": table.digest, "format": table.format}
    records: list[Record] = []
    for name in names:
        one = device.workload(name)
        profile = device.survey(one)
        known = Signature(workload=one, device=figures_of(device, one), default=profile.default)
        records += records_of(profile, device.identity, one, provenance=provenance, signature=known)
    return records
