"""`lowjoule measure`: the command runs as if alone, and what it took is told."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lowjoule.devices.registry import Available
from lowjoule.launch import measured
from lowjoule.testing.nvml import FakeNvml
from nvml_machines import A, B, board

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
MEASURE = [sys.executable, "-c", RUN, "measure"]
LIMIT_S = 60.0
NAMED = ("--device", "sim:a100")

COUNTING = textwrap.dedent(
    """
    import signal, sys, time
    seen = {}
    def note(number, _):
        name = signal.Signals(number).name
        seen[name] = seen.get(name, 0) + 1
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), note)
    print("ready", flush=True)
    end = time.monotonic() + 30
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)  # whatever comes twice has come by now
    print(sorted(seen.items()), flush=True)
    sys.exit(5)
    """
)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "120", **(more or {})}


def run(
    *arguments: str, more: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*MEASURE, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(more),
        timeout=LIMIT_S,
        check=False,
    )


def start(*arguments: str, **how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*MEASURE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        **how,
    )


def result(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


# ------------------------------------------------------------------------------ the command


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    done = run(*NAMED, "--json", str(tmp_path / "m.json"), "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert done.stdout == b""
    assert b"exit code 7" in done.stderr
    said = result(tmp_path / "m.json")
    assert (said["exit_code"], said["signal"]) == (7, None)
    assert said["command"] == ["sh", "-c", "exit 7"]
    assert said["time_s"] > 0


def test_streams_pass_byte_by_byte() -> None:
    data = bytes(range(256)) * 8192
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.stderr.write('e')"
    done = run(*NAMED, sys.executable, "-c", copy, stdin=data)
    assert done.returncode == 0
    assert done.stdout == data
    assert done.stderr.startswith(b"e")


def test_options_of_the_command_are_its_own() -> None:
    done = run(*NAMED, "echo", "--json", "--device", "-h")
    assert done.stdout == b"--json --device -h\n"


@pytest.mark.parametrize("how", ["KILL", "TERM", "SEGV"])
def test_a_command_that_is_killed_has_128_more(tmp_path: Path, how: str) -> None:
    number = getattr(signal, f"SIG{how}")
    kill = f"ulimit -c 0; kill -{how} $$"
    done = run(*NAMED, "--json", str(tmp_path / "m.json"), "--", "sh", "-c", kill)
    assert done.returncode == 128 + number
    said = result(tmp_path / "m.json")
    assert (said["exit_code"], said["signal"]) == (128 + number, f"SIG{how}")


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    text, lost = tmp_path / "text", tmp_path / "lost"
    text.write_text("no program\n")
    lost.write_text("#!/nowhere/at/all\n")
    lost.chmod(0o755)
    place = tmp_path / "m.json"
    for command, code, said in (
        ("no-such-command-here", 127, "is not found"),
        (str(tmp_path / "absent"), 127, "is not found"),
        (str(text), 126, "chmod +x"),
        (str(lost), 126, "#!"),
        (str(tmp_path), 126, "cannot be run"),
    ):
        done = run(*NAMED, "--json", str(place), "--", command)
        assert done.returncode == code, command
        assert said in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1
        assert (result(place)["exit_code"], result(place)["energy_j"]) == (code, None)


def test_no_command_is_bad_input() -> None:
    done = run()
    assert done.returncode == 2
    assert b"Missing argument" in done.stderr


# ------------------------------------------------------------------------------ signals


def ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_sent_to_us_reaches_the_command_once(tmp_path: Path, name: str) -> None:
    place = tmp_path / "m.json"
    process = start(*NAMED, "--json", str(place), "--", sys.executable, "-c", COUNTING)
    ready(process)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=LIMIT_S)
    assert out.decode().strip() == f"[('{name}', 1)]"
    assert process.returncode == 5, err
    assert result(place)["exit_code"] == 5
    assert b"Traceback" not in err


def test_a_command_ended_by_a_signal_that_we_pass_on(tmp_path: Path) -> None:
    place = tmp_path / "m.json"
    process = start(*NAMED, "--json", str(place), "--", "sh", "-c", "echo ready; exec sleep 30")
    ready(process)
    process.terminate()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert b"ended by SIGTERM" in err
    assert result(place)["signal"] == "SIGTERM"


def test_ctrl_c_in_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    place = tmp_path / "m.json"
    said = in_terminal(place, b"\x03")
    assert "[('SIGINT', 1)]" in said
    assert result(place)["exit_code"] == 5


def test_ctrl_backslash_in_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    assert "[('SIGQUIT', 1)]" in in_terminal(tmp_path / "m.json", b"\x1c")


OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def in_terminal(place: Path, key: bytes) -> str:
    """Run the counting command in a terminal of its own, press a key, return what it shows."""
    arguments = [*MEASURE, *NAMED, "--json", str(place), "--", sys.executable, "-c", COUNTING]
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment({"NO_COLOR": "1"}),
        start_new_session=True,
    )
    os.close(inside)
    said = b""
    pressed = False
    with contextlib.suppress(OSError):  # the terminal ends with its last process
        while piece := os.read(terminal, 4096):
            said += piece
            if b"ready" in said and not pressed:
                pressed = True
                os.write(terminal, key)
    os.close(terminal)
    assert process.wait(timeout=LIMIT_S) == 5, said
    return said.decode()


def test_signals_that_are_ignored_stay_so() -> None:
    script = (
        "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,"
        " signal.getsignal(signal.SIGINT) is signal.SIG_IGN,"
        " signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,"
        " signal.pthread_sigmask(signal.SIG_BLOCK, []) == set())"
    )
    ignoring = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"]
    done = subprocess.run(
        [*ignoring, *MEASURE, *NAMED, "--", sys.executable, "-c", script],
        capture_output=True,
        env=environment(),
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout == b"True True True True\n", done.stderr


def test_a_stop_stops_both_and_both_go_on(tmp_path: Path) -> None:
    # in a group of its own: a shell's job
    process = start(*NAMED, "--", "sh", "-c", "echo $$; echo ready; exec sleep 1", process_group=0)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    ready(process)
    process.send_signal(signal.SIGTSTP)
    until(lambda: state(child) == "T" and state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


# ------------------------------------------------------------------------------ what it took


def test_what_boards_take_is_told(tmp_path: Path, fake_nvml: Callable[..., FakeNvml]) -> None:
    boards = [board(), board(uuid=B, pci_bus_id="00000000:5E:00.0", power_usage="instant")]
    fake = fake_nvml(boards, virtual=False)
    fake[0].load([(0.0, 300.0)])
    fake[1].load([(0.0, 100.0)])
    place = tmp_path / "m.json"
    done = run(
        *("--device", f"nvml:{A}", "--device", f"nvml:{B}", "--json", str(place)),
        *("--", "sleep", "1"),
        more=fake.environment(),
    )
    assert done.returncode == 0, done.stderr
    said = result(place)
    first, second = said["devices"]
    assert (first["uuid"], first["source"], first["scope"]) == (A, "measured", "gpu")
    assert first["energy_j"] == pytest.approx(300.0 * said["time_s"], rel=0.1)
    assert second["power_w"] == pytest.approx(100.0, rel=0.1)
    assert 0 < first["uncertainty_j"] < 0.1 * first["energy_j"]
    assert said["energy_j"] == pytest.approx(first["energy_j"] + second["energy_j"])
    assert re.search(r"all +\d+ J ± ", done.stderr.decode())
    assert fake.writes() == []


def test_the_boards_are_those_that_are_visible(
    tmp_path: Path, fake_nvml: Callable[..., FakeNvml]
) -> None:
    fake = fake_nvml([board(), board(uuid=B, pci_bus_id="00000000:5E:00.0")], virtual=False)
    place = tmp_path / "m.json"
    more = {**fake.environment(), "CUDA_VISIBLE_DEVICES": B}
    run("--json", str(place), "--", "true", more=more)
    boards = [one["uuid"] for one in result(place)["devices"] if one["uuid"].startswith("GPU")]
    assert boards == [B]


def test_a_board_without_any_sensor_gives_null_and_never_0(
    tmp_path: Path, fake_nvml: Callable[..., FakeNvml]
) -> None:
    blind = board(missing=("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage",
                           "nvmlDeviceGetFieldValues"))  # fmt: skip
    fake = fake_nvml([blind], virtual=False)
    place = tmp_path / "m.json"
    done = run(
        *("--device", f"nvml:{A}", "--json", str(place), "--", "sh", "-c", "exit 3"),
        more=fake.environment(),
    )
    assert done.returncode == 3
    said = result(place)
    assert said["energy_j"] is None
    assert said["devices"][0]["energy_j"] is None
    assert b"not known" in done.stderr
    assert b"0 J" not in done.stderr


def test_a_board_that_is_lost_does_not_end_the_command(
    tmp_path: Path, fake_nvml: Callable[..., FakeNvml]
) -> None:
    fake = fake_nvml([board()], virtual=False)
    place = tmp_path / "m.json"
    command = ["sh", "-c", "echo ready; sleep 1; exit 4"]
    process = subprocess.Popen(
        [*MEASURE, "--device", f"nvml:{A}", "--json", str(place), "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(fake.environment()),
    )
    ready(process)
    fake[0].lose()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 4
    assert "lost" in result(place)["devices"][0]["flags"]


def test_simulated_devices_only_when_named_and_tables_never(tmp_path: Path) -> None:
    place = tmp_path / "m.json"
    run(*NAMED, "--json", str(place), "--", "sleep", "0.3")
    (one,) = result(place)["devices"]
    assert one["source"] == "simulated"
    run("--json", str(place), "--", "true")
    assert [one for one in result(place)["devices"] if one["source"] != "measured"] == []
    (tmp_path / "runs.csv").write_text("time_s,energy_j,power_limit_w\n1,100,100\n2,150,50\n")
    done = run("--device", f"replay:{tmp_path / 'runs.csv'}", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, b"")


def test_devices_that_sleep_are_left_so_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeping:
        def available(self) -> tuple[Available, ...]:
            return (Available(spec="nvml:GPU-1", title="a board", asleep=True),)

    monkeypatch.setattr(measured, "backends", lambda: {"nvml": Sleeping()})
    (note,) = measured._asleep()
    assert "nvml:GPU-1 was asleep" in note


def test_a_name_that_is_unknown_is_refused_before_anything_runs() -> None:
    done = run("--device", "gpu:0", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"unknown kind of device" in done.stderr


# ------------------------------------------------------------------------------ the file


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent" / "m.json"):
        done = run(*NAMED, "--json", str(place), "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (2, b"")


def test_a_result_replaces_a_file_at_once_and_leaves_nothing_beside(tmp_path: Path) -> None:
    place = tmp_path / "real.json"
    place.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(place)
    assert run(*NAMED, "--json", str(link), "--", "true").returncode == 0
    assert link.is_symlink()
    assert result(place)["version"] == 1
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == [
        "link.json",
        "real.json",
    ]


def test_a_device_file_is_written_to_and_not_replaced() -> None:
    assert run(*NAMED, "--json", "/dev/null", "--", "true").returncode == 0
    assert not Path("/dev/null").is_file()


def test_nobody_reading_our_errors_changes_no_exit_code(tmp_path: Path) -> None:
    process = start(*NAMED, "--json", str(tmp_path / "m.json"), "--", "sh", "-c", "exit 6")
    assert process.stderr is not None
    assert process.stdout is not None
    process.stderr.close()
    assert process.wait(timeout=LIMIT_S) == 6
    process.stdout.close()
    assert result(tmp_path / "m.json")["exit_code"] == 6


def test_nothing_is_coloured_where_nobody_looks() -> None:
    assert b"\x1b" not in run(*NAMED, "--", "true").stderr
