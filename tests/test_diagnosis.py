"""The checks of `lowjoule doctor`, each over a machine that is described."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cpu_trees import inside, package
from lowjoule.clock import VirtualClock
from lowjoule.devices.nvml.visible import Board as SeenBoard
from lowjoule.diagnosis import boards, nvidia, processor, system
from lowjoule.diagnosis.boards import Facts
from lowjoule.diagnosis.check import Check, Verdict
from lowjoule.diagnosis.examination import examine, failed
from lowjoule.diagnosis.machine import Machine
from lowjoule.testing.nvml import FakeNvml
from lowjoule.testing.sysfs import FakeSysfs, unprivileged
from nvml_machines import A, B, board, fake_root, machine

OK, WARN, FAIL, NONE = Verdict.OK, Verdict.WARN, Verdict.FAIL, Verdict.NOT_APPLICABLE
RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"
MISMATCH, NOT_LOADED, NO_LIBRARY, SYSTEM = 18, 9, 12, 17
TWO = (
    SeenBoard(uuid=A, pci_bus_id="0000:3b:00.0", model="NVIDIA H100"),
    SeenBoard(uuid=B, pci_bus_id="0000:5e:00.0", model="NVIDIA T4"),
)


def described(root: Path, files: Mapping[str, str] | None = None, **more: object) -> Machine:
    for name, text in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    plain: dict[str, object] = {"root": root, "environment": {}, "user_id": 1000}
    return Machine(**{**plain, **more})  # type: ignore[arg-type]


GPU = {
    "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:3b:00.0/class": "0x030200\n",
}
LOADED = {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10"}


# ------------------------------------------------------------------------------ the driver


@pytest.mark.parametrize(
    ("code", "found", "cure"),
    [
        (MISMATCH, "not the one that is installed", "reboot"),
        (NOT_LOADED, "not loaded", "modprobe nvidia"),
        (NO_LIBRARY, "libnvidia-ml.so.1 is not here", "--gpus all"),
        (SYSTEM, "keeps the NVIDIA driver from this process", "/dev/nvidiactl"),
    ],
)
def test_a_driver_that_does_not_answer_fails_where_there_is_a_gpu(
    tmp_path: Path, code: int, found: str, cure: str
) -> None:
    with machine(tmp_path, board()) as fake:
        fake.fail("nvmlInitWithFlags", code)
        check = nvidia.driver(described(tmp_path / "root", GPU))
        assert check.verdict is FAIL
        assert found in check.found
        assert cure in (check.cure or "")
        assert nvidia.driver(described(tmp_path / "bare")).verdict is NONE


def test_a_container_without_gpus_is_told_what_to_pass(tmp_path: Path) -> None:
    with machine(tmp_path, board()) as fake:
        fake.fail("nvmlInitWithFlags", NO_LIBRARY)
        here = described(tmp_path / "root", {**LOADED, ".dockerenv": ""})
        assert nvidia.driver(here).cure == "pass the GPUs in (docker run --gpus all)"
        nodes = nvidia.nodes(here)
        assert nodes.verdict is FAIL
        assert "--gpus all" in (nodes.cure or "")


def test_the_driver_tells_its_version(tmp_path: Path) -> None:
    with machine(tmp_path, board()):
        here = described(tmp_path / "root", LOADED)
        assert nvidia.driver(here) == Check(name="NVIDIA driver", verdict=OK, found="570.86.10")


def test_two_versions_of_the_driver_are_told(tmp_path: Path) -> None:
    with machine(tmp_path, board()):
        other = {"proc/driver/nvidia/version": "NVRM version: NVIDIA Kernel Module  550.1.2"}
        check = nvidia.driver(described(tmp_path / "root", other))
        assert check.verdict is WARN
        assert "550.1.2" in check.found


@pytest.mark.parametrize(
    ("origin", "installed", "verdict"),
    [
        ("/x/pynvml.py", {"nvidia-ml-py": "12.560.30"}, OK),
        ("/x/pynvml.py", {"nvidia-ml-py": "13.1", "pynvml": "13.0"}, OK),
        ("/x/pynvml/__init__.py", {"nvidia-ml-py": "12.560.30", "pynvml": "11.5.0"}, FAIL),
        ("/x/pynvml.py", {}, FAIL),
        ("/x/pynvml.py", {"nvidia-ml-py": "11.450.51"}, FAIL),
        (None, {}, FAIL),
    ],
)
def test_a_binding_that_is_hidden_or_old_fails(
    tmp_path: Path, origin: str | None, installed: dict[str, str], verdict: Verdict
) -> None:
    here = described(tmp_path, GPU, origin_of=lambda name: origin, installed=installed.get)
    check = nvidia.binding(here)
    assert check.verdict is verdict
    assert (check.cure is None) == (verdict is OK)


def test_no_binding_does_not_matter_without_a_gpu(tmp_path: Path) -> None:
    here = described(tmp_path, origin_of=lambda name: None, installed=lambda name: None)
    assert nvidia.binding(here).verdict is NONE


def test_device_files(tmp_path: Path) -> None:
    here = described(tmp_path, {**GPU, "dev/nvidiactl": "", "dev/nvidia0": ""})
    assert nvidia.nodes(here).verdict is OK
    (tmp_path / "dev/nvidia0").chmod(0)
    with unprivileged():
        closed = nvidia.nodes(here)
    assert closed.verdict is FAIL
    assert "/dev/nvidia0" in closed.found
    (tmp_path / "dev/nvidia0").unlink()
    assert "modprobe" in (nvidia.nodes(here).cure or "")


def test_fewer_device_files_than_boards_are_told(tmp_path: Path) -> None:
    two = {name.replace("3b", "5e"): text for name, text in GPU.items()}
    here = described(tmp_path, {**GPU, **two, "dev/nvidiactl": "", "dev/nvidia0": ""})
    assert nvidia.nodes(here).verdict is WARN


def test_linux_under_windows_has_its_own_device_file(tmp_path: Path) -> None:
    here = described(
        tmp_path, {"proc/version": "Linux 5.15 microsoft-standard-WSL2", "dev/dxg": ""}
    )
    assert nvidia.nodes(here).verdict is OK
    assert system.container(here).verdict is WARN


# ------------------------------------------------------------------------------ permission

ALL = "CapEff:\t000001ffffffffff\n"
DOCKER = "CapEff:\t00000000a80425fb\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "user", "cure"),
    [
        (ALL, "0 0 4294967295", 0, None),
        (DOCKER, "0 0 4294967295", 0, "SYS_ADMIN"),
        ("CapEff:\t0\n", "0 0 4294967295", 1000, "sudo"),
        (ALL, "0 1000 1", 0, "host"),
    ],
)
def test_root_alone_is_not_enough(
    tmp_path: Path, status: str, uid_map: str, user: int, cure: str | None
) -> None:
    files = {"proc/self/status": status, "proc/self/uid_map": uid_map, ".dockerenv": ""}
    here = described(tmp_path, files, user_id=user)
    check = nvidia.permission(here, TWO)
    assert check.verdict is (WARN if cure else OK)
    assert (cure or "") in (check.cure or "")
    asked = nvidia.permission(here, TWO, control=True)
    assert asked.verdict is (FAIL if cure else OK)


# ------------------------------------------------------------------------------ which boards


@pytest.mark.parametrize(
    ("environment", "verdict", "said"),
    [
        ({}, OK, "not set"),
        ({"CUDA_VISIBLE_DEVICES": A}, WARN, B),
        ({"CUDA_VISIBLE_DEVICES": ""}, WARN, A),
        ({"CUDA_VISIBLE_DEVICES": "GPU-nothing"}, FAIL, "names no board"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, FAIL, "different models"),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, OK, "all boards"),
        ({"CUDA_VISIBLE_DEVICES": "0,7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, FAIL, "'7'"),
    ],
)
def test_what_cuda_hides(
    tmp_path: Path, environment: dict[str, str], verdict: Verdict, said: str
) -> None:
    check = nvidia.hidden(described(tmp_path, environment=environment), TWO)
    assert check.verdict is verdict
    assert said in check.found


def test_numbers_are_not_known_among_several_models(tmp_path: Path) -> None:
    assert nvidia.order(described(tmp_path), TWO).verdict is WARN
    assert nvidia.order(described(tmp_path), TWO[:1]).verdict is NONE
    set_right = described(tmp_path, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert nvidia.order(set_right, TWO).verdict is OK


# ------------------------------------------------------------------------------ each board


@pytest.mark.parametrize(
    ("check", "facts", "verdict"),
    [
        (boards.persistence, Facts(uuid=A, persistence=True), OK),
        (boards.persistence, Facts(uuid=A, persistence=False), WARN),
        (boards.persistence, Facts(uuid=A), NONE),
        (boards.energy, Facts(uuid=A, energy_j=5.0), OK),
        (boards.energy, Facts(uuid=A, power_w=5.0), WARN),
        (boards.energy, Facts(uuid=A), WARN),
        (boards.limit, Facts(uuid=A, requested_w=300.0, range_w=(100.0, 400.0)), OK),
        (boards.limit, Facts(uuid=A, enforced_w=80.0), WARN),
        (boards.limit, Facts(uuid=A, requested_w=80.0, range_w=(80.0, 80.0)), WARN),
        (boards.limit, Facts(uuid=A), WARN),
        (boards.authority, Facts(uuid=A, requested_w=400.0, enforced_w=400.0), OK),
        (boards.authority, Facts(uuid=A, requested_w=400.0, enforced_w=250.0), WARN),
        (boards.authority, Facts(uuid=A, enforced_w=250.0), NONE),
        (boards.mig, Facts(uuid=A, partitioned=True), WARN),
        (boards.mig, Facts(uuid=A), OK),
        (boards.virtual, Facts(uuid=A, virtualisation=2), WARN),
        (boards.virtual, Facts(uuid=A, virtualisation=1), OK),
        (boards.virtual, Facts(uuid=A), OK),
    ],
)
def test_each_board(check: Callable[[Facts], Check], facts: Facts, verdict: Verdict) -> None:
    assert check(facts).verdict is verdict


def test_facts_are_asked_of_the_driver_and_nothing_is_written(tmp_path: Path) -> None:
    capped = board(other_limit_w=250.0, limit_w=(100.0, 400.0), persistence=False)
    with machine(tmp_path, capped) as fake:
        fake[0].load([(0.0, 60.0)])
        fake.advance(1.0)
        checks = examine(described(tmp_path / "root"))
        found = {one.name: one for one in checks}
        assert found["other limits"].verdict is WARN
        assert "250 W is enforced, 400 W requested" in found["other limits"].found
        assert found["persistence mode"].verdict is WARN
        assert "-pm 1" in (found["persistence mode"].cure or "")
        assert found["energy of the board"].verdict is OK
        assert fake.writes() == []


def test_a_laptop_shows_its_enforced_limit(tmp_path: Path) -> None:
    gone = ("nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimitConstraints")
    with machine(tmp_path, board(missing=gone, limit_w=(35.0, 80.0))):
        (check,) = [one for one in examine(described(tmp_path / "r")) if one.name == "power limit"]
        assert check.verdict is WARN
        assert "80 W is enforced" in check.found


def test_a_lost_board_fails(tmp_path: Path) -> None:
    with machine(tmp_path, board()) as fake:
        fake[0].fail("nvmlDeviceGetPersistenceMode", 15)
        checks = examine(described(tmp_path / "root"))
        (lost,) = [one for one in checks if one.name == "board"]
        assert lost.verdict is FAIL
        assert "Xid" in (lost.cure or "")
        assert failed(checks)


def test_a_board_that_sleeps_is_not_asked(tmp_path: Path) -> None:
    files = {**GPU, "sys/bus/pci/devices/0000:3b:00.0/power/runtime_status": "suspended"}
    with machine(tmp_path, board()) as fake:
        checks = examine(described(tmp_path / "root", files))
        (asleep,) = [one for one in checks if one.name == "board"]
        assert asleep.verdict is OK
        assert fake.calls("nvmlDeviceGetHandleByUUID") == 0
        assert fake.calls("nvmlDeviceGetHandleByPciBusId_v2") == 0


# ------------------------------------------------------------------------------ the processor


def cpu(root: Path) -> Machine:
    FakeSysfs(root / "sys", [package(), inside("intel-rapl:0:0", "dram")])
    return described(root)


def test_the_processor_is_measured(tmp_path: Path) -> None:
    assert processor.powercap(cpu(tmp_path)).found == "rapl:package-0"


def test_counters_for_root_alone_name_the_cure(tmp_path: Path) -> None:
    here = cpu(tmp_path)
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").chmod(0)
    with unprivileged():
        check = processor.powercap(here)
    assert check.verdict is WARN
    assert "sudo chmod a+r" in (check.cure or "")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({".dockerenv": ""}, "container hides"),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, "virtual machine"),
        (
            {
                ".dockerenv": "",
                "proc/cpuinfo": "flags\t: hypervisor\n",
                "proc/self/mounts": "tmpfs /sys/devices/virtual/powercap tmpfs ro 0 0\n",
            },
            "container hides",
        ),
        ({}, "no powercap zone"),
    ],
)
def test_no_counters(tmp_path: Path, files: dict[str, str], said: str) -> None:
    check = processor.powercap(described(tmp_path, files))
    assert check.verdict is WARN
    assert said in check.found
    assert "rapl:estimate" in (check.cure or "")


@pytest.mark.parametrize(
    ("level", "status", "verdict"),
    [("0", "", OK), ("4", "", NONE), ("2", ALL, OK), ("-1", "", OK), ("", "", NONE)],
)
def test_perf_events(tmp_path: Path, level: str, status: str, verdict: Verdict) -> None:
    files = {"proc/sys/kernel/perf_event_paranoid": level, "proc/self/status": status}
    assert processor.perf_events(described(tmp_path, files)).verdict is verdict


# ------------------------------------------------------------------------------ the rest


def test_the_store_is_looked_at_without_being_made(tmp_path: Path) -> None:
    here = described(tmp_path)
    path = tmp_path / "new" / "store.sqlite"
    assert system.store(here, str(path)).verdict is OK
    assert not path.parent.exists()
    assert system.store(here, "postgresql+psycopg://a@b/c").verdict is NONE
    path.parent.mkdir()
    with sqlite3.connect(path) as opened:
        opened.execute("PRAGMA journal_mode=wal")
        opened.execute("CREATE TABLE t (x)")
    opened.close()
    before = sorted(one.name for one in path.parent.iterdir())
    assert "journal: wal" in system.store(here, f"sqlite:///{path}").found
    assert sorted(one.name for one in path.parent.iterdir()) == before
    (path.parent / "odd").write_text("no database at all, but long enough")
    assert system.store(here, str(path.parent / "odd")).verdict is FAIL


def test_folders_that_cannot_be_written_fail(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with unprivileged():
        claims = system.claims(tmp_path / "closed" / "claims")
        store = system.store(described(tmp_path), str(tmp_path / "closed" / "store.sqlite"))
    assert (claims.verdict, store.verdict) == (FAIL, FAIL)
    assert "LOWJOULE_CLAIMS" in (claims.cure or "")
    (tmp_path / "file").write_text("")
    assert system.claims(tmp_path / "file" / "claims").verdict is FAIL
    assert system.claims(tmp_path / "claims").verdict is OK


class Backwards(VirtualClock):
    def now_s(self) -> float:
        self._now_s -= 1.0
        return self._now_s


def test_time_must_go_forwards(tmp_path: Path) -> None:
    assert system.clock(described(tmp_path, clock=Backwards(2e9))).verdict is FAIL
    assert system.clock(described(tmp_path, clock=VirtualClock(0.0))).verdict is WARN
    here = described(tmp_path, clock=VirtualClock(2e9))
    assert system.clock(here).verdict is OK
    name = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    slow = described(tmp_path, {name: "hpet\n"}, clock=VirtualClock(2e9))
    assert system.clock(slow).verdict is WARN


def test_settings_left_behind_are_told() -> None:
    assert system.journals(lambda: []).verdict is OK
    check = system.journals(lambda: ["power_limit of GPU-1 by process 7"])
    assert check.verdict is WARN
    assert "process 7" in check.found


def test_programs_that_turn_limits_are_told(tmp_path: Path) -> None:
    assert system.other_programs(described(tmp_path, {"proc/1/comm": "init\n"})).verdict is OK
    check = system.other_programs(described(tmp_path, {"proc/7/comm": "thermald\n"}))
    assert check.verdict is WARN
    assert "thermald" in check.found


# ------------------------------------------------------------------------------ the command


def run(more: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "doctor", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", **more},
        check=False,
    )


def test_a_fit_machine_ends_with_0_and_json_alone(
    fake_nvml: Callable[..., FakeNvml],
) -> None:
    fake = fake_nvml([board()], virtual=False)
    done = run(fake.environment(), "--json", "--device", A[:12], "--device", f"nvml:{A}")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert said["fit"] is False
    asked = {one["about"]: one for one in said["checks"] if one["name"] == "asked for"}
    assert asked[f"nvml:{A}"]["verdict"] == "ok"
    assert asked[A[:12]]["verdict"] == "fail"
    done = run(fake.environment(), "--json", "--device", f"nvml:{A}")
    assert done.returncode == 0, done.stdout
    assert fake.writes() == []


def test_a_variable_that_names_no_board_ends_with_1(
    fake_nvml: Callable[..., FakeNvml],
) -> None:
    fake = fake_nvml([board()], virtual=False)
    done = run({**fake.environment(), "CUDA_VISIBLE_DEVICES": "GPU-nothing"})
    assert done.returncode == 1
    assert "GPU-nothing" in done.stdout
    assert "Traceback" not in done.stderr


def test_nothing_is_examined_that_is_not_here() -> None:
    checks = examine(Machine(root=fake_root(), environment={}))
    assert {one.name for one in checks} >= {"NVIDIA driver", "clock", "store", "claims"}
