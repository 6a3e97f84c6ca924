"""How a table's columns are understood: known formats, our own names, and the user's mapping.

The formats themselves are data, in `formats.toml`.
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from lowjoule.devices.replay.columns import KNOBS, Column, named, ours
from lowjoule.errors import TableError
from lowjoule.workloads import WorkUnit

_PER_UNIT = re.compile(rf"_per_({'|'.join(WorkUnit)})(?:_|$)")
_NEAR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A published table's shape; see the head of `formats.toml` for the fields."""

    name: str
    title: str
    signature: tuple[str, ...]
    unit: str
    columns: Mapping[str, Any]
    workload: str = ""
    workload_in_file_name: str = ""
    variant: str = ""
    preferred: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    repeats: str = "error"

    def missing(self, header: Sequence[str], mapped: Mapping[str, str]) -> list[str]:
        """Return the signature's columns that are neither in `header` nor mapped by the user."""
        quantities = {named(name).quantity for name in mapped}
        held = {
            source: named(name).quantity
            for name, source in self.columns.items()
            if isinstance(source, str)
        }
        absent = [one for one in self.signature if one not in header]
        return [one for one in absent if held.get(one, self._text_of(one)) not in quantities]

    def _text_of(self, source: str) -> str:
        return "workload" if "{" + source + "}" in self.workload else ""

    def our_name(self, source: str) -> str:
        """Return our name of the table's own column `source`."""
        for name, held in self.columns.items():
            if held == source:
                return name
        return self._text_of(source) or source


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Where one of our columns stands in a row.

    `header` is the table's own name of it; the numbers at several `places` are summed;
    `pattern`, where given, takes the figure out of a text.
    """

    column: Column
    header: str
    places: tuple[int, ...]
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the rows of one table are read.

    `cells` is by quantity; `workload` are literal texts and places to join; `unit` is None where
    a column or nothing at all says it.
    """

    format: Format | None
    cells: Mapping[str, Cell]
    workload: tuple[str | int, ...]
    unit: WorkUnit | None
    ignored: tuple[str, ...]


@functools.cache
def _data() -> dict[str, Any]:
    text = files(__package__).joinpath("formats.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def known_formats() -> tuple[Format, ...]:
    """Return the formats that are recognised by their column names."""
    return tuple(Format(**entry) for entry in _data()["format"])


def model_of(stem: str) -> str:
    """Return the device model that a file's name names, else the name itself."""
    models: dict[str, str] = _data()["models"]
    for token in re.split(r"[^a-z0-9]+", stem.lower()):
        if token in models:
            return models[token]
    return stem


def recognise(header: Sequence[str], mapped: Mapping[str, str]) -> Format | None:
    """Return the format whose signature `header` (with the user's mapping) has, or None."""
    fitting = [
        one
        for one in known_formats()
        if not one.missing(header, mapped)
        and 2 * len(set(one.signature) & set(header)) > len(one.signature)
    ]
    return max(fitting, key=lambda one: len(one.signature), default=None)


def layout(name: str, stem: str, header: Sequence[str], mapped: Mapping[str, str]) -> Layout:
    """Return how the table `name` (its file's stem is `stem`) with `header` is read.

    `mapped` maps our column names to the table's. Raises `TableError` where a needed column is
    missing or named twice, `UnknownNameError` where `mapped` names no column of ours.
    """
    _check_mapping(name, header, mapped)
    found = recognise(header, mapped)
    reader = _Reader(name, header)
    cells = reader.cells(found, mapped)
    _check_needed(name, header, found, mapped, cells)
    places = {place for cell in cells.values() for place in cell.places}
    parts = _workload_parts(reader, found, mapped, cells, stem)
    places.update(part for part in parts if isinstance(part, int))
    return Layout(
        format=found,
        cells=cells,
        workload=parts,
        unit=_unit(found, cells),
        ignored=tuple(one for i, one in enumerate(header) if one and i not in places),
    )


class _Reader:
    """Finds columns in one header."""

    def __init__(self, name: str, header: Sequence[str]) -> None:
        self.name = name
        self.header = list(header)

    def place(self, source: str) -> int:
        """Return where `source` stands; raises `TableError` where it stands twice."""
        if self.header.count(source) > 1:
            raise TableError(
                f"{self.name} has two columns called {source!r}", cure="rename or remove one"
            )
        return self.header.index(source)

    def cell(self, our_name: str, source: Any) -> Cell | None:
        """Return the cell of `our_name` that `source` (a name, a pattern, a sum) describes."""
        column = named(our_name)
        if isinstance(source, str):
            source = {"column": source}
        if "sum" in source:
            summed = [one for one in self.header if re.fullmatch(source["sum"], one)]
            places = tuple(self.place(one) for one in summed)
            header = " + ".join(summed)
        else:
            header = source["column"]
            places = (self.place(header),) if header in self.header else ()
        pattern = re.compile(source["pattern"]) if "pattern" in source else None
        return (
            Cell(column=column, header=header, places=places, pattern=pattern) if places else None
        )

    def cells(self, found: Format | None, mapped: Mapping[str, str]) -> dict[str, Cell]:
        """Return the cells by quantity: the user's, else the format's, else our own names."""
        cells: dict[str, Cell] = {}
        known = dict(found.columns) if found else {}
        if found and found.variant:
            known["variant"] = found.variant
        for our_name, source in (*mapped.items(), *known.items()):
            quantity = named(our_name).quantity
            cell = None if quantity in cells else self.cell(our_name, source)
            if cell:
                cells[quantity] = cell
        own: dict[str, Cell] = {}
        for name in self.header:
            our_name = _own(name)
            quantity = named(our_name).quantity if our_name else ""
            if not our_name or quantity in cells:
                continue
            if quantity in own:
                raise TableError(
                    f"{self.name} has {own[quantity].header!r} and {name!r} for the same thing",
                    cure=f"remove one or choose with --column {our_name}=NAME",
                )
            cell = self.cell(our_name, name)
            if cell:
                own[quantity] = cell
        return cells | own


def _own(name: str) -> str:
    """Return our name of a column called `name` where that says all, else an empty text."""
    if ours(name):
        return name
    alias = _data()["aliases"].get(name)
    return alias["column"] if alias else ""


def _check_mapping(name: str, header: Sequence[str], mapped: Mapping[str, str]) -> None:
    for our_name, source in mapped.items():
        named(our_name)
        parts = [source] if source in header or our_name != "workload" else source.split("+")
        for part in parts:
            if part not in header:
                near = difflib.get_close_matches(part, header, n=1, cutoff=0.5)
                cure = f"did you mean {near[0]!r}?" if near else f"it has {_listed(header)}"
                raise TableError(f"{name} has no column {part!r} for {our_name}", cure=cure)


def _check_needed(
    name: str,
    header: Sequence[str],
    found: Format | None,
    mapped: Mapping[str, str],
    cells: Mapping[str, Cell],
) -> None:
    own = {quantity for quantity, cell in cells.items() if ours(cell.header)}
    own |= {named(one).quantity for one in mapped}
    for near in known_formats() if not found and not _enough(own) else ():
        missing = near.missing(header, mapped)
        if len(missing) == 1 and len(near.signature) - 1 >= _NEAR:
            raise TableError(
                f"{name} looks like {near.title} but has no column {missing[0]!r}",
                cure=f"add it, or name the column that holds it with "
                f"--column {near.our_name(missing[0])}=NAME",
            )
    needed = (
        ("time (--column time_s=NAME)", {"time"}),
        ("energy or power (--column energy_j=NAME or power_w=NAME)", {"energy", "power"}),
        ("any knob (--column power_limit_w=NAME, sm_clock_mhz or batch_size)", set(KNOBS)),
    )
    absent = [what for what, quantities in needed if not quantities & set(cells)]
    if absent:
        raise TableError(
            f"{name} has no column for {' nor '.join(absent)} among {_listed(header)}",
            cure="add the column or name the one that holds it",
        )


def _enough(quantities: set[str]) -> bool:
    return "time" in quantities and bool({"energy", "power"} & quantities)


def _listed(header: Sequence[str]) -> str:
    shown = [repr(one[:40]) for one in header if one]
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "") if shown else "none"


def _workload_parts(
    reader: _Reader,
    found: Format | None,
    mapped: Mapping[str, str],
    cells: dict[str, Cell],
    stem: str,
) -> tuple[str | int, ...]:
    """Return the literal texts and the places that a workload's name is joined of."""
    held = cells.pop("workload", None)
    if "workload" in mapped:
        source = mapped["workload"]
        columns = [source] if source in reader.header else source.split("+")
        template = "/".join("{" + one + "}" for one in columns)
    elif found and found.workload:
        template = found.workload
    elif held:
        return held.places
    else:
        pattern = found.workload_in_file_name if found else ""
        match = re.search(pattern, stem) if pattern else None
        return (match.group(1) if match else stem,)
    pieces = re.split(r"\{(.+?)\}", template)
    return tuple(
        reader.place(piece) if odd else piece
        for piece, odd in zip(pieces, [False, True] * len(pieces), strict=False)
        if odd or piece
    )


def _unit(found: Format | None, cells: Mapping[str, Cell]) -> WorkUnit | None:
    if "unit" in cells:
        return None
    per = _PER_UNIT.search(cells["time"].header)
    if found:
        return WorkUnit(found.unit)
    return WorkUnit(per.group(1)) if per else None
