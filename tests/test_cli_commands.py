"""Every command but tune: its happy path, its JSON, and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from called import Capture, found, refused, said
from lowjoule.cli.main import cli, main

TABLE = """workload,unit,power_limit_w,batch_size,time_s,energy_j
job,epoch,100,32,30,3000
job,epoch,200,32,20,3200
job,epoch,300,32,18,4000
job,epoch,100,64,26,2500
job,epoch,200,64,16,2600
job,epoch,300,64,15,3600
<b>other</b>,epoch,100,64,15,3600
<b>other</b>,epoch,200,64,14,3900
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(TABLE)
    return path


def test_the_frontier_of_a_table(path: Path, capsys: Capture) -> None:
    options = ("frontier", "--device", f"replay:{path}", "--workload", "job")
    every = ("--knobs", "power_limit,batch_size", "--default", "batch_size=32")
    value = found(capsys, *options, *every, "--objective", "energy")
    assert value["source"] == "replayed"
    assert [point["time_s"] for point in value["frontier"]] == [15.0, 16.0, 26.0]
    assert value["chosen"]["setting"] == {"batch_size": 64, "power_limit": 100}
    bound = found(
        capsys, *options, *every, "--objective", "energy", "--constraint", "deadline<=20s"
    )
    assert bound["chosen"]["energy_j"] == 2600.0
    text = said(capsys, *options)
    assert "REPLAYED" in text
    assert "chosen" in text


def test_a_page_is_one_file_with_names_made_harmless(path: Path, capsys: Capture) -> None:
    page = path.with_suffix(".html")
    for command in ("frontier", "study"):
        options = ("--device", f"replay:{path}", "--workload", "<b>other</b>", "--html", str(page))
        said(capsys, command, *options)
        text = page.read_text(encoding="utf-8")
        assert "<b>other" not in text
        assert "&lt;b&gt;other" in text
        assert "REPLAYED" in text.upper()
        assert "//" not in text.replace("http://www.w3.org", "")
        assert "<script src" not in text


def test_a_page_that_cannot_be_written_is_one_sentence(path: Path, capsys: Capture) -> None:
    nowhere = str(path.parent / "nowhere" / "page.html")
    last = refused(
        capsys, "frontier", "--device", f"replay:{path}", "--workload", "job", "--html", nowhere
    )
    assert "nowhere" in last


def test_the_study_of_a_simulated_gpu(capsys: Capture) -> None:
    value = found(capsys, "study", "--device", "sim:a100", "--workload", "gemm")
    assert value["source"] == "simulated"
    names = [one["knob"] for one in value["knobs"]]
    assert names == ["power_limit", "sm_clock", "precision"]
    assert "SIMULATED" in said(capsys, "study", "--device", "sim:a100", "--workload", "gemm")


def test_devices_and_workloads_are_listed(path: Path, capsys: Capture) -> None:
    devices = {one["device"] for one in found(capsys, "devices")["devices"]}
    assert {"sim:a100-80gb", "sim:h100-sxm", "sim:mi300x"} <= devices
    assert "sim:b200" in said(capsys, "devices")
    names = [one["name"] for one in found(capsys, "workloads")["workloads"]]
    assert len(names) >= 14
    assert "ResNet-50" in said(capsys, "workloads", "resnet50")
    assert "resnet50" in refused(capsys, "workloads", "resnet5")
    own = found(capsys, "workloads", "--device", f"replay:{path}")
    assert [one["name"] for one in own["workloads"]] == ["job", "<b>other</b>"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_import_and_export_are_inverse(path: Path, capsys: Capture, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    stores = [("--store", str(path.parent / f"{name}.sqlite")) for name in "ab"]
    file = str(path.with_suffix(".out" + suffix))
    assert found(capsys, "import", str(path), *stores[0])["added"] == 8
    assert found(capsys, "import", str(path), *stores[0])["added"] == 0
    said(capsys, "export", file, *stores[0])
    assert found(capsys, "import", file, *stores[1]) | {"store": ""} == {
        "version": 1,
        "store": "",
        "read": 8,
        "added": 8,
    }


@pytest.mark.parametrize(
    ("rows", "about"),
    [
        ("job,epoch,100,32,30", "fields"),
        ("job,epoch,100,32,-30,3000", "-30"),
        ("job,epoch,100,32,nan,3000", "nan"),
        ("job,epoch,100,32,x,3000", "'x'"),
        ("job,epoch,100,32,30,3000\njob,epoch,100,32,31,3000", "both measure"),
        ("job,fortnight,100,32,30,3000", "fortnight"),
    ],
)
def test_a_bad_table_adds_nothing(path: Path, capsys: Capture, rows: str, about: str) -> None:
    store = path.parent / "store.sqlite"
    said(capsys, "import", str(path), "--store", str(store))
    before = found(capsys, "import", str(path), "--store", str(store))
    bad = path.with_name("bad.csv")
    bad.write_text(TABLE.splitlines()[0] + "\n" + rows + "\n")
    last = refused(capsys, "import", str(bad), "--store", str(store))
    assert "bad.csv" in last
    assert about in last
    assert "; " in last
    assert found(capsys, "import", str(path), "--store", str(store)) == before


def test_bad_stores_are_named(path: Path, capsys: Capture) -> None:
    corrupt = path.with_name("corrupt.sqlite")
    corrupt.write_bytes(b"not a database" * 100)
    last = refused(capsys, "import", str(path), "--store", str(corrupt))
    assert "corrupt.sqlite" in last
    assert corrupt.read_bytes() == b"not a database" * 100
    blocked = path.parent / "file"
    blocked.write_text("")
    assert "file" in refused(capsys, "import", str(path), "--store", str(blocked / "store.sqlite"))


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["frontir"], "frontier"),
        (["frontier", "--device", "sim:a100", "--wokload", "x"], "--workload"),
        (["frontier", "--device", "sim:h1000", "--workload", "gemm"], "h100"),
        (["frontier", "--device", "smi:a100", "--workload", "gemm"], "sim"),
        (["frontier", "--device", "a100", "--workload", "gemm"], "sim:a100"),
        (["frontier", "--device", "sim:a100", "--workload", "gem"], "gemm"),
        (["frontier", "--device", "sim:a100"], "resnet50"),
        (["study", "--device", "sim:a100", "--workload", "gemm", "--knobs", "clock"], "sm_clock"),
        (["tune", "--device", "sim:a100", "--workload", "gemm", "--noise", "1%"], "--noise"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(
    arguments: list[str], about: str, capsys: Capture
) -> None:
    assert about in refused(capsys, *arguments)


def test_no_command_at_all_shows_the_help(capsys: Capture) -> None:
    assert main([]) == 2
    assert "\nCommands:\n" in capsys.readouterr().err


def test_every_command_has_help(capsys: Capture) -> None:
    for name in cli.commands_at:
        assert "--help" in said(capsys, name, "--help")
    assert "Exit codes" in said(capsys, "--help")


def test_an_export_from_a_store_that_is_not_there_touches_nothing(
    path: Path, capsys: Capture
) -> None:
    before = path.read_bytes()
    missing = path.with_name("typo.sqlite")
    assert "no store" in refused(capsys, "export", str(path), "--store", str(missing))
    assert not missing.exists()
    assert path.read_bytes() == before


def test_an_export_of_trials_is_a_device(tmp_path: Path, capsys: Capture) -> None:
    store, file = str(tmp_path / "store.db"), str(tmp_path / "trials.csv")
    tune = ("tune", "--device", "sim:a40", "--workload", "resnet50", "--knobs", "power_limit")
    tuned = found(capsys, *tune, "--store", store)
    found(capsys, *tune, "--seed", "1", "--store", store)
    said(capsys, "export", file, "--store", store)
    again = found(capsys, "frontier", "--device", f"replay:{file}")
    assert (again["source"], again["device"]) == ("replayed", tuned["device"])
    assert again["workload"] == "resnet50"
    # a setting tried several times is one point of several windows
    default = tuned["default"]["time_s"]
    assert again["default"]["time_s"] == pytest.approx(default, rel=0.05)
    assert again["default"]["time_s"] != default
    replayed = found(capsys, "tune", "--device", f"replay:{file}", "--objective", "energy")
    tried = {json.dumps(one["asked"], sort_keys=True) for one in tuned["history"]}
    assert json.dumps(replayed["chosen"]["setting"], sort_keys=True) in tried


@pytest.mark.parametrize(
    ("name", "calibrated"), [("h200", False), ("a40", True)], ids=["uncalibrated", "calibrated"]
)
def test_a_model_that_no_measurement_stands_behind_says_so(
    tmp_path: Path, capsys: Capture, name: str, calibrated: bool
) -> None:
    on = ("--device", f"sim:{name}", "--workload", "resnet50")
    page = tmp_path / "page.html"
    for command in (("tune", *on, "--knobs", "power_limit"), ("frontier", *on), ("study", *on)):
        assert ("(uncalibrated)" in said(capsys, *command)) is not calibrated, command
        assert found(capsys, *command)["calibrated"] is calibrated
        if command[0] != "tune":
            said(capsys, *command, "--html", str(page))
            assert ("(uncalibrated)" in page.read_text()) is not calibrated
    place = tmp_path / "m.json"
    assert main(["measure", "--device", f"sim:{name}", "--json", str(place), "--", "true"]) == 0
    assert ("(uncalibrated)" in capsys.readouterr().err) is not calibrated
    (one,) = json.loads(place.read_text())["devices"]
    assert one["calibrated"] is calibrated


def test_what_is_no_model_is_neither_calibrated_nor_not(path: Path, capsys: Capture) -> None:
    on = ("--device", f"replay:{path}", "--workload", "job")
    assert found(capsys, "frontier", *on)["calibrated"] is None
    assert "calibrated" not in said(capsys, "tune", *on)
