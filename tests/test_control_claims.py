"""Claims beside each other and within each other, what they see, and what they say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import FakeDevice, plain_knob
from lowjoule.control import Claim, Entry, Journal
from lowjoule.control.process import this_process
from lowjoule.devices.interface import Ability, Reading
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.errors import (
    BusyError,
    DeviceError,
    InvalidValueError,
    PermissionDeniedError,
    UnknownNameError,
)
from lowjoule.knobs import Applied, AtMost, Setting, Space
from lowjoule.workloads import Work, WorkUnit

LIMIT_100 = Setting({"power_limit": 100.0})
LIMIT_150 = Setting({"power_limit": 150.0})
LIMIT_200 = Setting({"power_limit": 200.0})


def entries() -> list[Entry]:
    return [one for one in Journal().entries() if isinstance(one, Entry)]


# ------------------------------------------------------------------------- claims within claims


def test_an_inner_claim_gives_back_what_the_outer_one_had_set() -> None:
    device = FakeDevice()
    with Claim(device, "the tuner") as outer:
        outer.apply(LIMIT_200)
        with Claim(device, "a window", ["power_limit"], within=outer) as inner:
            inner.apply(LIMIT_100)
            assert inner.prior["power_limit"] == 200.0
        assert device.values["power_limit"] == 200.0
        assert [one.prior for one in entries()] == [250.0]
    assert device.values["power_limit"] == 250.0
    assert entries() == []


def test_what_an_inner_claim_alone_has_turned_is_back_too() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 150.0
    with Claim(device, "the tuner") as outer:
        with Claim(device, "a window", within=outer) as inner:
            inner.apply(LIMIT_100)
            device.broken.add("power_limit")
        assert "could not be put back" in inner.notes[0]
        device.broken.clear()
    assert device.values["power_limit"] == 150.0
    assert entries() == []


def test_the_outer_claim_waits_for_the_inner_one() -> None:
    device = FakeDevice()
    with Claim(device, "the tuner") as outer:
        with Claim(device, "a window", ["power_limit"], within=outer):
            with pytest.raises(BusyError, match="held by a window, within the tuner"):
                outer.apply(LIMIT_100)
            with pytest.raises(BusyError), Claim(device, "a second", within=outer):
                pass
            outer.apply(Setting({"sm_clock": 1e9}))
        outer.apply(LIMIT_100)


def test_an_inner_claim_that_was_not_ended_is_ended_with_the_outer_one() -> None:
    device = FakeDevice()
    with Claim(device, "the tuner") as outer:
        outer.apply(LIMIT_200)
        Claim(device, "a window", within=outer).__enter__().apply(LIMIT_100)
    assert device.values["power_limit"] == 250.0
    assert any("had not ended" in note for note in outer.notes)
    with Claim(device, "the next"):
        pass


def test_within_another_device_beyond_its_knobs_or_after_its_end_is_refused() -> None:
    device = FakeDevice()
    with Claim(device, "the tuner", ["sm_clock"]) as outer:
        with pytest.raises(InvalidValueError, match="another device"):
            Claim(FakeDevice(), "a window", within=outer).__enter__()
        with pytest.raises(BusyError, match="power_limit"):
            Claim(device, "a window", ["power_limit"], within=outer).__enter__()
        with pytest.raises(InvalidValueError, match="expire"):
            Claim(device, "a window", ["sm_clock"], within=outer, expires_s=1.0).__enter__()
    with pytest.raises(BusyError):
        Claim(device, "a window", ["sm_clock"], within=outer).__enter__()


def test_a_second_claim_in_parallel_on_other_knobs_is_allowed() -> None:
    device = FakeDevice()
    with Claim(device, "one", ["power_limit"]) as one, Claim(device, "two", ["sm_clock"]) as two:
        one.apply(LIMIT_100)
        two.apply(Setting({"sm_clock": 1e9}))
    assert device.current() == device.space.default


# ------------------------------------------------------------------------------- what is written


def test_the_journal_knows_every_write_before_it_is_made() -> None:
    seen: list[tuple[object, ...]] = []

    class Watched(FakeDevice):
        def apply(self, setting: Setting) -> Applied:
            seen.append((dict(setting), *((one.prior, one.written) for one in entries())))
            return super().apply(setting)

    device = Watched()
    device.values["power_limit"] = 150.0
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_100)
        claim.apply(LIMIT_200)
    assert seen == [
        ({"power_limit": 100.0}, (150.0, (100.0,))),
        ({"power_limit": 200.0}, (150.0, (100.0, 200.0))),
        ({"power_limit": 150.0}, (150.0, (100.0, 200.0))),
    ]
    assert entries() == []


def test_without_a_journal_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOWJOULE_JOURNAL", str(tmp_path / "file" / "journal"))
    device = FakeDevice()
    with Claim(device, "a test") as claim, pytest.raises(DeviceError, match="LOWJOULE_JOURNAL"):
        claim.apply(LIMIT_100)
    assert device.writes == []


def test_a_private_board_leaves_nothing_in_the_journal() -> None:
    device = open_device("sim:a100", OpenOptions(default={"power_limit": "300W"}))
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        assert entries() == []
        assert device.current()["power_limit"] == 200.0
    assert device.current()["power_limit"] == 300.0


def test_a_value_that_does_not_go_back_is_said() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        device.deaf.add("power_limit")
    assert any("stays at 200.0" in note for note in claim.notes)
    assert [one.knob for one in entries()] == ["power_limit"]


def test_a_knob_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="fan"), Claim(FakeDevice(), "a test", ["fan"]):
        pass


# --------------------------------------------------------------------------------- next starts


def left_by_a_dead_process(device: FakeDevice, **values: float) -> None:
    """Turn knobs as a process did that has been killed since: one of our number, begun earlier."""
    dead = replace(this_process("the dead"), start="1")
    claim = Claim(device, "the dead", values)
    claim.__enter__()
    for knob, value in values.items():
        claim.apply(Setting({knob: value}))
    claim._held.close()
    for one in entries():
        Journal().write(replace(one, owner=dead))


def test_the_next_claim_puts_back_what_a_dead_process_has_left() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 150.0
    left_by_a_dead_process(device, power_limit=100.0)
    with Claim(device, "the next", ["sm_clock"]) as claim:
        assert device.values["power_limit"] == 150.0
    assert claim.notes == [
        "left over from a process that has ended: power_limit put back from 100 W to 150 W"
    ]
    assert entries() == []


def test_what_somebody_has_changed_since_is_left_by_the_next_claim() -> None:
    device = FakeDevice()
    left_by_a_dead_process(device, power_limit=100.0)
    device.values["power_limit"] = 200.0
    with Claim(device, "the next") as claim:
        assert claim.prior["power_limit"] == 200.0
    assert "someone else" in claim.notes[0]
    assert entries() == []


def test_what_cannot_be_put_back_yet_is_owed_by_the_next_claim() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 150.0
    left_by_a_dead_process(device, power_limit=100.0)
    device.broken.add("power_limit")
    with Claim(device, "the next") as claim:
        assert claim.prior["power_limit"] == 150.0
        device.broken.clear()
        claim.apply(LIMIT_200)
    assert device.values["power_limit"] == 150.0
    assert entries() == []


def test_an_end_that_is_interrupted_goes_on() -> None:
    class Impatient(FakeDevice):
        interrupts = 1

        def apply(self, setting: Setting) -> Applied:
            if setting.get("sm_clock") == 1.4e9 and self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            return super().apply(setting)

    device = Impatient()
    ours = Setting({"power_limit": 100.0, "sm_clock": 1e9})
    with pytest.raises(KeyboardInterrupt), Claim(device, "a test") as claim:
        claim.apply(ours)
    assert device.current() == device.space.default
    assert entries() == []
    device.interrupts = 2
    with pytest.raises(KeyboardInterrupt), Claim(device, "a test") as claim:
        claim.apply(ours)
    assert device.values["sm_clock"] == 1e9
    with Claim(device, "the next") as claim:  # of the same process
        assert claim.prior == device.space.default
    assert device.current() == device.space.default
    assert entries() == []


def test_knobs_that_forbid_an_order_are_all_put_back() -> None:
    values = (1.0, 2.0, 3.0, 4.0)
    knobs = (plain_knob("low", values, 1.0), plain_knob("high", values, 4.0))
    device = FakeDevice(space=Space(knobs, (AtMost("low", "high"),)))
    device.values |= {"low": 1.0, "high": 2.0}
    left_by_a_dead_process(device, high=4.0, low=3.0)
    with Claim(device, "the next"):
        assert device.values["low"] == 1.0
        assert device.values["high"] == 2.0
    assert entries() == []


# ------------------------------------------------------------------------------------ upkeep


def test_a_limit_that_the_driver_has_dropped_is_written_again() -> None:
    device = FakeDevice()
    device.values["power_limit"] = 150.0
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_100)
        assert claim.verify() == ()
        device.values["power_limit"] = 250.0  # the driver's default
        assert claim.verify() == ("power_limit",)
        assert device.values["power_limit"] == 100.0
    assert device.values["power_limit"] == 150.0


def test_a_limit_that_somebody_has_changed_is_not_written_again() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_100)
        device.values["power_limit"] = 200.0
        assert claim.verify() == ()
        assert device.values["power_limit"] == 200.0
    assert any("someone else" in note for note in claim.notes)


def test_a_limit_that_does_not_hold_is_given_up() -> None:
    device = FakeDevice()
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_100)
        for _ in range(5):
            device.values["power_limit"] = 250.0
            claim.verify()
        assert device.values["power_limit"] == 250.0
        assert claim.notes == ["power_limit does not hold 100 W"]


def test_an_effect_is_waited_for_until_it_is_seen() -> None:
    device = open_device("sim:a100")
    workload = device.workload("resnet50")  # type: ignore[attr-defined]
    device.submit(workload, Work(10**6, WorkUnit.SAMPLE), Setting())  # type: ignore[attr-defined]
    device.clock.sleep(5.0)
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": 200.0}))
        before = device.read()
        assert before.power_w is not None
        assert before.power_w > 210.0
        (limit,) = claim.settle(limit_s=5.0)
        assert limit.seen
        assert 0 < limit.waited_s < 5.0
        claim.apply(Setting({"sm_clock": 705e6}))
        clock = next(one for one in claim.settle() if one.knob == "sm_clock")
        assert clock.seen
        assert clock.shown is not None
        assert float(clock.shown) <= 705e6


def test_an_effect_that_cannot_be_seen_is_not_claimed() -> None:
    class Stubborn(FakeDevice):
        def read(self) -> Reading:
            return Reading(time_s=self.clock.now_s(), power_w=240.0, sm_clock_hz=None)

    device = Stubborn()
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"power_limit": 100.0, "sm_clock": 1e9}))
        effects = {one.knob: one for one in claim.settle(limit_s=0.5)}
    assert effects["power_limit"].seen is False
    assert effects["power_limit"].waited_s >= 0.5
    assert "240 W are drawn under 100 W" in effects["power_limit"].text
    assert effects["sm_clock"].seen is None


def test_a_clock_that_is_let_go_again_need_not_rise() -> None:
    device = open_device("sim:a100")
    with Claim(device, "a test") as claim:
        claim.apply(Setting({"sm_clock": 705e6}))
        claim.apply(Setting({"sm_clock": 1410e6}))
        begin_s = device.clock.now_s()
        (effect,) = claim.settle(limit_s=60.0)
        assert effect.seen is None
        assert device.clock.now_s() - begin_s < 5.0


# --------------------------------------------------------------------------------- permission


class Guarded(FakeDevice):
    """A device that says what may not be turned."""

    def abilities(self) -> tuple[Ability, ...]:
        return (
            Ability(
                name="power_limit",
                works=False,
                detail="needs administrator",
                cure="sudo x",
                forbidden=True,
            ),
        )

    def command(self, name: str, value: object) -> str:
        return f"sudo tool --{name} {value}"


def test_what_may_not_be_turned_is_refused_before_anything_is_written() -> None:
    device = Guarded()
    with pytest.raises(PermissionDeniedError, match="needs administrator"):
        Claim(device, "a test", ["power_limit"]).__enter__()
    with Claim(device, "a test") as claim:
        both = Setting({"power_limit": 100.0, "sm_clock": 1e9})
        with pytest.raises(PermissionDeniedError, match=r"sudo tool --power_limit 100\.0"):
            claim.apply(both)
        (advice,) = claim.advice(both)
        assert advice.command == "sudo tool --power_limit 100.0"
        assert device.writes == []
        assert entries() == []
        claim.apply(Setting({"sm_clock": 1e9}))


def test_a_trial_write_is_of_the_value_in_force() -> None:
    class Silent(FakeDevice):
        def apply(self, setting: Setting) -> Applied:
            if "power_limit" in setting:
                raise PermissionDeniedError("not for you", cure="sudo tool --power_limit")
            return super().apply(setting)

    device = Silent()
    with Claim(device, "a test") as claim:
        (advice,) = claim.probe()
        assert advice.command == "sudo tool --power_limit"
        assert device.writes == [Setting({"sm_clock": 1.4e9})]
        with pytest.raises(PermissionDeniedError):
            claim.apply(LIMIT_100)


# --------------------------------------------------------------------------------------- forks


def test_a_forked_child_neither_writes_nor_restores() -> None:
    device = open_device("sim:a100")
    with Claim(device, "a test") as claim:
        claim.apply(LIMIT_200)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                claim.apply(LIMIT_100)
            except BusyError:
                claim.restore()
                claim.__exit__(None, None, None)
                code = 0 if not claim.touch() else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert device.current()["power_limit"] == 200.0
        assert len(entries()) == 1


def test_a_forked_child_cannot_claim_what_its_parent_holds() -> None:
    device = open_device("sim:a100")
    with Claim(device, "the parent"):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                Claim(device, "the child").__enter__()
            except BusyError as error:
                code = 0 if "the parent" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(BusyError):
            Claim(device, "another").__enter__()
