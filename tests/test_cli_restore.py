"""`lowjoule restore`, as people and programs call it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import pytest

from control_process import victim
from lowjoule.cli.main import main
from lowjoule.control import Claim, Journal
from lowjoule.control.journal import Entry
from lowjoule.control.process import this_process
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are ended by signals")


def left_at(limit_w: float) -> None:
    """Leave the limit of a board turned, as a process does that is killed with its watchdog."""
    device = open_device("sim:a100")
    device.apply(Setting({"power_limit": 300.0}))
    arguments = ["sim:a100", "power_limit", 300.0, [limit_w], "SIGKILL", None]
    with victim(arguments, {"LOWJOULE_WATCHDOG": "off"}) as (one, _):
        one.process.kill()
        one.process.wait()
    assert device.current()["power_limit"] == limit_w


def limit_w() -> object:
    return open_device("sim:a100").current()["power_limit"]


def test_nothing_left_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore"]) == 0
    assert "nothing is left turned" in capsys.readouterr().out


def test_what_is_left_is_put_back_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    left_at(200.0)
    assert main(["restore"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "put back from 200 W to 300 W" in said
    assert limit_w() == 300.0
    assert main(["restore"]) == 0
    assert "nothing is left turned" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    left_at(200.0)
    assert main(["restore", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"]
    assert told["entries"][0]["text"] == "would be put back from 200 W to 300 W"
    assert limit_w() == 200.0
    assert main(["restore"]) == 0
    assert limit_w() == 300.0


def test_json_holds_every_entry(capsys: pytest.CaptureFixture[str]) -> None:
    left_at(200.0)
    open_device("sim:a100").apply(Setting({"power_limit": 350.0}))
    assert main(["restore", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "version": 1,
        "journal": str(Journal().folder),
        "dry_run": False,
        "entries": [
            {
                "device": "NVIDIA A100 SXM4 80 GB",
                "device_uuid": open_device("sim:a100").identity.uuid,
                "knob": "power_limit",
                "prior": 300.0,
                "in_force": 350.0,
                "outcome": "left alone",
                "text": "was changed by someone else to 350 W and is left as it is",
                "command": None,
            }
        ],
        "history": [],
    }
    assert limit_w() == 350.0


def test_what_a_living_process_holds_is_left_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim:a100", "power_limit", 400.0, [200.0], "SIGKILL", None]
    with victim(arguments, {}) as (_, pid):
        assert main(["restore"]) == 0
        assert f"process {pid}" in " ".join(capsys.readouterr().out.split())
        assert limit_w() == 200.0


def test_what_cannot_be_put_back_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    left_at(200.0)
    (one,) = Journal().entries()
    assert isinstance(one, Entry)
    Journal().write(replace(one, uuid="gone", spec="sim:h100"))
    (Journal().folder / "damaged.json").write_text("{")
    assert main(["restore", "--json"]) == 2
    outcomes = [one["outcome"] for one in json.loads(capsys.readouterr().out)["entries"]]
    assert sorted(outcomes) == ["failed", "put back", "unreadable"]
    assert limit_w() == 300.0
    assert main(["restore"]) == 2


def test_a_board_is_found_that_this_terminal_hides_from_cuda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lowjoule.cli import restore

    seen: list[object] = []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(
        "lowjoule.devices.registry.open_device",
        lambda spec: seen.append((spec, os.environ.get("CUDA_VISIBLE_DEVICES"))),
    )
    restore._open_seen("nvml:GPU-1")
    assert seen == [("nvml:GPU-1", None)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_claim_of_this_process_is_its_own() -> None:
    owner = this_process("x")
    with Claim(open_device("sim:a100"), "a test") as claim:
        claim.apply(Setting({"power_limit": 200.0}))
        assert main(["restore"]) == 0
        assert limit_w() == 200.0
    assert owner.lives()
