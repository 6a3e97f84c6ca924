"""Rows to and from Parquet; pyarrow is imported here alone."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from lowjoule.errors import MissingExtraError, TableError
from lowjoule.store.cells import cell_of

_Row = Mapping[str, object]


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError.of("pyarrow", "parquet", "reading and writing Parquet") from None
    return pa, pq


def write(rows: Sequence[_Row], kinds: Mapping[str, str]) -> bytes:
    """Return a Parquet file of `rows` with the columns of `kinds`.

    Their kinds are "text", "number", "integer" or "knob": integers or floats where all are, or
    else cells (`lowjoule.store.cells`). Raises `MissingExtraError`.
    """
    pa, pq = _pyarrow()
    types = {"text": pa.string(), "number": pa.float64(), "integer": pa.int64()}
    columns = {}
    for name, kind in kinds.items():
        values = [row.get(name) for row in rows]
        if kind == "knob":
            kind, values = _uniform(values)
        columns[name] = pa.array(values, type=types[kind])
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _uniform(values: list[object]) -> tuple[str, list[object]]:
    found = {type(value) for value in values if value is not None}
    if found == {int}:
        return "integer", values
    if found == {float}:
        return "number", values
    return "text", [cell_of(v) if isinstance(v, int | float | str) else None for v in values]


def read(path: Path) -> tuple[list[str], Iterator[dict[str, object]]]:
    """Return the columns and the rows of a Parquet file.

    Raises `TableError` where it is not one, `OSError` where it cannot be opened,
    `MissingExtraError`.
    """
    pa, pq = _pyarrow()
    with path.open("rb") as file:
        try:
            table = pq.read_table(file)
            columns = [str(name) for name in table.column_names]
            every = [column.to_pylist() for column in table.columns]
        except (pa.ArrowException, OSError, ValueError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TableError(
                f"{path} is not a Parquet file ({said})", cure="export it again"
            ) from None
    return columns, (dict(zip(columns, row, strict=True)) for row in zip(*every, strict=True))
