"""Where results go: files, streams, pipes and devices, by every command that writes one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lowjoule.errors import InvalidValueError
from lowjoule.sink import Sink
from lowjoule.testing.sysfs import unprivileged

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
ON = ("--device", "replay:runs.csv")
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "measure": lambda place: [
        *("measure", "--device", "sim:a100", "--json", place, "--", sys.executable, "-c", "0")
    ],
    "frontier": lambda place: ["frontier", *ON, "--html", place],
    "study": lambda place: ["study", *ON, "--html", place],
    "export": lambda place: ["export", place],
}
BEGINS = {"measure": b"{", "frontier": b"<!doctype", "study": b"<!doctype"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env={**os.environ, "LOWJOULE_STORE": str(folder / "store.sqlite")},
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and a store that has it."""
    made = tmp_path_factory.mktemp("sink")
    table = "time_s,energy_j,power_limit_w\n1,100,100\n2,90,50\n3,110,40\n"
    (made / "runs.csv").write_text(table)
    assert run(made, "import", "runs.csv").returncode == 0
    return made


@pytest.mark.parametrize("command", ["measure", "frontier", "study"])
@pytest.mark.parametrize("place", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_takes_the_whole_result(folder: Path, command: str, place: str) -> None:
    done = run(folder, *COMMANDS[command](place))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(BEGINS[command])
    if command == "measure":
        assert json.loads(done.stdout)["exit_code"] == 0


@pytest.mark.parametrize("command", ["measure", "frontier", "study"])
def test_standard_error_takes_it_beside_what_is_said_there(folder: Path, command: str) -> None:
    done = run(folder, *COMMANDS[command]("/dev/stderr"))
    assert done.returncode == 0
    assert BEGINS[command] in done.stderr
    assert done.stdout == b""


def test_a_stream_that_goes_to_a_file_is_written_where_it_stands(folder: Path) -> None:
    out = folder / "all.txt"
    command = ["sh", "-c", "echo the command; exit 3"]
    with out.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", RUN, "measure", "--json", "/dev/stdout", "--", *command],
            stdout=stream,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
    assert done.returncode == 3
    said, _, result = out.read_text().partition("\n")
    assert said == "the command"
    assert json.loads(result)["exit_code"] == 3


@pytest.mark.parametrize("command", ["measure", "frontier", "study"])
def test_a_pipe_is_written_to_and_stays_one(folder: Path, command: str) -> None:
    pipe = folder / f"pipe-{command}"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    done = run(folder, *COMMANDS[command](str(pipe)))
    reader.join(60)
    assert done.returncode == 0, done.stderr
    assert got[0].startswith(BEGINS[command])
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidValueError, match="nobody reads"):
        Sink(pipe).write("text")


@pytest.mark.parametrize("command", ["measure", "frontier", "study"])
def test_nothing_is_a_place_too(folder: Path, command: str) -> None:
    assert run(folder, *COMMANDS[command]("/dev/null")).returncode == 0
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("command", list(COMMANDS))
def test_what_cannot_be_written_is_one_sentence_with_the_cure(folder: Path, command: str) -> None:
    (folder / "a_folder").mkdir(exist_ok=True)
    for place in ("a_folder", "nowhere/out.csv", "/dev/fd/77", "/proc/out.csv", ""):
        done = run(folder, *COMMANDS[command](place))
        assert done.returncode == 2, (place, done.stderr)
        assert done.stderr.strip().count(b"\n") == 0, done.stderr
        assert b"Traceback" not in done.stderr
    assert not [one for one in os.listdir(folder) if one.startswith(".")]


@pytest.mark.parametrize("command", ["tune", "import"])
def test_a_store_is_kept_in_no_stream_and_no_folder(folder: Path, command: str) -> None:
    arguments = ["tune", *ON] if command == "tune" else ["import", "runs.csv"]
    for place in ("/dev/stdout", "/dev/null", "a_folder", "/proc/x.sqlite"):
        done = run(folder, *arguments, "--store", place)
        assert done.returncode == 2, (place, done.stdout, done.stderr)
        assert b"Traceback" not in done.stderr


def test_an_export_knows_its_kind_by_the_name_alone(folder: Path) -> None:
    done = run(folder, "export", "/dev/stdout")
    assert done.returncode == 2
    assert b".csv" in done.stderr


def test_a_place_that_may_not_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    (tmp_path / "pipe").touch()
    with unprivileged():
        for place in (tmp_path / "closed" / "out", tmp_path, tmp_path / "absent" / "out"):
            with pytest.raises(InvalidValueError, match="nothing can be written"):
                Sink(place).check()
        # the folder is not ours, and need not be
        Sink("/dev/null").check()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InvalidValueError):
        Sink(loop).check()
    with pytest.raises(InvalidValueError):
        Sink(loop).write("text")


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    Sink(path).write("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidValueError, match="make room"):
        Sink(path).write("newer")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]
