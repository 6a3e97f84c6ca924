"""Who only looks writes nothing: every command and every backend, by the logs of what is written.

| | nothing is written by |
|---|---|
| NVML | the fake driver's log of setters |
| powercap, hwmon | the tree's log of files |
| simulated boards | the file of their state |
| this machine | files in the folders of journal, claims and store |
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
import lowjoule as lj
from cpu_trees import backend as cpu_backend
from cpu_trees import inside, package
from lowjoule.control import Claim, Journal
from lowjoule.devices.hwmon import HwmonBackend
from lowjoule.devices.interface import Device, Probed
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.registry import Backend, OpenOptions
from lowjoule.diagnosis.here import look
from lowjoule.knobs import Setting
from lowjoule.testing.nvml import Board, FakeNvml, compiler
from lowjoule.testing.sysfs import FakeChip, FakeSysfs
from nvml_machines import A, B, board, device_of, fake_root, machine, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
LOOKING: dict[str, tuple[str, ...]] = {
    "devices": ("devices",),
    "devices --json": ("devices", "--json"),
    "devices --all": ("devices", "--all"),
    "doctor": ("doctor", "--all"),
    "doctor --control": ("doctor", "--control", "--device", f"nvml:{A}"),
    "measure": ("measure", "--", "true"),
    "measure one": ("measure", "--device", f"nvml:{A}", "--", "true"),
    "measure a module": ("measure", "--device", f"nvml:{A}@module", "--", "true"),
    "tune": ("tune", "--device", "sim:a40", "--workload", "resnet50", "--knobs", "power_limit"),
    "tune --advise": (
        *("tune", "--device", "sim:a40", "--workload", "resnet50", "--knobs", "power_limit"),
        "--advise",
    ),
    "frontier": ("frontier", "--device", "sim:a40", "--workload", "resnet50"),
    "study": ("study", "--device", "sim:a40", "--workload", "resnet50"),
    "workloads": ("workloads", "--device", "sim:a40"),
    "restore": ("restore",),
    "restore --dry-run": ("restore", "--dry-run"),
    "restore --advise": ("restore", "--advise"),
}
WRITES_ITS_OWN = {"tune"}  # the simulated board that it names, which is put back


def boards() -> list[Board]:
    whole = board(module_w=100.0, module_limit_w=(300.0, 900.0), profiles=(0, 1))
    return [whole, board(uuid=B, pci_bus_id="00000000:5E:00.0", persistence=False)]


@pytest.mark.parametrize("command", list(LOOKING))
def test_a_command_that_only_looks_writes_nothing(
    fake_nvml: Callable[..., FakeNvml], tmp_path: Path, command: str
) -> None:
    fake = fake_nvml(boards(), virtual=False)
    before = [one.state() for one in fake]
    home = tmp_path / "home"
    home.mkdir()
    names = ("SIMULATED", "CLAIMS", "JOURNAL", "STORE")
    more = {f"LOWJOULE_{name}": str(home / name) for name in names}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *LOOKING[command]],
        capture_output=True,
        text=True,
        env={**os.environ, **fake.environment(), **more, "HOME": str(home), "TMPDIR": str(home)},
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    assert fake.writes() == []
    assert [one.state() for one in fake] == before
    if command not in WRITES_ITS_OWN:
        assert list(home.rglob("*")) == []


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    zones = [package(), inside("intel-rapl:0:0", "dram")]
    return FakeSysfs(tmp_path / "sys", zones, [FakeChip.grace("hwmon0", "Grace Power Socket 0", 9)])


@pytest.fixture
def here(tree: FakeSysfs, tmp_path: Path) -> Iterator[tuple[FakeNvml, dict[str, Backend]]]:
    with machine(tmp_path, *boards()) as fake:
        yield (
            fake,
            {
                "nvml": NvmlBackend(root=fake_root()),
                "rapl": cpu_backend(tree),
                "hwmon": HwmonBackend(sysfs=tree, clock=tree.clock),
            },
        )


def every_device(fake: FakeNvml, backends: dict[str, Backend]) -> list[Device]:
    nvml = [device_of(fake, one) for one in NvmlBackend(root=fake_root()).select(None)]
    cpus = [
        backends[kind].open(one.spec.partition(":")[2], OpenOptions())
        for kind in ("rapl", "hwmon")
        for one in backends[kind].available()
    ]
    return [*nvml, *cpus]


def test_looking_at_every_backend_writes_nothing(
    here: tuple[FakeNvml, dict[str, Backend]], tree: FakeSysfs
) -> None:
    fake, backends = here
    found = look(backends)
    assert {one.available.spec.partition(":")[0] for one in found.devices} == set(backends)
    for device in every_device(fake, backends):
        device.read()
        device.current()
        assert isinstance(device, Probed)
        device.abilities()
        with lj.measure("w", devices=[device]):
            device.clock.sleep(0.2)
    assert fake.writes() == []
    assert tree.written == []


def test_a_claim_that_turns_nothing_writes_nothing(
    here: tuple[FakeNvml, dict[str, Backend]], tree: FakeSysfs
) -> None:
    fake, backends = here
    for device in every_device(fake, backends):
        with Claim(device, "a look") as claim:
            claim.verify()
            claim.settle(0.1)
            claim.advice(device.current())
    assert fake.writes() == []
    assert tree.written == []
    assert Journal().entries() == []


def test_nothing_is_written_to_a_device_that_was_not_named(
    here: tuple[FakeNvml, dict[str, Backend]], tree: FakeSysfs
) -> None:
    fake, _ = here
    device = opened(fake, B)
    for knob in device.space.knobs:
        with Claim(device, "a test", [knob.name]) as claim:
            for value in (knob.values[0], knob.values[-1]):
                claim.apply(Setting({knob.name: value}))
    assert len(fake.writes()) >= 6
    assert {one.uuid for one in fake.writes()} == {B}
    assert tree.written == []


def test_the_library_installs_no_signal_handler(
    here: tuple[FakeNvml, dict[str, Backend]],
) -> None:
    fake, _ = here

    def own(*_: object) -> None:
        pass

    before_user = signal.signal(signal.SIGUSR1, own)
    try:
        before = {one: signal.getsignal(one) for one in signal.valid_signals()}
        device = opened(fake)
        with Claim(device, "a test") as claim, lj.measure("w", devices=[device]):
            claim.apply(Setting({"power_limit": 300.0}))
            assert {one: signal.getsignal(one) for one in before} == before
        with lj.Tuner(device="sim:a100", workload="resnet50"):
            assert {one: signal.getsignal(one) for one in before} == before
        assert {one: signal.getsignal(one) for one in before} == before
        assert signal.getsignal(signal.SIGUSR1) is own
    finally:
        signal.signal(signal.SIGUSR1, before_user)


def test_the_command_line_gives_handlers_back(capsys: pytest.CaptureFixture[str]) -> None:
    from lowjoule.cli.main import main

    def own(*_: object) -> None:
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        assert main(["workloads"]) == 0
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().out


def test_importing_reaches_for_no_network_and_starts_nothing() -> None:
    code = (
        "import sys, threading\n"
        "seen = []\n"
        "names = ('socket.', 'subprocess.', 'os.fork', 'os.posix_spawn', 'urllib')\n"
        "sys.addaudithook(lambda e, a: seen.append(e) if e.startswith(names) else None)\n"
        "import lowjoule, lowjoule.metering, lowjoule.control, lowjoule.devices.registry\n"
        "from lowjoule import Claim, Tuner, measure\n"
        "print(seen, threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 1"
