"""What `predict` and `evaluate` learn from: tables, files of records, stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lowjoule.errors import InvalidValueError

if TYPE_CHECKING:
    from lowjoule.prediction import MeasuredTask

_RECORDS = (".jsonl", ".parquet")


def measured_tasks(
    places: Iterable[str],
    *,
    columns: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
    pattern: str | None = None,
) -> list[MeasuredTask]:
    """Return the tasks of tables, files of records and stores, with what is one model told.

    `columns` and `default` are for tables, as in `OpenOptions`; `pattern` finds the model in a
    workload's name (`prediction.grouping`). What cannot be learned from is said on standard error.
    """
    from lowjoule.cli.console import show_progress
    from lowjoule.prediction.grouping import grouped
    from lowjoule.prediction.selection import usable

    found: list[MeasuredTask] = []
    for place in places:
        found += _of_place(place, columns or {}, default or {})
    tasks, reasons = usable(grouped(found, pattern))
    for reason in reasons:
        show_progress(f"note: {reason}")
    return tasks


def _of_place(
    place: str, columns: Mapping[str, str], default: Mapping[str, str]
) -> list[MeasuredTask]:
    from lowjoule.cli.importing import is_export
    from lowjoule.devices.replay import read_table
    from lowjoule.prediction import tasks_of
    from lowjoule.prediction.tabled import tasks_of_table
    from lowjoule.store import Store

    path = Path(place)
    kind = path.suffix.lower()
    if kind in _RECORDS or (kind == ".csv" and not columns and is_export(path)):
        return _of_records(path)
    if kind == ".csv":
        table = read_table(path, columns)
        known = {knob for task in table.tasks.values() for knob in task.knobs}
        return tasks_of_table(table, {k: v for k, v in default.items() if k in known})
    with Store.open(place, create=False) as store:
        return tasks_of(store)


def _of_records(path: Path) -> list[MeasuredTask]:
    """Return the tasks of a file that `lowjoule export` wrote, put together as a store does."""
    import tempfile

    from lowjoule.prediction import tasks_of
    from lowjoule.store import Store, read_records

    records = read_records(path)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "records.sqlite") as store,
    ):
        store.add(records)
        return tasks_of(store)


def where_to_learn(store: str | None, tables: tuple[str, ...]) -> list[str]:
    """Return the places to learn from: those named, else the user's store where there is one.

    Raises `InvalidValueError` where there is none.
    """
    from lowjoule.store.location import default_location

    named = [*tables, *([store] if store is not None else [])]
    if named:
        return named
    usual = str(default_location())
    if "://" in usual or Path(usual).exists():
        return [usual]
    raise InvalidValueError(
        "there is nothing to learn from: no store here, no table named",
        cure="name tables of measurements of at least two models with --tasks, a store with "
        "--store (lowjoule import and tune --store fill one), or a saved --predictor",
    )
