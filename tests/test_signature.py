"""What is known of a task: it travels as JSON, stays with its profile, and is learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.cli.main import main
from lowjoule.devices.figures import figures_of, published_figures
from lowjoule.devices.nvml.driver import Driver
from lowjoule.devices.nvml.figures import board_figures
from lowjoule.devices.registry import open_device
from lowjoule.devices.simulated import SimulatedDevice
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.prediction import MeasuredTask, Predictor, tasks_of
from lowjoule.store import Record, Store, read_records, records_of, write_records
from lowjoule.testing.nvml import compiler
from lowjoule.workloads import Activity, Anchor, DeviceFigures, Signature, Workload, load, names
from lowjoule.workloads.signature import is_live
from nvml_machines import board, machine, opened

POSITIVE = st.floats(1e-6, 1e15)
MAYBE = st.none() | POSITIVE
FIGURES = st.builds(
    DeviceFigures,
    model=st.text(min_size=1, max_size=9),
    power_limit_w=MAYBE,
    sm_clock_hz=MAYBE,
    operations_per_s=MAYBE,
    cores=MAYBE,
)
SETTINGS = st.builds(
    Setting,
    st.dictionaries(
        st.sampled_from(["power_limit", "batch_size", "precision"]),
        st.integers(1, 999) | POSITIVE | st.sampled_from(["bf16", "fp32"]),
    ),
)
SIGNATURES = st.builds(
    Signature,
    workload=st.none() | st.sampled_from([load(name) for name in names()]),
    device=st.none() | FIGURES,
    activity=st.none() | st.builds(Activity, compute=MAYBE, busy=MAYBE),
    default=st.none() | SETTINGS,
    anchors=st.lists(
        st.builds(Anchor, setting=SETTINGS, time_s=POSITIVE, energy_j=POSITIVE, live=st.booleans()),
        max_size=3,
    ).map(tuple),
)


@given(SIGNATURES)
def test_it_comes_back_from_json_with_nothing_made_up(one: Signature) -> None:
    again = Signature.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert (again.device, again.activity, again.default) == (one.device, one.activity, one.default)
    assert again.anchors == one.anchors
    if one.workload is None:
        assert again.workload is None
    else:
        assert again.workload is not None
        assert again.workload.signature == one.workload.signature
        assert again.workload.model == one.workload.model


def test_what_is_missing_is_missing() -> None:
    told = Signature(workload=Workload(name="mine"), device=DeviceFigures(model="X")).to_dict()
    assert told["device"] == {"model": "X"}
    assert "operations" not in json.dumps(told)
    again = Signature.from_dict(told)
    assert again.workload is not None
    assert again.workload.operations is None
    assert again.device == DeviceFigures(model="X")
    assert Signature.from_dict(Signature().to_dict()) == Signature()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"version": 2},
        {"version": 1, "device": {}},
        {"version": 1, "device": {"model": "X", "cores": "many"}},
        {"version": 1, "workload": {"name": "x", "unit": "furlong"}},
        {"version": 1, "anchors": [{"setting": {}, "time_s": 0.0, "energy_j": 1.0, "live": True}]},
        {"version": 1, "anchors": [1]},
    ],
)
def test_anything_else_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError, match="signature"):
        Signature.from_dict(told)


def test_an_anchor_is_live_where_no_start_is_needed() -> None:
    device = open_device("sim:a100")
    assert isinstance(device, SimulatedDevice)
    space = device.joint_space(device.workload("resnet50"))
    default = space.default
    assert is_live(space, default)
    assert is_live(space, default.replace(power_limit=200.0, micro_batch=64))
    assert not is_live(space, default.replace(batch_size=64))


def test_the_figures_of_a_simulated_board_are_the_published_ones() -> None:
    device = open_device("sim:a100")
    assert isinstance(device, SimulatedDevice)
    found = figures_of(device, device.workload("resnet50"))
    assert found.operations_per_s == 312e12
    assert found.bandwidth_bytes_per_s == 2039e9
    assert (found.least_power_limit_w, found.power_limit_w) == (100.0, 400.0)
    assert (found.sm_clock_hz, found.memory_clock_hz) == (1410e6, 1593e6)
    assert found.cores is None
    in_fp32 = published_figures("NVIDIA A100-SXM4-80GB", Workload(name="x", precision="fp32"))
    assert in_fp32.operations_per_s == pytest.approx(19.5e12)
    assert in_fp32.power_limit_w is None
    assert published_figures("Some Board") == DeviceFigures(model="Some Board")


def _records(device: str, workload: str, *, signed: bool = True) -> list[Record]:
    opened = open_device(device)
    assert isinstance(opened, SimulatedDevice)
    one = opened.workload(workload)
    space = opened.joint_space(one).free(["power_limit", "batch_size"])
    profile = opened.survey(one, space)
    known = Signature(workload=one, device=figures_of(opened, one), default=space.default)
    return records_of(profile, opened.identity, one, signature=known if signed else None)


def test_everything_in_the_store_is_training_material(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite") as store:
        for device in ("sim:a100", "sim:v100"):
            for workload in ("resnet50", "gpt2", "ncf"):
                store.add(_records(device, workload, signed=device == "sim:a100"))
        write_records(store.records(), tmp_path / "out.csv")
        tasks = tasks_of(store)
    assert sorted(one.name for one in tasks)[0] == "gpt2 on NVIDIA A100 SXM4 80 GB"
    assert len(tasks) == 6
    assert {one.device.model for one in tasks} == {
        "NVIDIA A100 SXM4 80 GB",
        "NVIDIA Tesla V100 PCIe 32 GB",
    }
    for one in tasks:
        assert one.workload is not None
        assert one.workload.operations == load(one.model).operations
        assert one.device.bandwidth_bytes_per_s is not None
        assert one.profile.default is not None
        assert one.profile.default["batch_size"] == load(one.model).default_batch
        assert one.profile.default["power_limit"] == one.profile.settings["power_limit"].max()
    assert (tasks[0].device.power_limit_w, tasks[-1].device.power_limit_w) == (400.0, None)
    Predictor.fit(tasks)
    with Store.open(tmp_path / "b.sqlite") as other:
        other.add(read_records(tmp_path / "out.csv"))
        assert [one.device for one in tasks_of(other)] == [one.device for one in tasks]


def test_the_default_in_force_is_the_one_that_was_told(tmp_path: Path) -> None:
    opened = open_device("sim:a100")
    assert isinstance(opened, SimulatedDevice)
    one = opened.workload("gpt2")
    space = opened.joint_space(one).free(["power_limit", "batch_size"])
    default = space.default.replace(power_limit=300.0, batch_size=8)
    known = Signature(workload=one, default=default)
    with Store.open(tmp_path / "a.sqlite") as store:
        store.add(records_of(opened.survey(one, space), opened.identity, one, signature=known))
        (task,) = tasks_of(store)
    assert task.profile.default == default
    assert task.device.power_limit_w is None


def test_a_knob_that_cannot_be_predicted_makes_tasks_of_their_own(tmp_path: Path) -> None:
    opened = open_device("sim:a100")
    assert isinstance(opened, SimulatedDevice)
    one = opened.workload("gpt2")
    space = opened.joint_space(one).free(["power_limit", "precision"])
    with Store.open(tmp_path / "a.sqlite") as store:
        store.add(records_of(opened.survey(one, space), opened.identity, one))
        tasks = tasks_of(store)
    assert len(tasks) == len(space.knob("precision").values) > 1
    for task in tasks:
        assert len(np.unique(task.profile.settings["precision"])) == 1
    assert any("precision=fp16" in task.name for task in tasks)


def test_too_few_settings_teach_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite") as store:
        store.add(_records("sim:a100", "gpt2")[:1])
        assert tasks_of(store) == []


def test_a_task_needs_a_name_and_a_device() -> None:
    opened = open_device("sim:a100")
    assert isinstance(opened, SimulatedDevice)
    profile = opened.survey(opened.workload("gemm"))
    with pytest.raises(InvalidValueError, match="no device"):
        MeasuredTask.of(profile, Signature(workload=load("gemm")))
    with pytest.raises(InvalidValueError, match="no workload"):
        MeasuredTask.of(profile, Signature(device=DeviceFigures(model="X")))
    decode = Signature(workload=load("llama-3.1-8b-decode"), device=DeviceFigures(model="X"))
    assert MeasuredTask.of(profile, decode).model == "llama-3.1-8b"


def test_of_an_unknown_workload_the_times_alone_are_known(tmp_path: Path) -> None:
    opened = open_device("sim:a100")
    assert isinstance(opened, SimulatedDevice)
    space = opened.joint_space(load("gpt2")).free(["power_limit", "batch_size"])
    profile = opened.survey(load("gpt2"), space)
    with Store.open(tmp_path / "a.sqlite") as store:
        store.add(records_of(profile, opened.identity, Workload(name="mine")))
        (task,) = tasks_of(store)
    assert (task.model, task.workload) == ("mine", None)
    assert task.device.operations_per_s is None


def test_a_real_board_tells_its_clocks_memory_and_limits(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("the fake NVML needs a C compiler: install gcc")
    with machine(tmp_path, board()) as fake:
        found = figures_of(opened(fake), load("gpt2"))
    assert (found.sm_clock_hz, found.memory_clock_hz) == (1980e6, 2619e6)
    assert found.memory_bytes == 80 << 30
    assert (found.least_power_limit_w, found.power_limit_w) == (200.0, 700.0)
    # the fake tells no bus width and no cores: one is published, the other stays unknown
    assert (found.bandwidth_bytes_per_s, found.cores) == (3352e9, None)
    assert found.operations_per_s == published_figures(found.model, load("gpt2")).operations_per_s
    assert found.operations_per_s is not None


def test_bandwidth_is_that_of_the_bus_where_the_board_tells_it() -> None:
    class Told:
        def ask(self, uuid: str, function: str, *arguments: int) -> object:
            told = {
                "nvmlDeviceGetMaxClockInfo": 1215 if arguments == (2,) else 1410,
                "nvmlDeviceGetMemoryBusWidth": 5120,
                "nvmlDeviceGetNumGpuCores": 6912,
            }
            return told.get(function)

    found = board_figures(cast(Driver, Told()), "GPU-1", "X")
    assert found.bandwidth_bytes_per_s == pytest.approx(1555e9, rel=1e-3)
    assert (found.cores, found.memory_bytes) == (6912.0, None)


def test_a_tuning_that_is_kept_says_what_is_known(tmp_path: Path) -> None:
    place = str(tmp_path / "kept.sqlite")
    arguments = ["tune", "--device", "sim:a100", "--workload", "gpt2", "--store", place]
    assert main([*arguments, "--search", "random", "--draws", "12"]) == 0
    with Store.open(place) as store:
        told = [Signature.from_dict(one.provenance["signature"]) for one in store.records()]  # type: ignore[arg-type]
        tasks = tasks_of(store)
    assert told[0].default is not None
    assert told[0].default["power_limit"] == 400.0
    assert all(one == told[0] for one in told)
    assert all(one.device.power_limit_w == 400.0 for one in tasks)
