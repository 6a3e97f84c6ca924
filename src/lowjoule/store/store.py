"""The store: every measured point, in a database that many processes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeVar, Unpack

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, ProgrammingError

from lowjoule.errors import InvalidValueError, StoreError, UnknownNameError
from lowjoule.knobs import Setting, Value
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.store import schema
from lowjoule.store.attempt import Attempt
from lowjoule.store.engine import WRITING, choose_journal, engine_for, explained
from lowjoule.store.location import default_location
from lowjoule.store.pooling import pooled
from lowjoule.store.record import Record
from lowjoule.workloads import Workload, WorkUnit

_AT_ONCE = 500
_RACES = 10
_T = TypeVar("_T")


class Which(TypedDict, total=False):
    """Which records: those that have every given value; None is "any".

    `setting` names values of achieved knobs.
    """

    device_model: str | None
    device_uuid: str | None
    workload: str | None
    signature: str | None
    source: Source | None
    unit: WorkUnit | None
    setting: Mapping[str, Value] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Records that may stand in one profile, and how many there are.

    `source` and `unit` are values of `Source` and `WorkUnit`.
    """

    device_model: str
    device_uuid: str
    workload: str
    signature: str
    source: str
    unit: str
    records: int


_FACETS = {
    "signature": "workload definitions",
    "device_uuid": "devices",
    "source": "sources",
    "unit": "units of work",
}


class Store:
    """Every measured point, kept in SQLite or in any database that SQLAlchemy speaks.

    Use it as a context manager, or `close` it. It may be shared by threads, and any number of
    processes may read and write one store at once; what `add` has returned from survives the end
    of the process at any moment. Methods raise `StoreError` where the database fails.
    """

    def __init__(self, engine: sa.Engine, name: str, journal: str | None) -> None:
        self._engine = engine
        self._writer = engine.execution_options(**{WRITING: True})
        self.name = name
        """The file's path, or the URL without its password."""
        self.journal = journal
        """SQLite's journal mode ("wal", "delete"); None for other databases."""

    @classmethod
    def open(cls, place: str | Path | None = None, *, create: bool = True) -> Self:
        """Open the store at a path or SQLAlchemy URL, made where there is none.

        Without `create` a file that is not there raises `StoreError`, and nothing is made.

        By default it is at $LOWJOULE_STORE, or in the user's data folder. An older store is
        brought up to date. Raises `StoreError`, leaving what is there untouched, for a newer
        store, a corrupt one, a database of something else, a place that cannot be written.
        """
        engine, name, path = engine_for(str(place) if place is not None else default_location())
        if path is not None and not create and not path.exists():
            raise StoreError(f"there is no store at {name}", cure="check the path, or import first")
        store = cls(engine, name, None)
        try:
            store._prepare(own_file=path is not None)
            if path is not None:
                with explained(name):
                    store.journal = choose_journal(engine, path)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Let go of the database; closing twice is harmless."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, records: Iterable[Record], attempts: Iterable[Attempt] = ()) -> int:
        """Keep `records` and `attempts`, all or none, and return how many records were new.

        A record whose `key` is there already is left as it is: repeating an import adds nothing.
        """
        tried = [schema.row_of_attempt(one) for one in attempts]
        rows = {str(row["key"]): row for row in map(schema.row_of, records)}

        def insert(connection: sa.Connection) -> int:
            known: set[str] = set()
            for some in _chunks(list(rows)):
                wanted = sa.select(schema.points.c.key).where(schema.points.c.key.in_(some))
                known.update(connection.scalars(wanted))
            new = [row for key, row in rows.items() if key not in known]
            if new:
                connection.execute(schema.points.insert(), new)
            if tried:
                connection.execute(schema.attempts.insert(), tried)
            return len(new)

        return self._write(insert) if rows or tried else 0

    def attempts(self, run: str) -> list[Attempt]:
        """Return what `run` has tried so far, in order, failures among it."""
        table = schema.attempts
        wanted = sa.select(table).where(table.c.run == run).order_by(table.c.id)
        with explained(self.name), self._engine.begin() as connection:
            rows = list(connection.execute(wanted).mappings())
        return [schema.attempt_of({str(name): one for name, one in row.items()}) for row in rows]

    def records(self, **which: Unpack[Which]) -> list[Record]:
        """Return the records that `which` describes, in the order in which they were kept.

        Raises `StoreError` for a row that holds no record (something else wrote it).
        """
        return list(self._found(which))

    def forget(self, **which: Unpack[Which]) -> int:
        """Remove the records that `which` describes, and return how many there were.

        Raises `InvalidValueError` where `which` names nothing.
        """
        if all(value is None for value in which.values()):
            raise InvalidValueError(
                "nothing says which records to forget", cure="name a device, a workload, ..."
            )
        # by key: a number may by now be another record's
        keys = [record.key for record in self._found(which)]

        def remove(connection: sa.Connection) -> int:
            rows = (
                connection.execute(schema.points.delete().where(schema.points.c.key.in_(some)))
                for some in _chunks(keys)
            )
            return sum(result.rowcount for result in rows)

        return self._write(remove) if keys else 0

    def kinds(self) -> list[Kind]:
        """Return what there is, sorted by device and workload."""
        names = ("device_model", "workload", "device_uuid", "signature", "source", "unit")
        columns = [schema.points.c[name] for name in names]
        count = sa.func.count().label("records")
        wanted = sa.select(*columns, count).group_by(*columns).order_by(*columns)
        with explained(self.name), self._engine.begin() as connection:
            return [Kind(**row) for row in connection.execute(wanted).mappings()]

    def profile(
        self,
        device_model: str,
        workload: Workload | str,
        *,
        device_uuid: str | None = None,
        signature: str | None = None,
        source: Source | None = None,
        unit: WorkUnit | None = None,
        setting: Mapping[str, Value] | None = None,
        knobs: Iterable[str] | None = None,
        default: Setting | None = None,
    ) -> Profile:
        """Return what is known of `workload` on a model of device, repeated settings pooled.

        A profile never mixes devices, definitions of a workload, sources or units of work; its
        batch size and precision are knobs of each point. A `Workload` is found by its signature
        too, a name alone by whatever was measured under it. `setting` keeps to points with those
        values (one batch size), `knobs` to points with just those knobs; `default` is passed on.

        Raises `UnknownNameError` for what was not measured, naming what was, and `StoreError`
        where several kinds of points fit, or none has the setting.
        """
        if isinstance(workload, Workload):
            signature = signature or workload.signature
            workload = workload.name
        wanted = {
            "device_model": device_model,
            "workload": workload,
            "signature": signature,
            "device_uuid": device_uuid,
            "source": source,
            "unit": unit,
        }
        kind = self._only_kind({k: str(v) for k, v in wanted.items() if v is not None})
        records = self._of_knobs(self.records_of(kind), None if knobs is None else frozenset(knobs))
        return pooled(self._at(records, setting or {}), default=default)

    def records_of(self, kind: Kind) -> list[Record]:
        """Return the records of `kind`, in the order in which they were kept."""
        return self.records(
            device_model=kind.device_model,
            device_uuid=kind.device_uuid,
            workload=kind.workload,
            signature=kind.signature,
            source=Source(kind.source),
            unit=WorkUnit(kind.unit),
        )

    def _only_kind(self, wanted: Mapping[str, str]) -> Kind:
        """Return the one kind of records that `wanted` describes."""
        kinds = self.kinds()
        where = ""
        for name, value in wanted.items():
            left = [kind for kind in kinds if getattr(kind, name) == value]
            if not left:
                known = {getattr(kind, name) for kind in kinds}
                if name == "signature":
                    raise StoreError(
                        f"{wanted['workload']} was measured with another definition of it "
                        f"({', '.join(sorted(known))}), not this one ({value})",
                        cure="measure it as it is now, or ask for the other by signature=",
                    )
                raise UnknownNameError.among(f"{name.replace('_', ' ')}{where}", value, known)
            if name in ("device_model", "workload"):
                where = f" measured on {value}" if name == "device_model" else f" of {value}"
            kinds = left
        for name, plural in _FACETS.items():
            found = sorted({getattr(kind, name) for kind in kinds})
            if len(found) > 1:
                raise StoreError(
                    f"points of several {plural} do not make one profile ({', '.join(found)})",
                    cure=f"choose one with {name}=",
                )
        return kinds[0]

    def _of_knobs(self, records: list[Record], knobs: frozenset[str] | None) -> list[Record]:
        """Return the records whose settings name just `knobs`, or all if they agree in them."""
        found = {frozenset(record.achieved) for record in records}
        shown = " and ".join(sorted("(" + ", ".join(sorted(one)) + ")" for one in found))
        if knobs is None and len(found) > 1:
            raise StoreError(
                f"points of different knobs do not make one profile: {shown}",
                cure="choose with knobs=",
            )
        if knobs is not None and knobs not in found:
            raise StoreError(
                f"no point in {self.name} has just the knobs {', '.join(sorted(knobs))}",
                cure=f"there are points with {shown}",
            )
        return [r for r in records if knobs is None or frozenset(r.achieved) == knobs]

    def _at(self, records: list[Record], setting: Mapping[str, Value]) -> list[Record]:
        """Return the records with the values of `setting`."""
        for name, value in setting.items():
            left = [record for record in records if record.achieved.get(name) == value]
            if not left:
                known = {r.achieved[name] for r in records if name in r.achieved}
                shown = ", ".join(str(one) for one in sorted(known, key=_order))
                raise StoreError(
                    f"no point in {self.name} has {name} {value}",
                    cure=f"there are points at {shown}" if known else "measure it first",
                )
            records = left
        return records

    def _found(self, which: Which) -> Iterator[Record]:
        wanted = sa.select(schema.points).order_by(schema.points.c.id)
        for name, value in which.items():
            if name not in Which.__annotations__:
                raise UnknownNameError.among("filter", name, Which.__annotations__)
            if value is not None and name != "setting":
                wanted = wanted.where(schema.points.c[name] == str(value))
        setting = which.get("setting") or {}
        with explained(self.name), self._engine.begin() as connection:
            rows = list(connection.execute(wanted).mappings())
        for row in rows:
            try:
                record = schema.record_of({str(name): value for name, value in row.items()})
            except (InvalidValueError, UnknownNameError) as error:
                raise StoreError(
                    f"row {row['id']} of the store {self.name} holds no record: {error.problem}",
                    cure=f"delete it from the table {schema.points.name}, or restore a copy",
                ) from error
            if all(record.achieved.get(knob) == value for knob, value in setting.items()):
                yield record

    def _prepare(self, *, own_file: bool) -> None:
        """Check the tables' version; create or migrate them where needed."""
        with explained(self.name), self._engine.begin() as connection:
            found = self._version(connection, own_file)
        if found != schema.VERSION:
            self._write(lambda connection: self._bring_up(connection, own_file))

    def _bring_up(self, connection: sa.Connection, own_file: bool) -> None:
        found = self._version(connection, own_file)  # another process may have been first
        if found is None:
            schema.create(connection)
        elif found < schema.VERSION:
            try:
                schema.migrate(connection, found)
            except InvalidValueError as error:
                raise StoreError(
                    f"the store {self.name} is too old: {error.problem}", cure=error.cure
                ) from None

    def _version(self, connection: sa.Connection, own_file: bool) -> int | None:
        """Return the tables' version, None where there are none yet."""
        tables = set(sa.inspect(connection).get_table_names())
        if schema.meta.name not in tables:
            if tables and own_file:
                raise StoreError(
                    f"{self.name} is a database of something else", cure="give another path"
                )
            return None
        try:
            found = schema.read_version(connection)
        except InvalidValueError as error:
            raise StoreError(
                f"the store {self.name} is corrupt: {error.problem}", cure=error.cure
            ) from None
        if found is None or schema.points.name not in tables:
            raise StoreError(
                f"the store {self.name} is corrupt: it is not complete",
                cure="move it away, or restore it from a copy or an export",
            )
        if found > schema.VERSION:
            raise StoreError(
                f"the store {self.name} was written by a newer lowjoule (its schema is {found}, "
                f"this one knows {schema.VERSION})",
                cure="upgrade lowjoule, or use another store",
            )
        return found

    def _write(self, action: Callable[[sa.Connection], _T]) -> _T:
        """Run `action` in one transaction, again where another process was first."""
        with explained(self.name):
            for _ in range(_RACES):
                try:
                    with self._writer.begin() as connection:
                        return action(connection)
                except (IntegrityError, ProgrammingError):
                    continue
            with self._writer.begin() as connection:
                return action(connection)


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _order(value: Value) -> tuple[bool, float, str]:
    """Sort numbers by size, then names."""
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")
