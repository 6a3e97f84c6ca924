"""The fake NVML's faults, each through pynvml."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Iterator

import pynvml as nvml
import pytest

from lowjoule.testing.nvml import Board, FakeNvml

A = Board(uuid="GPU-a", limit_w=(100.0, 400.0), idle_w=50.0, tick_s=0.0)
Make = Callable[..., FakeNvml]
SET_LIMIT = "nvmlDeviceSetPowerManagementLimit"
USAGE = "nvmlDeviceGetPowerUsage"


@pytest.fixture
def fake(fake_nvml: Make) -> Iterator[FakeNvml]:
    fake = fake_nvml([A, Board(uuid="GPU-b")])
    with fake.loaded():
        nvml.nvmlInit()
        yield fake


@pytest.fixture
def handle(fake: FakeNvml) -> object:
    return nvml.nvmlDeviceGetHandleByIndex(0)


def counter_mj(handle: object) -> int:
    counted: int = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    return counted


def test_a_function_fails_always_or_some_times(fake: FakeNvml, handle: object) -> None:
    fake[0].fail(USAGE, nvml.NVML_ERROR_NOT_SUPPORTED)
    for _ in range(3):
        with pytest.raises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceGetPowerUsage(handle)
    nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(1))  # the other board's works
    fake[0].fail(USAGE, nvml.NVML_ERROR_UNKNOWN, times=2)
    for _ in range(2):
        with pytest.raises(nvml.NVMLError_Unknown):
            nvml.nvmlDeviceGetPowerUsage(handle)
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 50_000
    fake[0].fail(USAGE, nvml.NVML_ERROR_UNKNOWN)
    fake[0].heal(USAGE)
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 50_000
    assert fake.calls(USAGE) == 8


def test_a_lost_board_fails_in_all_and_heals(fake: FakeNvml, handle: object) -> None:
    fake[0].lose()
    for call in (nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetPowerUsage, counter_mj):
        with pytest.raises(nvml.NVMLError_GpuIsLost):
            call(handle)
    fake[0].heal()
    assert nvml.nvmlDeviceGetName(handle)


def test_a_setter_without_permission_is_logged(fake: FakeNvml, handle: object) -> None:
    fake[0].fail(SET_LIMIT, nvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(nvml.NVMLError_NoPermission):
        nvml.nvmlDeviceSetPowerManagementLimit(handle, 200_000)
    assert fake[0].state().limit_w == 400.0
    (write,) = fake.writes()
    assert (write.function, write.uuid, write.code) == (SET_LIMIT, "GPU-a", 4)


def test_the_library_itself_fails(fake_nvml: Make) -> None:
    fake = fake_nvml([A])
    fake.fail("nvmlInitWithFlags", nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, times=1)
    fake.fail("nvmlDeviceGetCount_v2", nvml.NVML_ERROR_UNKNOWN)
    with fake.loaded():
        with pytest.raises(nvml.NVMLError_LibRmVersionMismatch):
            nvml.nvmlInit()
        with pytest.raises(nvml.NVMLError_Uninitialized):
            nvml.nvmlDeviceGetCount()
        nvml.nvmlInit()
        with pytest.raises(nvml.NVMLError_Unknown):
            nvml.nvmlDeviceGetCount()
        fake.heal()
        assert nvml.nvmlDeviceGetCount() == 1


def test_fields_have_return_codes_and_types_of_their_own(fake: FakeNvml, handle: object) -> None:
    instant, average = nvml.NVML_FI_DEV_POWER_INSTANT, nvml.NVML_FI_DEV_POWER_AVERAGE
    fake[0].field(instant, code=nvml.NVML_ERROR_INVALID_ARGUMENT)
    fake[0].field(average, value_type=nvml.NVML_VALUE_TYPE_DOUBLE)
    one, two, odd = nvml.nvmlDeviceGetFieldValues(handle, [instant, average, 999])
    assert (one.nvmlReturn, two.nvmlReturn, odd.nvmlReturn) == (2, 0, 3)
    assert (two.valueType, two.value.dVal) == (nvml.NVML_VALUE_TYPE_DOUBLE, 50_000.0)
    fake[0].field(instant)
    (one,) = nvml.nvmlDeviceGetFieldValues(handle, [instant])
    assert (one.nvmlReturn, one.valueType, one.value.uiVal) == (0, 1, 50_000)


def test_fields_of_limits_and_energy(fake: FakeNvml, handle: object) -> None:
    fake[0].limit_elsewhere(250.0)
    fake.advance(2.0)
    numbers = [83, 187, 188, 189, 190, 191, 192]
    values = nvml.nvmlDeviceGetFieldValues(handle, numbers)
    assert [value.nvmlReturn for value in values] == [0] * 7
    assert values[0].valueType == values[5].valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    assert values[0].value.ullVal == values[5].value.ullVal == 100_000
    limits = [values[i].value.uiVal / 1000 for i in (1, 2, 3, 4, 6)]
    assert limits == [100.0, 400.0, 400.0, 250.0, 400.0]
    assert values[0].timestamp == 2_000_000


def test_a_setter_that_lies(fake: FakeNvml, handle: object) -> None:
    fake[0].lie([SET_LIMIT, "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetPersistenceMode"])
    nvml.nvmlDeviceSetPowerManagementLimit(handle, 200_000)
    nvml.nvmlDeviceSetGpuLockedClocks(handle, 300, 600)
    nvml.nvmlDeviceSetPersistenceMode(handle, 0)
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 400_000
    state = fake[0].state()
    assert (state.limit_w, state.sm_clock_lock_hz, state.persistence) == (400.0, None, True)
    assert [write.code for write in fake.writes()] == [0, 0, 0]


def test_a_setter_that_clamps(fake: FakeNvml, handle: object) -> None:
    fake[0].clamp(SET_LIMIT, 150_000, 300_000)
    for asked, got in ((50_000, 150_000), (900_000, 300_000), (200_000, 200_000)):
        nvml.nvmlDeviceSetPowerManagementLimit(handle, asked)
        assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == got


def test_a_setter_that_takes_effect_late(fake: FakeNvml, handle: object) -> None:
    fake[0].late(SET_LIMIT, 0.5)
    fake[0].load([(0.0, 300.0)])
    nvml.nvmlDeviceSetPowerManagementLimit(handle, 200_000)
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 200_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 400_000
    fake.advance(0.25)
    fake[0].load([(0.0, 350.0)])  # what is to come later outlives other changes
    fake.advance(0.25)
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 200_000
    fake.advance(1.0)
    assert counter_mj(handle) == 75_000 + 87_500 + 200_000
    assert fake[0].true_energy_j(0.0, 1.5) == 362.5


def test_slow_calls_in_virtual_time(fake: FakeNvml, handle: object) -> None:
    fake[0].slow(USAGE, 0.25)
    nvml.nvmlDeviceGetPowerUsage(handle)
    assert fake.now_s() == 0.25


def test_slow_calls_in_real_time(fake_nvml: Make) -> None:
    fake = fake_nvml([A], virtual=False)
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].slow(USAGE, 0.05)
        begin_s = time.monotonic()
        nvml.nvmlDeviceGetPowerUsage(handle)
        assert time.monotonic() - begin_s >= 0.05


def test_a_counter_freezes_and_goes_on(fake: FakeNvml, handle: object) -> None:
    fake.advance(1.0)
    fake[0].freeze_counter()
    fake.advance(1.0)
    assert counter_mj(handle) == 50_000
    fake[0].freeze_counter(False)
    assert counter_mj(handle) == 100_000


def test_a_counter_steps_back_a_little(fake: FakeNvml, handle: object) -> None:
    fake.advance(1.0)
    fake[0].step_counter(-0.02)
    assert counter_mj(handle) == 49_980
    fake.advance(1.0)
    assert counter_mj(handle) == 99_980


def test_a_reload_of_the_driver(fake: FakeNvml, handle: object) -> None:
    nvml.nvmlDeviceSetPowerManagementLimit(handle, 200_000)
    nvml.nvmlDeviceSetGpuLockedClocks(handle, 300, 600)
    fake.advance(1.0)
    fake.reload_driver()
    assert counter_mj(handle) == 0
    state = fake[0].state()
    assert (state.limit_w, state.sm_clock_lock_hz, state.persistence) == (400.0, None, False)
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 400_000
    fake.advance(1.0)
    assert counter_mj(handle) == 50_000


def test_power_readings_that_cannot_be(fake: FakeNvml, handle: object) -> None:
    for shown_w in (0.0, 1e6):
        fake[0].show_power(shown_w)
        assert nvml.nvmlDeviceGetPowerUsage(handle) == 1000 * shown_w
    fake[0].show_power(None)
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 50_000


def test_gains_and_jitter(fake_nvml: Make) -> None:
    odd = Board(idle_w=100.0, tick_s=0.1, tick_jitter_s=0.05, counter_gain=1.05, power_gain=0.9)
    fake = fake_nvml([odd])
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceGetPowerUsage(handle) == 90_000
        seen_s: list[tuple[float, int]] = []
        for _ in range(2000):
            fake.advance(0.001)
            before = seen_s[-1][1] if seen_s else 0
            if counter_mj(handle) != before:
                seen_s.append((fake.now_s(), counter_mj(handle)))
        gaps_s = [b[0] - a[0] for a, b in itertools.pairwise(seen_s)]
        assert len(seen_s) in {19, 20}
        assert 0.049 < min(gaps_s) < 0.09
        assert 0.11 < max(gaps_s) < 0.151
        assert seen_s[-1][1] == pytest.approx(105_000 * seen_s[-1][0], rel=0.001)


def test_mig_instances_have_no_power_of_their_own(fake_nvml: Make) -> None:
    fake = fake_nvml([Board(uuid="GPU-m", instances=2), A])
    with fake.loaded():
        nvml.nvmlInit()
        parent, plain = map(nvml.nvmlDeviceGetHandleByIndex, range(2))
        assert nvml.nvmlDeviceGetMigMode(parent) == [1, 1]
        assert nvml.nvmlDeviceGetMigMode(plain) == [0, 0]
        assert nvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
        instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 1)
        with pytest.raises(nvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 2)
        assert nvml.nvmlDeviceIsMigDeviceHandle(instance).value == 1
        assert nvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0
        assert nvml.nvmlDeviceGetGpuInstanceId(instance) == 2
        assert nvml.nvmlDeviceGetComputeInstanceId(instance) == 0
        assert nvml.nvmlDeviceGetUUID(instance) == "MIG-m-1"
        found = nvml.nvmlDeviceGetHandleByUUID("MIG-m-1")
        back = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(found)
        assert nvml.nvmlDeviceGetUUID(back) == "GPU-m"
        for call in (
            nvml.nvmlDeviceGetPowerUsage,
            counter_mj,
            nvml.nvmlDeviceGetPowerManagementLimit,
            lambda handle: nvml.nvmlDeviceSetPowerManagementLimit(handle, 300_000),
            lambda handle: nvml.nvmlDeviceGetFieldValues(handle, [186]),
        ):
            with pytest.raises(nvml.NVMLError_NotSupported):
                call(instance)
        with pytest.raises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceGetUtilizationRates(parent)
        assert nvml.nvmlDeviceGetPowerUsage(parent) == 60_000


def test_a_module_of_cpu_and_gpu(fake_nvml: Make) -> None:
    grace = Board(name="NVIDIA GH200 480GB", idle_w=100.0, module_w=70.0, memory_w=30.0, tick_s=0.0)
    fake = fake_nvml([grace])
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake.advance(2.0)
        values = nvml.nvmlDeviceGetFieldValues(
            handle, [(186, 0), (186, 1), (186, 2), (186, 3), (191, 1), (191, 0)]
        )
        assert [value.nvmlReturn for value in values] == [0, 0, 0, 3, 0, 3]
        assert [values[i].value.uiVal for i in range(3)] == [100_000, 170_000, 30_000]
        assert counter_mj(handle) == values[4].value.ullVal == 340_000
        assert fake[0].true_energy_j(0.0, 2.0, module=True) == 340.0
        assert fake[0].true_energy_j(0.0, 2.0) == 200.0


def test_abilities_need_not_follow_from_the_name(fake_nvml: Make) -> None:
    newest = Board(name="NVIDIA B300", architecture=10, missing=["nvmlDeviceGetPowerUsage"])
    oldest = Board(uuid="GPU-k", name="Tesla K80", architecture=2, clocks_hz={})
    fake = fake_nvml([newest, oldest])
    with fake.loaded():
        nvml.nvmlInit()
        new, old = map(nvml.nvmlDeviceGetHandleByIndex, range(2))
        with pytest.raises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceGetPowerUsage(new)
        assert nvml.nvmlDeviceGetPowerUsage(old) == 60_000
        assert nvml.nvmlDeviceGetSupportedMemoryClocks(old) == []
        with pytest.raises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceSetGpuLockedClocks(old, 300, 300)


def test_workload_power_profiles(fake_nvml: Make) -> None:
    fake = fake_nvml([Board(profiles=(1, 4, 33)), A])
    with fake.loaded():
        nvml.nvmlInit()
        handle, plain = map(nvml.nvmlDeviceGetHandleByIndex, range(2))
        info = nvml.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
        nvml.nvmlDeviceWorkloadPowerProfileGetProfilesInfo(handle, ctypes_ref(info))
        assert list(info.perfProfilesMask.mask)[:2] == [0b10010, 0b10]
        assert info.perfProfile[4].profileId == 4
        assert list(info.perfProfile[4].conflictingmask.mask)[:2] == [0b10, 0b10]
        wanted = nvml.c_nvmlWorkloadPowerProfileRequestedProfiles_v1_t()
        wanted.requestedProfilesMask.mask[0] = 0b10000
        wanted.requestedProfilesMask.mask[1] = 0b10
        nvml.nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(handle, ctypes_ref(wanted))
        assert fake[0].state().profiles == (4, 33)
        current = nvml.c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t()
        nvml.nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(handle, ctypes_ref(current))
        assert list(current.requestedProfilesMask.mask)[:2] == [0b10000, 0b10]
        assert list(current.enforcedProfilesMask.mask)[:2] == [0b10000, 0]
        nvml.nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(handle, ctypes_ref(wanted))
        assert fake[0].state().profiles == ()
        with pytest.raises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceWorkloadPowerProfileGetProfilesInfo(plain, ctypes_ref(info))
        assert len(fake.writes()) == 2


def ctypes_ref(structure: ctypes.Structure) -> object:
    return ctypes.byref(structure)
