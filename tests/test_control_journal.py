"""The journal's files, those that cannot be read, and who is dead."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import FakeDevice
from lowjoule.control import Claim, Entry, Journal, Outcome, replay_all
from lowjoule.control.journal import Unreadable
from lowjoule.control.places import claims_folder, journal_folder
from lowjoule.control.process import BOOT, start_of, this_process
from lowjoule.control.replay import is_stale
from lowjoule.devices.interface import Device
from lowjoule.devices.registry import open_device
from lowjoule.errors import DeviceError
from lowjoule.knobs import Setting


def entry(**more: object) -> Entry:
    device = open_device("sim:a100")
    plain: dict[str, object] = {
        "uuid": device.identity.uuid,
        "model": device.identity.model,
        "spec": "sim:a100",
        "knob": "power_limit",
        "prior": 300.0,
        "written": (200.0,),
        "owner": replace(this_process("the dead"), start="1"),
        "time_unix_s": 1.5e9,
    }
    return Entry(**{**plain, **more})  # type: ignore[arg-type]


def replayed(*, write: bool = True) -> list[tuple[str, Outcome]]:
    return [(one.knob, one.outcome) for one in replay_all(Journal(), open_device, write=write)]


def test_an_entry_is_read_as_it_was_written() -> None:
    for one in (entry(), entry(prior="on", written=("off",), spec=None, expires_s=3.0)):
        Journal().write(one)
        assert Journal().find(one.uuid, one.knob) == one
        assert Journal().entries() == [one]
    Journal().remove(one.uuid, one.knob)
    assert Journal().entries() == []


def test_a_crash_while_an_entry_is_written_leaves_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Journal().write(entry())

    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(DeviceError, match="No space left"):
        Journal().write(entry(prior=1.0))
    assert Journal().entries() == [entry()]
    assert [path.name for path in Journal().folder.iterdir() if path.suffix == ".new"] == []


DAMAGED = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"null",
    b'{"version": 1}',
    b'{"version": "1"}',
    b"[" * 100_000,
    json.dumps({"version": 99, "anything": 1}).encode(),
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_what_cannot_be_read_is_said_kept_and_stops_nobody(content: bytes) -> None:
    good = entry()
    open_device("sim:a100").apply(Setting({"power_limit": 200.0}))
    Journal().write(good)
    bad = Journal().path(good.uuid, "sm_clock")
    bad.write_bytes(content)
    assert sorted(replayed()) == [("", Outcome.UNREADABLE), ("power_limit", Outcome.PUT_BACK)]
    assert bad.read_bytes() == content
    with Claim(open_device("sim:a100"), "a test") as claim:
        claim.apply(Setting({"sm_clock": 705e6}))
    assert any("kept aside" in note for note in claim.notes)
    (aside,) = Journal().folder.glob("*.aside-0")
    assert aside.read_bytes() == content


def test_a_file_of_a_newer_version_is_said_to_be_one() -> None:
    Journal().write(entry())
    path = Journal().path(entry().uuid, "power_limit")
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    (found,) = Journal().entries()
    assert isinstance(found, Unreadable)
    assert "newer lowjoule" in found.why


def test_values_that_are_none_of_a_knob_are_damage() -> None:
    for wrong in (True, float("nan"), [1], None):
        Journal().write(entry())
        path = Journal().path(entry().uuid, "power_limit")
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, "prior": wrong}))
        assert isinstance(Journal().entries()[0], Unreadable)


def test_a_folder_that_there_is_not_is_an_empty_journal(tmp_path: Path) -> None:
    assert Journal(tmp_path / "none").entries() == []
    assert not (tmp_path / "none").exists()


def test_the_log_stays_short(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(3000):
        journal.log(f"{number} {'x' * 50}")
    assert (tmp_path / "log").stat().st_size < 80_000
    assert journal.history(2)[-1].startswith("2999 ")


# ------------------------------------------------------------------------------------ who is dead


def test_this_process_lives_and_one_of_its_number_before_it_does_not() -> None:
    me = this_process("a test")
    assert me.lives()
    assert replace(me, start="1").lives() is False
    assert replace(me, boot_id="another").lives() is False
    assert replace(me, pid=2**22 + 1).lives() is False
    assert replace(me, namespace="pid:[1]").lives() is None


def test_a_dead_process_that_nobody_has_waited_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_of(child.pid) is None
    child.wait()


def test_an_owner_of_another_namespace_is_dead_when_its_lock_is_free() -> None:
    other = entry(owner=replace(this_process("x"), namespace="pid:[1]"))
    assert is_stale(other)
    code = """
import sys
from lowjoule.control.ownership import holding_knob
with holding_knob(sys.argv[1], "power_limit", "x", model="m"):
    print(flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, other.uuid], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert not is_stale(other)
        assert holder.stdin is not None
        holder.stdin.close()


# --------------------------------------------------------------------------------------- replay


def test_compare_and_restore() -> None:
    device = open_device("sim:a100")
    for now, outcome, after in (
        (200.0, Outcome.PUT_BACK, 300.0),
        (300.0, Outcome.AS_FOUND, 300.0),
        (250.0, Outcome.LEFT_ALONE, 250.0),
    ):
        device.apply(Setting({"power_limit": now}))
        Journal().write(entry())
        assert replayed(write=False) == [("power_limit", outcome)]
        assert device.current()["power_limit"] == now
        assert replayed() == [("power_limit", outcome)]
        assert device.current()["power_limit"] == after
        assert Journal().entries() == []


def test_after_a_reboot_only_what_is_still_ours_is_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = open_device("sim:a100")
    before = entry(written=(400.0, 200.0))
    monkeypatch.setenv(BOOT, "the next")
    for now, outcome, after in (
        (200.0, Outcome.PUT_BACK, 300.0),
        (400.0, Outcome.CLEARED, 400.0),
        (250.0, Outcome.LEFT_ALONE, 250.0),
    ):
        device.apply(Setting({"power_limit": now}))
        Journal().write(before)
        assert replayed() == [("power_limit", outcome)]
        assert device.current()["power_limit"] == after
        assert Journal().entries() == []


def test_one_failing_device_does_not_stop_the_others() -> None:
    device = open_device("sim:a100")
    device.apply(Setting({"power_limit": 200.0}))
    Journal().write(entry(spec="sim:none", uuid="another"))
    Journal().write(entry(spec="sim:h100", uuid="one-that-is-elsewhere"))
    Journal().write(entry(spec=None, uuid="an-object"))
    Journal().write(entry())
    assert sorted(outcome for _, outcome in replayed()) == [
        *3 * [Outcome.FAILED],
        Outcome.PUT_BACK,
    ]
    assert len(Journal().entries()) == 3


def test_a_knob_that_a_living_process_holds_is_not_touched() -> None:
    device = open_device("sim:a100")
    with Claim(device, "the owner") as claim:
        claim.apply(Setting({"power_limit": 200.0}))
        opened: list[str] = []

        def opener(spec: str) -> Device:
            opened.append(spec)
            return open_device(spec)

        (one,) = replay_all(Journal(), opener)
        assert one.outcome is Outcome.HELD
        assert "the owner" in one.text
        assert opened == []
        assert device.current()["power_limit"] == 200.0


def test_a_program_that_does_not_say_how_its_device_is_opened_claims_it_again() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 100.0
    left = entry(uuid=device.identity.uuid, spec=None, prior=150.0, written=(100.0,))
    Journal().write(left)
    assert replayed() == [("power_limit", Outcome.FAILED)]
    with Claim(device, "the next"):
        assert device.values["power_limit"] == 150.0


# --------------------------------------------------------------------------------------- places


def test_places_are_named_or_of_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert journal_folder() == tmp_path / "journal"
    monkeypatch.delenv("LOWJOULE_JOURNAL")
    monkeypatch.delenv("LOWJOULE_CLAIMS")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert journal_folder() == tmp_path / "state/lowjoule/hosts" / platform.node() / "journal"
    assert claims_folder().name == "claims"
    assert not (tmp_path / "state").exists()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert journal_folder().parent.name == "lowjoule-1000"


def test_root_uses_a_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LOWJOULE_JOURNAL")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("lowjoule.control.places._SYSTEM", (tmp_path / "no/a", tmp_path / "b"))
    (tmp_path / "no").write_text("")
    assert journal_folder() == tmp_path / "b" / "journal"


def test_a_journal_that_cannot_be_listed_is_no_all_clear(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    place.write_text("a file")
    (told,) = replay_all(Journal(place), refuse)
    assert told.outcome is Outcome.UNREADABLE
    assert "cannot be read" in told.text


def test_what_was_set_aside_is_told_until_somebody_deletes_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "one.power_limit.json").write_text("")
    (damaged,) = (one for one in journal.entries() if isinstance(one, Unreadable))
    aside = journal.set_aside(damaged)
    (told,) = replay_all(journal, refuse)
    assert told.outcome is Outcome.UNREADABLE
    assert "set aside" in told.text
    aside.unlink()
    assert replay_all(journal, refuse) == []


def test_an_entry_under_another_name_and_a_pipe_are_unreadable(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    journal.write(entry())
    (path,) = (one for one in tmp_path.glob("*.json") if one.name != "pipe.json")
    path.rename(tmp_path / "other.power_limit.json")
    found = journal.entries()
    assert len(found) == 2
    assert all(isinstance(one, Unreadable) for one in found)


def refuse(spec: str) -> Device:
    raise AssertionError(spec)


@pytest.mark.parametrize("wrong", [{"prior": "fast"}, {"written": ("fast",)}])
def test_values_of_another_kind_are_set_aside_with_a_word_and_block_nobody(
    wrong: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    board = open_device("sim:a100")
    board.apply(Setting({"power_limit": 200.0}))
    Journal().write(entry(**wrong))
    with Claim(open_device("sim:a100"), "a test") as claim:
        assert claim.prior["power_limit"] == 200.0
        claim.apply(Setting({"power_limit": 250.0}))
    assert board.current()["power_limit"] == 200.0
    (note,) = [one for one in claim.notes if "'fast', which is no value of it" in one]
    assert "kept aside as" in note
    (aside,) = Journal().asides()
    assert aside.path.name in note
    assert Journal().entries() == []
    (logged,) = [one for one in caplog.messages if "'fast'" in one]
    (line,) = [one for one in Journal().history(9) if "'fast'" in one]
    # once: the next claim finds nothing of it
    with Claim(open_device("sim:a100"), "a test") as claim:
        claim.apply(Setting({"power_limit": 250.0}))
    assert claim.notes == []
    assert [one for one in caplog.messages if "'fast'" in one] == [logged]
    assert [one for one in Journal().history(9) if "'fast'" in one] == [line]


def test_values_of_another_kind_are_seen_by_a_dry_run_and_left(tmp_path: Path) -> None:
    Journal().write(entry(prior="fast"))
    (told,) = replay_all(Journal(), open_device, write=False)
    assert told.outcome is Outcome.UNREADABLE
    assert len(Journal().entries()) == 1
    (told,) = replay_all(Journal(), open_device)
    assert "kept aside as" in told.text
    assert Journal().entries() == []


def test_a_damaged_entry_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    Journal().write(entry())
    Journal().path(entry().uuid, "power_limit").write_bytes(b"{")
    with Claim(open_device("sim:a100"), "a test") as claim:
        for limit_w in (250.0, 300.0):
            claim.apply(Setting({"power_limit": limit_w}))
    assert len([one for one in claim.notes if "kept aside" in one]) == 1
    assert len([one for one in caplog.messages if "kept aside" in one]) == 1
    assert len([one for one in Journal().history(9) if "is damaged" in one]) == 1
