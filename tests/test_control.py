from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import FakeDevice, limits, plain_knob
from lowjoule.control import Claim
from lowjoule.errors import BusyError, DeviceError, InvalidValueError
from lowjoule.knobs import AtMost, Setting, Space

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
