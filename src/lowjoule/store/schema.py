"""The tables of a store, their version, and rows to and from records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NoReturn

import sqlalchemy as sa

from lowjoule.errors import InvalidValueError
from lowjoule.store.attempt import ATTEMPT_TEXTS, Attempt
from lowjoule.store.record import (
    FLAT,
    FLAT_NEEDED,
    FLAT_NUMBERS,
    FLAT_TEXTS,
    SETTINGS,
    Record,
    setting_of,
)

VERSION = 2
"""The version of the tables that this code reads and writes."""

DOCUMENTS = (*SETTINGS, "provenance")

_metadata = sa.MetaData()

meta = sa.Table(
    "lowjoule_meta",
    _metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.String(40), nullable=False),
)

points = sa.Table(
    "lowjoule_points",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in FLAT_TEXTS),
    *(sa.Column(name, sa.Double, nullable=name not in FLAT_NEEDED) for name in FLAT_NUMBERS),
    sa.Column("windows", sa.Integer, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in DOCUMENTS),
    sa.Index("lowjoule_points_signature", "signature"),
)

attempts = sa.Table(
    "lowjoule_attempts",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in ATTEMPT_TEXTS),
    sa.Column("asked", sa.Text, nullable=False),
    sa.Column("failure", sa.Text),
    sa.Index("lowjoule_attempts_run", "run"),
)


def _add_attempts(connection: sa.Connection) -> None:
    attempts.create(connection)


MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {1: _add_attempts}
"""What turns tables of a version into those of the next, by the version it starts from."""


def create(connection: sa.Connection) -> None:
    """Create the tables in an empty database."""
    _metadata.create_all(connection)
    connection.execute(meta.insert().values(name="schema_version", value=str(VERSION)))


def read_version(connection: sa.Connection) -> int | None:
    """Return the version of the tables, None where there is none; raises `InvalidValueError`."""
    wanted = sa.select(meta.c.value).where(meta.c.name == "schema_version")
    text = connection.execute(wanted).scalar_one_or_none()
    if text is None:
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidValueError(
            f"its schema version is {text!r}", cure="restore it from a copy or an export"
        )
    return int(text)


def migrate(connection: sa.Connection, found: int) -> None:
    """Bring tables of version `found` to `VERSION`; raises `InvalidValueError` if none can."""
    for version in range(found, VERSION):
        if version not in MIGRATIONS:
            raise InvalidValueError(
                f"its schema version {version} is not one that can be brought up to date",
                cure="export it with the lowjoule that wrote it and import that",
            )
        MIGRATIONS[version](connection)
    new = meta.update().where(meta.c.name == "schema_version").values(value=str(VERSION))
    connection.execute(new)


def row_of(record: Record) -> dict[str, object]:
    """Return the row that keeps `record`."""
    flat = record.flat()
    texts = {name: json.dumps(flat[name]) for name in DOCUMENTS}
    return {**flat, **texts, "key": record.key}


def record_of(row: Mapping[str, object]) -> Record:
    """Return the record that `row` keeps; raises `InvalidValueError` where it keeps none."""
    flat = {name: row[name] for name in FLAT}
    return Record.from_flat({**flat, **{name: parse_object(row[name]) for name in DOCUMENTS}})


def row_of_attempt(attempt: Attempt) -> dict[str, object]:
    """Return the row that keeps `attempt`."""
    texts = {name: getattr(attempt, name) for name in ATTEMPT_TEXTS}
    return {**texts, "asked": json.dumps(dict(attempt.asked)), "failure": attempt.failure}


def attempt_of(row: Mapping[str, object]) -> Attempt:
    """Return the attempt that `row` keeps; raises `InvalidValueError` where it keeps none."""
    texts = {name: str(row[name]) for name in ATTEMPT_TEXTS}
    failure = row["failure"]
    return Attempt(
        **texts,
        asked=setting_of("asked", parse_object(row["asked"])),
        failure=None if failure is None else str(failure),
    )


def parse_object(text: object) -> dict[str, object]:
    """Return the JSON object in `text`: finite numbers, no name twice; `InvalidValueError`."""
    problem = "it is not an object"
    try:
        value = json.loads(
            text if isinstance(text, str) else "null",
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
        if isinstance(value, dict):
            return value
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise InvalidValueError(f"no JSON object can be read: {problem}", cure="correct it")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON has")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found
