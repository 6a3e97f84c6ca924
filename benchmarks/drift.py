"""The driver on boards that do not stay as they are, with and without a reference beside.

Run `python benchmarks/drift.py [--write] [--seeds 8]`. The boards are simulated, in virtual time:
cold at the start with a slow cooler, or in a room that gets hotter while the search goes on. Regret
is against the survey of the same board warm and in a cool room, which no search sees.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from lowjoule.control import Claim
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.simulated.catalogue import gpu
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.knobs import POWER_LIMIT, SM_CLOCK, Setting
from lowjoule.objectives import EDS
from lowjoule.profiling import Profiler
from lowjoule.tuning import Driver, LinearSearch, Problem
from lowjoule.tuning.account import observe
from report import Report

CASES = (("a100", "resnet50"), ("rtx4090", "resnet50"), ("a40", "bert-base"))
KNOBS = (POWER_LIMIT, SM_CLOCK)
AMPLITUDE = 0.08
CONSTANT_S = 60.0
HOTTER_C = 30.0
WITHIN_S = 300.0
JOB = 1e8


class HotRoom(SimulatedDevice):
    """A board in a room that gets hotter and stays so."""

    def _sync(self) -> None:
        hotter_c = HOTTER_C * min(1.0, self.clock.now_s() / WITHIN_S)
        chip = replace(self.model.chip, ambient_c=self.model.chip.ambient_c + hotter_c)
        self._board.model = replace(self.model, chip=chip)
        super()._sync()


def board(name: str, kind: str, seed: int) -> SimulatedDevice:
    """Return a board whose power rises by about `AMPLITUDE` between cold and warm."""
    model = gpu(name)
    chip = replace(
        model.chip,
        leakage_w=AMPLITUDE / (0.008 * 45.0) * 0.6 * model.default_limit_w,
        time_constant_s=CONSTANT_S,
        throttle_c=150.0,
    )
    made = HotRoom if kind == "hot room" else SimulatedDevice
    return made(replace(model, chip=chip), OpenOptions(seed=seed, default={}))


def merits(device: SimulatedDevice, workload: str) -> dict[Setting, float]:
    """Return the true energy-delay sum of every setting."""
    job = device.workload(workload)
    joint = device.joint_space(job)
    known = device.survey(job, joint.free(KNOBS))
    rows = zip(*(known.settings[name].tolist() for name in KNOBS), strict=True)
    settings = [Setting(dict(zip(KNOBS, row, strict=True))) for row in rows]
    base = settings.index(joint.default.only(KNOBS))
    energy, time = known.energy_j / known.energy_j[base], known.time_s / known.time_s[base]
    return dict(zip(settings, (0.5 * energy + 0.5 * time).tolist(), strict=True))


def with_reference(device: SimulatedDevice, workload: str) -> tuple[Setting, float, int]:
    driver = Driver(
        device,
        device.workload(workload),
        objective=EDS(),
        search=LinearSearch,
        knobs=KNOBS,
        job=f"{JOB:g} samples",
    )
    result = driver.run()
    return result.chosen.setting, result.chosen.objective, result.draws


def without(device: SimulatedDevice, workload: str) -> tuple[Setting, float, int]:
    """Tune as the driver would if nothing ever drifted: cold, and the default only once."""
    job = device.workload(workload)
    space = device.joint_space(job).free(KNOBS)
    search = LinearSearch(
        Problem(space=space, objective=EDS(), default=space.default, remaining_work=JOB)
    )
    draws = 0
    with Claim(device, "the benchmark") as claim:
        profiler = Profiler(claim, device, job)
        setting: Setting | None = space.default
        while setting is not None:
            search.tell(observe(profiler.measure(setting)))
            draws += 1
            setting = search.ask()
    found = search.recommend()
    return found.setting, found.objective, draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result")
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    report = Report("drift", "Searches on boards that drift")
    report.say(
        f"Linear searches for the energy-delay sum by the driver, power limit and SM clock turned, "
        f"windows of at most 10 s, {arguments.seeds} seeds, all SIMULATED. Boards draw about "
        f"{AMPLITUDE:.0%} more warm than cold, with a time constant of {CONSTANT_S:g} s; the hot "
        f"room gets {HOTTER_C:g} K hotter in {WITHIN_S:g} s. Bias is how far the objective that "
        "is said of the chosen setting (1 is the default's) lies from the true one."
    )
    report.say()
    rows = []
    for name, workload in CASES:
        for kind in ("cold start", "hot room"):
            for title, tune in (("without", without), ("with", with_reference)):
                told = []
                for seed in range(arguments.seeds):
                    device = board(name, kind, seed)
                    true = merits(device, workload)
                    chosen, said, draws = tune(device, workload)
                    merit = true[chosen.only(KNOBS)]
                    regret = merit / min(true.values()) - 1.0
                    told.append((regret, said - merit, draws, device.clock.now_s()))
                figures = np.array(told)
                rows.append(
                    [
                        f"{workload}, {name}, {kind}",
                        title,
                        f"{figures[:, 0].mean():.2%}",
                        f"{figures[:, 0].max():.2%}",
                        f"{figures[:, 1].mean():+.2%}",
                        f"{np.abs(figures[:, 1]).max():.2%}",
                        f"{figures[:, 2].mean():.1f}",
                        f"{figures[:, 3].mean():.0f} s",
                    ]
                )
    header = ["search", "reference", "mean regret", "worst", "mean bias", "worst", "trials", "time"]
    report.table(header, rows)
    if arguments.write:
        print(report.write())


if __name__ == "__main__":
    main()
