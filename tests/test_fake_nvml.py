"""The fake NVML through pynvml: boards, power, energy, clocks and settings."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml as nvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.testing.nvml import FUNCTIONS, SETTERS, Board, FakeNvml, compiler
from lowjoule.testing.nvml.layout import SHARED

A = Board(uuid="GPU-a", limit_w=(100.0, 400.0), idle_w=50.0, tick_s=0.1)
B = Board(
    uuid="GPU-b",
    name="NVIDIA RTX A6000",
    architecture=7,
    compute_capability=(8, 6),
    limit_w=(100.0, 300.0),
    default_limit_w=280.0,
    clocks_hz={8001e6: (2100e6, 1500e6, 300e6), 405e6: (420e6, 300e6)},
)
Make = Callable[..., FakeNvml]


@pytest.fixture
def fake(fake_nvml: Make) -> Iterator[FakeNvml]:
    fake = fake_nvml([A, B])
    with fake.loaded():
        nvml.nvmlInit()
        yield fake


def test_both_sides_lay_the_state_out_alike(fake_nvml: Make) -> None:
    sizes = (ctypes.c_uint64 * len(SHARED))()
    with fake_nvml([A]).loaded() as library:
        library.lowjoule_fake_sizes(sizes)
        assert list(sizes) == [ctypes.sizeof(one) for one in SHARED]
        for name in (*FUNCTIONS, "nvmlErrorString"):
            assert getattr(library, name)
    assert len(SETTERS) == 9
    assert all(hasattr(nvml, name.removesuffix("_v2").removesuffix("_v3")) for name in FUNCTIONS)


def test_boards_are_who_they_are(fake: FakeNvml) -> None:
    assert nvml.nvmlDeviceGetCount() == 2
    assert nvml.nvmlSystemGetDriverVersion() == "570.86.10"
    assert nvml.nvmlSystemGetNVMLVersion() == "12.570.86.10"
    assert nvml.nvmlSystemGetCudaDriverVersion_v2() == nvml.nvmlSystemGetCudaDriverVersion()
    second = nvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml.nvmlDeviceGetUUID(second) == "GPU-b"
    assert nvml.nvmlDeviceGetName(second) == "NVIDIA RTX A6000"
    assert nvml.nvmlDeviceGetArchitecture(second) == nvml.NVML_DEVICE_ARCH_AMPERE
    assert nvml.nvmlDeviceGetBrand(second) == nvml.NVML_BRAND_NVIDIA
    assert nvml.nvmlDeviceGetCudaComputeCapability(second) == (8, 6)
    assert nvml.nvmlDeviceGetSerial(second) == "1650000000000"
    assert nvml.nvmlDeviceGetMinorNumber(second) == 1
    info = nvml.nvmlDeviceGetPciInfo(second)
    assert (info.busId, info.bus, info.domain) == ("00000000:02:00.0", 2, 0)
    assert nvml.nvmlDeviceGetMemoryInfo(second).total == 80 << 30
    assert nvml.nvmlDeviceGetMemoryInfo(second, nvml.nvmlMemory_v2).free == 80 << 30


def test_boards_are_found_in_each_way(fake: FakeNvml) -> None:
    by_uuid = nvml.nvmlDeviceGetHandleByUUID("GPU-b")
    for place in ("00000000:02:00.0", "0000:02:00.0", "02:00.0"):
        by_place = nvml.nvmlDeviceGetHandleByPciBusId(place)
        assert nvml.nvmlDeviceGetIndex(by_place) == nvml.nvmlDeviceGetIndex(by_uuid) == 1
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID("GPU-c")
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByPciBusId("0000:09:00.0")
    with pytest.raises(nvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByIndex(2)


def test_enumeration_can_be_shuffled(fake: FakeNvml) -> None:
    fake.shuffle([1, 0])
    first = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetUUID(first) == "GPU-b"
    assert nvml.nvmlDeviceGetIndex(first) == 0


def test_power_is_instant_or_a_boxcar(fake_nvml: Make) -> None:
    instant = Board(uuid="GPU-i", power_usage="instant", idle_w=50.0)
    fake = fake_nvml([A, instant])
    with fake.loaded():
        nvml.nvmlInit()
        average, direct = map(nvml.nvmlDeviceGetHandleByIndex, range(2))
        for board in fake:
            board.load([(0.0, 350.0)])
        fake.advance(0.2)
        assert nvml.nvmlDeviceGetPowerUsage(average) == 110_000
        assert nvml.nvmlDeviceGetPowerUsage(direct) == 350_000
        assert powers_w(average) == (110.0, 350.0)
        fake.advance(0.8)
        assert powers_w(average) == (350.0, 350.0)


def test_a_part_time_sensor_sees_what_falls_into_its_window(fake_nvml: Make) -> None:
    board = Board(uuid="GPU-p", sensor_period_s=0.1, sensor_window_s=0.025, idle_w=50.0)
    fake = fake_nvml([board])
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].load([(0.0, 50.0), (0.075, 450.0)], period_s=0.1)
        fake.advance(1.25)
        assert fake[0].true_energy_j(0.0, 1.2) / 1.2 == pytest.approx(150.0)
        assert powers_w(handle)[1] == 450.0  # three times the truth, at any time
        fake[0].load([(0.0, 450.0), (0.025, 50.0)], period_s=0.1)  # the pulses come at other times
        fake.advance(1.0)
        assert powers_w(handle)[1] == pytest.approx(50.0)


def test_the_counter_moves_in_ticks(fake: FakeNvml) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    fake[0].load([(0.0, 200.0)])
    seen = []
    for _ in range(20):
        fake.advance(0.01)
        seen.append(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    assert seen == [0] * 9 + [20_000] * 10 + [40_000]


steps = st.lists(
    st.tuples(st.floats(0.001, 0.7), st.floats(0.0, 600.0)), min_size=1, max_size=6
).map(lambda pairs: [(sum(gap for gap, _ in pairs[: i + 1]), p) for i, (_, p) in enumerate(pairs)])
periods = st.one_of(st.none(), st.floats(0.001, 0.5))


@given(
    traces=st.lists(st.tuples(steps, periods, st.floats(0.0, 3.0)), min_size=1, max_size=4),
    limits=st.lists(st.tuples(st.integers(100, 400), st.floats(0.0, 1.0)), max_size=4),
    tick_s=st.sampled_from([0.0, 0.02, 0.1]),
    jitter=st.floats(0.0, 1.0),
    latency_s=st.floats(0.0, 2.0),
)
def test_the_counter_is_the_truth_to_within_a_tick(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    traces: list[tuple[list[tuple[float, float]], float | None, float]],
    limits: list[tuple[int, float]],
    tick_s: float,
    jitter: float,
    latency_s: float,
) -> None:
    if compiler() is None:
        pytest.skip("the fake NVML needs a C compiler: install gcc")
    board = Board(
        limit_w=(100.0, 400.0), idle_w=60.0, tick_s=tick_s, tick_jitter_s=tick_s * jitter,
        clock_scales_power=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("fake")
    with FakeNvml([board], folder=folder) as fake, fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].late(SETTERS, latency_s)
        for points, period_s, wait_s in traces:
            period = None if period_s is None else points[-1][0] + period_s
            fake[0].load(points, period)
            for limit_w, gap_s in limits:
                fake.advance(gap_s)
                nvml.nvmlDeviceSetPowerManagementLimit(handle, limit_w * 1000)
                nvml.nvmlDeviceSetGpuLockedClocks(handle, 210, 4 * limit_w)
            fake.advance(wait_s)
            now_s = fake.now_s()
            counted_j = nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
            true_j = fake[0].true_energy_j(0.0, now_s)
            late_s = tick_s * (1 + jitter)
            least_j = fake[0].true_energy_j(0.0, max(0.0, now_s - late_s))
            assert least_j - 0.002 <= counted_j <= true_j + 0.002
            assert powers_w(handle)[1] == pytest.approx(fake[0].true_power_w(), abs=0.001)


def test_the_truth_is_that_of_paper_and_pencil(fake: FakeNvml) -> None:
    fake.advance(1.0)
    fake[0].load([(0.5, 150.0), (1.0, 1000.0), (1.5, 50.0)], period_s=2.0)
    fake.advance(10.0)
    fake[0].put(limit_w=200.0)
    fake.advance(4.0)
    # idle for 1 s; five passes of 0.5 s at 50, 150, 400 and 50 W; two with 200 W in place of 400
    assert fake[0].true_energy_j(0.0, 15.0) == 50.0 + 5 * 325.0 + 2 * 225.0
    assert fake[0].true_energy_j(2.25, 2.75) == 0.25 * 400.0 + 0.25 * 50.0
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 2_125_000


def test_limits_are_set_held_and_refused(fake: FakeNvml) -> None:
    handle = nvml.nvmlDeviceGetHandleByUUID("GPU-b")
    assert nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) == [100_000, 300_000]
    assert nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) == 280_000
    nvml.nvmlDeviceSetPowerManagementLimit(handle, 200_000)
    for outside in (99_999, 300_001):
        with pytest.raises(nvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceSetPowerManagementLimit(handle, outside)
    fake[1].load([(0.0, 500.0)])
    assert powers_w(handle)[1] == 200.0
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0x4
    fake[1].limit_elsewhere(150.0)
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 200_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 150_000
    assert powers_w(handle)[1] == 150.0
    assert fake[1].state().enforced_limit_w == 150.0
    assert fake[1].state().limit_w == 200.0
    written = [(one.uuid, one.arguments[0], one.code) for one in fake.writes()]
    assert written == [("GPU-b", 200_000, 0), ("GPU-b", 99_999, 2), ("GPU-b", 300_001, 2)]
    nvml.nvmlDeviceSetPowerManagementLimit_v2(handle, nvml.NVML_POWER_SCOPE_GPU, 120_000)
    assert fake[1].state().limit_w == 120.0


def test_clocks_are_listed_locked_and_reached(fake: FakeNvml) -> None:
    handle = nvml.nvmlDeviceGetHandleByUUID("GPU-b")
    assert nvml.nvmlDeviceGetSupportedMemoryClocks(handle) == [8001, 405]
    assert nvml.nvmlDeviceGetSupportedGraphicsClocks(handle, 405) == [420, 300]
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetSupportedGraphicsClocks(handle, 1000)
    assert nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) == 2100
    assert sm_mhz(handle) == 300
    assert nvml.nvmlDeviceGetPerformanceState(handle) == 8
    fake[1].load([(0.0, 250.0)])
    assert sm_mhz(handle) == 2100
    assert nvml.nvmlDeviceGetPerformanceState(handle) == 0
    nvml.nvmlDeviceSetGpuLockedClocks(handle, 300, 1600)
    nvml.nvmlDeviceSetMemoryLockedClocks(handle, 405, 405)
    assert sm_mhz(handle) == 1500  # a bin
    assert nvml.nvmlDeviceGetClock(handle, nvml.NVML_CLOCK_MEM, nvml.NVML_CLOCK_ID_CURRENT) == 405
    assert fake[1].state().sm_clock_lock_hz == (300e6, 1600e6)
    assert fake[1].state().memory_clock_lock_hz == (405e6, 405e6)
    for wrong in ((1500, 300), (300, nvml.NVML_CLOCK_LIMIT_ID_TDP)):
        with pytest.raises(nvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceSetGpuLockedClocks(handle, *wrong)
    nvml.nvmlDeviceResetGpuLockedClocks(handle)
    nvml.nvmlDeviceResetMemoryLockedClocks(handle)
    assert sm_mhz(handle) == 2100
    assert fake[1].state().sm_clock_lock_hz is fake[1].state().memory_clock_lock_hz is None
    fake[1].limit_elsewhere(200.0)
    assert sm_mhz(handle) == 1500  # the limit overrides


def test_a_locked_clock_scales_power_where_asked(fake_nvml: Make) -> None:
    board = Board(idle_w=100.0, clock_scales_power=True, clocks_hz={1e9: (2e9, 1e9)})
    fake = fake_nvml([board])
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].load([(0.0, 500.0)])
        nvml.nvmlDeviceSetGpuLockedClocks(handle, 1000, 1000)
        assert powers_w(handle)[1] == 300.0 == fake[0].true_power_w()


def test_the_rest_of_a_board(fake: FakeNvml) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle) == []
    assert nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == 0x1
    fake[0].set(
        temperature_c=83, utilisation=0.37, throttle_reasons=0x40, processes=[41, 42],
        memory_used_bytes=2 << 30,
    )  # fmt: skip
    assert nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU) == 83
    assert nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU) == 83
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 37
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0x41
    assert nvml.nvmlDeviceGetSupportedClocksThrottleReasons(handle) & 0x40
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [(one.pid, one.usedGpuMemory) for one in processes] == [(41, 1 << 30), (42, 1 << 30)]
    assert nvml.nvmlDeviceGetMemoryInfo(handle).used == 2 << 30
    assert nvml.nvmlDeviceGetPersistenceMode(handle) == 1
    nvml.nvmlDeviceSetPersistenceMode(handle, 0)
    assert not fake[0].state().persistence
    assert "14" in nvml.nvmlErrorString(14)


def test_calls_are_counted(fake: FakeNvml) -> None:
    for index in range(2):
        nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(index))
    assert fake.calls("nvmlDeviceGetPowerUsage") == 2
    assert fake.calls("nvmlInitWithFlags") == 1
    assert fake.writes() == []
    with pytest.raises(UnknownNameError):
        fake.calls("nvmlDeviceGetPower")


def test_a_clock_of_the_boards_time(fake: FakeNvml, fake_nvml: Make) -> None:
    unix_s = fake.clock.unix_s()
    fake.clock.sleep(2.5)
    fake.clock.sleep(-1.0)
    assert fake.clock.now_s() == fake.now_s() == 2.5
    assert fake.clock.unix_s() - unix_s == pytest.approx(2.5)


def test_a_board_on_the_wall_clock(fake_nvml: Make) -> None:
    fake = fake_nvml([Board(tick_s=0.01, limit_w=(100.0, 400.0), idle_w=50.0)], virtual=False)
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].load([(0.0, 100.0), (0.01, 300.0)], period_s=0.02)
        begin_s = fake.clock.now_s()
        first = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        fake.clock.sleep(0.1)
        last = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        end_s = fake.clock.now_s()
        true_j = fake[0].true_energy_j(begin_s, end_s)
        assert abs((last - first) / 1000 - true_j) <= 400.0 * 0.01 + 400.0 * 0.02
        assert math.isclose(true_j / (end_s - begin_s), 200.0, rel_tol=0.2)


def test_what_makes_no_sense_is_refused(fake: FakeNvml, tmp_path: Path) -> None:
    for points in ([(1.0, 5.0), (0.5, 5.0)], [(0.0, -1.0)], [(0.0, math.inf)]):
        with pytest.raises(InvalidValueError):
            fake[0].load(points)
    with pytest.raises(InvalidValueError):
        fake[0].load([(0.0, 1.0), (1.0, 2.0)], period_s=1.0)
    with pytest.raises(InvalidValueError):
        Board(limit_w=(400.0, 100.0))
    with pytest.raises(InvalidValueError):
        fake.shuffle([0, 0])
    with pytest.raises(InvalidValueError), FakeNvml([A], folder=tmp_path) as other:  # noqa: SIM117
        with other.loaded():
            pass


def powers_w(handle: object) -> tuple[float, float]:
    """Return averaged and instant power."""
    values = nvml.nvmlDeviceGetFieldValues(
        handle, [nvml.NVML_FI_DEV_POWER_AVERAGE, nvml.NVML_FI_DEV_POWER_INSTANT]
    )
    assert all(value.nvmlReturn == nvml.NVML_SUCCESS for value in values)
    return values[0].value.uiVal / 1000, values[1].value.uiVal / 1000


def sm_mhz(handle: object) -> int:
    clock: int = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    return clock
