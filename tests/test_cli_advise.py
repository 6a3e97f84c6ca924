"""`--advise`: what an administrator types, in full, and not one write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpu_trees import LIMIT as CPU_LIMIT
from cpu_trees import opened as opened_cpu
from cpu_trees import refusing as refusing
from cpu_trees import tree as tree
from lowjoule.cli.main import main
from lowjoule.control import Entry, Journal, advise
from lowjoule.control.process import this_process
from lowjoule.devices.registry import open_device
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting
from lowjoule.testing.nvml import SETTERS, FakeNvml
from lowjoule.testing.sysfs import FakeSysfs
from nvml_machines import A, B, board, machine, opened

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
TUNE = ("tune", "--device", "sim:h100", "--workload", "resnet50", "--knobs", "power_limit,sm_clock")


def run(more: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", **more},
        check=False,
    )


@pytest.fixture
def fake(fake_nvml: Callable[..., FakeNvml]) -> FakeNvml:
    boards = [board(), board(uuid=B, pci_bus_id="00000000:5E:00.0")]
    return fake_nvml(boards, virtual=False)


def test_tune_prints_the_commands_for_the_boards_that_are_here(fake: FakeNvml) -> None:
    done = run(fake.environment(), *TUNE, "--advise")
    assert done.returncode == 0, done.stderr
    for uuid in (A, B):
        assert f"\n  sudo nvidia-smi -i {uuid} -pl " in done.stdout
        assert f"\n  sudo nvidia-smi -i {uuid} -lgc 210," in done.stdout
        # the search held it where it was
        assert f"{uuid} -rmc" not in done.stdout
    assert fake.writes() == []


def test_tune_json_has_the_same_commands_and_only_the_boards_named(fake: FakeNvml) -> None:
    named = ("--advise", "--board", f"nvml:{B}", "--json")
    done = run(fake.environment(), *TUNE, *named)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (one,) = said["advice"]
    assert (one["uuid"], one["pci_bus_id"]) == (B, "0000:5e:00.0")
    limit_w = said["chosen"]["setting"]["power_limit"]
    commands = {each["knob"]: each["command"] for each in one["commands"]}
    assert commands["power_limit"] == f"sudo nvidia-smi -i {B} -pl {limit_w:g}"
    assert sorted(commands) == ["power_limit", "sm_clock"]
    # the fake's clocks are few
    assert any("the nearest is taken" in note for note in one["notes"])
    assert fake.writes() == []


def test_advice_needs_no_permission_and_leaves_no_trace(fake: FakeNvml, tmp_path: Path) -> None:
    for one in fake:
        one.fail(SETTERS, 4)
    names = ("SIMULATED", "CLAIMS", "JOURNAL", "STORE")
    home = tmp_path / "home"
    home.mkdir()
    more = {f"LOWJOULE_{name}": str(home / name) for name in names} | {"HOME": str(home)}
    done = run({**fake.environment(), **more}, *TUNE, "--advise")
    assert done.returncode == 0, done.stderr
    assert f"sudo nvidia-smi -i {A} -pl " in done.stdout
    assert list(home.rglob("*")) == []
    assert fake.writes() == []


def test_no_board_and_no_sense_are_said(fake_nvml: Callable[..., FakeNvml]) -> None:
    none = fake_nvml([], virtual=False)
    done = run(none.environment(), *TUNE, "--advise")
    assert done.returncode == 0, done.stderr
    assert "No NVIDIA board is here" in done.stdout
    for wrong in (("--board", f"nvml:{A}"), ("--advise", "--board", "nvml:GPU-nothing")):
        done = run(none.environment(), *TUNE, *wrong)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "draw 1" not in done.stderr


def test_a_value_beyond_the_board_is_no_command_but_a_word(tmp_path: Path) -> None:
    with machine(tmp_path, board(limit_w=(200.0, 350.0))) as fake:
        device = opened(fake)
        told = advise(device, Setting({POWER_LIMIT: 450.0, SM_CLOCK: 900e6, "batch_size": 3}))
        assert [one.command for one in told.advice] == [f"sudo nvidia-smi -i {A} -lgc 210,900"]
        assert any("takes 200 W to 350 W, not 450 W" in note for note in told.notes)
        assert any("batch_size" in note for note in told.notes)
        at = advise(device, Setting({POWER_LIMIT: 350.0, MEMORY_CLOCK: 2619e6}))
        assert any("is at 350 W already" in note for note in at.notes)
        # a lock cannot be read: the command is given all the same
        assert [one.command for one in at.advice] == [f"sudo nvidia-smi -i {A} -rmc"]
        assert fake.writes() == []


@pytest.mark.usefixtures("refusing")
def test_a_processors_limit_is_a_file_and_a_rule_for_every_start(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0", CPU_LIMIT)
    path.chmod(0o444)
    device = opened_cpu(tree)
    assert device.space.names == ()
    (one,) = advise(device, Setting({POWER_LIMIT: 120.0})).advice
    assert one.command == f"echo 120000000 | sudo tee {path}"
    assert one.rule == (
        'ACTION=="add", SUBSYSTEM=="powercap", KERNEL=="intel-rapl:0", '
        'ATTR{constraint_0_power_limit_uw}="120000000"'
    )
    assert advise(device, Setting({SM_CLOCK: 1e9})).advice == ()
    assert tree.written == []


def left_turned(fake: FakeNvml) -> None:
    """Leave the limit of a board at 300 W, as a process does that is killed with its watchdog."""
    with fake.loaded():
        device = open_device(f"nvml:{A}")
        Journal().write(
            Entry(
                uuid=A,
                model=device.identity.model,
                spec=f"nvml:{A}",
                knob="power_limit",
                prior=550.0,
                written=(300.0,),
                owner=replace(this_process("the dead"), start="1"),
                time_unix_s=1.5e9,
            )
        )
    fake[0].put(limit_w=300.0)


def restored(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    code = main(["restore", *options, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_restore_advises_and_leaves_board_and_journal_alone(
    fake: FakeNvml, capsys: pytest.CaptureFixture[str]
) -> None:
    left_turned(fake)
    with fake.loaded():
        code, told = restored(capsys, "--advise")
        (one,) = told["entries"]
        assert (code, told["dry_run"]) == (0, True)
        assert one["command"] == f"sudo nvidia-smi -i {A} -pl 550"
        assert main(["restore", "--advise"]) == 0
        assert f"\nsudo nvidia-smi -i {A} -pl 550\n" in capsys.readouterr().out
    assert len(Journal().entries()) == 1
    assert fake.writes() == []


def test_a_restore_that_is_refused_gives_the_command(
    fake: FakeNvml, capsys: pytest.CaptureFixture[str]
) -> None:
    left_turned(fake)
    fake[0].fail(SETTERS, 4)
    with fake.loaded():
        code, told = restored(capsys)
        assert (code, told["entries"][0]["outcome"]) == (2, "failed")
        assert told["entries"][0]["command"] == f"sudo nvidia-smi -i {A} -pl 550"
        fake[0].heal()
        code, told = restored(capsys)
        assert (code, told["entries"][0]["outcome"]) == (0, "put back")
        # nothing is left to type
        assert told["entries"][0]["command"] is None


def test_nothing_to_advise_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", "--advise"]) == 0
    assert "nothing for an administrator" in capsys.readouterr().out
