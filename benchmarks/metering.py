"""How well windows measure energy, and whether their intervals hold, on a fake NVML.

Run `python benchmarks/metering.py [--windows 500] [--peers DIR] [--write]`. Boards, loads and the
passing of virtual time are in `metering_cases.py` and `metering_held_out.py`; `--peers` names
a folder with a virtual environment for each peer (`DIR/zeus`, `DIR/codecarbon`) to be measured over
the same library.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lowjoule.clock import VirtualClock, WallClock
from lowjoule.devices.interface import Identity, Reading
from lowjoule.knobs import Applied, Setting, Space
from lowjoule.metering import measure
from lowjoule.source import Source
from lowjoule.testing.nvml import Board
from metering_cases import LOADS, Shot, shoot
from metering_held_out import LOADS as HELD_OUT
from metering_held_out import SENSORS, shoot_held_out
from metering_peers import compare
from report import Report

PART_TIME = Board(sensor_period_s=0.1, sensor_window_s=0.025, sensor_phase_s=0.013)


class PreparedDevice:
    """A device that returns a reading made before."""

    identity = Identity(
        uuid="prepared", model="", vendor="", backend="", driver="", source=Source.MEASURED
    )
    space = Space(())

    def __init__(self, clock: VirtualClock | WallClock) -> None:
        self.clock = clock
        self._reading = Reading(time_s=0.0, energy_j=5.0, power_w=100.0, power_window_s=0.0)

    def read(self) -> Reading:
        """Return it."""
        return self._reading

    sample = read

    def current(self) -> Setting:
        """Return nothing."""
        return Setting()

    def apply(self, setting: Setting) -> Applied:
        """Do nothing."""
        return Applied(setting, setting)


def figures(shots: list[Shot]) -> list[str]:
    """Return coverage, that of windows without flags, widths, and relative errors as text."""
    error_j = np.array([one.error_j for one in shots])
    half_j = np.array([one.half_j for one in shots])
    true_j = np.array([one.true_j for one in shots])
    relative = np.abs(error_j) / true_j
    plain = [one.inside for one in shots if not one.flagged]
    rms_j = float(np.sqrt(np.mean(error_j**2)))
    ratio = float(np.median(half_j)) / rms_j if rms_j > 1e-9 else math.inf
    return [
        f"{np.mean([one.inside for one in shots]):.1%}",
        f"{1 - len(plain) / len(shots):.0%}",
        f"{np.mean(plain):.1%}" if len(plain) >= _FEW_PLAIN else "",
        f"{ratio:.1f}" if ratio < 100 else "> 100",
        f"{np.median(half_j / true_j):.3%}",
        f"{np.median(relative):.3%}",
        f"{np.quantile(relative, 0.95):.3%}",
        f"{relative.max():.2%}",
    ]


_FEW_PLAIN = 20
HEADER = [
    "in the interval", "flagged", "in it, not flagged", "half width / RMS", "half width",
    "median error", "95 %", "largest",
]  # fmt: skip
Kind = tuple[list[str], Callable[..., list[Shot]], tuple[Any, ...], dict[str, Any]]


def run(report: Report, header: list[str], kinds: list[Kind]) -> None:
    """Measure kinds of windows, as many at a time as there are cores, and add a table."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [pool.submit(shoot_it, *given, **named) for _, shoot_it, given, named in kinds]
        rows = []
        for (names, *_), job in zip(kinds, jobs, strict=True):
            rows.append([*names, *figures(job.result())])
            print(rows[-1], flush=True)
    report.table([*header, *HEADER], rows)


def steps(report: Report, folder: Path, count: int) -> None:
    report.say("## A load that starts with the window")
    report.say()
    kinds: list[Kind] = []
    for tick_s in (0.02, 0.1):
        for length_s in (0.2, 1.0):
            names = [
                f"tick {1e3 * tick_s:.0f} ms",
                f"{length_s} s",
                "1 %" if length_s < 1 else "0.2 %",
            ]
            board = Board(tick_s=tick_s, tick_phase_s=0.0137)
            named = {"length_s": length_s, "count": count}
            kinds.append((names, shoot, (folder, board, LOADS["step"]), named))
    named = {"length_s": 1.0, "count": count, "counter": False}
    kinds.append((["no counter", "1.0 s", "1 %"], shoot, (folder, Board(), LOADS["step"]), named))
    run(report, ["counter", "window", "goal of error"], kinds)
    report.say(
        "Without a counter, constant power is known but for the rounding of milliwatts: there the "
        "width itself is to be judged, not by how many of such errors it is."
    )
    report.say()


def intervals(report: Report, folder: Path, count: int) -> None:
    report.say("## Intervals, in windows of about 1 s at a random phase, a new load each")
    report.say()
    kinds: list[Kind] = []
    for name, board, counter in (
        ("tick 20 ms", Board(tick_s=0.02, tick_phase_s=0.0137), True),
        ("tick 100 ms", Board(tick_s=0.1, tick_phase_s=0.0137), True),
        (
            "tick 20 ms with jitter of 8 ms",
            Board(tick_s=0.02, tick_phase_s=0.0137, tick_jitter_s=0.008),
            True,
        ),
        ("tick 20 ms, part-time sensor", replace(PART_TIME, tick_s=0.02), True),
        ("tick 100 ms, part-time sensor", replace(PART_TIME, tick_s=0.1), True),
        ("no counter", Board(), False),
        ("no counter, part-time sensor", PART_TIME, False),
    ):
        for load in ("ramp", "pulses", "jitter", "running"):
            named = {
                "length_s": 1.0, "count": count, "counter": counter, "running": load == "running",
            }  # fmt: skip
            kinds.append(([name, load], shoot, (folder, board, LOADS[load]), named))
    run(report, ["sensors", "load"], kinds)
    report.say(
        "The part-time sensor sees 25 ms of each 100 ms. `running` is a training loop that was "
        "under way before the window. Goals: 95 to 99 % in the interval, half width at most 3 RMS. "
        "Flagged are windows that say `beating` or `unresolved`."
    )
    report.say()


def held_out(report: Report, folder: Path, count: int) -> None:
    report.say("## Held out: loads, boards and lengths that no interval was developed with")
    report.say()
    kinds: list[Kind] = [
        ([sensors, load], shoot_held_out, (folder, sensors, load, count), {})
        for sensors in SENSORS
        for load in HELD_OUT
    ]
    run(report, ["sensors", "load"], kinds)
    report.say(
        "Ticks of 10 to 200 ms, half of the boards with jitter; held sensors of 15 to 150 ms that "
        "see 10 to 100 % of that; windows of 0.3 to 3 s; half of the loads were running before. "
        "As boards and loads differ so much within a kind, half width / RMS says little here."
    )
    report.say()


def halving(report: Report, folder: Path, count: int) -> None:
    report.say("## Half the tick, half the uncertainty")
    report.say()
    rows, before = [], math.nan
    for tick_s in (0.2, 0.1, 0.05, 0.025, 0.0125):
        board = Board(tick_s=tick_s, tick_phase_s=0.0137)
        shots = shoot(folder, board, LOADS["step"], length_s=1.0, count=max(40, count // 5))
        wide = statistics.median(one.half_j / one.true_j for one in shots)
        share = "" if math.isnan(before) else f"{wide / before:.2f}"
        rows.append([f"{1e3 * tick_s:g} ms", f"{wide:.4%}", share])
        before = wide
    report.table(["tick", "half width", "of the one before"], rows)


def cost(report: Report) -> None:
    report.say("## What a window costs")
    report.say()
    plain_s = _window_s(VirtualClock(), "manual")
    rows = [["begin and end, our Python", f"{1e6 * plain_s:.1f} us", "15 us"]]
    clock = WallClock()
    with measure("outer", devices=[PreparedDevice(clock)], sync=None):
        pass
    own_s = _window_s(clock, "thread")
    rows.append(["the same with a thread of its own", f"{1e6 * own_s:.0f} us", ""])
    begin_s = time.perf_counter()
    with measure("first", devices=[PreparedDevice(clock)], sync=None):
        started_s = time.perf_counter() - begin_s
    rows.append(["first window on a device", f"{1e3 * started_s:.2f} ms", "100 ms"])
    report.table(["", "time", "goal"], rows)
    report.say("## What is left behind")
    report.say()
    report.table(["after", "threads", "file handles", "processes", "goal"], left_behind())


def _window_s(clock: VirtualClock | WallClock, sampling: str, count: int = 500) -> float:
    device = PreparedDevice(clock)
    rounds = []
    for _ in range(7):
        begin_s = time.perf_counter()
        for _ in range(count):
            measure("w", devices=[device], sync=None, sampling=sampling).start().stop()
        rounds.append((time.perf_counter() - begin_s) / count)
    return statistics.median(rounds)


def left_behind() -> list[list[str]]:
    """Return what is there more than before, after windows that ended and one that did not."""
    device = PreparedDevice(WallClock())
    gc.collect()
    before = _held()
    for _ in range(100):
        measure("w", devices=[device], sync=None).start().stop()
    ended = _held()
    measure("forgotten", devices=[device], sync=None).start()
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "lowjoule-watch":
            thread.join(timeout=10)
    names = ("100 windows", "a window that was never stopped")
    return [
        [name, *(str(now - then) for now, then in zip(after, before, strict=True)), "0"]
        for name, after in zip(names, (ended, _held()), strict=True)
    ]


def _held() -> tuple[int, int, int]:
    """Return how many threads, open files and children this process has."""
    task = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    children = len(task.read_text().split()) if task.exists() else 0
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), children


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=500, help="of each kind")
    parser.add_argument("--peers", type=Path, help="folder of their virtual environments")
    parser.add_argument("--write", action="store_true", help="keep the result")
    arguments = parser.parse_args()
    report = Report("metering", "Windows of energy")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps(report, folder, arguments.windows)
        intervals(report, folder, arguments.windows)
        held_out(report, folder, max(20, arguments.windows * 2 // 5))
        halving(report, folder, arguments.windows)
        cost(report)
        compare(report, folder, arguments.peers)
    if arguments.write:
        print(report.write())


if __name__ == "__main__":
    main()
