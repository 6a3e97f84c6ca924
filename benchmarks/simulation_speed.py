"""How long one million simulated (setting, workload) evaluations take.

Run `python benchmarks/simulation_speed.py [--write]`. Each evaluation has a workload, board
limits and clocks, and a batch size of its own, and includes the governor's choice of the clock;
it is what a survey or a training set of predictors is made of.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from lowjoule.devices.simulated import gpu
from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.demand import supported_precisions
from lowjoule.devices.simulated.survey import Columns, evaluate
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK
from lowjoule.workloads import Workload, load, names
from report import Report

COUNT = 1_000_000
TARGET_S = 1.0
BOARDS = ("v100", "a100", "h100", "rtx4090", "mi300x")


def columns(model: GpuModel, workload: Workload, count: int, seed: int) -> Columns:
    random = np.random.default_rng(seed)
    batch = workload.knobs[0].values
    return {
        POWER_LIMIT: random.choice(model.limits_w, count),
        SM_CLOCK: random.choice(model.clocks_hz, count),
        MEMORY_CLOCK: random.choice(model.memory_clocks_hz, count),
        BATCH_SIZE: random.choice(np.array(batch, dtype=np.float64), count),
    }


def measure(model: GpuModel) -> tuple[float, int]:
    """Return the seconds of one million evaluations over all workloads, and how many it were."""
    every = [load(name) for name in names()]
    each = -(-COUNT // len(every))
    jobs = [(one, columns(model, one, each, seed)) for seed, one in enumerate(every)]
    for one, _ in jobs:
        supported_precisions(model, one)
    start_s = time.perf_counter()
    for one, table in jobs:
        evaluate(model, one, table)
    return time.perf_counter() - start_s, each * len(every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result")
    arguments = parser.parse_args()
    report = Report("simulation_speed", "Speed of the simulated GPUs")
    report.say(
        f"One million evaluations over the {len(names())} workloads of the catalogue at random "
        f"settings, governor included, one process; the middle of five runs. Target: {TARGET_S} s."
    )
    report.say()
    rows = []
    for name in BOARDS:
        model = gpu(name)
        runs = sorted(measure(model) for _ in range(5))
        taken_s, count = runs[2]
        good = "yes" if taken_s <= TARGET_S else "no"
        rows.append([model.title, str(count), f"{taken_s:.2f} s", good])
    report.table(["board", "evaluations", "time", "target met"], rows)
    if arguments.write:
        print(report.write())


if __name__ == "__main__":
    main()
