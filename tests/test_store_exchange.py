from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError, MissingExtraError, StoreError, TableError
from lowjoule.knobs import Setting
from lowjoule.store import Record, Store, read_records, write_records
from store_records import record, records, typed

SUFFIXES = ["csv", "jsonl", "parquet"]
IN_ONE_FOLDER = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@IN_ONE_FOLDER
@given(st.lists(records(), max_size=4, unique_by=lambda one: one.key))
def test_what_goes_out_comes_in(suffix: str, tmp_path: Path, some: list[Record]) -> None:
    path = tmp_path / f"records.{suffix}"
    assert write_records(some, path) == len(some)
    assert [typed(one) for one in read_records(path)] == [typed(one) for one in some]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_store_moves_by_a_file_and_moving_it_again_adds_nothing(
    suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"records.{suffix}"
    some = [record(250.0), record(250, 32), record("auto", energy_sd_j=1.5, provenance={"a": [1]})]
    with Store.open(tmp_path / "a.sqlite") as a, Store.open(tmp_path / "b.sqlite") as b:
        a.add(some)
        write_records(a.records(), path)
        assert b.add(read_records(path)) == 3
        assert b.records() == a.records() == some
        assert b.add(read_records(path)) == a.add(read_records(path)) == 0


def test_csv_has_a_column_a_knob(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    other = Setting([("power_limit", 2), ("batch_size", "x"), ("sm_clock", 1e9)])
    write_records([record(250.0, 64), record(1, achieved=other)], path)
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["setting.power_limit"], first["setting.batch_size"]) == ("250.0", "64")
    assert (first["achieved.sm_clock"], second["achieved.sm_clock"]) == ("", "1000000000.0")
    assert (first["schema"], first["latency_s"], first["windows"]) == ("1", "", "1")
    assert second["achieved.batch_size"] == "x"


def test_a_table_written_by_hand_needs_few_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "\ufeffschema,device_model,device_uuid,backend,source,workload,signature,unit,work,"
        "time_s,energy_j,setting.power_limit,latency_s\n"
        "1,A100,GPU-1,nvml,measured,bert,x,sample,1,0.5,100,250,\n"
        "\n"
        "1,A100,GPU-1,nvml,measured,bert,x,sample,1,.6,9e1, 200 ,0.1\n",
        encoding="utf-8",
    )
    first, second = read_records(path)
    assert first.achieved == Setting({"power_limit": 250})
    assert (first.latency_s, second.latency_s, second.time_s) == (None, 0.1, 0.6)
    assert second.asked["power_limit"] == 200
    assert first.lowjoule_version == ""


Edit = Callable[[list[dict[str, str]]], None]


def edited(tmp_path: Path, edit: Edit) -> Path:
    """Return a CSV file of three records after `edit` of its rows."""
    path = tmp_path / "records.csv"
    write_records([record(float(limit)) for limit in (100, 200, 300)], path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    edit(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def set_in_second(column: str, value: str) -> Edit:
    return lambda rows: rows[1].__setitem__(column, value)


def rename(old: str, new: str | None) -> Edit:
    def edit(rows: list[dict[str, str]]) -> None:
        for row in rows:
            value = row.pop(old)
            if new is not None:
                row[new] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (set_in_second("time_s", "nan"), "line 3: time_s is nan"),
        (set_in_second("time_s", ""), "line 3: time_s is missing"),
        (set_in_second("time_s", "fast"), "line 3, column time_s: 'fast' is not a number"),
        (set_in_second("energy_j", "-5"), "line 3: energy_j is -5; it must be above 0"),
        (set_in_second("energy_j", "1e999"), "line 3: energy_j is inf"),
        (set_in_second("energy_j", "9" * 1000), "line 3: energy_j is inf"),
        (set_in_second("windows", "0"), "line 3: windows is 0"),
        (set_in_second("source", "guessed"), "line 3: unknown source 'guessed'"),
        (set_in_second("unit", "samples"), "line 3: unknown unit 'samples'; did you mean 'sample'"),
        (set_in_second("schema", "2"), "line 3: it was written by a newer lowjoule"),
        (set_in_second("schema", "x"), "line 3, column schema: 'x' is not a number"),
        (set_in_second("schema", "0"), "line 3: schema is 0; it must be 1"),
        (set_in_second("schema", ""), "line 3: schema is missing; it must be 1"),
        (set_in_second("provenance", "{"), "line 3: no JSON object can be read"),
        (set_in_second("provenance", "[]"), "line 3: no JSON object can be read"),
        (set_in_second("setting.power_limit", "NaN"), "line 3: asked power_limit is nan"),
        (set_in_second("setting.power_limit", '"x'), 'line 3, column setting.power_limit: "x is'),
        (set_in_second("achieved.power_limit", ""), "line 3: achieved does not say what became"),
        (lambda rows: rows.append(rows[0]), "line 5: it repeats line 2; remove one"),
        (rename("energy_j", None), "records.csv has no column energy_j; add it"),
        (rename("schema", None), "records.csv has no column schema; add it"),
        (rename("latency_s", "latency"), "unknown column 'latency'; did you mean 'latency_s'"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_imported(
    tmp_path: Path, edit: Edit, said: str
) -> None:
    path = edited(tmp_path, edit)
    with Store.open(tmp_path / "store.sqlite") as store:
        store.add([record()])
        with pytest.raises(TableError) as caught:
            store.add(read_records(path))
        assert store.records() == [record()]
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\xff\xfe1,2\n", "not a CSV table in UTF-8"),
        (b'schema,"time', "not a CSV table in UTF-8"),
        (b"time_s,energy_j\n1,2\n", "has no column schema, device_model"),
        (b'"' + b"x" * 200_000 + b'"\n', "not a CSV table in UTF-8"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=said):
        read_records(path)


def test_columns_named_twice_and_rows_cut_short_are_named(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    write_records([record()], path)
    header, row = path.read_text().splitlines()
    path.write_text(f"{header},time_s\n{row},1\n")
    with pytest.raises(TableError, match="two columns 'time_s'"):
        read_records(path)
    path.write_text(f"{header}\n{row},1\n")
    with pytest.raises(TableError, match=r"line 2 has \d+ cells for \d+ columns"):
        read_records(path)


def test_a_wrong_line_of_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records([record(1.0), record(2.0)], path)
    good = path.read_text()
    for bad, said in [
        ("[1]", "line 4: no JSON object can be read"),
        ('{"schema": 1}', "line 4: .* is missing"),
        ('{"schema": true}', "line 4: schema is 'True'"),
        ('{"schema": 9}', "line 4: it was written by a newer"),
        ('{"schema": 1, "x": 2}', "line 4: unknown field 'x'"),
        (good.splitlines()[0], "line 4: it repeats line 1"),
        (good.splitlines()[0].replace("400.0", "NaN"), "line 4: no JSON object.*NaN"),
        ("[" * 100_000, "line 4: no JSON object"),
    ]:
        path.write_text(f"{good}\n{bad}\n")
        with pytest.raises(TableError, match=said):
            read_records(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(TableError, match="line 1: 'utf-8' codec"):
        read_records(path)


@IN_ONE_FOLDER
@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ).map(json.dumps)
    | st.tuples(
        st.sampled_from(sorted(record().flat())),
        st.none() | st.booleans() | st.floats() | st.text() | st.dictionaries(st.text(), st.text()),
    ).map(lambda change: json.dumps({"schema": 1, **record().flat(), change[0]: change[1]}))
)
def test_any_line_of_json_is_read_or_refused_in_our_words(tmp_path: Path, line: str) -> None:
    path = tmp_path / "fuzz.jsonl"
    path.write_bytes(line.encode(errors="surrogatepass"))
    with contextlib.suppress(TableError):
        assert all(isinstance(one, Record) for one in read_records(path))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@IN_ONE_FOLDER
@given(content=st.binary(max_size=60), at=st.integers(0, 600), cut=st.booleans())
def test_any_bytes_are_read_or_refused_in_our_words(
    suffix: str, tmp_path: Path, content: bytes, at: int, cut: bool
) -> None:
    path = tmp_path / f"fuzz.{suffix}"
    write_records([record()], path)
    good = path.read_bytes()
    path.write_bytes(good[:at] + content + (b"" if cut else good[at + len(content) :]))
    with contextlib.suppress(TableError):
        assert all(isinstance(one, Record) for one in read_records(path))


def test_parquet_of_others_is_checked_too(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "records.parquet"
    write_records([record(1.0), record(2.0)], path)
    good = pq.read_table(path)
    for column, values, said in [
        ("time_s", [1.0, float("nan")], "row 2: time_s is nan"),
        ("time_s", ["1", "2"], "row 1: time_s is '1', not a number"),
        ("time_s", [1.0, None], "row 2: time_s is missing"),
        ("setting.power_limit", [[1], [2]], r"row 1: asked power_limit is \[1\]"),
        ("source", [1, 2], "row 1: unknown source '1'"),
        ("schema", [1, 2], "row 2: it was written by a newer"),
    ]:
        place = good.column_names.index(column)
        pq.write_table(good.set_column(place, column, pa.array(values)), path)
        with pytest.raises(TableError, match=said):
            read_records(path)
    pq.write_table(good.drop_columns(["energy_j"]), path)
    with pytest.raises(TableError, match="has no column energy_j"):
        read_records(path)


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.parquet"
    write_records([record()], path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for attempt in (lambda: read_records(path), lambda: write_records([], path)):
        with pytest.raises(MissingExtraError, match=r"pip install 'lowjoule\[parquet\]'"):
            attempt()


def test_other_names_and_places_are_refused(tmp_path: Path) -> None:
    for name in ("records", "records.xlsx"):
        with pytest.raises(InvalidValueError, match=r"\.csv, \.jsonl, \.parquet"):
            write_records([record()], tmp_path / name)
        with pytest.raises(InvalidValueError):
            read_records(tmp_path / name)
    for suffix in SUFFIXES:
        with pytest.raises(TableError, match="No such file"):
            read_records(tmp_path / f"absent.{suffix}")
        with pytest.raises(StoreError, match="cannot be written"):
            write_records([record()], tmp_path / "absent" / f"records.{suffix}")


def test_an_export_that_fails_keeps_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "records.csv"
    write_records([record()], path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_records([record(1.0), record(2.0)], path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["records.csv"]
