"""One unit inside, named; conversions at the edges alone, where each is tested."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from pathlib import Path

import pytest

from cpu_trees import opened as opened_cpu
from cpu_trees import package
from lowjoule.testing.sysfs import FakeSysfs

UNITS = ("_s", "_j", "_w", "_hz", "_c", "_v", "_bytes", "_mw", "_uj", "_mhz", "_rate", "_flop")
# ratios, counts, places and probabilities have none
BARE = {
    *("utilisation", "confidence", "kept", "objective", "uncertainty", "quantity", "relative"),
    *("noise", "precision", "throttled", "work", "search_work", "break_even_work", "warmup_work"),
}


def values_of(package: str) -> list[tuple[str, str]]:
    """Return the numbers that the dataclasses of a package hold, by class and name."""
    found = []
    root = importlib.import_module(package)
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        module = importlib.import_module(info.name)
        for one in vars(module).values():
            if dataclasses.is_dataclass(one) and one.__module__ == info.name:
                found += [
                    (f"{info.name}.{one}", field.name)
                    for field in dataclasses.fields(one)
                    if str(field.type) in {"float", "float | None"}
                ]
    return found


@pytest.mark.parametrize(
    "package", ["lowjoule.devices.nvml", "lowjoule.devices.rapl", "lowjoule.devices.hwmon"]
)
def test_every_figure_of_a_device_has_its_unit_in_its_name(package: str) -> None:
    for where, name in values_of(package):
        assert name.endswith(UNITS), f"{where}.{name}"


def test_every_figure_of_a_reading_a_window_and_a_result_has_its_unit_in_its_name() -> None:
    from lowjoule.control.effect import Effect
    from lowjoule.devices.interface import Reading, Told
    from lowjoule.launch.measured import Outcome
    from lowjoule.metering import DeviceEnergy
    from lowjoule.tuning.result import Saving, Side

    checked = 0
    for one in (Reading, Told, DeviceEnergy, Effect, Outcome, Saving, Side):
        for field in dataclasses.fields(one):
            if str(field.type) in {"float", "float | None"}:
                checked += 1
                assert field.name in BARE or field.name.endswith(UNITS), (one, field.name)
    assert checked > 30


def test_microjoules_become_joules(tmp_path: Path) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(energy_uj=7_000_000)])
    device = opened_cpu(tree)
    before_j = device.read().energy_j
    tree.clock.sleep(3.0)
    after_j = device.read().energy_j
    assert before_j is not None
    assert after_j is not None
    assert after_j - before_j == pytest.approx(600.0)  # 200 W


def test_millijoules_milliwatts_and_megahertz_become_joules_watts_and_hertz(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    from lowjoule.testing.nvml import compiler
    from nvml_machines import board, machine, opened

    if compiler() is None:
        pytest.skip("there is no C compiler")
    with machine(tmp_path, board(tick_s=0.0)) as fake:
        device = opened(fake)
        fake[0].load([(0.0, 321.0)])
        before = device.read()
        fake.advance(2.0)
        after = device.read()
    assert before.energy_j is not None
    assert after.energy_j is not None
    assert after.energy_j - before.energy_j == pytest.approx(642.0, abs=0.002)
    assert after.power_w == pytest.approx(321.0)
    assert (after.sm_clock_hz, after.memory_clock_hz) == (1980e6, 2619e6)
