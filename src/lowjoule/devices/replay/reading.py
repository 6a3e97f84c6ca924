"""Reads a CSV file of measurements into a table, strictly: a doubtful cell is an error."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lowjoule.devices.replay.columns import KNOBS
from lowjoule.devices.replay.formats import Cell, Layout, layout, model_of
from lowjoule.devices.replay.points import Row, tasks_of
from lowjoule.devices.replay.table import Table
from lowjoule.errors import TableError
from lowjoule.knobs import BATCH_SIZE, MICRO_BATCH, Setting, Value
from lowjoule.workloads import WorkUnit

_AGREE = 1.5
_LARGEST = 1e24


def read_table(path: Path | str, columns: Mapping[str, str] | None = None) -> Table:
    """Return the table in the CSV file at `path` (UTF-8, commas, one header line).

    `columns` maps our column names, unit included, to the file's ("time_s": "time_per_epoch");
    known published tables and our own names need none. Raises `TableError` with the line where
    the file cannot be read, lacks a column, or holds a doubtful value.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"there is no table {path}", cure=_nearby(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TableError(
            f"{path} cannot be read ({reason})", cure="name a readable CSV file"
        ) from None
    return parse_table(content, name=path.name, stem=path.stem, columns=columns)


def parse_table(
    content: bytes, *, name: str, stem: str, columns: Mapping[str, str] | None = None
) -> Table:
    """Return the table in `content`; `name` is for messages, `stem` for what the file name says.

    Raises as `read_table`.
    """
    records = _records(content, name)
    header = next(records, (0, []))[1]
    if not header:
        raise TableError(f"{name} is empty", cure="give a CSV file with a header line and rows")
    how = layout(name, stem, header, columns or {})
    reader = _RowReader(name, how)
    rows = [reader.row(line, fields) for line, fields in records if len(fields) == len(header)]
    if not rows:
        raise TableError(f"{name} has a header and no rows", cure="add rows of measurements")
    notes = list(reader.notes)
    if how.ignored:
        notes.append(f"columns that are not used: {', '.join(how.ignored)}")
    tasks, more = tasks_of(name, how, rows)
    return Table(
        name=name,
        digest=hashlib.sha256(content).hexdigest(),
        model=reader.model or model_of(stem),
        format=how.format.name if how.format else "plain",
        tasks=tasks,
        notes=(*notes, *more),
    )


def _nearby(path: Path) -> str:
    try:
        siblings = [one.name for one in path.parent.iterdir()]
    except (OSError, ValueError):
        return f"check the path; the folder {path.parent} is not there either"
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.6)
    return f"did you mean {path.parent / near[0]}?" if near else "check the path"


def _records(content: bytes, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and stripped fields, blank lines skipped; the first is the header."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{name}, line {line}: byte {error.start} is not UTF-8", cure="save the file as UTF-8"
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = 0
    while True:
        try:
            fields = [one.strip() for one in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(
                f"{name}, line {reader.line_num}: not CSV ({error})", cure="quote fields properly"
            ) from None
        if not any(fields):
            continue
        width = width or len(fields)
        if len(fields) != width:
            raise TableError(
                f"{name}, line {reader.line_num} has {len(fields)} fields and the header {width}",
                cure="give every row one field a column",
            )
        yield reader.line_num, fields


@dataclass(slots=True)
class _RowReader:
    """Turns the fields of a line into a row in SI units."""

    name: str
    how: Layout
    model: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of all rows."""
        if self.how.unit is None and "unit" not in self.how.cells:
            return (
                f"{self.name} does not name its unit of work: all rows are taken to be of one "
                "amount, called an iteration",
            )
        return ()

    def row(self, line: int, fields: list[str]) -> Row:
        """Return the row of one line; raises `TableError`."""
        self._board(line, fields)
        work = self._number("work", line, fields)
        time_s = self._number("time", line, fields)
        if time_s is None:
            raise self._bad(line, "has no time", "fill it in or remove the line")
        share = 1.0 / (work or 1.0)
        numbers = {
            "time_s": _times(time_s, share),
            "energy_j": _times(self._energy(line, fields, time_s), share),
            "time_sd_s": _times(self._number("time_sd", line, fields), share),
            "energy_sd_j": _times(self._number("energy_sd", line, fields), share),
            "wait_power_w": self._number("wait_power", line, fields),
            "peak_power_w": self._number("peak_power", line, fields),
            "latency_s": self._number("latency", line, fields),
            "memory_bytes": self._number("memory", line, fields),
        }
        if not (_plausible(numbers["time_s"]) and _plausible(numbers["energy_j"])):
            raise self._bad(line, "has a time or energy out of range", "check its units")
        if any(value is not None and value >= _LARGEST for value in numbers.values()):
            raise self._bad(line, "has a spread out of range", "check its units")
        windows = self._number("windows", line, fields)
        return Row(
            line=line,
            workload=self._workload(line, fields),
            variant=self._text("variant", fields),
            unit=self._unit(line, fields),
            setting=self._setting(line, fields),
            repeat=self._text("repeat", fields),
            numbers=numbers,
            windows=int(windows or 1),
        )

    def _bad(self, line: int, what: str, cure: str) -> TableError:
        return TableError(f"{self.name}, line {line} {what}", cure=cure)

    def _energy(self, line: int, fields: list[str], time_s: float) -> float | None:
        energy_j = self._number("energy", line, fields)
        power_w = self._number("power", line, fields)
        if energy_j is None and power_w is None:
            raise self._bad(line, "has neither energy nor power", "fill one in or remove the line")
        product_j = None if power_w is None else power_w * time_s
        if energy_j is None or product_j is None:
            return product_j if energy_j is None else energy_j
        if not energy_j / _AGREE <= product_j <= energy_j * _AGREE:
            raise self._bad(
                line,
                f"has an energy of {energy_j:g} J where power x time is {product_j:g} J",
                "check the columns' units, or map power_w or energy_j to another column",
            )
        return energy_j

    def _setting(self, line: int, fields: list[str]) -> Setting:
        values: dict[str, Value] = {}
        for knob in KNOBS:
            cell = self.how.cells.get(knob)
            if cell is None:
                continue
            value: Value | None
            if cell.column.factor:
                value = self._number(knob, line, fields)
                if value is not None and knob in (BATCH_SIZE, MICRO_BATCH):
                    value = int(value)
            else:
                value = self._text(knob, fields) or None
            if value is None:
                raise self._bad(
                    line, f"has no {knob} in column {cell.header!r}", "fill it in or remove it"
                )
            values[knob] = value
        return Setting(values)

    def _text(self, quantity: str, fields: list[str]) -> str:
        cell = self.how.cells.get(quantity)
        return fields[cell.places[0]] if cell else ""

    def _number(self, quantity: str, line: int, fields: list[str]) -> float | None:
        """Return a quantity in SI; None where its column is absent or its cell empty."""
        cell = self.how.cells.get(quantity)
        if cell is None or not any(fields[place] for place in cell.places):
            return None
        total = sum(self._one(cell, fields[place], line) for place in cell.places)
        value = total * cell.column.factor
        if quantity.endswith("_clock"):
            value = float(round(value)) if math.isfinite(value) else value
        if not abs(value) < _LARGEST:
            raise self._bad(line, f"has a {cell.header!r} out of range", "check its unit")
        domain = cell.column.domain
        if domain is not None and not domain.holds(value):
            raise self._bad(
                line,
                f"has {value:g} as {quantity} (column {cell.header!r}), which is not "
                f"{domain.value}",
                "correct it, or name the column's unit (--column sm_clock_mhz=NAME)"
                if quantity.endswith("_clock")
                else "correct or remove the line",
            )
        return value

    def _one(self, cell: Cell, text: str, line: int) -> float:
        if cell.pattern is not None:
            match = cell.pattern.search(text)
            text = match.group(1) if match else text
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._bad(
                line,
                f"has {text[:40]!r} in column {cell.header!r}, which is not a finite number",
                "correct or remove the line",
            )
        return value

    def _workload(self, line: int, fields: list[str]) -> str:
        parts = [one if isinstance(one, str) else fields[one] for one in self.how.workload]
        if not all(parts):
            raise self._bad(line, "names no workload", "fill it in or remove the line")
        return "".join(parts)

    def _unit(self, line: int, fields: list[str]) -> WorkUnit:
        text = self._text("unit", fields).lower()
        if "unit" not in self.how.cells:
            return self.how.unit or WorkUnit.ITERATION
        try:
            return WorkUnit(text.removesuffix("s"))
        except ValueError:
            known = ", ".join(WorkUnit)
            raise self._bad(line, f"counts work in {text[:40]!r}", f"use one of {known}") from None

    def _board(self, line: int, fields: list[str]) -> None:
        model = self._text("device", fields)
        if model and self.model and model != self.model:
            raise self._bad(
                line,
                f"was measured on {model[:40]!r} and lines before it on {self.model[:40]!r}",
                "keep one device a table",
            )
        self.model = model or self.model


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _plausible(value: float | None) -> bool:
    return value is not None and 1.0 / _LARGEST < value < _LARGEST
