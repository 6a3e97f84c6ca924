"""The benchmark's proxies on a processor, in PyTorch: a real device that runs work itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lowjoule.benchmarking import Benchmark, Happened
from lowjoule.clock import WallClock
from lowjoule.devices.interface import Coverage, Identity, Reading
from lowjoule.devices.proxied import ProxiedDevice
from lowjoule.errors import (
    DeviceError,
    InvalidValueError,
    MissingExtraError,
    OutOfMemoryError,
    UnknownNameError,
)
from lowjoule.knobs import Applied, Setting, Space, standard_knob
from lowjoule.source import Source
from lowjoule.store import Store
from lowjoule.workloads import Work
from lowjoule.workloads.proxies import PROXIES, Proxy

torch = pytest.importorskip("torch", reason="PyTorch is found, never a dependency")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


@dataclass
class Cpu:
    """A processor that draws 50 W, with a power limit that does nothing; writes are on record."""

    coverage: Coverage = Coverage.PACKAGE
    uuid: str = "cpu-of-tests"
    clock: WallClock = field(default_factory=WallClock)
    writes: list[Setting] = field(default_factory=list)
    space: Space = field(
        default_factory=lambda: Space((standard_knob("power_limit", (40.0, 60.0, 80.0), 80.0),))
    )
    now: Setting = field(default_factory=lambda: Setting({"power_limit": 60.0}))

    @property
    def identity(self) -> Identity:
        return Identity(
            uuid=self.uuid,
            model="CPU of tests",
            vendor="tests",
            backend="fake",
            driver="1",
            source=Source.MEASURED,
            shared=False,
            scope=self.coverage,
        )

    def read(self) -> Reading:
        now_s = self.clock.now_s()
        return Reading(time_s=now_s, energy_j=50.0 * now_s, power_w=50.0)

    def current(self) -> Setting:
        return self.now

    def apply(self, setting: Setting) -> Applied:
        self.writes.append(setting)
        self.now = Setting({**self.now, **setting})
        return Applied(setting, setting)


def test_proxies_run_on_the_cpu_and_the_limit_is_put_back(store: Store) -> None:
    device = Cpu()
    seen: list[Happened] = []
    result = Benchmark(
        ProxiedDevice(device), store, settings=2, window_s=0.1, on_trial=seen.append
    ).run()
    assert result.left == 0
    assert all(one.measured == 2 for one in result.covered)
    assert len(result.covered) == 9
    assert device.now == Setting({"power_limit": 60.0})
    assert Setting({"power_limit": 40.0}) in device.writes
    assert Setting({"power_limit": 80.0}) not in device.writes
    for record in store.records():
        assert record.source is Source.MEASURED
        assert record.energy_j == pytest.approx(50.0 * record.time_s)
    operations = {one.task.workload.name: one.task.workload.operations for one in seen}
    assert operations["proxy-gemm"] == 2 * 4096**2


def test_work_is_whole_steps_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    device = ProxiedDevice(Cpu())
    work = device.workload("proxy-cnn-inference")
    steps: list[int] = []
    real = ProxiedDevice.steps

    def counted(self: ProxiedDevice, proxy: Proxy, count: int) -> None:
        steps.append(count)
        real(self, proxy, count)

    monkeypatch.setattr(ProxiedDevice, "steps", counted)
    execution = device.submit(work, Work(9.0, work.unit), Setting({"batch_size": 4}))
    assert steps == []  # a processor works when it is waited for
    execution.wait()
    execution.wait()
    assert steps == [3]
    with pytest.raises(InvalidValueError, match="batch_size"):
        device.submit(work, Work(1.0, work.unit), Setting({"batch_size": 5}))
    with pytest.raises(UnknownNameError, match="proxy-gemm"):
        device.workload("proxy-gem")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), OutOfMemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), OutOfMemoryError),
        (MemoryError(), OutOfMemoryError),
        (RuntimeError("an illegal instruction"), DeviceError),
    ],
)
def test_what_pytorch_says_of_memory_is_understood(
    error: BaseException, kind: type[DeviceError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(PROXIES["proxy-gemm"], "step", fails)
    device = ProxiedDevice(Cpu())
    work = device.workload("proxy-gemm")
    with pytest.raises(DeviceError) as caught:
        device.submit(work, Work(1.0, work.unit), Setting())
    assert type(caught.value) is kind


def test_a_board_is_found_in_pytorch_by_its_uuid_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [type("P", (), {"uuid": one})() for one in ("aaa-1", "BBB-2")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: seen[number])
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    device = ProxiedDevice(Cpu(Coverage.GPU, uuid="GPU-bbb-2"))
    assert str(device._place) == "cuda:1"
    assert device.precision == "bf16"
    assert device.workload("proxy-gemm").default_batch == 4096
    with pytest.raises(DeviceError, match="does not see"):
        ProxiedDevice(Cpu(Coverage.GPU, uuid="GPU-ccc"))


def test_without_pytorch_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="install it as pytorch"):
        ProxiedDevice(Cpu())
