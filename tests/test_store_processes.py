from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import store_writers
from lowjoule.store import Record, Store, engine


def run(*arguments: object) -> set[str]:
    """Run the writers and return the keys of every record that they acknowledged."""
    done = subprocess.run(
        [sys.executable, store_writers.__file__, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(done.stdout.split())


def whole(path: Path) -> list[Record]:
    """Return the records of a store that must be whole."""
    with Store.open(path) as store:
        records = store.records()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return records


@pytest.fixture(params=["wal", "delete"])
def journal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "delete":
        monkeypatch.setattr(engine, "is_network", lambda path: True)
    return str(request.param)


def test_processes_that_write_at_once_lose_nothing(journal: str, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    acknowledged = run("share", path, journal)
    records = whole(path)
    expected = {
        one.key
        for writer in range(store_writers.WRITERS)
        for number in range(store_writers.BATCHES)
        for one in store_writers.batch(writer, number)
    }
    assert acknowledged == expected
    assert {one.key for one in records} == expected
    assert len(records) == len(expected)  # what all of them added is there once


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_writer_leaves_all_that_it_acknowledged_and_no_half(
    journal: str, seed: int, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    acknowledged = run("kill", path, journal, seed, 8)
    records = whole(path)
    assert len(acknowledged) >= 8 * store_writers.BATCH
    assert acknowledged <= {one.key for one in records}
    assert set(Counter(one.device_uuid for one in records).values()) == {store_writers.BATCH}


def test_a_killed_maker_leaves_a_store_or_nothing_but_never_half_of_one(
    journal: str, tmp_path: Path
) -> None:
    acknowledged = run("create", tmp_path, journal)
    counts = Counter(len(whole(path)) for path in sorted(tmp_path.glob("*.sqlite")))
    assert set(counts) == {0, store_writers.BATCH}
    assert min(counts.values()) >= 3  # both ends were met
    assert len(acknowledged) == store_writers.BATCH
