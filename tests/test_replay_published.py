"""Every published table opens as a device in one call; skipped where the files are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import open_device
from lowjoule.devices.replay import ReplayDevice
from lowjoule.errors import TableError
from lowjoule.knobs import Setting
from lowjoule.workloads import Work

DEVICES = {
    "zeus_nsdi23/summary_power_v100.csv": ("NVIDIA V100", 7, 476),
    "zeus_nsdi23/summary_power_p100.csv": ("NVIDIA P100", 6, 270),
    "zeus_nsdi23/summary_power_a40.csv": ("NVIDIA A40", 6, 453),
    "perseus_sosp24/stage_profile/gpt3-175b+a100_sxm_bf16.csv": ("NVIDIA A100", 16, 608),
    "perseus_sosp24/stage_profile/gpt3-175b+a40_bf16.csv": ("NVIDIA A40", 16, 960),
    "perseus_sosp24/zeus_A100_zeus_global.csv": ("NVIDIA A100", 5, 30),
    "perseus_sosp24/zeus_A40_zeus_global.csv": ("NVIDIA A40", 6, 48),
    "ttu_dvfs/SPEC_A100__GA100-dvfs-accel-dcgm.csv": ("NVIDIA A100", 19, 1159),
    "ttu_dvfs/dgemm_stream__GA100-dvfs-dgemm-dcgm.csv": ("NVIDIA A100", 1, 61),
    "ttu_dvfs/dgemm_stream__GA100-dvfs-stream-dcgm.csv": ("NVIDIA A100", 1, 61),
    "gpuptx_gtxtitanx/gtxtitanx_core_x_mem.csv": ("NVIDIA GTX TITAN X", 165, 5280),
    "zeus_gplo_profiles/A40+resnet50+gpu0,1,2,3.csv": ("NVIDIA A40", 1, 9),
    "zeus_gplo_profiles/A40+resnet50+gpu0.csv": ("NVIDIA A40", 1, 9),
    "zeus_gplo_profiles/V100+bert-base-uncased+gpu0.csv": ("NVIDIA V100", 1, 7),
    "zeus_gplo_profiles/V100+resnet18+gpu0,1.csv": ("NVIDIA V100", 1, 7),
    "zeus_gplo_profiles/V100+resnet18+gpu0.csv": ("NVIDIA V100", 1, 7),
    "zeus_gplo_profiles/V100+resnet50+gpu0,1.csv": ("NVIDIA V100", 1, 7),
    "zeus_gplo_profiles/V100+resnet50+gpu0.csv": ("NVIDIA V100", 1, 7),
    "zeus_gplo_profiles/V100+shufflenetv2+gpu0.csv": ("NVIDIA V100", 1, 7),
}
DEFAULT_BATCHES = {
    "cifar100": 1024,
    "imagenet": 256,
    "squad": 32,
    "librispeech": 256,
    "movielens-1m": 1024,
    "sentiment140": 128,
}


def opened(path: Path) -> ReplayDevice:
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the public measurements here")
    device = open_device(f"replay:{path}")
    assert isinstance(device, ReplayDevice)
    assert isinstance(device, WorkDevice)
    return device


@pytest.mark.parametrize("name", DEVICES)
def test_a_published_table_opens_in_one_call(name: str, data: Path) -> None:
    device = opened(data / name)
    model, workloads, points = DEVICES[name]
    assert device.identity.model == model
    assert len(device.workload_names()) == workloads
    total = 0
    for one in device.workload_names():
        workload = device.workload(one)
        device.submit(workload, Work(1.0, workload.unit), Setting()).wait()
        assert device.read().energy_j
        total += len(device.survey(workload).time_s)
    assert total == points


@pytest.mark.parametrize("board", ["v100", "p100", "a40"])
def test_defaults_of_the_zeus_traces(board: str, data: Path) -> None:
    device = opened(data / f"zeus_nsdi23/summary_power_{board}.csv")
    for name in device.workload_names():
        workload = device.workload(name)
        joint = device.joint_space(workload)
        batches = [int(value) for value in joint.knob("batch_size").values]
        published = DEFAULT_BATCHES[name.split("/")[0]]
        assert joint.default["batch_size"] == min(published, max(batches))
        assert joint.default["power_limit"] == max(joint.knob("power_limit").values)
    assert not any("assumed" in note for note in device.notes)


def test_a_row_of_the_v100_trace(data: Path) -> None:
    device = opened(data / "zeus_nsdi23/summary_power_v100.csv")
    workload = device.workload("cifar100/shufflenetv2")
    device.apply(Setting({"power_limit": 100.0}))
    device.submit(workload, Work(1.0, workload.unit), Setting({"batch_size": 1024})).wait()
    reading = device.read()
    assert reading.time_s == pytest.approx(11.276666666666666)
    assert reading.energy_j == pytest.approx(11.276666666666666 * 86.86460850784009)


def test_energies_of_several_boards_are_summed(data: Path) -> None:
    device = opened(data / "zeus_gplo_profiles/V100+resnet18+gpu0,1.csv")
    workload = device.workload()
    assert workload.name == "resnet18"
    device.submit(workload, Work(1.0, workload.unit), Setting()).wait()
    assert device.read().energy_j == pytest.approx(1361.443 + 1402.245)


def test_one_name_for_two_kernels_gives_two_workloads(data: Path) -> None:
    device = opened(data / "gpuptx_gtxtitanx/gtxtitanx_core_x_mem.csv")
    assert {"stencil2d", "stencil2d#2"} <= set(device.workload_names())
    assert any("stencil2d#2" in note for note in device.notes)
    joint = device.joint_space(device.workload("stencil2d#2"))
    assert joint.default == Setting({"sm_clock": 1.164e9, "memory_clock": 3.505e9})
    assert len(joint) == 32


def test_a_table_without_energy_is_refused(data: Path) -> None:
    path = data / "zeus_nsdi23/summary_train.csv"
    if not path.is_file():
        pytest.skip("summary_train.csv is not among the public measurements here")
    with pytest.raises(TableError, match="energy or power"):
        open_device(f"replay:{path}")
