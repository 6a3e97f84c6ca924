"""The command line as a process: exit codes, pipes, signals, colours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
TUNE = ["tune", "--device", "sim:a100", "--workload", "resnet50"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    return {**kept, "LOWJOULE_SIMULATED": str(folder), "COLUMNS": "100", **more}


def start(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder, **more),
    )


def test_json_stands_alone_on_standard_output(tmp_path: Path) -> None:
    out, err = start(tmp_path, *TUNE, "--json", "--seed", "3").communicate(timeout=60)
    assert json.loads(out)["source"] == "simulated"
    assert "draw 1" in err
    again, _ = start(tmp_path, *TUNE, "--json", "--seed", "3").communicate(timeout=60)
    assert again == out


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    process = start(tmp_path, "workloads", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) in (0, 141)
    process.stderr.close()


@pytest.mark.parametrize("arguments", [("workloads",), (*TUNE[:1], "--help"), TUNE])
def test_whoever_stops_reading_gets_the_code_for_it(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    process = start(tmp_path, *arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait(timeout=60) == 141
    process.stderr.close()


def test_no_colours_where_nobody_looks(tmp_path: Path) -> None:
    out, _ = start(tmp_path, *TUNE, NO_COLOR="1").communicate(timeout=60)
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("kind", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupted_tuning_leaves_the_device_as_found(
    tmp_path: Path, kind: int, exit_code: int
) -> None:
    # Found: a limit of 300 W that somebody set before, in the state that all processes share.
    code = (
        "from lowjoule.devices.registry import open_device;"
        "from lowjoule.knobs import Setting; d = open_device('sim:a100');"
        "{}; print(d.current()['power_limit'])"
    )

    def limit(action: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code.format(action)],
            capture_output=True,
            text=True,
            env=environment(tmp_path),
            check=True,
        )
        return done.stdout.strip()

    assert float(limit("d.apply(Setting({'power_limit': 300.0}))")) == 300.0
    process = start(tmp_path, *TUNE, "--search", "exhaustive")
    assert process.stderr is not None
    seen = 0
    deadline_s = time.monotonic() + 60
    while seen < 3 and time.monotonic() < deadline_s:
        seen += process.stderr.readline().startswith("draw")
    process.send_signal(kind)
    _, err = process.communicate(timeout=60)
    assert process.returncode == exit_code
    assert ("interrupted" if exit_code == 130 else "ended by SIG") in err
    assert "Traceback" not in err
    assert float(limit("pass")) == 300.0
