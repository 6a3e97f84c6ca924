"""Tuning inside a training loop: what it finds, what it costs, what its intervals hold.

Run `python benchmarks/training_loop.py [--write] [--seeds 6]`. The loops run beside simulated
GPUs in virtual time; regret is against the survey of the same model, which no search sees.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.knobs import POWER_LIMIT, SM_CLOCK, Setting
from lowjoule.profiling.steady import Precision, SteadyState, Verdict
from lowjoule.testing.loops import Trace, plain, ramp, stalls
from lowjoule.tuning import LinearSearch, Tuner
from report import Report

CASES = (("a100", "resnet50"), ("l4", "resnet50"), ("rtx4090", "resnet50"), ("a40", "bert-base"))
KNOBS = (POWER_LIMIT, SM_CLOCK)
STEPS = 10_000
TRACES: dict[str, tuple[Callable[[np.random.Generator], Trace], float]] = {
    "independent noise": (plain, 0.0),
    "independent noise, a counter that ticks every 100 ms": (plain, 0.1),
    "5 % more power, 2 % more time while it warms up (20 s)": (ramp, 0.0),
    "the same, three times as slowly (60 s)": (partial(ramp, constant_s=60.0), 0.0),
    "every fiftieth step stalls, with a long tail": (stalls, 0.0),
}
RUNS = 300


def board(name: str, seed: int) -> WorkDevice:
    device = open_device(f"sim:{name}", OpenOptions(seed=seed))
    assert isinstance(device, WorkDevice)
    return device


def energy_j(device: WorkDevice) -> float:
    found = device.read().energy_j
    assert found is not None
    return found


def loop(
    device: WorkDevice, workload: str, *, trials: int | None = None, whole: bool = True
) -> tuple[Tuner, Setting | None, float]:
    """Run a loop of `STEPS` steps, or until its search is over.

    Return its tuner, the setting held and the energy it took. One trial is the default's alone.
    """
    known = device.joint_space(device.workload(workload))
    batch = int(known.default.number("batch_size"))
    tuner = Tuner(
        device,
        workload=workload,
        objective="eds",
        knobs=KNOBS,
        samples_per_step=batch,
        job=f"{STEPS * batch} samples",
        search=partial(LinearSearch, max_draws=trials),
    )
    begin_j = energy_j(device)
    with tuner:
        for _ in tuner.steps(range(STEPS)):
            if tuner.settled and not whole:
                break
        held = tuner.setting
    return tuner, held, energy_j(device) - begin_j


def regret(device: WorkDevice, workload: str, held: Setting) -> tuple[float, float]:
    """Return how much worse `held` is than the best, and the best's gain over the default."""
    job = device.workload(workload)
    joint = device.joint_space(job)
    known = device.survey(job, joint.free(KNOBS))
    rows = [dict(zip(KNOBS, row, strict=True)) for row in zip(*_columns(known), strict=True)]
    default = joint.default.only(KNOBS)
    base = rows.index(dict(default))
    eds = 0.5 * known.energy_j / known.energy_j[base] + 0.5 * known.time_s / known.time_s[base]
    return float(eds[rows.index(dict(held.only(KNOBS)))] / eds.min() - 1), float(1 - eds.min())


def _columns(known: object) -> list[list[float]]:
    settings = known.settings  # type: ignore[attr-defined]
    return [settings[name].tolist() for name in KNOBS]


def searches(report: Report, seeds: int) -> None:
    rows = []
    for name, workload in CASES:
        regrets, gains, draws, shares = [], [], [], []
        for seed in range(seeds):
            device = board(name, seed)
            tuner, held, _ = loop(device, workload, whole=False)
            result = tuner.result()
            assert result is not None
            assert held is not None
            found, gain = regret(device, workload, held)
            regrets.append(found)
            gains.append(gain)
            draws.append(result.draws)
            shares.append(result.saving.search_time_s)
        rows.append(
            [
                f"{workload}, {name}",
                f"{np.mean(regrets):.2%}",
                f"{max(regrets):.2%}",
                f"{np.mean(gains):.1%}",
                f"{np.mean(draws):.1f}",
                f"{np.mean(shares):.0f} s",
            ]
        )
    header = ["loop", "mean regret", "worst", "to be gained", "trials", "time of the search"]
    report.table(header, rows)


def coverage(report: Report) -> None:
    rows = []
    for title, (make, tick_s) in TRACES.items():
        hits, spent_s = np.zeros(2), 0.0
        for seed in range(RUNS):
            trace = make(np.random.default_rng([seed, 7]))
            steady = SteadyState(Precision(most_s=float(trace.time_s.sum()) * 0.98))
            for sample in trace.samples(tick_s=tick_s):
                if steady.add(sample) is not Verdict.MORE:
                    break
            found = steady.estimate()
            assert found is not None
            hits[0] += abs(found.time.value - trace.true_time_s) <= found.time.half
            hits[1] += abs(found.energy.value - trace.true_energy_j) <= found.energy.half
            spent_s += steady.total.time_s
        shares = [f"{share:.0%}" for share in hits / RUNS]
        rows.append([title, *shares, f"{spent_s / RUNS:.0f} s"])
    report.table(["loop", "time", "energy", "window"], rows)


def cost(report: Report) -> None:
    device = board("a100", 0)
    with Tuner(device, workload="gemm", window_s=86_400.0) as tuner:
        for _ in range(100):
            tuner.step()
        beside, tuner._beside = tuner._beside, None  # the loop's own card is not simulated
        begin_s = time.perf_counter()
        for _ in range(100_000):
            tuner.step()
        each_s = (time.perf_counter() - begin_s) / 100_000
        tuner._beside = beside
    report.say(f"A call of `step()` between two readings takes {each_s * 1e6:.1f} µs.")
    report.say()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result")
    parser.add_argument("--seeds", type=int, default=6)
    arguments = parser.parse_args()
    report = Report("training_loop", "Tuning inside a training loop")
    report.say(
        f"Loops of {STEPS} steps beside simulated GPUs, power limit and SM clock turned for the "
        f"energy-delay sum, windows of at most 20 s, {arguments.seeds} seeds. All is simulated."
    )
    report.say()
    searches(report, arguments.seeds)
    report.say("Against the same loop untuned (SIMULATED, seed 0):")
    report.say()
    rows = []
    for name, workload in CASES[:3]:
        tuner, _, tuned_j = loop(board(name, 0), workload)
        plain_j = loop(board(name, 0), workload, trials=1)[2]
        result = tuner.result()
        assert result is not None
        said = result.saving.net_energy_j / plain_j
        rows.append([f"{workload}, {name}", f"{1 - tuned_j / plain_j:.2%}", f"{said:.2%}"])
    report.table(["loop", "energy saved", "said by the result"], rows)
    report.say(
        f"How often a 95 % interval holds the truth, of {RUNS} windows that end when both are "
        "known to 1 %, or with the trace:"
    )
    report.say()
    coverage(report)
    cost(report)
    if arguments.write:
        print(report.write())


if __name__ == "__main__":
    main()
