"""Records in and out: CSV, JSON lines and Parquet files with a schema version.

A file has one record a row. CSV and Parquet have a column for each knob, `setting.NAME` for the
value asked for and `achieved.NAME` for the one achieved; JSON lines have objects.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lowjoule.errors import (
    InvalidValueError,
    LowjouleError,
    StoreError,
    TableError,
    UnknownNameError,
)
from lowjoule.sink import Sink
from lowjoule.store import parquet
from lowjoule.store.cells import cell_of, number_of, value_of
from lowjoule.store.record import FLAT, FLAT_NEEDED, FLAT_NUMBERS, SETTINGS, Record
from lowjoule.store.schema import parse_object

SCHEMA = 1
"""The version of the files that this code reads and writes."""

_VERSION_COLUMN = "schema"
_PREFIXES = {"asked": "setting.", "achieved": "achieved."}
_PLAIN = tuple(name for name in FLAT if name not in SETTINGS)
_NUMBERS = frozenset((*FLAT_NUMBERS, "windows"))
_FORMATS = (".csv", ".jsonl", ".parquet")

_Row = dict[str, object]


def write_records(records: Iterable[Record], path: str | Path) -> int:
    """Write `records` to a .csv, .jsonl or .parquet file, and return how many.

    What was at `path` is replaced at once when all is written. Raises `StoreError` where nothing
    can be written there, `InvalidValueError` for another kind of file, `MissingExtraError`
    without pyarrow.
    """
    path = Path(path)
    every = list(records)
    writers: Mapping[str, Callable[[Sequence[Record]], bytes]] = {
        ".csv": _csv,
        ".jsonl": _jsonl,
        ".parquet": _parquet,
    }
    content = writers[_format(path)](every)
    try:
        Sink(path).write(content)
    except InvalidValueError as error:
        raise StoreError(error.problem, cure=error.cure) from None
    return len(every)


def read_records(path: str | Path) -> list[Record]:
    """Return all records of a .csv, .jsonl or .parquet file.

    Raises `TableError` with the line for the first that is not a record or repeats another one,
    `InvalidValueError` for another kind of file, `MissingExtraError` without pyarrow.
    """
    path = Path(path)
    readers: Mapping[str, Callable[[Path], Iterator[tuple[str, _Row]]]] = {
        ".csv": _csv_rows,
        ".jsonl": _jsonl_rows,
        ".parquet": _parquet_rows,
    }
    rows = readers[_format(path)](path)
    records: list[Record] = []
    seen: dict[str, str] = {}
    place = "its beginning"
    try:
        for place, row in rows:
            _check_version(row)
            record = Record.from_flat(row)
            if record.key in seen:
                raise InvalidValueError(f"it repeats {seen[record.key]}", cure="remove one")
            seen[record.key] = place
            records.append(record)
    except OSError as error:
        raise TableError(
            f"{path} cannot be read ({error.strerror or error})", cure="check its name and rights"
        ) from None
    except TableError:
        raise
    except (InvalidValueError, UnknownNameError) as error:
        raise TableError(f"{path}, {place}: {error.problem}", cure=error.cure) from None
    return records


def _format(path: Path) -> str:
    if path.suffix.lower() in _FORMATS:
        return path.suffix.lower()
    raise InvalidValueError(
        f"{str(path)!r} is not a kind of file that records are kept in",
        cure=f"use a name that ends in {', '.join(_FORMATS)}",
    )


def _check_version(row: _Row) -> None:
    """Take the version out of `row` and raise `InvalidValueError` unless it can be read."""
    version = row.pop(_VERSION_COLUMN, None)
    if isinstance(version, bool) or not isinstance(version, int | float):
        shown = "missing" if version is None else repr(str(version)[:40])
        raise InvalidValueError(f"{_VERSION_COLUMN} is {shown}", cure=f"it must be {SCHEMA}")
    if version > SCHEMA:
        raise InvalidValueError(
            f"it was written by a newer lowjoule ({_VERSION_COLUMN} {version:g}, this one knows "
            f"{SCHEMA})",
            cure="upgrade lowjoule",
        )
    if version != SCHEMA:
        raise InvalidValueError(f"{_VERSION_COLUMN} is {version:g}", cure=f"it must be {SCHEMA}")


def _wide(record: Record) -> _Row:
    """Return the columns of `record`, one for each knob."""
    flat = record.flat()
    wide: _Row = {_VERSION_COLUMN: SCHEMA, **{name: flat[name] for name in _PLAIN}}
    wide["provenance"] = json.dumps(flat["provenance"]) if record.provenance else None
    for name, prefix in _PREFIXES.items():
        for knob, value in getattr(record, name).items():
            wide[prefix + knob] = value
    return wide


def _narrow(wide: Mapping[str, object]) -> _Row:
    """Return what `_wide` was given, as `Record.from_flat` takes it, and the version."""
    row: _Row = {}
    settings: dict[str, _Row] = {name: {} for name in SETTINGS}
    for column, value in wide.items():
        for name, prefix in _PREFIXES.items():
            if column.startswith(prefix):
                if value is not None:
                    settings[name][column.removeprefix(prefix)] = value
                break
        else:
            row[column] = value
    if row.get("windows", 0) is None:
        del row["windows"]
    if row.get("provenance"):
        row["provenance"] = parse_object(row["provenance"])
    return {**row, **settings}


def _columns(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return all columns: the plain ones in their order, then those of knobs."""
    plain = [_VERSION_COLUMN, *_PLAIN]
    knobs = {column for row in rows for column in row}.difference(plain)
    return [*plain, *sorted(knobs, reverse=True)]  # what was asked before what was achieved


def _csv(records: Sequence[Record]) -> bytes:
    rows = [_wide(record) for record in records]
    columns = _columns(rows)
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(column, row.get(column)) for column in columns])
    return file.getvalue().encode()


def _cell(column: str, value: object) -> str:
    if value is None:
        return ""
    if _is_knob(column) and isinstance(value, int | float | str):
        return cell_of(value)
    return value if isinstance(value, str) else repr(value)


def _is_knob(column: str) -> bool:
    return column.startswith(tuple(_PREFIXES.values()))


def _csv_rows(path: Path) -> Iterator[tuple[str, _Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            columns = next(reader, None)
            if columns is None:
                raise TableError(f"{path} is empty", cure="give it a line with columns' names")
            _check_columns(path, columns)
            line = reader.line_num + 1
            for cells in reader:
                if cells:
                    place = f"line {line}"
                    yield place, _csv_row(path, place, columns, cells)
                line = reader.line_num + 1
    except (csv.Error, UnicodeDecodeError) as error:
        raise TableError(
            f"{path} is not a CSV table in UTF-8 ({error})", cure="export it again"
        ) from None


def _csv_row(path: Path, place: str, columns: Sequence[str], cells: Sequence[str]) -> _Row:
    """Return the row that `cells` hold; raises `TableError`."""
    if len(cells) != len(columns):
        raise TableError(
            f"{path}, {place} has {len(cells)} cells for {len(columns)} columns",
            cure="give every column a cell",
        )
    wide: _Row = {}
    for column, cell in zip(columns, cells, strict=True):
        try:
            if _is_knob(column):
                wide[column] = value_of(cell)
            elif column in _NUMBERS or column == _VERSION_COLUMN:
                wide[column] = number_of(cell)
            else:
                wide[column] = cell
        except LowjouleError as error:
            raise TableError(
                f"{path}, {place}, column {column}: {error.problem}", cure=error.cure
            ) from None
    return _row(path, place, wide)


def _row(path: Path, place: str, wide: Mapping[str, object]) -> _Row:
    try:
        return _narrow(wide)
    except InvalidValueError as error:
        raise TableError(f"{path}, {place}: {error.problem}", cure=error.cure) from None


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raise `TableError` unless `columns` are those of records, each once."""
    known = {_VERSION_COLUMN, *_PLAIN}
    missing = [name for name in (_VERSION_COLUMN, *FLAT_NEEDED) if name not in columns]
    if missing:
        raise TableError(
            f"{path} has no column {', '.join(missing)}",
            cure="add it; a table of other columns is imported as measurements to replay",
        )
    for column in columns:
        if columns.count(column) > 1:
            raise TableError(f"{path} has two columns {column!r}", cure="remove one")
        if column not in known and not _is_knob(column):
            error = UnknownNameError.among("column", column, known)
            raise TableError(f"{path}: {error.problem}", cure=error.cure)


def _jsonl(records: Sequence[Record]) -> bytes:
    lines = (json.dumps({_VERSION_COLUMN: SCHEMA, **record.flat()}) for record in records)
    return "".join(line + "\n" for line in lines).encode()


def _jsonl_rows(path: Path) -> Iterator[tuple[str, _Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"line {number}"
            try:
                if line.strip():
                    yield place, parse_object(line.decode())
            except (InvalidValueError, UnicodeDecodeError) as error:
                problem = error.problem if isinstance(error, LowjouleError) else str(error)
                raise TableError(f"{path}, {place}: {problem}", cure="correct the line") from None


def _parquet(records: Sequence[Record]) -> bytes:
    rows = [_wide(record) for record in records]
    kinds = {
        column: "number" if column in _NUMBERS else "knob" if _is_knob(column) else "text"
        for column in _columns(rows)
    }
    kinds |= {_VERSION_COLUMN: "integer", "windows": "integer"}
    return parquet.write(rows, kinds)


def _parquet_rows(path: Path) -> Iterator[tuple[str, _Row]]:
    columns, rows = parquet.read(path)
    _check_columns(path, columns)
    for number, wide in enumerate(rows, start=1):
        place = f"row {number}"
        knobs = {k: _knob_value(v) for k, v in wide.items() if _is_knob(k)}
        yield place, _row(path, place, {**wide, **knobs})


def _knob_value(value: object) -> object:
    return value_of(value) if isinstance(value, str) else value
