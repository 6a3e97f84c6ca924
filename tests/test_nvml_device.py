"""NVIDIA boards through the real binding: which they are, and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
from lowjoule.devices.interface import Coverage, Device, FastSampled, Probed
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.registry import OpenOptions
from lowjoule.errors import (
    InvalidValueError,
    LostDeviceError,
    UnknownNameError,
    UnsupportedError,
)
from lowjoule.testing.conformance import DeviceConformance
from lowjoule.testing.nvml import FakeNvml, compiler
from nvml_machines import A, B, ability, board, device_of, fake_root, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with machine(tmp_path, board()) as one:
        yield one


FIELDS = "nvmlDeviceGetFieldValues"
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"


class TestNvml(DeviceConformance):
    @pytest.fixture(autouse=True)
    def _machine(self, tmp_path: Path) -> Iterator[None]:
        with machine(tmp_path, board(limit_w=(100.0, 110.0))) as self.fake:
            self.fake[0].load([(0.0, 90.0)])
            yield

    def open(self, seed: int = 0) -> Device:
        return opened(self.fake)


class TestNvmlModule(DeviceConformance):
    @pytest.fixture(autouse=True)
    def _machine(self, tmp_path: Path) -> Iterator[None]:
        with machine(
            tmp_path, board(limit_w=(100.0, 103.0), module_w=80.0, module_limit_w=(400.0, 402.0))
        ) as self.fake:
            yield

    def open(self, seed: int = 0) -> Device:
        return opened(self.fake, module=True)


# which device


def test_only_the_boards_that_a_job_was_given_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with machine(tmp_path, board(), board(uuid=B, pci_bus_id="00000000:5E:00.0")):
        (one,) = NvmlBackend(root=fake_root()).available()
        assert one.spec == f"nvml:{B}"
        assert A[:12] in one.remark
        with pytest.raises(UnknownNameError, match="hides it"):
            NvmlBackend(root=fake_root()).open(A, OpenOptions())


@pytest.mark.parametrize("name", [A, "GPU-8932f937", "0", "3b:00.0", "00000000:3B:00.0"])
def test_a_board_is_opened_by_any_of_its_names(fake: FakeNvml, name: str) -> None:
    device = NvmlBackend(root=fake_root()).open(name, OpenOptions())
    assert device.identity.uuid == A
    assert device.identity.pci_bus_id == "0000:3b:00.0"


@pytest.mark.parametrize("name", ["GPU-ffff", "9", "4b:00.0", "MIG-1", "cuda", A[:-1] + "0"])
def test_an_unknown_name_is_refused(fake: FakeNvml, name: str) -> None:
    with pytest.raises(UnknownNameError, match=name):
        NvmlBackend(root=fake_root()).open(name, OpenOptions())


def test_an_index_is_not_trusted_on_a_mixed_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = board(uuid=B, pci_bus_id="00000000:5E:00.0", name="NVIDIA T4")
    with machine(tmp_path, board(), other):
        backend = NvmlBackend(root=fake_root())
        with pytest.raises(InvalidValueError, match="CUDA_DEVICE_ORDER"):
            backend.open("0", OpenOptions())
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        with pytest.raises(InvalidValueError, match="CUDA_DEVICE_ORDER"):
            backend.open("0", OpenOptions())
        assert backend.open(A, OpenOptions()).identity.uuid == A
        assert "not known" in backend.available()[0].remark
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        assert backend.open("0", OpenOptions()).identity.uuid == B


def test_mig_slices_are_their_parent_once(tmp_path: Path) -> None:
    with machine(tmp_path, board(instances=2)) as fake:
        backend = NvmlBackend(root=fake_root())
        (whole,) = backend.select(None)
        assert len(whole.board.slices) == 2
        names = [piece.uuid for piece in whole.board.slices]
        (seen,) = backend.select(names)
        device = device_of(fake, seen)
        assert device.identity.uuid == A
        assert device.identity.scope is Coverage.MIG_PARENT
        assert names[0] in device.notes[0]
        assert A in device.notes[0]
        assert backend.open(names[1], OpenOptions()).identity.uuid == A
        assert len(backend.available()) == 1
        assert device.read().energy_j is not None
        assert device.read().utilisation is None


@pytest.mark.parametrize(
    ("wanted", "count"), [(None, 2), ("0", 1), ("0,1", 2), ([B, A], 2), ([], 0), ("", 0)]
)
def test_a_selection_in_every_form(tmp_path: Path, wanted: object, count: int) -> None:
    with machine(tmp_path, board(), board(uuid=B, pci_bus_id="00000000:5E:00.0")):
        assert len(NvmlBackend(root=fake_root()).select(wanted)) == count  # type: ignore[arg-type]


def suspended(root: Path, address: str, status: str, uuid: str) -> None:
    place = root / "sys/bus/pci/devices" / address
    (place / "power").mkdir(parents=True)
    (place / "vendor").write_text("0x10de\n")
    (place / "class").write_text("0x030200\n")
    (place / "power/runtime_status").write_text(f"{status}\n")
    said = root / "proc/driver/nvidia/gpus" / address
    said.mkdir(parents=True)
    (said / "information").write_text(f"Model: \t NVIDIA H100 80GB HBM3\nGPU UUID: \t {uuid}\n")


def test_listing_wakes_no_sleeping_board(tmp_path: Path) -> None:
    suspended(tmp_path / "root", "0000:3b:00.0", "suspended", A)
    suspended(tmp_path / "root", "0000:5e:00.0", "active", B)
    two = (board(), board(uuid=B, pci_bus_id="00000000:5E:00.0"))
    with machine(tmp_path, *two) as fake:
        fake[0].lose()
        found = NvmlBackend(root=tmp_path / "root").available()
        assert [one.spec for one in found] == [f"nvml:{A}", f"nvml:{B}"]
        assert "asleep" in found[0].remark
        assert fake.calls("nvmlDeviceGetHandleByIndex_v2") == 0
        assert fake.calls("nvmlDeviceGetUUID") == 1


def test_a_sleeping_board_that_is_named_is_woken(tmp_path: Path) -> None:
    root = tmp_path / "root"
    suspended(root, "0000:3b:00.0", "suspended", "GPU-????????-????-????-????-????????????")
    with machine(tmp_path, board()):
        backend = NvmlBackend(root=root)
        assert backend.available()[0].spec == "nvml:0000:3b:00.0"
        assert backend.open("0000:3b:00.0", OpenOptions()).identity.uuid == A


# what a reading is


def test_a_reading_has_all_that_the_board_says(fake: FakeNvml) -> None:
    fake[0].load([(0.0, 300.0)])
    device = opened(fake)
    assert isinstance(device, FastSampled)
    assert isinstance(device, Probed)
    begin = device.read()
    device.clock.sleep(2.0)
    end = device.read()
    assert begin.energy_j is not None
    assert end.energy_j is not None
    assert end.energy_j - begin.energy_j == pytest.approx(600.0, rel=0.05)
    assert end.power_w == pytest.approx(300.0)
    assert end.power_window_s == 0.0
    assert end.average_power_w == pytest.approx(300.0, rel=0.05)
    assert end.sm_clock_hz == 1980e6
    assert end.memory_clock_hz == 2619e6
    assert end.temperature_c == 40.0
    assert end.utilisation == 1.0


def test_a_sample_is_energy_and_power_in_one_call(fake: FakeNvml) -> None:
    device = opened(fake)
    before = {name: fake.calls(name) for name in (FIELDS, COUNTER)}
    sample, reading = device.sample(), device.read()
    assert (sample.energy_j, sample.power_w) == (reading.energy_j, reading.power_w)
    assert fake.calls(FIELDS) == before[FIELDS] + 2
    assert fake.calls(COUNTER) == before[COUNTER]
    assert sample.temperature_c is None


def test_no_counter_is_missing_and_never_zero(tmp_path: Path) -> None:
    with machine(tmp_path, board(missing=(COUNTER,))) as fake:
        fake[0].field(83, code=3)
        device = opened(fake)
        assert device.read().energy_j is None
        assert device.read().power_w is not None
        assert not ability(device, "energy counter").works
        with pytest.raises(UnsupportedError, match="no energy counter"):
            device.measure_counter()


def test_a_counter_that_only_the_call_knows_is_used(fake: FakeNvml) -> None:
    fake[0].field(83, code=3)
    assert opened(fake).sample().energy_j is not None


def test_a_driver_without_field_values_is_asked_by_calls(tmp_path: Path) -> None:
    with machine(tmp_path, board(missing=(FIELDS,))) as fake:
        fake[0].load([(0.0, 300.0)])
        device = opened(fake)
        device.clock.sleep(3.0)
        reading = device.read()
        assert reading.energy_j is not None
        assert reading.power_w == pytest.approx(300.0)
        assert reading.power_window_s == 1.0
        assert reading.average_power_w is None
        assert "not known" in ability(device, "power usage").detail


def test_a_power_that_is_never_supported_is_missing(tmp_path: Path) -> None:
    with machine(tmp_path, board(missing=(FIELDS, COUNTER, "nvmlDeviceGetPowerUsage"))) as fake:
        device = opened(fake)
        reading = device.read()
        assert (reading.energy_j, reading.power_w, reading.power_window_s) == (None, None, None)
        assert not ability(device, "power usage").works


def test_each_field_is_judged_by_its_own_return_code(fake: FakeNvml) -> None:
    fake[0].field(186, code=2)
    device = opened(fake)
    fake[0].load([(0.0, 300.0)])
    device.clock.sleep(0.5)
    reading = device.read()
    assert reading.power_window_s == 1.0
    assert reading.power_w == reading.average_power_w
    assert reading.power_w is not None
    assert reading.power_w < 300.0
    assert not ability(device, "instant power").works
    assert ability(device, "average power").works


@pytest.mark.parametrize("power_w", [0.0, 1e5])
def test_an_impossible_power_is_missing(fake: FakeNvml, power_w: float) -> None:
    device = opened(fake)
    fake[0].show_power(power_w)
    assert device.read().power_w is None
    assert device.read().power_window_s is None
    assert device.sample().energy_j is not None


def test_a_power_of_zero_is_no_sensor(fake: FakeNvml) -> None:
    fake[0].show_power(0.0)
    device = opened(fake)
    for name in ("instant power", "average power", "power usage"):
        assert not ability(device, name).works, name
    assert device.read().power_w is None


def test_an_impossible_energy_is_missing(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].step_counter(3e15)
    assert device.read().energy_j is None


def test_a_counter_of_zero_is_missing_until_it_counts(fake: FakeNvml) -> None:
    device = opened(fake)
    fake.reload_driver()
    assert device.sample().energy_j is None
    fake.advance(0.1)
    assert device.sample().energy_j is not None


@pytest.mark.parametrize("value_type", range(6))
def test_a_field_may_have_any_type(fake: FakeNvml, value_type: int) -> None:
    device = opened(fake)
    fake[0].load([(0.0, 300.0)])
    fake[0].field(186, value_type=value_type)
    assert device.read().power_w == pytest.approx(300.0)


def test_a_failing_question_is_missing_and_the_others_are_there(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].fail("nvmlDeviceGetTemperature", 3)
    fake[0].fail("nvmlDeviceGetUtilizationRates", 999)
    reading = device.read()
    assert reading.temperature_c is None
    assert reading.utilisation is None
    assert reading.energy_j is not None


def test_a_passing_failure_is_tried_again(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].fail(FIELDS, 999, times=2)
    assert device.sample().energy_j is not None


def test_a_lost_board_is_said_with_a_cure(fake: FakeNvml) -> None:
    device = opened(fake)
    fake[0].lose()
    for ask in (device.read, device.sample, device.current):
        with pytest.raises(LostDeviceError, match=A) as caught:
            ask()
        assert "nvidia-smi -r" in caught.value.cure


def test_why_clocks_are_held_back_is_said_in_words(fake: FakeNvml) -> None:
    device = opened(fake)
    assert device.read().throttle_reasons == frozenset()
    fake[0].load([(0.0, 900.0)])
    assert device.read().throttle_reasons == {"power"}


def test_a_module_has_its_counter_and_the_gpu_has_none(tmp_path: Path) -> None:
    with machine(tmp_path, board(module_w=150.0)) as fake:
        fake[0].load([(0.0, 300.0)])
        gpu, module = opened(fake), opened(fake, module=True)
        assert gpu.read().energy_j is None
        assert gpu.read().power_w == pytest.approx(300.0)
        assert module.read().power_w == pytest.approx(450.0)
        begin = module.sample()
        module.clock.sleep(2.0)
        end = module.sample()
        assert begin.energy_j is not None
        assert end.energy_j is not None
        assert end.energy_j - begin.energy_j == pytest.approx(900.0, rel=0.05)
        assert (gpu.identity.scope, module.identity.scope) == (Coverage.GPU, Coverage.MODULE)
        assert gpu.identity.uuid == module.identity.uuid
        assert f"nvml:{A}@module" in str(ability(gpu, "energy counter").cure)
        assert NvmlBackend(root=fake_root()).open(f"{A}@module", OpenOptions())


def test_a_module_that_there_is_not_is_refused(fake: FakeNvml) -> None:
    with pytest.raises(UnsupportedError, match="module"):
        opened(fake, module=True)


def test_the_counters_period_is_measured_when_asked(tmp_path: Path) -> None:
    with machine(tmp_path, board(tick_s=0.1)) as fake:
        device = opened(fake)
        measured = device.measure_counter()
        assert measured.period_s == pytest.approx(0.1, rel=0.1)
        assert "0.1" in ability(device, "energy counter").detail
