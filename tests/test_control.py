from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import FakeDevice, limits, plain_knob
from lowjoule.control import Claim
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.errors import BusyError, DeviceError, InvalidValueError
from lowjoule.knobs import Applied, AtMost, Setting, Space

LIMIT_200 = Setting({"power_limit": 200.0})


def test_the_value_that_was_found_is_put_back_not_the_default() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 150.0
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        assert device.values["power_limit"] == 200.0
    assert device.values["power_limit"] == 150.0


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_put_back_on_any_exception(error: type[BaseException]) -> None:
    device = FakeDevice()

    def work() -> None:
        with Claim(device, "a test") as claim:
            claim.apply(Setting({"power_limit": 100.0, "sm_clock": 1e9}))
            raise error

    with pytest.raises(error):
        work()
    assert device.current() == device.space.default


def test_nothing_is_written_when_nothing_was_changed() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(device.current())
    assert device.writes == []


def test_what_someone_else_changed_is_left_alone_and_said() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": 200.0, "sm_clock": 1e9}))
        device.values["power_limit"] = 100.0
    assert device.values["power_limit"] == 100.0
    assert device.values["sm_clock"] == 1.4e9
    assert "someone else" in claim.notes[0]


def test_one_failing_control_does_not_stop_the_rest_of_the_restore() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": 200.0, "sm_clock": 1e9}))
        device.broken.add("power_limit")
    assert device.values == {"power_limit": 200.0, "sm_clock": 1.4e9}
    assert any("could not be put back" in note for note in claim.notes)


def test_a_knob_has_one_owner_and_is_free_afterwards() -> None:
    device = FakeDevice()
    with Claim(device, "the first"):
        with pytest.raises(BusyError, match="the first"), Claim(device, "the second"):
            pass
        with Claim(FakeDevice(), "another device"):
            pass
    with Claim(device, "the third") as claim:
        claim.apply(LIMIT_200)


def test_knobs_outside_the_claim_and_after_its_end_are_refused() -> None:
    device = FakeDevice()
    with Claim(device, "a test", ["sm_clock"]) as claim:
        with pytest.raises(BusyError):
            claim.apply(LIMIT_200)
        with Claim(device, "another knob", ["power_limit"]):
            pass
    with pytest.raises(BusyError):
        claim.apply(Setting({"sm_clock": 1e9}))
    assert device.writes == []


def test_a_refused_write_raises_and_earlier_ones_are_put_back() -> None:
    device = FakeDevice()
    device.broken.add("sm_clock")
    with pytest.raises(DeviceError), Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": 100.0, "sm_clock": 1e9}))
    assert device.current() == device.space.default


def test_a_value_outside_the_domain_is_refused() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim, pytest.raises(InvalidValueError):
        claim.apply(Setting({"power_limit": 1.0}))


def test_what_the_device_achieved_is_told_apart_from_what_was_asked() -> None:
    device = FakeDevice(deaf={"power_limit"})
    with Claim(device, "a test") as claim:
        applied = claim.apply(LIMIT_200)
    assert applied.asked == LIMIT_200
    assert applied.achieved == Setting({"power_limit": 250.0})
    assert not applied.exact


def _two_clocks() -> Space:
    values = (1.0, 2.0, 3.0, 4.0)
    return Space(
        (plain_knob("low", values, 1.0), plain_knob("high", values, 4.0), limits(100.0, 200.0)),
        (AtMost("low", "high"),),
    )


@given(st.data())
def test_minimum_and_maximum_are_written_in_a_valid_order_and_put_back(data: st.DataObject) -> None:
    space = _two_clocks()
    device = FakeDevice(space=space)
    found = data.draw(st.sampled_from(space.settings))
    device.values = dict(found)
    with Claim(device, "a test") as claim:
        for goal in data.draw(st.lists(st.sampled_from(space.settings), max_size=4)):
            claim.apply(goal)
            assert device.current() == goal
    assert device.current() == found
    assert claim.notes == []


class Treacherous(FakeDevice):
    """A device whose writes reach the hardware and then fail."""

    def apply(self, setting: Setting) -> Applied:
        applied = super().apply(setting)
        if dict(setting) == {"power_limit": 200.0}:
            raise DeviceError("the driver gave up", cure="try again")
        return applied


def test_a_write_that_fails_after_it_reached_the_hardware_is_put_back() -> None:
    device = Treacherous()
    with pytest.raises(DeviceError), Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
    assert device.current() == device.space.default


def test_what_could_not_be_put_back_is_on_the_exception_and_tried_again() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        device.broken.add("power_limit")
        claim.restore()
        assert device.values["power_limit"] == 200.0
        device.broken.clear()
    assert device.values["power_limit"] == 250.0

    def work() -> None:
        with Claim(device, "a test") as claim:
            claim.apply(LIMIT_200)
            device.broken.add("power_limit")
            raise RuntimeError("the work failed")

    with pytest.raises(RuntimeError) as caught:
        work()
    assert "could not be put back" in "".join(caught.value.__notes__)


def test_a_device_that_is_lost_ends_the_restore_without_an_error() -> None:
    device = FakeDevice()

    def lost(setting: Setting | None = None) -> Setting:
        raise RuntimeError("lost")

    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        device.current = lost  # type: ignore[method-assign]
    assert any("lost" in note for note in claim.notes)
    assert device.values["power_limit"] == 250.0


HOLD = """
import sys
from lowjoule.control import Claim
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.devices.registry import open_device
with Claim(open_device("sim:a100"), "another tuning"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_knob_has_one_owner_on_the_machine_and_a_killed_one_lets_go() -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "held\n"
    device = open_device("sim:a100")
    with pytest.raises(BusyError, match=f"another tuning .process {other.pid}"):
        Claim(device, "mine").__enter__()
    other.kill()
    other.wait()
    with Claim(device, "mine"):
        pass
    other.stdout.close()
    other.stdin.close()


WRITE = """
import sys
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting
device = open_device("sim:a100")
name, values = sys.argv[1], [float(v) for v in sys.argv[2:]]
for _ in range(150):
    for value in values:
        device.apply(Setting({name: value}))
        assert device.current()[name] == value
"""


def test_processes_that_turn_different_knobs_lose_no_write() -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, *arguments])
        for arguments in (["power_limit", "200", "250"], ["sm_clock", "1005e6", "1200e6"])
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    setting = open_device("sim:a100").current()
    assert (setting["power_limit"], setting["sm_clock"]) == (250.0, 1200e6)


def test_a_board_at_other_defaults_is_nobody_elses() -> None:
    shared = open_device("sim:a100")
    shared.apply(Setting({"power_limit": 300.0}))
    what_if = open_device("sim:a100", OpenOptions(default={"power_limit": "300W"}))
    what_if.apply(Setting({"sm_clock": 1005e6}))
    assert not what_if.identity.shared
    assert open_device("sim:a100").current()["power_limit"] == 300.0
    assert open_device("sim:a100").current()["sm_clock"] == 1410e6
