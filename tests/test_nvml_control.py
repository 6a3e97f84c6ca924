"""NVIDIA boards through the real binding: what is written, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
from lowjoule.control import Claim
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.errors import (
    InvalidValueError,
    PermissionDeniedError,
    UnsupportedError,
)
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting, Value, turnable
from lowjoule.testing.nvml import SETTERS, FakeNvml, compiler
from nvml_machines import LIMIT, A, ability, board, fake_root, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with machine(tmp_path, board()) as one:
        yield one


def test_looking_writes_nothing(fake: FakeNvml) -> None:
    NvmlBackend(root=fake_root()).available()
    device = opened(fake)
    device.read()
    device.sample()
    device.current()
    device.abilities()
    device.measure_counter()
    assert fake.writes() == []


def test_a_limit_is_read_back_requested_and_enforced(tmp_path: Path) -> None:
    with machine(tmp_path, board(other_limit_w=250.0)) as fake:
        device = opened(fake)
        applied = device.apply(Setting({POWER_LIMIT: 300.0}))
        assert applied.achieved == Setting({POWER_LIMIT: 300.0})
        assert applied.enforced == {POWER_LIMIT: 250.0}
        assert not applied.exact
        assert device.apply(Setting({POWER_LIMIT: 220.0})).exact


def test_a_limit_that_shows_late_is_no_other_authoritys(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].late(LIMIT, 0.1)
    assert device.apply(Setting({POWER_LIMIT: 300.0})).exact


def test_a_driver_that_clamps_is_shown_as_achieved(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].clamp(LIMIT, 350.4e3, 700e3)
    applied = device.apply(Setting({POWER_LIMIT: 300.0}))
    assert applied.achieved == Setting({POWER_LIMIT: 350.4})
    assert device.current()[POWER_LIMIT] == 350.4
    device.space.check(device.current())


def test_a_driver_that_lies_is_shown_as_achieved(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].lie(LIMIT)
    assert device.apply(Setting({POWER_LIMIT: 300.0})).achieved == Setting({POWER_LIMIT: 700.0})


def test_the_limits_are_whole_watts_with_both_ends(fake: FakeNvml) -> None:
    values = opened(fake).space.knob(POWER_LIMIT).values
    assert values == tuple(float(value) for value in range(200, 701))


def test_a_limit_that_somebody_else_set_can_be_put_back(fake: FakeNvml) -> None:
    device = opened(fake)
    with Claim(device, "another", [POWER_LIMIT]) as claim:
        claim.apply(Setting({POWER_LIMIT: 300.0}))
    fake[0].put(limit_w=287.25)
    with Claim(device, "ours", [POWER_LIMIT]) as claim:
        assert claim.prior[POWER_LIMIT] == 287.25
        claim.apply(Setting({POWER_LIMIT: 300.0}))
    assert device.current()[POWER_LIMIT] == 287.25
    assert claim.notes == []


def test_a_refusal_names_the_exact_command(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].fail(SETTERS, 4)
    asked: dict[tuple[str, Value], str] = {
        (POWER_LIMIT, 250.0): f"sudo nvidia-smi -i {A} -pl 250",
        (SM_CLOCK, 900e6): f"sudo nvidia-smi -i {A} -lgc 210,900",
        (SM_CLOCK, 1980e6): f"sudo nvidia-smi -i {A} -rgc",
        (MEMORY_CLOCK, 1593e6): f"sudo nvidia-smi -i {A} -lmc 1593,1593",
        (MEMORY_CLOCK, 2619e6): f"sudo nvidia-smi -i {A} -rmc",
        ("persistence", "off"): f"sudo nvidia-smi -i {A} -pm 0",
    }
    before = device.current()
    for (name, value), command in asked.items():
        with pytest.raises(PermissionDeniedError) as caught:
            device.apply(Setting({name: value}))
        assert caught.value.cure == command
    assert device.current() == before


def test_a_limit_out_of_range_is_refused_before_any_write(fake: FakeNvml) -> None:
    device = opened(fake)
    for limit_w in (199.0, 701.0, 0.0, -1.0):
        with pytest.raises(InvalidValueError):
            device.apply(Setting({POWER_LIMIT: limit_w, SM_CLOCK: 900e6}))
    assert fake.writes() == []


def test_a_limit_that_cannot_be_set_is_no_knob(tmp_path: Path) -> None:
    missing = ("nvmlDeviceGetPowerManagementLimitConstraints",)
    with machine(tmp_path, board(missing=missing)) as fake:
        device = opened(fake)
        assert POWER_LIMIT not in device.space.names
        assert "700 W is enforced" in ability(device, POWER_LIMIT).detail


def test_an_unreadable_request_leaves_the_enforced_limit(tmp_path: Path) -> None:
    with machine(tmp_path, board(missing=("nvmlDeviceGetPowerManagementLimit",))) as fake:
        assert POWER_LIMIT in opened(fake).space.names
        fake[0].field(192, code=3)
        device = opened(fake)
        assert POWER_LIMIT not in device.space.names
        assert "700 W is enforced" in ability(device, POWER_LIMIT).detail


def test_a_setter_that_is_not_supported_is_said(tmp_path: Path) -> None:
    with machine(tmp_path, board(missing=(LIMIT,))) as fake:
        device = opened(fake)
        with pytest.raises(UnsupportedError, match=LIMIT):
            device.apply(Setting({POWER_LIMIT: 300.0}))


def test_a_locked_clock_leaves_the_board_free_to_rest(fake: FakeNvml) -> None:
    device = opened(fake)
    assert device.current()[SM_CLOCK] == 1980e6
    device.apply(Setting({SM_CLOCK: 900e6}))
    assert device.current()[SM_CLOCK] == 900e6
    assert fake.writes()[-1].arguments == (210, 900)
    device.apply(Setting({SM_CLOCK: 1980e6}))
    assert fake.writes()[-1].function == "nvmlDeviceResetGpuLockedClocks"


def test_a_memory_clock_is_locked_and_set_free(fake: FakeNvml) -> None:
    device = opened(fake)
    device.apply(Setting({MEMORY_CLOCK: 1593e6}))
    assert fake.writes()[-1].arguments == (1593, 1593)
    device.apply(Setting({MEMORY_CLOCK: 2619e6}))
    assert fake.writes()[-1].function == "nvmlDeviceResetMemoryLockedClocks"


def test_a_known_lock_is_what_is_in_force(fake: FakeNvml) -> None:
    (seen,) = NvmlBackend(root=fake_root()).select(None)
    device = NvmlDevice(seen, clock=fake.clock, known_locks={SM_CLOCK: 900e6})
    assert device.current()[SM_CLOCK] == 900e6
    assert "does not tell" in ability(device, SM_CLOCK).detail


def test_a_knob_of_one_value_is_absent(tmp_path: Path) -> None:
    with machine(tmp_path, board(clocks_hz={2619e6: (1980e6, 900e6)})) as fake:
        assert MEMORY_CLOCK not in opened(fake).space.names


def test_persistence_goes_on_first_and_off_last(tmp_path: Path) -> None:
    with machine(tmp_path, board(persistence=False)) as fake:
        device = opened(fake)
        assert device.current()["persistence"] == "off"
        device.apply(Setting({POWER_LIMIT: 300.0, "persistence": "on"}))
        assert [one.function for one in fake.writes()] == ["nvmlDeviceSetPersistenceMode", LIMIT]
        device.apply(Setting({POWER_LIMIT: 400.0, "persistence": "off"}))
        assert fake.writes()[-1].function == "nvmlDeviceSetPersistenceMode"


def test_no_search_turns_persistence_by_itself(fake: FakeNvml) -> None:
    space = opened(fake).space
    assert len(turnable(space).knob("persistence").values) == 1
    assert len(turnable(space, ["persistence"]).knob("persistence").values) == 2


def test_who_may_not_write_is_told_without_a_write(fake: FakeNvml, tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    status = tmp_path / "proc/self/status"
    (seen,) = NvmlBackend(root=fake_root()).select(None)
    device = NvmlDevice(seen, clock=fake.clock, root=tmp_path)
    status.write_text("Uid:\t0\t0\nCapEff:\t00000000a80425fb\n")
    assert not ability(device, POWER_LIMIT).works
    assert "needs administrator" in ability(device, POWER_LIMIT).detail
    assert "-pl 700" in str(ability(device, POWER_LIMIT).cure)
    status.write_text("CapEff:\t000001ffffffffff\n")
    assert ability(device, POWER_LIMIT).works


def test_a_power_profile_is_requested_alone_and_what_wins_is_said(tmp_path: Path) -> None:
    with machine(tmp_path, board(profiles=(0, 1, 7))) as fake:
        device = opened(fake)
        assert device.space.knob("power_profile").values == (
            "none",
            "max_p",
            "max_q",
            "llm_training",
        )
        assert device.apply(Setting({"power_profile": "max_q"})).exact
        assert fake[0].state().profiles == (1,)
        assert device.apply(Setting({"power_profile": "llm_training"})).exact
        assert fake[0].state().profiles == (7,)
        device.apply(Setting({"power_profile": "none"}))
        assert fake[0].state().profiles == ()
        fake[0].fail(SETTERS, 4)
        with pytest.raises(PermissionDeniedError, match="power-profiles"):
            device.apply(Setting({"power_profile": "max_p"}))


def test_a_profile_that_is_outvoted_is_shown_as_requested_with_what_wins(tmp_path: Path) -> None:
    with machine(tmp_path, board(profiles=(0, 1))) as fake:
        device = opened(fake)
        device.apply(Setting({"power_profile": "max_q"}))
        # two requests, of which the driver enforces one
        fake[0].lie("nvmlDeviceWorkloadPowerProfileClearRequestedProfiles")
        applied = device.apply(Setting({"power_profile": "max_p"}))
        assert applied.achieved == Setting({"power_profile": "max_p+max_q"})
        assert applied.enforced == {"power_profile": "max_p"}
        assert device.current()["power_profile"] == "max_p+max_q"


def test_a_board_without_profiles_has_no_such_knob(fake: FakeNvml) -> None:
    assert "power_profile" not in opened(fake).space.names
