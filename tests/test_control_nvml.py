"""What is true of NVML's setters, by claims on boards of the fake: a test for each row.

| call | tests |
|---|---|
| SetPowerManagementLimit | a limit ...; a reload ...; another authority ... |
| Set/ResetGpuLockedClocks, Set/ResetMemoryLockedClocks | a lock ... |
| SetPersistenceMode | persistence ... |
| SetPowerManagementLimit_v2 | the limit of a module ... |
| SetApplicationsClocks | application clocks ... |
| PowerSmoothing | power smoothing ... |
| WorkloadPowerProfile | a power profile ... |
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pynvml")
from lowjoule.control import Claim, Entry, Journal, Outcome, advise, replay_all
from lowjoule.control.process import this_process
from lowjoule.devices.interface import Device
from lowjoule.devices.nvml.driver import DRIVER
from lowjoule.errors import InvalidValueError, LostDeviceError, PermissionDeniedError
from lowjoule.knobs import (
    MEMORY_CLOCK,
    MODULE_POWER_LIMIT,
    POWER_LIMIT,
    SM_CLOCK,
    Setting,
    Value,
    turnable,
)
from lowjoule.testing.nvml import SETTERS, Board, FakeNvml, compiler
from nvml_machines import LIMIT, A, B, ability, board, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
NOT_PERMITTED = 4
MODULE_SETTER = "nvmlDeviceSetPowerManagementLimit_v2"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with machine(tmp_path, board(profiles=(0, 1))) as one:
        yield one


def set_to(name: str, value: Value) -> Setting:
    return Setting({name: value})


def killed(device: Device, settings: Setting) -> None:
    """Turn knobs as a process does that is killed then, without a watchdog."""
    claim = Claim(device, "the dead", settings)
    claim.__enter__()
    claim.apply(settings)
    claim._held.close()
    for one in Journal().entries():
        assert isinstance(one, Entry)
        Journal().write(replace(one, owner=replace(this_process("the dead"), start="1")))


# ------------------------------------------------------------------------------------ power limit


def test_a_limit_goes_back_to_the_sites_and_not_to_the_boards(fake: FakeNvml) -> None:
    fake[0].put(limit_w=300.5)
    with Claim(opened(fake), "a test") as claim:
        claim.apply(set_to(POWER_LIMIT, 250.0))
        assert fake[0].state().requested_limit_w == 250.0
    assert fake[0].state().requested_limit_w == 300.5


def test_a_reload_of_the_driver_drops_a_lock_that_nobody_can_read(fake: FakeNvml) -> None:
    # the board is idle, far below the lock: only the counter tells
    with Claim(opened(fake), "a test", [SM_CLOCK]) as claim:
        claim.apply(set_to(SM_CLOCK, 1500e6))
        assert claim.verify() == ()
        fake.advance(5.0)
        assert claim.verify() == ()
        fake.reload_driver()
        fake.advance(0.5)
        assert claim.verify() == (SM_CLOCK,)
        assert fake[0].state().sm_clock_lock_hz == (210e6, 1500e6)


def test_a_limit_out_of_range_is_refused_and_nothing_is_written(fake: FakeNvml) -> None:
    with Claim(opened(fake), "a test") as claim:
        for value in (199.0, 701.0):
            with pytest.raises(InvalidValueError):
                claim.apply(set_to(POWER_LIMIT, value))
        claim.apply(set_to(POWER_LIMIT, 200.0))  # the ends are values
        claim.apply(set_to(POWER_LIMIT, 700.0))
    assert [one.arguments[0] for one in fake.writes()] == [200_000, 700_000]


def test_a_limit_that_another_authority_keeps_is_seen(tmp_path: Path) -> None:
    with machine(tmp_path, board(other_limit_w=250.0)) as fake:
        with Claim(opened(fake), "a test") as claim:
            applied = claim.apply(set_to(POWER_LIMIT, 300.0))
        assert applied.enforced == {POWER_LIMIT: 250.0}
        assert fake[0].state().requested_limit_w == 700.0


def test_a_limit_is_waited_for_by_what_is_drawn(fake: FakeNvml) -> None:
    fake[0].load([(0.0, 600.0)])
    fake.advance(2.0)
    fake[0].late(LIMIT, 0.4)
    with Claim(opened(fake), "a test") as claim:
        claim.apply(set_to(POWER_LIMIT, 300.0))
        (effect,) = claim.settle(limit_s=3.0)
        assert effect.seen
        assert float(effect.shown or 0) <= 315.0
        fake[0].show_power(500.0)
        claim.apply(set_to(POWER_LIMIT, 250.0))
        (effect,) = claim.settle(limit_s=1.0)
        assert effect.seen is False
        assert effect.waited_s >= 1.0


def test_a_reload_of_the_driver_is_noticed_and_what_it_dropped_is_written_again(
    fake: FakeNvml,
) -> None:
    fake[0].put(limit_w=400.0)
    fake.advance(5.0)
    ours = Setting({POWER_LIMIT: 300.0, SM_CLOCK: 900e6})
    with Claim(opened(fake), "a test") as claim:
        claim.apply(ours)
        fake.reload_driver()
        fake.advance(0.5)
        assert set(claim.verify()) == {POWER_LIMIT, SM_CLOCK}
        state = fake[0].state()
        assert state.requested_limit_w == 300.0
        assert state.sm_clock_lock_hz == (210e6, 900e6)
    assert fake[0].state().requested_limit_w == 400.0
    assert fake[0].state().sm_clock_lock_hz is None


def test_without_permission_nothing_is_written_and_the_command_is_given(fake: FakeNvml) -> None:
    fake[0].fail(SETTERS, NOT_PERMITTED)
    device = opened(fake)
    command = f"sudo nvidia-smi -i {A} -pl 300"
    with Claim(device, "a test") as claim, pytest.raises(PermissionDeniedError, match=command):
        claim.apply(set_to(POWER_LIMIT, 300.0))
    assert claim.notes == []
    assert Journal().entries() == []
    assert fake[0].state().requested_limit_w == 700.0


def test_a_trial_write_says_what_is_not_permitted_and_touches_no_lock(fake: FakeNvml) -> None:
    fake[0].put(sm_clock_lock_hz=(210e6, 900e6))  # by somebody: nobody can read it
    fake[0].fail(LIMIT, NOT_PERMITTED)
    with Claim(opened(fake), "a test") as claim:
        (advice,) = claim.probe()
        assert advice.command == f"sudo nvidia-smi -i {A} -pl 700"
        (advice,) = claim.advice(set_to(POWER_LIMIT, 250.0))
        assert advice.command == f"sudo nvidia-smi -i {A} -pl 250"
    assert fake[0].state().sm_clock_lock_hz == (210e6, 900e6)


def test_a_board_that_nobody_named_is_never_written(tmp_path: Path) -> None:
    other = board(uuid=B, pci_bus_id="00000000:3C:00.0")
    with machine(tmp_path, board(), other) as fake:
        with Claim(opened(fake), "a test") as claim:
            claim.apply(set_to(POWER_LIMIT, 300.0))
            claim.probe()
            claim.verify()
        assert {one.uuid for one in fake.writes()} == {A}


def test_a_board_that_is_lost_leaves_its_entry_for_the_next_start(fake: FakeNvml) -> None:
    device = opened(fake)

    def work() -> None:
        with Claim(device, "a test") as claim:
            claim.apply(set_to(POWER_LIMIT, 300.0))
            fake[0].lose()
            device.read()

    with pytest.raises(LostDeviceError):
        work()
    assert len(Journal().entries()) == 1
    fake[0].heal()
    fake[0].put(limit_w=300.0)
    left = Journal().entries()[0]
    assert isinstance(left, Entry)
    Journal().write(replace(left, owner=replace(left.owner, start="1")))
    with Claim(opened(fake), "the next"):
        assert fake[0].state().requested_limit_w == 700.0
    assert Journal().entries() == []


# ------------------------------------------------------------------------------------------ locks


def test_a_lock_that_was_told_is_what_a_clock_goes_back_to(fake: FakeNvml) -> None:
    fake[0].put(sm_clock_lock_hz=(210e6, 1500e6))
    device = opened(fake)
    device.assume(set_to(SM_CLOCK, 1500e6))
    assert device.current()[SM_CLOCK] == 1500e6
    with Claim(device, "a test") as claim:
        claim.apply(set_to(SM_CLOCK, 900e6))
    assert fake[0].state().sm_clock_lock_hz == (210e6, 1500e6)


def test_a_lock_that_is_not_reached_shows_the_clock_that_runs(fake: FakeNvml) -> None:
    # the power limit overrides the lock downwards
    device = opened(fake)
    fake[0].put(limit_w=200.0)
    fake[0].load([(0.0, 600.0)])
    with Claim(device, "a test") as claim:
        claim.apply(set_to(SM_CLOCK, 1500e6))
        (effect,) = claim.settle()
    assert effect.asked == 1500e6
    assert effect.shown == 210e6
    assert "it runs at 210 MHz" in effect.text


def test_a_cap_that_is_not_met_is_seen_by_what_is_drawn(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].load([(0.0, 600.0)])
    fake[0].late(LIMIT, 60.0)  # accepted, read back, and without effect
    with Claim(device, "a test") as claim:
        claim.apply(set_to(POWER_LIMIT, 300.0))
        (effect,) = claim.settle(0.5)
        assert (effect.seen, effect.shown) == (False, 600.0)
        assert effect.text == "600 W are drawn under 300 W"
    assert fake[0].state().requested_limit_w == 700.0


def test_a_lock_that_nobody_told_is_undone(fake: FakeNvml) -> None:
    with Claim(opened(fake), "a test") as claim:
        claim.apply(Setting({SM_CLOCK: 900e6, MEMORY_CLOCK: 1593e6}))
        assert fake[0].state().memory_clock_lock_hz is not None
    assert fake[0].state().sm_clock_lock_hz is None
    assert fake[0].state().memory_clock_lock_hz is None


def test_a_lock_of_a_dead_process_is_known_from_the_journal(fake: FakeNvml) -> None:
    fake[0].put(sm_clock_lock_hz=(210e6, 1500e6))
    dead = opened(fake)
    dead.assume(set_to(SM_CLOCK, 1500e6))
    killed(dead, set_to(SM_CLOCK, 900e6))
    next_one = opened(fake)  # does not know of any lock
    assert next_one.current()[SM_CLOCK] == 1980e6
    with Claim(next_one, "the next") as claim:
        assert claim.prior[SM_CLOCK] == 1500e6
        assert fake[0].state().sm_clock_lock_hz == (210e6, 1500e6)


def test_a_lock_goes_with_a_reboot_and_is_not_invented(
    fake: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = opened(fake)
    dead.assume(set_to(SM_CLOCK, 1500e6))
    killed(dead, set_to(SM_CLOCK, 900e6))
    fake.reload_driver()
    monkeypatch.setenv("LOWJOULE_BOOT_ID", "the next")
    with Claim(opened(fake), "the next") as claim:
        pass
    assert "started anew" in claim.notes[0]
    assert fake[0].state().sm_clock_lock_hz is None


# ------------------------------------------------------------------------------------ persistence


def test_persistence_goes_on_before_and_off_after_all_else(fake: FakeNvml) -> None:
    fake[0].put(persistence=False, limit_w=400.0)
    device = opened(fake)
    names = (POWER_LIMIT, "persistence")
    with Claim(device, "a test", names) as claim:
        claim.apply(Setting({POWER_LIMIT: 300.0, "persistence": "on"}))
    writes = [one.function for one in fake.writes()]
    assert writes[-2:] == [LIMIT, "nvmlDeviceSetPersistenceMode"]
    assert not fake[0].state().persistence
    assert fake[0].state().requested_limit_w == 400.0
    killed(device, Setting({POWER_LIMIT: 300.0, "persistence": "on"}))
    assert [one.outcome for one in replay_all(Journal(), lambda _: opened(fake))] == [
        Outcome.PUT_BACK
    ] * 2
    assert [one.function for one in fake.writes()][-2:] == writes[-2:]


def test_persistence_that_somebody_has_turned_off_is_said(fake: FakeNvml) -> None:
    with Claim(opened(fake), "a test") as claim:
        claim.apply(Setting({POWER_LIMIT: 300.0}))
        fake[0].put(persistence=False)
        assert claim.verify() == ()
        fake.reload_driver()  # what its last user's going away does then
        assert claim.verify() == (POWER_LIMIT,)
        assert fake[0].state().requested_limit_w == 300.0


# --------------------------------------------------------------------------------- power profiles


def test_a_power_profile_goes_back(fake: FakeNvml) -> None:
    device = opened(fake)
    if "power_profile" not in device.space.names:
        pytest.skip("the binding knows no power profiles")
    found = device.current()["power_profile"]
    other = next(one for one in device.space.knob("power_profile").values if one != found)
    with Claim(device, "a test") as claim:
        claim.apply(set_to("power_profile", other))
        assert device.current()["power_profile"] == other
    assert device.current()["power_profile"] == found


def module(**more: object) -> Board:
    return board(module_w=150.0, module_limit_w=(400.0, 1000.0), **more)


def test_the_limit_of_a_module_is_a_knob_of_its_own_and_goes_back(tmp_path: Path) -> None:
    with machine(tmp_path, module()) as fake:
        device = opened(fake)
        knob = device.space.knob(MODULE_POWER_LIMIT)
        assert (knob.values[0], knob.values[-1], knob.default) == (400.0, 1000.0, 1000.0)
        # it takes from the GPU what the processor draws: searches leave it alone
        assert len(turnable(device.space).knob(MODULE_POWER_LIMIT).values) == 1
        device.apply(set_to(MODULE_POWER_LIMIT, 900.0))
        fake[0].load([(0.0, 650.0)])
        with Claim(device, "a test", [MODULE_POWER_LIMIT]) as claim:
            applied = claim.apply(set_to(MODULE_POWER_LIMIT, 500.0))
            assert applied.achieved == set_to(MODULE_POWER_LIMIT, 500.0)
            assert applied.exact
            assert fake[0].state().module_limit_w == 500.0
            assert fake[0].true_power_w() == 350.0
            (entry,) = Journal().entries()
            assert isinstance(entry, Entry)
            assert entry.prior == 900.0
        assert fake[0].state().module_limit_w == 900.0
        assert fake[0].state().requested_limit_w == 700.0
        assert {one.function for one in fake.writes()} == {MODULE_SETTER}


def test_the_limit_of_a_module_that_is_refused_in_silence_is_an_error(tmp_path: Path) -> None:
    # the binding drops the driver's answer: no permission reads like success
    with machine(tmp_path, module()) as fake:
        fake[0].fail(MODULE_SETTER, NOT_PERMITTED)
        device = opened(fake)
        command = f"sudo nvidia-smi -i {A} -sc 1 -pl 600"
        with pytest.raises(PermissionDeniedError, match=command):
            device.apply(set_to(MODULE_POWER_LIMIT, 600.0))
        (advice,) = advise(device, set_to(MODULE_POWER_LIMIT, 600.0)).advice
        assert advice.command == command
        with pytest.raises(InvalidValueError):
            device.apply(set_to(MODULE_POWER_LIMIT, 300.0))
        device.apply(set_to(MODULE_POWER_LIMIT, 1000.0))  # it is there already


def test_the_limit_of_a_module_that_there_is_not_is_no_knob(tmp_path: Path) -> None:
    for one in (board(), board(module_w=150.0)):
        with machine(tmp_path, one) as fake:
            assert MODULE_POWER_LIMIT not in opened(fake).space.names
            assert ability(opened(fake), MODULE_POWER_LIMIT).cure


def test_the_limit_of_a_module_is_lost_with_the_driver_and_written_again(tmp_path: Path) -> None:
    with machine(tmp_path, module()) as fake:
        device = opened(fake)
        with Claim(device, "a test", [MODULE_POWER_LIMIT]) as claim:
            claim.apply(set_to(MODULE_POWER_LIMIT, 500.0))
            fake.reload_driver()
            assert claim.verify() == (MODULE_POWER_LIMIT,)
            assert fake[0].state().module_limit_w == 500.0


def test_application_clocks_are_left_alone_and_told_as_what_holds_a_clock_back(
    fake: FakeNvml,
) -> None:
    # deprecated, and a most rather than a lock: the driver is not even asked for the setter
    device = opened(fake)
    asked: list[str] = []
    tell = DRIVER.tell

    def noted(uuid: str, function: str, *more: Any, **others: Any) -> None:
        asked.append(function)
        tell(uuid, function, *more, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DRIVER, "tell", noted)
        with Claim(device, "a test") as claim:
            for name in claim.knobs:
                for value in device.space.knob(name).values[:2]:
                    claim.apply(set_to(name, value))
    assert len(set(asked)) >= 6
    assert [one for one in asked if "Application" in one] == []
    fake[0].set(throttle_reasons=0x2)
    assert "clock setting" in device.read().throttle_reasons


def test_power_smoothing_is_no_knob_and_is_said_of_the_figures(tmp_path: Path) -> None:
    with machine(tmp_path, board(power_smoothing=True)) as fake:
        device = opened(fake)
        assert any("power smoothing is on" in note for note in device.notes)
        assert not any("smoothing" in name for name in device.space.names)
    for off in (False, None):
        with machine(tmp_path, board(power_smoothing=off)) as fake:
            assert opened(fake).notes == ()


def test_a_write_costs_little_more_than_the_driver_takes(fake: FakeNvml) -> None:
    device = opened(fake)
    with Claim(device, "a test") as claim:
        begin_s = time.perf_counter()
        for value in range(200, 250):
            claim.apply(set_to(POWER_LIMIT, float(value)))
        assert (time.perf_counter() - begin_s) / 50 < 0.05
