"""The watchdog: a process beside its client, which outlives it and nothing more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from control_process import victim, watchdog_of, watched, within
from lowjoule.control import Claim, Entry, Journal
from lowjoule.control.process import start_of
from lowjoule.control.watchdog import Watchdog
from lowjoule.devices.interface import Device
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watchdogs are looked at in /proc")

PRIOR_W, OURS_W = 300.0, 200.0


@pytest.fixture(autouse=True)
def _watchdogs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWJOULE_WATCHDOG", "on")


@pytest.fixture
def device() -> Device:
    one = open_device("sim:a100")
    one.apply(Setting({"power_limit": PRIOR_W}))
    return one


def arguments(ending: str, expires_s: float | None = None) -> list[object]:
    return ["sim:a100", "power_limit", PRIOR_W, [OURS_W], ending, expires_s]


def limit_w(device: Device) -> object:
    return device.current()["power_limit"]


def test_a_watchdog_has_nothing_of_its_client_but_its_number(
    device: Device, tmp_path: Path
) -> None:
    with victim(arguments("SIGKILL"), {}) as (one, pid):
        dog = watchdog_of(pid, tmp_path / "journal")
        assert dog is not None
        proc = Path(f"/proc/{dog}")
        assert within(2.0, lambda: len(list((proc / "fd").iterdir())) >= 5) is not None
        open_files = {os.readlink(one) for one in (proc / "fd").iterdir()}
        assert {one for one in open_files if "pipe" in one or "tty" in one} == set()
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        assert (int(fields[1]) != pid, int(fields[4])) == (True, 0)  # its parent; no terminal
        assert os.getsid(dog) != os.getsid(pid)
        loaded = (proc / "maps").read_text()
        assert "numpy" not in loaded
        assert "nvidia" not in loaded
        resident_kb = int((proc / "status").read_text().split("VmRSS:")[1].split()[0])
        assert resident_kb < 25_000
        assert [one.process.poll(), limit_w(device)] == [None, OURS_W]


def test_a_process_has_one_watchdog_which_goes_with_it(device: Device, tmp_path: Path) -> None:
    code = """
import sys
from lowjoule.control import Claim
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting
for name in ("sim:a100", "sim:h100"):
    for _ in range(3):
        with Claim(open_device(name), "a test") as claim:
            claim.apply(Setting({"power_limit": 250.0}))
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        folder = tmp_path / "journal"
        dog = watchdog_of(client.pid, folder)
        assert dog is not None
        others = [
            entry.name
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != dog and _watches(entry, folder)
        ]
        assert others == []
        assert client.stdin is not None
        client.stdin.close()
    assert within(2.0, lambda: start_of(dog) is None) is not None
    assert list(folder.glob("watchdog-*")) == []


def _watches(proc: Path, folder: Path) -> bool:
    try:
        words = (proc / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"-P" in words and str(folder).encode() in words


def test_a_client_has_no_child_to_wait_for(device: Device) -> None:
    code = """
import os
from lowjoule.control import Claim
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting
with Claim(open_device("sim:a100"), "a test") as claim:
    claim.apply(Setting({"power_limit": 250.0}))
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("none")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "none\n"


def test_the_end_of_the_clients_group_is_not_the_watchdogs(device: Device) -> None:
    with victim(arguments("SIGKILL"), {}) as (one, pid):
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            os.killpg(pid, number)
        assert within(2.0, lambda: limit_w(device) == PRIOR_W) is not None
        one.process.wait()


def test_the_death_of_the_parent_is_not_that_of_the_client(device: Device) -> None:
    with victim(arguments("parent"), {}, parent=True) as (one, pid):
        one.process.kill()
        one.process.wait()
        time.sleep(0.3)
        assert limit_w(device) == OURS_W
        os.kill(pid, signal.SIGKILL)
        assert within(2.0, lambda: limit_w(device) == PRIOR_W) is not None


def test_a_watchdog_that_was_killed_is_started_again(device: Device, tmp_path: Path) -> None:
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": OURS_W}))
        folder = tmp_path / "journal"
        first = watchdog_of(os.getpid(), folder)
        assert first is not None
        assert within(2.0, lambda: watched(os.getpid(), folder)) is not None
        os.kill(first, signal.SIGKILL)
        assert within(2.0, lambda: not watched(os.getpid(), folder)) is not None
        claim.apply(Setting({"power_limit": 250.0}))
        second = watchdog_of(os.getpid(), folder)
        assert second not in {None, first}
        os.kill(int(second or 0), signal.SIGKILL)


def test_an_idle_watchdog_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    Watchdog(os.getpid(), start_of(os.getpid()), journal, idle_s=0.02).run()
    assert list(tmp_path.iterdir()) == []


def test_a_watchdog_of_a_number_that_is_somebody_elses_now_ends(device: Device) -> None:
    Watchdog(os.getpid(), "1", Journal()).run()
    assert limit_w(device) == PRIOR_W


def test_without_pidfd_the_number_and_its_start_are_looked_at(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setenv("LOWJOULE_WATCHDOG", "off")
    with victim(arguments("SIGKILL"), {}) as (one, pid):
        dog = Watchdog(pid, start_of(pid), Journal())
        assert dog._client.ended_within(0.05) is False
        one.process.kill()
        dog.run()
        assert limit_w(device) == PRIOR_W


def test_a_device_that_is_busy_at_first_is_restored_later(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOWJOULE_WATCHDOG", "off")
    with victim(arguments("SIGKILL"), {}) as (one, pid):
        start = start_of(pid)
        one.process.kill()
        one.process.wait()
        state = next((tmp_path / "simulated").glob("*.json"))
        kept = state.read_text()
        tries: list[str] = []

        def opener(spec: str) -> Device:
            tries.append(spec)
            if len(tries) < 3:
                raise OSError("the driver is busy")
            return open_device(spec)

        monkeypatch.setattr("lowjoule.control.watchdog._opened", opener)
        Watchdog(pid, start, Journal()).run()
        assert len(tries) == 3
        assert limit_w(device) == PRIOR_W
        assert state.read_text() != kept
    history = Journal().history(3)
    assert ["failed" in line for line in history] == [True, True, False]


def test_a_watchdog_that_cannot_be_started_ends_nobodys_work(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": OURS_W}))
        assert limit_w(device) == OURS_W
    assert limit_w(device) == PRIOR_W
    assert any("lowjoule restore" in note for note in claim.notes)


def test_a_next_start_waits_for_the_watchdog_that_is_at_it(device: Device) -> None:
    with victim(arguments("SIGKILL"), {}) as (one, _):
        one.process.kill()
        one.process.wait()
        for _ in range(40):  # at any moment of the restore
            with Claim(open_device("sim:a100"), "the next", ["power_limit"]) as claim:
                assert claim.prior["power_limit"] == PRIOR_W
            time.sleep(0.01)


TURNING = """
import sys
from lowjoule.control import Claim
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting
device = open_device("sim:a100")
print(flush=True)
while True:
    with Claim(device, "a test") as claim:
        for limit_w in (150.0, 200.0, 250.0):
            clock_hz = 705e6 + 15e6 * (limit_w // 50)
            claim.apply(Setting({"power_limit": limit_w, "sm_clock": clock_hz}))
"""


def test_what_was_found_is_back_after_a_kill_at_any_moment(device: Device) -> None:
    device.apply(Setting({"sm_clock": 1200e6}))
    found = device.current()
    for number in range(12):
        with subprocess.Popen([sys.executable, "-c", TURNING], stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            client.stdout.readline()
            time.sleep(0.007 * number * number % 0.19)
            client.kill()
        waited_s = within(2.0, lambda: not list(Journal().folder.glob("*.json")))
        assert waited_s is not None
        assert device.current() == found, number


# -------------------------------------------------------------------------------------- expiry


def test_a_claim_whose_work_stands_still_is_put_back(device: Device) -> None:
    with victim(arguments("normal", 0.3), {}) as (one, _):
        assert limit_w(device) == OURS_W
        waited_s = within(3.0, lambda: limit_w(device) == PRIOR_W)
        assert waited_s is not None
        assert (
            within(1.0, lambda: any(getattr(one, "expired", None) for one in Journal().entries()))
            is not None
        )
        # what somebody sets from here on is theirs, also when the claim ends
        device.apply(Setting({"power_limit": 350.0}))
        one.tell()
        notes = json.loads(one.line())
        assert any("expired" in note and "put back" in note for note in notes)
        assert limit_w(device) == 350.0
    assert Journal().entries() == []


def test_a_claim_that_has_expired_writes_no_more_and_touch_says_so(device: Device) -> None:
    with Claim(device, "a test", expires_s=0.3) as claim:
        claim.apply(Setting({"power_limit": OURS_W}))
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < 0.8:
            assert claim.touch()
            time.sleep(0.01)
        assert limit_w(device) == OURS_W
        assert within(3.0, lambda: limit_w(device) == PRIOR_W) is not None
        assert within(1.0, lambda: not claim.touch()) is not None
        from lowjoule.errors import BusyError

        with pytest.raises(BusyError, match="expired"):
            claim.apply(Setting({"power_limit": OURS_W}))
    assert limit_w(device) == PRIOR_W


def test_a_dead_owner_of_an_expired_claim_leaves_nothing_to_do(device: Device) -> None:
    with victim(arguments("SIGKILL", 0.2), {}) as (one, _):
        assert within(3.0, lambda: limit_w(device) == PRIOR_W) is not None
        assert within(3.0, _told_expired) is not None
        device.apply(Setting({"power_limit": OURS_W}))  # somebody else, by chance the same
        one.process.kill()
        assert within(3.0, lambda: Journal().entries() == []) is not None
        assert limit_w(device) == OURS_W


def _told_expired() -> bool:
    return any(isinstance(one, Entry) and one.expired for one in Journal().entries())


def test_children_that_outlive_their_parent_block_nobody(device: Device) -> None:
    with victim(arguments("forked"), {"LOWJOULE_WATCHDOG": "off"}) as (one, _):
        one.process.kill()
        one.process.wait()
        assert limit_w(device) == OURS_W
        with Claim(open_device("sim:a100"), "the next") as claim:
            assert claim.prior["power_limit"] == PRIOR_W
