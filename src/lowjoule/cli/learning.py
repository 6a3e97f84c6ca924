"""What `predict` and `evaluate` learn from: tables, files of records, stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lowjoule.errors import InvalidValueError

if TYPE_CHECKING:
    from lowjoule.prediction.features import MeasuredTask

    Named = tuple[MeasuredTask, tuple[str, ...]]

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
    from lowjoule.prediction.grouping import grouped, matched
    from lowjoule.prediction.selection import usable

    named: list[Named] = []
    for place in places:
        named += _of_place(place, columns or {}, default or {})
    parts = [own if pattern is None else matched(_workload(task), pattern) for task, own in named]
    tasks, reasons = usable(grouped([task for task, _ in named], parts))
    for reason in reasons:
        show_progress(f"note: {reason}")
    return tasks


def _of_place(place: str, columns: Mapping[str, str], default: Mapping[str, str]) -> list[Named]:
    from lowjoule.cli.importing import is_export
    from lowjoule.devices.replay import read_table
    from lowjoule.prediction.stored import tasks_of, tasks_of_records
    from lowjoule.prediction.tabled import tasks_of_table
    from lowjoule.store import Store, read_records

    path = Path(place)
    if path.suffix.lower() in _RECORDS or (path.suffix.lower() == ".csv" and is_export(path)):
        return _with_parts(tasks_of_records(read_records(path)))
    if path.suffix.lower() == ".csv":
        table = read_table(path, columns)
        known = {knob for task in table.tasks.values() for knob in task.knobs}
        return tasks_of_table(table, {k: v for k, v in default.items() if k in known})
    with Store.open(place, create=False) as store:
        return _with_parts(tasks_of(store))


def _with_parts(tasks: Iterable[MeasuredTask]) -> list[Named]:
    from lowjoule.prediction.grouping import parts_of

    return [(task, parts_of(_workload(task))) for task in tasks]


def _workload(task: MeasuredTask) -> str:
    """Return the workload's name of a task called "board: workload"."""
    return task.name.split(": ", 1)[-1]


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
