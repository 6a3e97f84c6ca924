"""`lowjoule devices`: what is here, told without a write and without waking anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cpu_trees import backend as cpu_backend
from cpu_trees import inside, package
from fakes import FakeDevice
from lowjoule.cli.main import main
from lowjoule.devices.hwmon import HwmonBackend
from lowjoule.devices.interface import Ability, Probed
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.registry import Available, Backend, OpenOptions
from lowjoule.devices.simulated.backend import SimulatedBackend
from lowjoule.diagnosis import words
from lowjoule.diagnosis.here import Found, look
from lowjoule.errors import DeviceError
from lowjoule.testing.nvml import FakeNvml
from lowjoule.testing.sysfs import FakeChip, FakeSysfs, unprivileged
from nvml_machines import A, B, board, fake_root, machine

RUN = "import sys; from lowjoule.cli.main import main; sys.exit(main())"


def shown(found: Found) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    return list(words.devices_listing(found).rows), list(words.missing_listing(found).rows)


def nvidia(root: Path | None = None) -> dict[str, Backend]:
    return {"nvml": NvmlBackend(root=root or fake_root()), "sim": SimulatedBackend()}


def test_a_board_says_what_it_measures_and_controls(tmp_path: Path) -> None:
    with machine(tmp_path, board()) as fake:
        ((spec, model, place, measures, controls),), missing = shown(look(nvidia()))
        assert (spec, model) == ("nvml:GPU-8932f937", "NVIDIA H100 80GB HBM3")
        assert place == "GPU-8932f937\n0000:3b:00.0"
        assert {"energy counter", "instant power", "scope: gpu"} <= set(measures.split("\n"))
        assert "power_limit 200 W ... 700 W" in controls
        assert ("nvml:GPU-8932f937", "module power") in [row[:2] for row in missing]
        assert fake.writes() == []


def test_what_several_boards_lack_is_said_once(tmp_path: Path) -> None:
    boards = [board(), board(uuid=B, pci_bus_id="00000000:5E:00.0", persistence=False)]
    with machine(tmp_path, *boards):
        rows, missing = shown(look(nvidia()))
        assert [row[0] for row in rows] == ["nvml:GPU-8932f937", "nvml:GPU-12345678"]
        (row,) = [row for row in missing if row[1] == "module power"]
        assert row[0].split("\n") == ["nvml:GPU-8932f937", "nvml:GPU-12345678"]


def test_hidden_boards_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with machine(tmp_path, board()):
        found = look(nvidia())
        assert found.devices == ()
        (hidden,) = found.elsewhere
        assert hidden.name == f"nvml:{A}"
        assert "CUDA_VISIBLE_DEVICES hides it" in hidden.detail
        assert "unset" in (hidden.cure or "")


def test_an_order_that_is_not_known_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    boards = [board(), board(uuid=B, pci_bus_id="00000000:5E:00.0", name="NVIDIA T4")]
    with machine(tmp_path, *boards):
        (said,) = look(nvidia()).elsewhere
        assert "CUDA_DEVICE_ORDER" in (said.cure or "")


def test_a_board_that_sleeps_is_left_asleep(tmp_path: Path) -> None:
    folder = tmp_path / "root/sys/bus/pci/devices/0000:3b:00.0"
    (folder / "power").mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (folder / "power/runtime_status").write_text("suspended\n")
    with machine(tmp_path, board()) as fake:
        found = look(nvidia(tmp_path / "root"))
        (here,) = found.devices
        assert here.available.asleep
        assert here.identity is None
        assert fake.calls("nvmlDeviceGetHandleByPciBusId_v2") == 0
        assert fake.calls("nvmlDeviceGetHandleByUUID") == 0
        rows, missing = shown(found)
        assert rows[0][2:] == ("n/a", "n/a", "n/a")
        assert "asleep" in missing[0][2]


def test_a_limit_that_cannot_be_turned_is_said_and_never_0(tmp_path: Path) -> None:
    laptop = board(
        missing=(
            "nvmlDeviceGetPowerManagementLimit",
            "nvmlDeviceGetPowerManagementLimitConstraints",
        ),
        limit_w=(35.0, 80.0),
    )
    with machine(tmp_path, laptop):
        rows, missing = shown(look(nvidia()))
        assert "power_limit" not in rows[0][4]
        (limit,) = [row for row in missing if row[1] == "power_limit"]
        assert "80 W is enforced" in limit[2]


def test_a_cpu_that_may_not_be_read_names_the_cure(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(), inside("intel-rapl:0:0", "dram")])
    tree.deny(tree.path("intel-rapl:0", "energy_uj"))
    with unprivileged():
        rows, missing = shown(look({"rapl": cpu_backend(tree)}))
    assert rows[0][0] == "rapl:package-0"
    (energy,) = [row for row in missing if row[1] == "energy counter"]
    assert "sudo chmod a+r" in energy[3]
    assert tree.written == []


class Broken:
    """A plug-in with a device that does not open."""

    def available(self) -> tuple[Available, ...]:
        return (Available(spec="odd:0", title="an odd one"),)

    def open(self, argument: str, options: OpenOptions) -> Any:
        raise DeviceError("odd:0 does not answer", cure="turn it on")


def test_a_device_that_does_not_open_is_listed_with_the_cure() -> None:
    rows, missing = shown(look({"odd": Broken()}))
    assert rows == [("odd:0", "an odd one", "n/a", "n/a", "n/a")]
    assert missing == [("odd:0", "everything", "odd:0 does not answer", "turn it on")]


class Faulty(Broken):
    """A plug-in with a fault of its own."""

    def open(self, argument: str, options: OpenOptions) -> Any:
        return 1 / 0


class Silent(Broken):
    def available(self) -> tuple[Available, ...]:
        raise RuntimeError("no bus")


def test_a_faulty_plug_in_hides_no_other_device(tmp_path: Path) -> None:
    with machine(tmp_path, board()):
        rows, missing = shown(look({**nvidia(), "faulty": Faulty(), "silent": Silent()}))
    assert {row[0] for row in rows} == {"nvml:GPU-8932f937", "odd:0"}
    assert any("division by zero" in row[2] for row in missing)
    assert any("no bus" in row[2] for row in missing)


@pytest.mark.parametrize("command", [("devices",), ("doctor", "--all")])
def test_looking_writes_no_file(
    tmp_path: Path, fake_nvml: Callable[..., FakeNvml], command: tuple[str, ...]
) -> None:
    fake = fake_nvml([board()], virtual=False)
    home = tmp_path / "home"
    home.mkdir()
    places = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    more = {name: str(home) for name in places}
    more |= {f"LOWJOULE_{name}": str(home / name) for name in ("SIMULATED", "CLAIMS", "STORE")}
    done = run({**fake.environment(), **more}, *command)
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    assert fake.writes() == []


def test_json_tells_all_of_real_and_of_simulated_devices(
    tmp_path: Path, fake_nvml: Callable[..., FakeNvml]
) -> None:
    fake = fake_nvml([board(), board(uuid=B, pci_bus_id="00000000:5E:00.0")], virtual=False)
    done = run(fake.environment(), "devices", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    real = [one for one in said["devices"] if one["kind"] == "nvml"]
    assert [one["uuid"] for one in real] == [A, B]
    assert real[0]["pci_bus_id"] == "0000:3b:00.0"
    assert real[0]["scope"] == "gpu"
    (limit,) = [one for one in real[0]["controls"] if one["name"] == "power_limit"]
    assert (limit["least"], limit["most"], limit["unit"]) == (200.0, 700.0, "W")
    assert {one["name"] for one in real[0]["missing"]} >= {"module power"}
    assert "sim:b200" in {one["device"] for one in said["devices"]}
    assert fake.writes() == []


FUNCTIONS_OF_READINGS = (
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetSupportedMemoryClocks",
    "nvmlDeviceGetPersistenceMode",
)


def odd_processors(folder: Path) -> dict[str, Backend]:
    """CPUs of every odd kind that there is."""
    zones = [
        package(0, at=0),
        package(1, at=1, name="package-1-die-0"),
        package(1, at=2, name="package-1-die-1", repeats="intel-rapl:1"),
        package(2, at=3, enabled=0, range_uj=None),
        package(3, at=4, limit_w=0.0),
        package(4, at=5, limit_w=None),
        inside("intel-rapl:0:0", "core"),
        inside("intel-rapl:0:1", "dram", energy_uj=0),
        inside("intel-rapl:6", "psys"),
        inside("intel-rapl:7", "oddity"),
        package(0, ident="intel-rapl-mmio:0"),
    ]
    chips = [
        FakeChip.grace("hwmon0", "Module Power Socket 0", 500.0),
        FakeChip.grace("hwmon1", "Grace Power Socket 0", 200.0),
        FakeChip.grace("hwmon2", "Oddity", 200.0),
        FakeChip(ident="hwmon3", name="amd_energy", files={"energy1_label": "Esocket0"}),
    ]
    tree = FakeSysfs(folder / "sys", zones, chips)
    estimate = cpu_backend(tree).open("estimate=100W", OpenOptions())
    assert isinstance(estimate, Probed)
    assert all(one.works or (one.detail and one.cure) for one in estimate.abilities())
    return {"rapl": cpu_backend(tree), "hwmon": HwmonBackend(sysfs=tree, clock=tree.clock)}


def test_every_thing_that_is_missing_has_a_reason_and_a_cure(tmp_path: Path) -> None:
    boards = [
        board(missing=FUNCTIONS_OF_READINGS),
        board(uuid=B, pci_bus_id="00000000:5E:00.0", instances=2),
    ]
    with machine(tmp_path, *boards):
        found = look({**nvidia(), **odd_processors(tmp_path), "faulty": Faulty(), "bad": Silent()})
        told = json.loads(json.dumps(words.found_dict(found)))
        rows = words.missing_listing(found).rows
    missing = [*told["missing"], *(m for one in told["devices"] for m in one.get("missing", []))]
    assert len(missing) > 30
    assert [one for one in missing if not one["detail"] or not one["cure"]] == []
    assert len(rows) > 20
    assert [row for row in rows if not all(row)] == []


class Terse(Broken):
    """A plug-in that says that something does not work, and no more."""

    def open(self, argument: str, options: OpenOptions) -> Any:
        device = FakeDevice()
        device.abilities = lambda: (Ability(name="power", works=False),)  # type: ignore[attr-defined]
        return device


def test_what_a_plug_in_leaves_unsaid_is_filled() -> None:
    _, missing = shown(look({"odd": Terse()}))
    said = ("odd:0", "power", "the device does not say why", "ask the author of its plug-in")
    assert said in missing


def test_all_tells_of_simulated_devices_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--all"]) == 0
    assert "uncalibrated" in capsys.readouterr().out


def run(more: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", **more},
        check=False,
    )
