"""The fake NVML in several processes, and what outlives them."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pynvml as nvml
import pytest

from lowjoule.errors import LowjouleError
from lowjoule.testing.nvml import (
    Board,
    CompilerError,
    FakeNvml,
    build,
    compile_library,
    compiler,
)

A = Board(uuid="GPU-a", limit_w=(100.0, 400.0), idle_w=50.0, tick_s=0.0)
Make = Callable[..., FakeNvml]

SET = """
import sys, pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByUUID("GPU-a")
pynvml.nvmlDeviceSetPowerManagementLimit(handle, 250_000)
pynvml.nvmlDeviceSetGpuLockedClocks(handle, 300, 900)
print(pynvml.nvmlDeviceGetPowerManagementLimit(handle), flush=True)
sys.stdin.read()
pynvml.nvmlShutdown()
"""


def child(fake: FakeNvml, script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, **fake.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def start_setter(fake: FakeNvml) -> subprocess.Popen[str]:
    process = child(fake, SET)
    assert process.stdout is not None
    assert process.stdout.readline() == "250000\n"
    return process


def test_two_processes_see_the_same_boards(fake_nvml: Make) -> None:
    fake = fake_nvml([A])
    with fake.loaded(), start_setter(fake) as process:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 250_000
        fake[0].load([(0.0, 900.0)])
        fake.advance(1.0)
        assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 250_000
        process.communicate("")
    assert process.returncode == 0
    assert [write.pid for write in fake.writes()] == [process.pid] * 2


@pytest.mark.parametrize("persistence", [True, False])
def test_settings_outlive_a_killed_process_if_the_driver_stays(
    fake_nvml: Make, persistence: bool
) -> None:
    fake = fake_nvml([Board(uuid="GPU-a", limit_w=(100.0, 400.0), persistence=persistence)])
    with start_setter(fake) as process:
        assert fake[0].state().limit_w == 250.0
        process.send_signal(signal.SIGKILL)
        process.wait()
    state = fake[0].state()
    expected = (250.0, (300e6, 900e6)) if persistence else (400.0, None)
    assert (state.limit_w, state.sm_clock_lock_hz) == expected


def test_the_next_process_finds_the_driver_unloaded(fake_nvml: Make) -> None:
    fake = fake_nvml([Board(uuid="GPU-a", limit_w=(100.0, 400.0), persistence=False)])
    with start_setter(fake) as process:
        process.kill()
        process.wait()
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == 400_000


@pytest.mark.parametrize("unloads", [True, False])
def test_the_last_shutdown_unloads_the_driver(fake_nvml: Make, unloads: bool) -> None:
    board = Board(uuid="GPU-a", limit_w=(100.0, 400.0), persistence=False, tick_s=0.0)
    fake = fake_nvml([board], unloads=unloads)
    with fake.loaded():
        nvml.nvmlInit()
        nvml.nvmlInit()
        nvml.nvmlDeviceSetPowerManagementLimit(nvml.nvmlDeviceGetHandleByIndex(0), 200_000)
        fake.advance(1.0)
        nvml.nvmlShutdown()
        assert fake[0].state().limit_w == 200.0
        nvml.nvmlShutdown()
        assert fake[0].state().limit_w == (400.0 if unloads else 200.0)
        with pytest.raises(nvml.NVMLError_Uninitialized):
            nvml.nvmlDeviceGetCount()
        nvml.nvmlInit()
        counted_mj = nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(0))
        assert counted_mj == (0 if unloads else 60_000)


def test_one_fake_after_the_other_in_one_process(fake_nvml: Make) -> None:
    for uuid in ("GPU-x", "GPU-y"):
        fake = fake_nvml([Board(uuid=uuid)])
        with fake.loaded():
            nvml.nvmlInit()
            assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(0)) == uuid
        with pytest.raises(nvml.NVMLError_Uninitialized):
            nvml.nvmlDeviceGetCount()
        assert fake.calls("nvmlDeviceGetUUID") == 1


def test_it_is_taken_out_at_the_end(fake_nvml: Make) -> None:
    fake = fake_nvml([A])
    before = os.environ.get("LD_LIBRARY_PATH")
    with fake.loaded():
        by_name = ctypes.CDLL("libnvidia-ml.so.1")
        assert by_name.lowjoule_fake_inside() == 0
        _ctypes.dlclose(by_name._handle)
        nvml.nvmlInit()  # never shut down
    assert os.environ.get("LD_LIBRARY_PATH") == before
    assert str(fake.library) not in Path("/proc/self/maps").read_text()


def test_a_thread_in_a_call_ends_well(fake_nvml: Make) -> None:
    fake = fake_nvml([A], virtual=False)
    codes = []

    def read(handle: object) -> None:
        with pytest.raises(nvml.NVMLError_Uninitialized) as caught:
            nvml.nvmlDeviceGetPowerUsage(handle)
        codes.append(caught.value.value)

    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].slow("nvmlDeviceGetPowerUsage", 0.2)
        thread = threading.Thread(target=read, args=(handle,))
        thread.start()
        while not fake.calls("nvmlDeviceGetPowerUsage"):
            pass
    thread.join()
    assert codes == [nvml.NVML_ERROR_UNINITIALIZED]


FORK = """
import os, sys, pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
pid = os.fork()
if pid == 0:
    try:
        pynvml.nvmlDeviceGetPowerUsage(handle)
        os._exit(0)
    except pynvml.NVMLError as error:
        pynvml.nvmlInit()
        pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(0))
        os._exit(error.value)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), pynvml.nvmlDeviceGetPowerUsage(handle))
"""


@pytest.mark.parametrize(("fork_safe", "code"), [(False, 1), (True, 0)])
def test_a_forked_child_must_initialise_anew(fake_nvml: Make, fork_safe: bool, code: int) -> None:
    fake = fake_nvml([A], fork_safe=fork_safe)
    with child(fake, FORK) as process:
        text, _ = process.communicate("", timeout=60)
    assert text == f"{code} 50000\n"


HURRY = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
for number in range(200):
    pynvml.nvmlDeviceSetPowerManagementLimit(handle, 100_000 + number)
"""


def test_no_write_of_two_processes_is_lost(fake_nvml: Make) -> None:
    fake = fake_nvml([A])
    processes = [child(fake, HURRY) for _ in range(2)]
    for process in processes:
        with process:
            process.communicate("")
    writes = fake.writes()
    assert len(writes) == 400 == fake.calls("nvmlDeviceSetPowerManagementLimit")
    for process in processes:
        mine = [write.arguments[0] for write in writes if write.pid == process.pid]
        assert mine == list(range(100_000, 100_200))


def test_a_long_history_is_kept_short(fake_nvml: Make) -> None:
    fake = fake_nvml([A])
    with fake.loaded():
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        fake[0].load([(0.0, 900.0)])
        for number in range(5000):
            nvml.nvmlDeviceSetPowerManagementLimit(handle, 100_000 + 1000 * (number % 300))
            fake.advance(0.01)
        counted_mj = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        assert counted_mj == sum(1000 * (100 + n % 300) for n in range(5000)) // 100
        assert fake[0].true_energy_j(49.0, 50.0) == pytest.approx(
            sum(100 + n % 300 for n in range(4900, 5000)) / 100
        )
        with pytest.raises(LowjouleError):
            fake[0].true_energy_j(0.0, 50.0)
        assert len(fake.writes()) == 4096


def test_there_is_no_driver_without_a_state(fake_nvml: Make, tmp_path: Path) -> None:
    fake = fake_nvml([A])
    with fake.loaded():
        os.environ["LOWJOULE_FAKE_NVML"] = str(tmp_path / "none")
        with pytest.raises(nvml.NVMLError_DriverNotLoaded):
            nvml.nvmlInit()
        (tmp_path / "old").write_bytes(b"x" * 100)
        os.environ["LOWJOULE_FAKE_NVML"] = str(tmp_path / "old")
        with pytest.raises(nvml.NVMLError_LibRmVersionMismatch):
            nvml.nvmlInit()


def test_the_library_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("the fake NVML needs a C compiler: install gcc")
    library = compile_library(tmp_path)
    assert library.name == "libnvidia-ml.so.1"
    made_s = library.stat().st_mtime_ns
    assert compile_library(tmp_path).stat().st_mtime_ns == made_s
    broken = tmp_path / "c"
    broken.mkdir()
    (broken / "x.c").write_text("no C")
    monkeypatch.setattr(build, "SOURCE", broken)
    with pytest.raises(CompilerError):
        compile_library(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompilerError, match="no C compiler"):
        compile_library(tmp_path)
