"""Peers of `metering.py`: other tools over the same fake NVML, each in its own environment."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.metering import measure
from lowjoule.testing.nvml import Board, FakeNvml
from metering_cases import NO_ROOT, machine
from report import Report

ROUNDS = 8
IDLE_W, LOAD_W = 60.0, 600.0

_ZEUS = """
import json, sys, time
from zeus.monitor import ZeusMonitor
monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[], approx_instant_energy=True)
for line in sys.stdin:
    length_s = float(line)
    monitor.begin_window("w", sync_execution=False)
    print("begun", flush=True); sys.stdin.readline()
    time.sleep(length_s)
    measured = monitor.end_window("w", sync_execution=False)
    print(json.dumps([measured.total_energy, time.monotonic()]), flush=True)
"""

_CODECARBON = """
import json, logging, sys, time
from codecarbon import OfflineEmissionsTracker
logging.disable(logging.CRITICAL)
tracker = OfflineEmissionsTracker(country_iso_code="USA", save_to_file=False, log_level="critical",
    allow_multiple_runs=True, measure_power_secs=1)
for line in sys.stdin:
    length_s = float(line)
    tracker.start_task("w")
    print("begun", flush=True); sys.stdin.readline()
    time.sleep(length_s)
    end_s = time.monotonic()
    data = tracker.stop_task("w")
    print(json.dumps([data.gpu_energy * 3.6e6, end_s]), flush=True)
"""

PEERS = {"zeus": ("zeus-ml", _ZEUS), "codecarbon": ("codecarbon", _CODECARBON)}


def compare(report: Report, folder: Path, peers: Path | None) -> None:
    """Add a section with ours and the peers' errors in real time."""
    report.say("## Beside other tools, in real time")
    report.say()
    rows = []
    for tick_s in (0.02, 0.1):
        for length_s in (0.2, 1.0):
            board = Board(tick_s=tick_s, tick_phase_s=0.0137)
            row = [f"{1e3 * tick_s:.0f} ms", f"{length_s} s"]
            with machine(folder, board, virtual=False) as fake:
                row.append(_told(_ours(fake, length_s)))
                row += [_peer(fake, length_s, name, peers) for name in PEERS]
            rows.append(row)
    report.table(["tick", "window", "lowjoule", *PEERS], rows)
    report.say(
        f"A load of {LOAD_W:g} W on {IDLE_W:g} W idle that starts with the window; mean and "
        f"largest error of {ROUNDS} windows, relative to the truth of the same stretch. "
        "Zeus is asked for its correction of short windows (approx_instant_energy), codecarbon for "
        "a task, beside its own thread that looks once a second."
    )
    report.say()


def _told(errors: list[float]) -> str:
    if set(errors) == {-1.0}:
        return "told 0 J"
    return f"{statistics.fmean(errors):+.2%}, {max(errors, key=abs):+.2%}"


def _ours(fake: FakeNvml, length_s: float) -> list[float]:
    (seen,) = NvmlBackend(root=NO_ROOT).select(None)
    device = NvmlDevice(seen, root=NO_ROOT)
    errors = []
    for number in range(ROUNDS):
        _rest(fake, number)
        window = measure("w", devices=[device], sync=None).start()
        begin_s = time.monotonic()
        fake[0].load([(0.0, LOAD_W)])
        time.sleep(length_s)
        window.stop()
        true_j = fake[0].true_energy_j(begin_s, time.monotonic())
        errors.append((window.energy_j or 0.0) / true_j - 1)
    return errors


def _peer(fake: FakeNvml, length_s: float, name: str, peers: Path | None) -> str:
    package, code = PEERS[name]
    python = None if peers is None else peers / name / "bin" / "python"
    if python is None or not python.exists():
        return f"skipped: no environment with {package}"
    environment = {**os.environ, **fake.environment()}
    environment["PATH"] = f"{_smi(fake)}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        [str(python), "-W", "ignore", "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    errors = []
    try:
        for number in range(ROUNDS):
            _rest(fake, number)
            process.stdin.write(f"{length_s}\n")
            process.stdin.flush()
            if not _line(process, "begun"):
                return f"failed: {_reason(process)}"
            begin_s = time.monotonic()
            fake[0].load([(0.0, LOAD_W)])
            process.stdin.write("go\n")
            process.stdin.flush()
            energy_j, end_s = json.loads(_line(process, "["))
            errors.append(energy_j / fake[0].true_energy_j(begin_s, end_s) - 1)
    except (OSError, ValueError) as error:
        return f"failed: {error}"
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
    return _told(errors)


def _smi(fake: FakeNvml) -> Path:
    """Return a folder with an `nvidia-smi` that answers: codecarbon looks for one, no more."""
    script = Path(fake.environment()["LOWJOULE_FAKE_NVML"]).parent / "nvidia-smi"
    script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    script.chmod(0o755)
    return script.parent


def _line(process: subprocess.Popen[str], begins: str) -> str:
    """Return the next line that begins so, "" at the end; tools print other things too."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(begins):
            return line
    return ""


def _reason(process: subprocess.Popen[str]) -> str:
    process.kill()
    _, said = process.communicate()
    return (said.strip().splitlines() or ["it said nothing"])[-1][:80]


def _rest(fake: FakeNvml, number: int) -> None:
    fake[0].load([(0.0, IDLE_W)])
    time.sleep(0.3 + 0.0137 * number)
