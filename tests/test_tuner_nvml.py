"""A loop tuned on an NVIDIA board that does not exist, through the real binding."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
from lowjoule.devices.nvml.controls import PERSISTENCE
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.knobs import POWER_LIMIT, SM_CLOCK, Setting
from lowjoule.testing.nvml import SETTERS, FakeNvml, compiler
from lowjoule.tuning import ExhaustiveSearch, Tuner
from nvml_machines import board, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")

LOCK = "nvmlDeviceSetGpuLockedClocks"
NOT_SUPPORTED, NO_PERMISSION = 3, 4


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with machine(tmp_path, board(clock_scales_power=True, tick_s=0.1)) as one:
        one[0].load([(0.0, 500.0)])
        yield one


def step(fake: FakeNvml, device: NvmlDevice) -> None:
    """A step of which three tenths follow the SM clock."""
    fake.clock.sleep(0.05 * (0.7 + 0.3 * 1980e6 / device.current().number(SM_CLOCK)))


def train_on(fake: FakeNvml, device: NvmlDevice, tuner: Tuner, steps: int) -> None:
    for _ in range(steps):
        step(fake, device)
        tuner.step()


def train(fake: FakeNvml, device: NvmlDevice, tuner: Tuner) -> None:
    """Train until the best is held, or for as long as any of these tests needs."""
    for _ in range(20_000):
        if tuner.settled:
            break
        step(fake, device)
        tuner.step()


def tuned(device: NvmlDevice) -> Tuner:
    return Tuner(
        device,
        objective="eds",
        knobs=[SM_CLOCK],
        job="1M samples",
        samples_per_step=8,
        window_s=10.0,
    )


def test_the_clock_is_found_and_everything_put_back(fake: FakeNvml) -> None:
    device = opened(fake)
    before = device.current()
    with tuned(device) as tuner:
        train(fake, device, tuner)
        assert tuner.settled
        held = device.current()
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting == held
    # by the true figures of the board: 1500 MHz is best of 210, 900, 1500 and 1980
    assert held[SM_CLOCK] == 1500e6
    assert result.default.power_w == pytest.approx(500.0, rel=0.02)
    assert device.current() == before


def test_a_sites_cap_is_never_exceeded_and_both_ends_are_tried(fake: FakeNvml) -> None:
    fake[0].put(limit_w=300.0)
    device = opened(fake)
    with Tuner(
        device,
        objective="eds",
        knobs=[POWER_LIMIT],
        search=ExhaustiveSearch,
        job="1M samples",
        samples_per_step=8,
        window_s=2.0,
    ) as tuner:
        train_on(fake, device, tuner, 20_000)
    written_w = [one.arguments[0] / 1e3 for one in fake.writes()]
    assert (min(written_w), max(written_w)) == (200.0, 300.0)
    assert fake[0].state().requested_limit_w == 300.0


def test_without_permission_the_training_goes_on_and_the_cure_is_logged_once(
    fake: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    fake[0].fail(LOCK, NO_PERMISSION)
    device = opened(fake)
    before: Setting = device.current()
    with caplog.at_level(logging.WARNING, "lowjoule"), tuned(device) as tuner:
        for _ in range(2000):
            step(fake, device)
            tuner.step()
    assert len(caplog.records) == 1
    assert device.current() == before
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting == result.default.setting


def test_what_may_not_be_turned_is_left_and_the_rest_is_tuned(
    fake: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    fake[0].fail(LOCK, NO_PERMISSION)
    device = opened(fake)
    before: Setting = device.current()
    with (
        caplog.at_level(logging.WARNING, "lowjoule"),
        Tuner(device, objective="energy", job="1M samples", samples_per_step=8) as tuner,
    ):
        train(fake, device, tuner)
        assert tuner.settled
        held = device.current()
    assert held[SM_CLOCK] == before[SM_CLOCK]
    assert held[PERSISTENCE] == before[PERSISTENCE]
    # the fake's time does not follow the limit, so that the least is best
    assert held.number(POWER_LIMIT) < 0.7 * before.number(POWER_LIMIT)
    (said,) = {one.getMessage() for one in caplog.records}
    assert "sm_clock may not be turned" in said
    assert "sudo nvidia-smi" in said
    assert device.current() == before
    assert not [one for one in fake.writes() if "Persistence" in one.function]


def test_permission_withdrawn_in_the_middle_is_said_once_and_ends_the_tuning(
    fake: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    device = opened(fake)
    with caplog.at_level(logging.WARNING, "lowjoule"), tuned(device) as tuner:
        for number in range(2000):
            if len(fake.writes()) == 1 and number:
                fake[0].fail(SETTERS, NO_PERMISSION)
            step(fake, device)
            tuner.step()
        assert "the tuning ended early" in tuner.status
    assert len(caplog.records) == 1


def test_a_reload_of_the_driver_is_lived_through(tmp_path: Path) -> None:
    with machine(tmp_path, board(clock_scales_power=True, tick_s=0.1)) as fake:
        fake[0].load([(0.0, 500.0)])
        device = opened(fake)
        with tuned(device) as tuner:
            reloaded = False
            for _ in range(10_000):
                if tuner.settled:
                    break
                if not reloaded and fake[0].state().sm_clock_lock_hz is not None:
                    reloaded = True
                    train_on(fake, device, tuner, 10)  # the window is under way
                    fake.reload_driver()
                step(fake, device)
                tuner.step()
            assert tuner.settled
            assert device.current()[SM_CLOCK] == 1500e6
        result = tuner.result()
        assert result is not None
        assert any("dropped by the hardware" in note for note in result.notes)


def test_a_board_without_a_counter_is_tuned_by_its_power(tmp_path: Path) -> None:
    with machine(tmp_path, board(clock_scales_power=True)) as fake:
        fake[0].fail("nvmlDeviceGetTotalEnergyConsumption", NOT_SUPPORTED)
        for energy in (83, 191):
            fake[0].field(energy, code=NOT_SUPPORTED)
        fake[0].load([(0.0, 500.0)])
        device = opened(fake)
        assert device.read().energy_j is None
        with tuned(device) as tuner:
            train(fake, device, tuner)
            assert tuner.settled
        result = tuner.result()
        assert result is not None
        assert result.chosen.setting[SM_CLOCK] == 1500e6
        assert result.default.power_w == pytest.approx(500.0, rel=0.02)
