"""NVML in the life of a process: forks, threads, other users, drivers that do not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.codes import driver_error
from lowjoule.devices.nvml.driver import DRIVER, Driver
from lowjoule.devices.registry import OpenOptions
from lowjoule.errors import (
    DeviceError,
)
from lowjoule.knobs import POWER_LIMIT, Setting
from lowjoule.testing.nvml import FakeNvml, compiler
from nvml_machines import board, fake_root, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with machine(tmp_path, board()) as one:
        yield one


def test_a_device_lives_on_after_a_fork(fake: FakeNvml) -> None:
    device = opened(fake)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if device.read().energy_j is not None else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert device.read().energy_j is not None


def test_a_fork_while_another_thread_is_in_the_driver_leaves_the_child_no_lock(
    fake: FakeNvml,
) -> None:
    device = opened(fake)
    with DRIVER._guard:  # as held by a thread that the child does not have
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)  # a lock that stays would never be given back
                code = 0 if device.read().energy_j is not None else 2
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_once_the_program_ends_no_other_thread_enters_the_library(fake: FakeNvml) -> None:
    driver = Driver()
    uuid = opened(fake).identity.uuid
    assert driver.ask(uuid, "nvmlDeviceGetPowerUsage")
    driver._end()
    before = fake.calls("nvmlDeviceGetPowerUsage")
    said: list[object] = []

    def late() -> None:
        try:
            said.append(driver.ask(uuid, "nvmlDeviceGetPowerUsage"))
        except SystemExit:  # which ends a thread without a word
            said.append("ended")

    thread = threading.Thread(target=late)
    thread.start()
    thread.join(20)
    assert said == ["ended"]
    assert fake.calls("nvmlDeviceGetPowerUsage") == before
    # what was changed is still put back by the main thread
    assert driver.ask(uuid, "nvmlDeviceGetPowerUsage")
    driver.close()


def test_a_library_that_somebody_else_has_ended_is_started_again(fake: FakeNvml) -> None:
    import pynvml

    device = opened(fake)
    pynvml.nvmlShutdown()
    assert device.read().energy_j is not None


def test_another_user_of_the_library_keeps_it(fake: FakeNvml) -> None:
    import pynvml

    pynvml.nvmlInit()
    device = opened(fake)
    DRIVER.close()
    assert pynvml.nvmlDeviceGetCount() == 1
    assert device.read().energy_j is not None
    pynvml.nvmlShutdown()


@pytest.mark.parametrize(
    ("code", "cure"), [(9, "modprobe nvidia"), (18, "reboot"), (999, "nvidia-smi")]
)
def test_a_driver_that_does_not_start_is_said(fake: FakeNvml, code: int, cure: str) -> None:
    DRIVER.close()
    fake.fail("nvmlInitWithFlags", code)
    with pytest.raises(DeviceError, match=cure):
        NvmlBackend(root=fake_root()).open("0", OpenOptions())
    assert NvmlBackend(root=fake_root()).available() == ()


def test_a_driver_out_of_reach_is_listed_with_the_reason(fake: FakeNvml, tmp_path: Path) -> None:
    DRIVER.close()
    fake.fail("nvmlInitWithFlags", 18)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version\n")
    (one,) = NvmlBackend(root=tmp_path).available()
    assert "reboot" in one.remark


def test_a_missing_library_names_the_containers_flag() -> None:
    assert "--gpus all" in driver_error(12).cure


def python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    inherited = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=inherited,
        timeout=60,
    )


def test_a_thread_that_outlives_the_program_does_not_crash_it(fake: FakeNvml) -> None:
    code = (
        "import threading\n"
        "from lowjoule.devices.nvml.backend import NvmlBackend\n"
        "from lowjoule.devices.registry import OpenOptions\n"
        "device = NvmlBackend().open('0', OpenOptions())\n"
        "started = threading.Event()\n"
        "def ask():\n"
        "    while True:\n"
        "        device.read()\n"
        "        started.set()\n"
        "threading.Thread(target=ask, daemon=True).start()\n"
        "started.wait()\n"
    )
    done = python(code, fake.environment())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_shadowing_module_is_said(tmp_path: Path) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml/__init__.py").write_text("nvmlInit = None\n")
    code = (
        "from lowjoule.devices.nvml.backend import NvmlBackend\n"
        "from lowjoule.devices.registry import OpenOptions\n"
        "from lowjoule.errors import MissingExtraError\n"
        "try:\n    NvmlBackend().open('0', OpenOptions())\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert "pip uninstall -y pynvml" in python(code, {"PYTHONPATH": paths}).stdout


def test_a_missing_binding_names_the_extra() -> None:
    code = (
        "import sys\nsys.modules['pynvml'] = None\n"
        "from lowjoule.devices.nvml.backend import NvmlBackend\n"
        "from lowjoule.devices.registry import OpenOptions\n"
        "from lowjoule.errors import MissingExtraError\n"
        "try:\n    NvmlBackend().open('0', OpenOptions())\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    assert "pip install 'lowjoule[nvidia]'" in python(code, {}).stdout


def test_a_driver_that_is_loaded_anew_is_read_on(fake: FakeNvml) -> None:
    device = opened(fake)
    device.apply(Setting({POWER_LIMIT: 300.0}))
    before = device.sample().energy_j
    fake.reload_driver()
    fake.advance(0.1)
    after = device.sample().energy_j
    assert before is not None
    assert after is not None
    assert after < before
    assert device.current()[POWER_LIMIT] == 700.0


def test_importing_loads_no_driver() -> None:
    code = "import sys, lowjoule.devices.nvml.backend; print('pynvml' in sys.modules)"
    assert python(code, {}).stdout == "False\n"
