"""How a store's database is reached: the file's place, its journal, and errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from lowjoule.errors import StoreError
from lowjoule.store.location import VARIABLE, is_network

BUSY_TIMEOUT_S = 30.0
WRITING = "lowjoule_writing"
"""Execution option of connections that will write: they take SQLite's write lock at once.

A transaction that begins as a reader and then writes fails, instead of waiting, when another
process has written in between.
"""

_CURES = (
    (
        ("not a database", "malformed", "decode to utf-8", "unsupported file format"),
        "it is left as it is: move it away and import an export, or save what it holds with "
        "`sqlite3 FILE .recover`",
    ),
    (("locked", "busy"), "another process is writing for long: try again when it has ended"),
    (("full",), "free some space on the disk"),
    (
        ("readonly", "unable to open", "permission denied", "disk i/o"),
        f"make the file and its folder writable, or name another place in ${VARIABLE}",
    ),
    (("fatal:  database",), "create the database (createdb NAME) or correct the URL"),
    (("connection refused", "could not translate host"), "start the server or correct the URL"),
    (
        ("no such table", "no such column", "does not exist"),
        "its tables were changed by something else: restore it from a copy or an export",
    ),
)


def engine_for(place: str) -> tuple[sa.Engine, str, Path | None]:
    """Return the engine for a path or SQLAlchemy URL, the store's name, and its file if any.

    A file's folder is made where it is missing. Raises `StoreError` for a URL that cannot be
    used, a missing driver, a folder that cannot be made.
    """
    if "://" not in place:
        return _file_engine(place)
    try:
        url = sa.make_url(place)
        if url.get_backend_name() == "sqlite":
            if url.database in (None, "", ":memory:"):
                raise StoreError("a store in memory keeps nothing", cure="give the path of a file")
            return _file_engine(str(url.database))
        name = url.render_as_string(hide_password=True)
        return sa.create_engine(url, pool_pre_ping=True), name, None
    except ModuleNotFoundError as error:
        raise StoreError(
            f"a store at a {place.partition(':')[0]} URL needs {error.name}",
            cure=f"pip install {error.name}, or name an installed driver (postgresql+psycopg://...)",
        ) from None
    except (SQLAlchemyError, ValueError) as error:
        raise StoreError(
            f"no store can be opened at a URL of kind {place.partition(':')[0]!r} ({_said(error)})",
            cure="write it like postgresql+psycopg://user@host/database, or give a path",
        ) from None


def _file_engine(place: str) -> tuple[sa.Engine, str, Path]:
    path = Path(place).expanduser() if place.startswith("~") else Path(place)
    try:
        if "\0" in place:
            raise ValueError("a name with a NUL")
        path = path.absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError("it is not a file")
    except (OSError, ValueError) as error:
        raise StoreError(
            f"no store can be kept at {place!r} ({error})",
            cure=f"give a path in a writable folder, or name one in ${VARIABLE}",
        ) from None
    # no pool: a connection kept over a fork would break SQLite's locks
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_TIMEOUT_S},
    )
    sa.event.listen(engine, "connect", _take_over)
    sa.event.listen(engine, "begin", _begin)
    return engine, str(path), path


def _take_over(connection: sqlite3.Connection, _: object) -> None:
    """Stop Python from beginning transactions of its own, late and only before some writes."""
    connection.isolation_level = None


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def choose_journal(engine: sa.Engine, path: Path) -> str:
    """Let readers work while another process writes, where the file system allows it.

    Returns the journal mode in force: "wal", or what SQLite has instead. A write-ahead log works
    on one machine only, so that a network file system gets the classic journal. The mode is the
    file's: it does not matter which of several processes sets it.
    """
    wanted = "delete" if is_network(path) else "wal"
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        mode = _journal(cursor, "")
        if not os.access(path, os.W_OK):
            return mode  # to be read only
        try:
            if mode != wanted:
                mode = _journal(cursor, f"={wanted}")
            if mode == "wal":
                cursor.execute("SELECT count(*) FROM sqlite_master")  # needs the shared memory
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return mode  # others are at work in this mode: leave it to the next who opens
            mode = _journal(cursor, "=delete")
        return mode
    finally:
        raw.close()


def _journal(cursor: sa.engine.interfaces.DBAPICursor, change: str) -> str:
    cursor.execute(f"PRAGMA journal_mode{change}")
    row = cursor.fetchone()
    return str(row[0]) if row else ""


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a database's errors into `StoreError` about the store `name`."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeError, OverflowError) as error:
        said = _said(error)
        cure = next(
            (cure for signs, cure in _CURES if any(sign in said.lower() for sign in signs)),
            "check that it can be reached and is a store of lowjoule",
        )
        raise StoreError(
            f"the store {name} failed ({said})", cure=cure.replace("FILE", name)
        ) from error


def _said(error: BaseException) -> str:
    """Return the first line of what the driver said, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
