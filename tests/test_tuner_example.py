from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "train_digits.py"


def run(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _needed() -> None:
    for package in ("torch", "sklearn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the example needs {package}, which is not installed")


def test_a_network_learns_the_same_tuned_or_not() -> None:
    said = run("--epochs", "10", "--window", "0.6")
    assert "the weights are the same to the last bit" in said
    assert "SIMULATED: resnet50" in said
    assert "in the search" in said
    lines = {line.partition(":")[0]: line for line in said.splitlines()}
    assert lines["untuned"].partition(":")[2] == lines["tuned"].partition(":")[2]
    untuned = run("--epochs", "10", "--no-tune")
    assert untuned.strip() == lines["untuned"]
