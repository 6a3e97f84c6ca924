from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from lowjoule.errors import InvalidValueError, LowjouleError, StoreError, UnknownNameError
from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.store import Attempt, Record, Store, engine, schema
from lowjoule.store.location import default_location, is_network
from store_records import record, records, typed

ONE_AFTER_ANOTHER = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

NEXT = schema.VERSION + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as store:
        yield store


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def refused(place: Path | str) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(place)
    assert "\n" not in str(caught.value)
    assert caught.value.cure
    return str(caught.value)


@ONE_AFTER_ANOTHER
@given(st.lists(records(), max_size=5, unique_by=lambda one: one.key))
def test_what_is_added_comes_back(store: Store, some: list[Record]) -> None:
    before = store.records()
    new = [one for one in some if one.key not in {old.key for old in before}]
    assert store.add(some) == len(new)
    assert [typed(one) for one in store.records()] == [typed(one) for one in before + new]


def test_adding_again_adds_nothing(store: Store, path: Path) -> None:
    some = [record(limit) for limit in range(100, 1800)]
    assert store.add([*some, some[0]]) == 1700
    assert store.add(some) == 0
    with Store.open(path) as other:
        assert other.add([*some, record(1.0)]) == 1
        assert len(other.records()) == 1701
    assert store.add([]) == 0


def test_records_are_selected_by_each_filter(store: Store) -> None:
    store.add(
        [
            record(100.0),
            record(200.0, 32, device_uuid="GPU-2"),
            record(200.0, "auto", workload="bert", source=Source.SIMULATED),
        ]
    )
    assert len(store.records()) == 3
    assert len(store.records(device_model="NVIDIA A100", device_uuid=None)) == 3
    assert [r.device_uuid for r in store.records(setting={"batch_size": 32.0})] == ["GPU-2"]
    assert len(store.records(setting={"power_limit": 200})) == 2
    assert [r.workload for r in store.records(source=Source.SIMULATED)] == ["bert"]
    assert store.records(workload="bert", source=Source.MEASURED) == []
    assert store.records(setting={"sm_clock": 1e9}) == []
    with pytest.raises(UnknownNameError, match=r"did you mean .*'device_model'"):
        store.records(device="x")  # type: ignore[call-arg]
    with pytest.raises(StoreError):
        store.records(device_model="\ud800")


def test_forgetting_removes_what_was_named_and_nothing_unnamed(store: Store) -> None:
    store.add([record(limit, source=source) for limit in (1, 2) for source in Source])
    with pytest.raises(InvalidValueError, match="name a device"):
        store.forget()
    with pytest.raises(InvalidValueError, match="name a device"):
        store.forget(workload=None)
    assert store.forget(source=Source.MEASURED, setting={"power_limit": 2}) == 1
    assert store.forget(source=Source.SIMULATED) == 2
    assert store.forget(source=Source.SIMULATED) == 0
    assert len(store.records()) == 7


def test_kinds_say_what_there_is(store: Store) -> None:
    store.add([record(1), record(2), record(1, device_model="B")])
    assert [(kind.device_model, kind.records) for kind in store.kinds()] == [
        ("B", 1),
        ("NVIDIA A100", 2),
    ]


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LOWJOULE_STORE", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Store.open() as store:
        assert store.name == str(tmp_path / "home/.local/share/lowjoule/store.sqlite")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_location() == str(tmp_path / "data/lowjoule/store.sqlite")
    monkeypatch.setenv("LOWJOULE_STORE", f"sqlite:///{tmp_path}/mine.sqlite")
    with Store.open() as store:
        assert store.name == str(tmp_path / "mine.sqlite")
    assert (tmp_path / "mine.sqlite").exists()


def test_the_log_is_written_ahead_where_the_file_system_allows(store: Store, path: Path) -> None:
    assert store.journal == "wal"
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_network_file_system_gets_the_classic_journal(
    monkeypatch: pytest.MonkeyPatch, store: Store, path: Path
) -> None:
    store.add([record()])
    monkeypatch.setattr(engine, "is_network", lambda path: True)
    with Store.open(path) as again:
        assert again.journal == "delete"
        assert again.add([record(), record(1.0)]) == 1
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_file_system_that_refuses_the_log_gets_the_classic_journal(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    real = engine._journal
    monkeypatch.setattr(
        engine, "_journal", lambda c, change: real(c, "" if change == "=wal" else change)
    )
    with Store.open(path) as store:
        assert store.journal == "delete"
        assert store.add([record()]) == 1


def test_network_file_systems_are_known_by_their_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\n"
        "server:/home /home nfs4 rw 0 0\n"
        "/dev/sdb /home/fast ext4 rw 0 0\n"
        "server:/x /my\\040data nfs rw 0 0\n"
        "broken\n"
    )
    assert is_network(Path("/home/me/store"), mounts)
    assert is_network(Path("/my data/store"), mounts)
    assert not is_network(Path("/home/fast/store"), mounts)
    assert not is_network(Path("/homely/store"), mounts)
    assert not is_network(Path("/home"), tmp_path / "absent")


def test_a_corrupt_file_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"power_limit,time\n" * 1000)
    before = path.read_bytes()
    said = refused(path)
    assert str(path) in said
    assert "not a database" in said
    assert f"sqlite3 {path} .recover" in said
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["store.sqlite"]


@pytest.mark.parametrize("keep", [50, 100, 5000, 9000])
def test_a_cut_or_overwritten_store_is_named_and_left_alone(keep: int, path: Path) -> None:
    with Store.open(path) as store:
        store.add([record(limit) for limit in range(300)])
    whole = path.read_bytes()
    broken = whole[:keep] if keep != 9000 else whole[:keep] + b"\xff" * (len(whole) - keep)
    path.write_bytes(broken)
    broken_words = r"malformed|not a database|disk I/O|left as it is"
    with pytest.raises(StoreError, match=broken_words), Store.open(path) as store:
        store.records()
    assert path.read_bytes() == broken


def test_a_newer_store_is_refused_and_left_alone(store: Store, path: Path) -> None:
    store.add([record()])
    change(path, f"UPDATE lowjoule_meta SET value = '{NEXT}'")
    before = path.read_bytes()
    said = f"written by a newer lowjoule (its schema is {NEXT}, this one knows {schema.VERSION})"
    assert f"{said}; upgrade" in refused(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE lowjoule_meta SET value = 'x'", "schema version is 'x'"),
        ("UPDATE lowjoule_meta SET value = x'ff'", "is corrupt"),
        ("DELETE FROM lowjoule_meta", "not complete"),
        ("DROP TABLE lowjoule_points", "not complete"),
        ("DROP TABLE lowjoule_meta", "database of something else"),
        ("ALTER TABLE lowjoule_meta RENAME value TO other", "no such column"),
        ("UPDATE lowjoule_meta SET value = '0'", "is too old"),
    ],
)
def test_a_store_that_something_changed_is_refused(
    store: Store, path: Path, statement: str, said: str
) -> None:
    change(path, statement)
    assert said in refused(path)


def test_an_older_store_is_brought_up_to_date(
    monkeypatch: pytest.MonkeyPatch, store: Store, path: Path
) -> None:
    store.add([record()])
    add_column = sa.text("ALTER TABLE lowjoule_points ADD COLUMN humidity FLOAT")
    monkeypatch.setattr(schema, "VERSION", NEXT)
    monkeypatch.setattr(schema, "MIGRATIONS", {NEXT - 1: lambda c: c.execute(add_column)})
    with Store.open(path) as again:
        assert again.records() == [record()]
    with Store.open(path) as again:  # once only, or the column would be there already
        assert len(again.records()) == 1
    monkeypatch.setattr(schema, "VERSION", NEXT - 1)
    assert "newer" in refused(path)


def test_a_store_of_the_first_schema_learns_to_keep_attempts(store: Store, path: Path) -> None:
    store.add([record()])
    change(path, "DROP TABLE lowjoule_attempts", "UPDATE lowjoule_meta SET value = '1'")
    with Store.open(path) as again:
        again.add([], [attempt("run")])
        assert again.records() == [record()]
        assert again.attempts("run") == [attempt("run")]


def attempt(run: str, limit: float = 100.0, failure: str | None = None) -> Attempt:
    return Attempt(
        run=run,
        device_model="NVIDIA A100",
        device_uuid="GPU-1",
        workload="gemm",
        signature="abc",
        asked=Setting({"power_limit": limit, "batch_size": 64, "precision": "bf16"}),
        failure=failure,
    )


def test_attempts_are_kept_by_run_and_with_their_records_or_not_at_all(store: Store) -> None:
    failed = attempt("a", 200.0, "it does not fit")
    assert store.add([record()], [attempt("a")]) == 1
    assert store.add([record()], [failed, attempt("b")]) == 0
    assert store.attempts("a") == [attempt("a"), failed]
    assert store.attempts("b") == [attempt("b")]
    assert store.attempts("c") == []
    with pytest.raises(StoreError):
        store.add([record(7.0)], [attempt("\ud800")])
    assert len(store.records()) == 1


def test_a_failed_migration_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, store: Store, path: Path
) -> None:
    def fails(connection: sa.Connection) -> None:
        connection.execute(schema.points.delete())
        connection.exec_driver_sql("SELECT * FROM nowhere")

    store.add([record()])
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", NEXT)
        patch.setattr(schema, "MIGRATIONS", {NEXT - 1: fails})
        assert "no such table" in refused(path)
    with Store.open(path) as again:
        assert again.records() == [record()]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/dev/null/store.sqlite", "no store can be kept at"),
        ("/proc/lowjoule/store.sqlite", "no store can be kept at"),
        ("/proc/lowjoule.sqlite", "writable"),
        ("/tmp", "it is not a file"),
        ("a\0b", "no store can be kept at"),
        ("sqlite://", "a store in memory keeps nothing"),
        ("sqlite:///:memory:", "a store in memory keeps nothing"),
        ("nonsense://host/x", "URL of kind 'nonsense'"),
        ("://", "URL of kind ''"),
    ],
)
def test_a_place_that_holds_no_store_is_named(place: str, said: str) -> None:
    assert said in refused(place)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refused("postgresql+psycopg://me:secret@nowhere/db")
    assert "pip install" in said
    assert "secret" not in said


UNPRIVILEGED = """
import os, sys, tempfile
from pathlib import Path
from lowjoule.errors import StoreError
from lowjoule.store import Store

def attempt(path):
    try:
        with Store.open(path) as store:
            print(store.journal, len(store.records()))
    except StoreError as error:
        print(error)

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    attempt(folder / "there.sqlite")
    (folder / "there.sqlite").chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)  # root may write anywhere
    try:
        attempt(folder / "new.sqlite")
        attempt(folder / "deep" / "new.sqlite")
        attempt(folder / "there.sqlite")
        print(sorted(one.name for one in folder.iterdir()))
    finally:
        os.seteuid(os.getuid())
        folder.chmod(0o755)
"""


def test_a_folder_without_rights_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, new, deep, there, left = done.stdout.splitlines()
    assert first == "wal 0"
    assert "unable to open" in new
    assert "make the file and its folder writable, or name another place in $LOWJOULE_STORE" in new
    assert "Permission denied" in deep
    assert "writable" in there
    assert left == "['there.sqlite']"


def test_a_full_disk_is_named_and_loses_nothing(store: Store, path: Path) -> None:
    store.add([record()])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"full|I/O"):
            store.add([record(float(limit)) for limit in range(1000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.records() == [record()]
    assert store.add([record(1.0)]) == 1


def test_postgresql_understands_the_tables() -> None:
    text = str(CreateTable(schema.points).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    assert "DOUBLE PRECISION" in text
    assert "SERIAL" in text


@ONE_AFTER_ANOTHER
@given(
    column=st.sampled_from(["asked", "achieved", "provenance", "source", "unit", "time_s", "work"]),
    value=st.text()
    | st.binary(max_size=20)
    | st.floats()
    | st.sampled_from(
        ["[" * 100_000, '{"a": NaN}', '{"a": 1e999}', '{"a": {}}', '{"a": 1, "a": 2}', "1" * 5000]
    ),
)
def test_whatever_a_column_holds_the_error_is_ours(
    store: Store, path: Path, column: str, value: object
) -> None:
    store.add([record()])
    connection = sqlite3.connect(path)
    try:
        connection.execute(f"UPDATE lowjoule_points SET {column} = ?", (value,))
        connection.commit()
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        return
    finally:
        connection.close()
    try:
        with contextlib.suppress(LowjouleError):
            store.records()
    finally:
        change(path, "DELETE FROM lowjoule_points")
