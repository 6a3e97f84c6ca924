"""The script for a real GPU, from end to end on a board that does not exist."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("pynvml")
from lowjoule.testing.nvml import FakeNvml
from nvml_machines import board

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "real_gpu.py"


def run(fake: FakeNvml, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--most-s", "6", *options],
        capture_output=True,
        text=True,
        env={**os.environ, **fake.environment(), "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )


def test_it_reports_all_and_writes_nothing(fake_nvml: Callable[..., FakeNvml]) -> None:
    fake = fake_nvml([board()], virtual=False)
    fake[0].load([(0.0, 300.0)])
    before = fake[0].state()
    done = run(fake)
    assert done.returncode == 0, done.stderr
    for part in (
        "energy counter",
        "The energy counter moves every",
        "sample (energy and power)",
        "counter over integral",
        "| 16 |",
        "Settings before and after are the same.",
    ):
        assert part in done.stdout, done.stdout
    # the time it may take is a promise: on a busy machine the largest batches are left, and named
    assert "| 512 |" in done.stdout or "no time left for batches" in done.stdout, done.stdout
    # where CUDA is not to be had nobody takes the figures for those of work on the GPU
    assert "torch" in done.stdout
    assert fake.writes() == []
    assert fake[0].state() == before


def test_a_board_without_a_counter_is_reported_too(fake_nvml: Callable[..., FakeNvml]) -> None:
    fake = fake_nvml([board()], virtual=False)
    fake[0].field(83, code=3)
    fake[0].fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    done = run(fake)
    assert done.returncode == 0, done.stderr
    assert "No counter" in done.stdout


def test_no_gpu_is_one_sentence(fake_nvml: Callable[..., FakeNvml]) -> None:
    done = run(fake_nvml([], virtual=False))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no GPU is measured" in done.stderr
