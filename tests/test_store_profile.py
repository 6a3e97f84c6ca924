from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import FakeDevice
from lowjoule.control import Claim
from lowjoule.devices.interface import Identity
from lowjoule.errors import StoreError, UnknownNameError
from lowjoule.knobs import BATCH_SIZE, Setting, standard_knob
from lowjoule.profile import Profile
from lowjoule.profiling import Profiler
from lowjoule.source import Source
from lowjoule.store import Record, Store, records_of, records_of_trials
from lowjoule.store.pooling import pooled
from lowjoule.workloads import Work, Workload, WorkUnit
from store_records import record

A100 = "NVIDIA A100"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store


def test_a_profile_has_the_points_of_its_device_and_workload_alone(store: Store) -> None:
    store.add(
        [
            record(250.0, time_s=2.0, energy_j=400.0, energy_sd_j=3.0, peak_power_w=300.0),
            record(200.0, time_s=2.2, energy_j=380.0, energy_sd_j=4.0),
            record(150.0, device_model="V100", time_s=9.0),
            record(150.0, workload="bert", time_s=9.0),
        ]
    )
    default = Setting({"power_limit": 250.0, "batch_size": 64})
    profile = store.profile(A100, "resnet50", default=default)
    assert profile.work == Work(64.0, WorkUnit.SAMPLE)
    assert profile.source is Source.MEASURED
    assert profile.time_s.tolist() == [2.0, 2.2]
    assert profile.energy_j.tolist() == [400.0, 380.0]
    first, second = profile
    assert (first.energy_sd_j, second.energy_sd_j) == (3.0, 4.0)
    assert first.peak_power_w is None  # a profile has a figure of all points or of none
    assert profile.latency_s is None
    assert first.setting == Setting({"power_limit": 250, "batch_size": 64})
    assert profile.default == first.setting


def test_a_profile_is_of_what_was_achieved(store: Store) -> None:
    capped = Setting({"power_limit": 240.0, "batch_size": 64})
    store.add([record(250.0, achieved=capped), record(240.0, time_s=4.0)])
    (point,) = store.profile(A100, "resnet50")
    assert (point.setting, point.time_s, point.windows) == (capped, 3.0, 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"device_model": "A100"}, r"unknown device model .*; did you mean 'NVIDIA A100'"),
        ({"workload": "resnet"}, r"unknown workload measured on NVIDIA A100.*'resnet50'"),
        ({"device_uuid": "GPU-9"}, "unknown device uuid of resnet50 'GPU-9'; did you mean"),
        (
            {"source": Source.SIMULATED},
            "of resnet50 'simulated'; known are measured",
        ),
        ({"unit": WorkUnit.EPOCH}, "unknown unit of resnet50 'epoch'; known are sample"),
    ],
)
def test_what_was_not_measured_is_answered_with_what_was(
    store: Store, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnknownNameError, match="no device model is known here"):
        store.profile(A100, "resnet50")
    store.add([record()])
    with pytest.raises(UnknownNameError, match=said):
        store.profile(**{"device_model": A100, "workload": "resnet50", **asked})


@pytest.mark.parametrize(
    ("other", "choice", "said"),
    [
        ({"device_uuid": "GPU-2"}, {"device_uuid": "GPU-2"}, "GPU-1, GPU-2.*device_uuid="),
        ({"source": Source.SIMULATED}, {"source": Source.SIMULATED}, "measured, simul.*source="),
        ({"signature": "new"}, {"signature": "new"}, r"definitions .*\(abc, new\).*signature="),
        ({"work": Work(1.0, WorkUnit.EPOCH)}, {"unit": WorkUnit.EPOCH}, r"epoch, sample.*unit="),
        (
            {"asked": Setting({"sm_clock": 1e9}), "achieved": Setting({"sm_clock": 1e9})},
            {"knobs": ["sm_clock"]},
            r"\(batch_size, power_limit\) and \(sm_clock\).*knobs=",
        ),
    ],
)  # fmt: skip
def test_points_of_several_kinds_are_never_mixed(
    store: Store, other: dict[str, Any], choice: dict[str, Any], said: str
) -> None:
    store.add([record(), record(time_s=7.0, **other)])
    with pytest.raises(StoreError, match=said):
        store.profile(A100, "resnet50")
    assert store.profile(A100, "resnet50", **choice).time_s.tolist() == [7.0]


def test_a_workload_is_found_by_its_definition(store: Store) -> None:
    workload = Workload(name="resnet50", precision="bf16")
    store.add([record(signature=workload.signature)])
    assert len(store.profile(A100, workload)) == 1
    with pytest.raises(StoreError, match="was measured with another definition of it"):
        store.profile(A100, replace(workload, precision="fp8"))


def test_a_batch_size_that_was_not_measured_is_named(store: Store) -> None:
    store.add([record(250.0, batch) for batch in (128, 32, 64)])
    profile = store.profile(A100, "resnet50", setting={"batch_size": 32})
    assert [point.setting["batch_size"] for point in profile] == [32]
    with pytest.raises(StoreError, match="has batch_size 96; there are points at 32, 64, 128"):
        store.profile(A100, "resnet50", setting={"batch_size": 96})
    with pytest.raises(StoreError, match=r"has sm_clock 1.0; measure it first"):
        store.profile(A100, "resnet50", setting={"sm_clock": 1.0})
    with pytest.raises(StoreError, match=r"no point in .* has just the knobs batch_size"):
        store.profile(A100, "resnet50", knobs=["batch_size"])
    store.add([record(250.0, "auto")])
    with pytest.raises(StoreError, match="knob batch_size has numbers in some records and names"):
        store.profile(A100, "resnet50")


WINDOWS = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=6)


def of_windows(windows: list[float]) -> Record:
    """The record of several windows' times (and energies a hundred times as large)."""
    sd = float(np.std(windows, ddof=1)) if len(windows) > 1 else None
    return record(
        time_s=float(np.mean(windows)),
        energy_j=float(np.mean(windows)) * 100.0,
        time_sd_s=sd,
        energy_sd_j=None if sd is None else sd * 100.0,
        windows=len(windows),
    )


@given(st.lists(WINDOWS, min_size=1, max_size=5))
def test_pooling_records_equals_pooling_their_windows(records: list[list[float]]) -> None:
    (point,) = pooled([of_windows(windows) for windows in records])
    every = [window for windows in records for window in windows]
    assert point.windows == len(every)
    assert point.time_s == pytest.approx(np.mean(every))
    assert point.energy_j == pytest.approx(100.0 * np.mean(every))
    if len(every) == 1:
        assert point.time_sd_s is None
    else:
        assert point.time_sd_s == pytest.approx(np.std(every, ddof=1), abs=1e-6)
        assert point.energy_sd_j == pytest.approx(100.0 * np.std(every, ddof=1), abs=1e-4)


def test_without_their_own_spread_the_records_means_tell_it() -> None:
    chance = np.random.default_rng(0)
    means = chance.normal(50.0, 2.0, (4000, 4)).mean(axis=1)
    (point,) = pooled([record(time_s=mean, windows=4) for mean in means])
    assert point.time_sd_s == pytest.approx(2.0, rel=0.05)


def test_one_record_keeps_its_own_spread_and_optional_figures_are_pooled_where_known() -> None:
    (alone,) = pooled([record(time_sd_s=0.5)])
    assert alone.time_sd_s == 0.5
    (both,) = pooled(
        [
            record(peak_power_w=200.0, memory_bytes=1e9, latency_s=1.0, windows=3),
            record(peak_power_w=250.0, wait_power_w=80.0, latency_s=2.0),
        ]
    )
    assert (both.peak_power_w, both.memory_bytes, both.wait_power_w) == (250.0, 1e9, 80.0)
    assert both.latency_s == 1.25


def test_different_amounts_of_work_are_scaled_to_one_unit() -> None:
    four = Work(4.0, WorkUnit.SAMPLE)
    profile = pooled(
        [
            record(100.0, work=Work(10.0, WorkUnit.SAMPLE), time_s=5.0, energy_j=100.0),
            record(100.0, work=Work(20.0, WorkUnit.SAMPLE), time_s=12.0, energy_j=220.0),
            record(200.0, work=four, time_s=1.0, energy_j=60.0, energy_sd_j=8.0, time_sd_s=0.4),
        ]
    )
    assert profile.work == Work(1.0, WorkUnit.SAMPLE)
    assert profile.time_s == pytest.approx([0.55, 0.25])
    assert profile.energy_j == pytest.approx([10.5, 15.0])
    first, second = profile
    assert first.time_sd_s == pytest.approx(math.sqrt(2 * 0.05**2))
    assert second.time_sd_s == pytest.approx(0.1)
    assert second.energy_sd_j == pytest.approx(2.0)


IDENTITY = Identity(
    uuid="replay-1",
    model="A40",
    vendor="NVIDIA",
    backend="replay",
    driver="",
    source=Source.REPLAYED,
)


def test_a_profile_becomes_records_and_a_profile_again(store: Store) -> None:
    before = Profile(
        work=Work(1.0, WorkUnit.EPOCH),
        time_s=[3.0, 2.0],
        energy_j=[300.0, 400.0],
        settings={"power_limit": np.array([100.0, 200.0]), "precision": np.array(["bf16", "fp8"])},
        latency_s=[0.1, 0.2],
        energy_sd_j=[3.0, 4.0],
        windows=[2, 5],
        source=Source.REPLAYED,
    )
    workload = Workload(name="squad", unit=WorkUnit.EPOCH)
    records = records_of(before, IDENTITY, workload, provenance={"table": "runs.csv"})
    assert store.add(records) == 2
    assert store.add(records_of(before, IDENTITY, workload)) == 0
    assert records[0].provenance == {"table": "runs.csv"}
    after = store.profile("A40", workload)
    assert list(after) == list(before)
    assert (after.work, after.source) == (before.work, Source.REPLAYED)


def test_a_record_names_the_batch_size_that_nobody_turned() -> None:
    profile = Profile(
        work=Work(1.0, WorkUnit.EPOCH),
        time_s=[3.0],
        energy_j=[300.0],
        settings={"power_limit": np.array([100.0])},
    )
    workload = Workload(name="squad", knobs=(standard_knob(BATCH_SIZE, (16, 32), 32),))
    (one,) = records_of(profile, IDENTITY, workload)
    assert one.asked == one.achieved == Setting({"power_limit": 100.0, "batch_size": 32})


def test_trials_become_records_and_failed_ones_do_not(store: Store) -> None:
    device = FakeDevice(too_big=128, source=Source.SIMULATED)
    workload = device.workload()
    with Claim(device, "a test") as claim:
        profiler = Profiler(claim, device, workload, window_s=10.0)
        settings = [device.joint_space(workload).default.replace(batch_size=b) for b in (64, 128)]
        trials = [profiler.measure(setting) for setting in settings]
        trials.append(profiler.measure(settings[0].replace(power_limit=100.0)))
    records = records_of_trials(
        trials, device.identity, workload, when_unix_s=5.0, provenance={"command": "tune"}
    )
    assert [one.provenance["trial"] for one in records] == [1, 3]
    assert [one.asked["power_limit"] for one in records] == [250.0, 100.0]
    assert {one.source for one in records} == {Source.SIMULATED}
    assert {one.when_unix_s for one in records} == {5.0}
    # no noise, and a window that knows it
    assert records[0].energy_sd_j is not None
    assert records[0].energy_sd_j < 0.001 * records[0].energy_j
    store.add(records)
    assert store.profile("fake", workload).energy_j == pytest.approx([100.0, 100.0])  # of one unit


def test_a_copy_of_a_replayed_figure_is_no_second_measurement(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        for source in (Source.REPLAYED, Source.SIMULATED, Source.MEASURED):
            for when in (1.0, 2.0, 3.0):
                store.add([record(source=source, when_unix_s=when)])
            count = len(store.records(source=source))
            assert count == (3 if source is Source.MEASURED else 1)
