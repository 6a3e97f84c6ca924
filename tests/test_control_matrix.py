"""A sample of the restore matrix; all of it is `benchmarks/restore_matrix.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pynvml")
from control_matrix import PERSISTENCE, nvml, run, simulated
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK
from lowjoule.testing.nvml import compiler

pytestmark = pytest.mark.skipif(
    compiler() is None or sys.platform != "linux", reason="needs Linux and a C compiler"
)

# every ending, every knob, with and without a foreign write, at least once
NVML = [
    ("normal", POWER_LIMIT, True),
    ("exception", SM_CLOCK, False),
    ("SIGINT", MEMORY_CLOCK, False),
    ("SIGTERM", PERSISTENCE, False),
    ("SIGKILL", POWER_LIMIT, False),
    ("SIGKILL", POWER_LIMIT, True),
    ("SIGKILL", SM_CLOCK, False),
    ("forked", POWER_LIMIT, False),
    ("os._exit", MEMORY_CLOCK, False),
    ("segfault", SM_CLOCK, True),
    ("parent", POWER_LIMIT, False),
    ("with watchdog", POWER_LIMIT, False),
    ("with watchdog", SM_CLOCK, False),
    ("reboot", POWER_LIMIT, False),
    ("reboot", SM_CLOCK, True),
]
SIMULATED = [
    ("SIGKILL", POWER_LIMIT, True),
    ("forked", SM_CLOCK, False),
    ("with watchdog", MEMORY_CLOCK, False),
    ("reboot", POWER_LIMIT, False),
]


@pytest.mark.parametrize(("ending", "knob", "foreign"), NVML)
def test_what_was_found_is_back(ending: str, knob: str, foreign: bool, tmp_path: Path) -> None:
    with nvml(tmp_path) as bench:
        cell = run(bench, knob, ending, foreign)
    assert cell.good, cell


@pytest.mark.parametrize(("ending", "knob", "foreign"), SIMULATED)
def test_what_was_found_is_back_on_a_simulated_board(
    ending: str, knob: str, foreign: bool, tmp_path: Path
) -> None:
    with simulated(tmp_path) as bench:
        cell = run(bench, knob, ending, foreign)
    assert cell.good, cell
