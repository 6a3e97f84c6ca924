"""How often the interval of a trial holds the steady state: boards that warm up, data that stall.

Run `python benchmarks/steady_intervals.py [--write] [--trials 300] [--bound 60]`. A simulated board
starts cold, with a thermal time constant and a leakage drawn at random, and one trial is made on it
as the profiler makes them. The truth is the board's steady state, which no trial sees.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.interface import Execution, Reading, Told
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.simulated.catalogue import gpu
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.devices.simulated.physics import LEAKAGE_PER_C
from lowjoule.knobs import BATCH_SIZE, Setting
from lowjoule.metering import Meter
from lowjoule.profiling.steadily import Steadily
from lowjoule.profiling.steady import Precision
from lowjoule.workloads import Work, Workload
from report import Report

WORKLOAD = "resnet50"
PIECE_S = 0.1
TRUTH_PIECES = 800
LIMITED_PIECES = 3000
LIMITED_W = 280.0
LONG = 1e7
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is drawn of a board and its data, and what the trial can see.

    A `limited` board is held by its power limit, so that heat shows as time. `amplitude` is how
    much more power it draws warm than cold, about; a piece of work waits for data with probability
    `stalled`, for `stall_s` on average, with a long tail.
    """

    constant_s: float = 20.0
    amplitude: float = 0.0
    stalled: float = 0.0
    stall_s: float = 0.0
    thermometer: bool = True
    tick_s: float = 0.02
    warm: bool = False
    limited: bool = False


Draw = Callable[[np.random.Generator], Case]


def still(_: np.random.Generator, **given: float) -> Case:
    return Case(amplitude=0.03, warm=True, **given)  # type: ignore[arg-type]


def ramp(random: np.random.Generator, **given: float) -> Case:
    drawn = {
        "constant_s": math.exp(random.uniform(math.log(5.0), math.log(120.0))),
        "amplitude": random.uniform(0.01, 0.08),
    }
    return Case(**{**drawn, **given})  # type: ignore[arg-type]


def stalls(random: np.random.Generator, base: Draw = still) -> Case:
    return replace(
        base(random),
        stalled=math.exp(random.uniform(math.log(0.05), math.log(0.5))),
        stall_s=random.uniform(0.02, 0.2),
    )


CASES: dict[str, Draw] = {
    "a board that is warm from the start": still,
    "the same, a counter that ticks every 100 ms": partial(still, tick_s=0.1),
    "a ramp of 5 % with 20 s": partial(ramp, constant_s=20.0, amplitude=0.05),
    "a ramp of 5 % with 60 s": partial(ramp, constant_s=60.0, amplitude=0.05),
    "ramps of 1-8 % with 5-120 s": ramp,
    "the same, without a thermometer": partial(ramp, thermometer=False),
    "the same ramps, held by a power limit": partial(ramp, limited=True),
    "warm from the start, without a thermometer": partial(still, thermometer=False),
    "stalls of random length": stalls,
    "ramps and stalls": partial(stalls, base=ramp),
}


class Stalling:
    """A simulated device whose work waits for data now and then, and then runs."""

    def __init__(self, device: SimulatedDevice, case: Case, random: np.random.Generator) -> None:
        self._device, self._case, self._random = device, case, random
        self.identity, self.clock, self.space = device.identity, device.clock, device.space
        self.current, self.apply = device.current, device.apply

    def read(self) -> Reading:
        """Return what the thermometer shows of it."""
        seen = self._device.read()
        # real ones show whole degrees
        shown = round(seen.temperature_c or 0.0) if self._case.thermometer else None
        return replace(seen, temperature_c=shown)

    def submit(self, workload: Workload, work: Work, setting: Setting) -> Execution:
        """Return work that waits for its data first."""
        case, random = self._case, self._random
        stall_s = 0.0
        if random.random() < case.stalled:
            stall_s = case.stall_s * math.exp(random.standard_normal() - 0.5)
        return Stalled(self._device, stall_s, partial(self._device.submit, workload, work, setting))


class Stalled:
    """Work that begins when its data are there."""

    def __init__(
        self, device: SimulatedDevice, stall_s: float, submit: Callable[[], Execution]
    ) -> None:
        self._device, self._stall_s, self._submit = device, stall_s, submit
        self.told = Told()

    def wait(self) -> None:
        """Wait for the data, then for the work."""
        self._device.clock.sleep(self._stall_s)
        self._submit().wait()


def board(case: Case, seed: int) -> SimulatedDevice:
    """Return a board at ambient temperature, or one that has run for long where it is warm."""
    model = gpu("a100")
    chip = model.chip
    full_w = chip.idle_w + 0.6 * (chip.dynamic_w + chip.memory_w)
    leakage_w = case.amplitude * full_w / (LEAKAGE_PER_C * full_w * chip.resistance_c_per_w)
    chip = replace(chip, leakage_w=leakage_w, time_constant_s=case.constant_s)
    limit_w = LIMITED_W if case.limited else model.limits_w[-1]
    chosen = {"power_limit": f"{limit_w:g}W", "sm_clock": f"{model.clocks_hz[-4]:g}Hz"}
    board = replace(model, chip=chip, tick_s=case.tick_s)
    device = SimulatedDevice(board, OpenOptions(seed=seed, default=chosen))
    if case.warm:
        job = device.workload(WORKLOAD)
        device.submit(job, Work(LONG, job.unit), Setting()).wait()
    return device


@cache
def truth(case: Case, piece: float) -> tuple[float, float]:
    """Return time and energy of a unit of work in the steady state, stalls included.

    Where the steady state has no closed form (each stall cools, each piece has its own clock under
    a limit) it is that of a board that was warmed up for long.
    """
    twin = board(replace(case, tick_s=1e-4), 0)
    job = twin.workload(WORKLOAD)
    if not case.stalled and not case.limited:
        known = twin.survey(job, twin.joint_space(job).free([]))
        return float(known.time_s[0]), float(known.energy_j[0])
    mean_s = case.stalled * case.stall_s
    longer = max(1, round(case.constant_s / (40.0 * PIECE_S)))
    _run(twin, job, longer * piece, longer * mean_s, 400)
    begin = twin.read()
    pieces = LIMITED_PIECES if case.limited else TRUTH_PIECES
    _run(twin, job, piece, mean_s, pieces)
    end = twin.read()
    assert begin.energy_j is not None
    assert end.energy_j is not None
    done = pieces * piece
    return (end.time_s - begin.time_s) / done, (end.energy_j - begin.energy_j) / done


def _run(device: SimulatedDevice, job: Workload, piece: float, stall_s: float, pieces: int) -> None:
    for _ in range(pieces):
        device.submit(job, Work(piece, job.unit), Setting()).wait()
        device.clock.sleep(stall_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Errors and half-widths of time and energy, over the truth; how long the trial took."""

    error: Floats
    half: Floats
    spent_s: float
    precise: bool


def trial(draw: Draw, seed: int, bound_s: float) -> Outcome:
    random = np.random.default_rng([seed, 5])
    case = draw(random)
    device = board(case, seed)
    job = device.workload(WORKLOAD)
    batch = device.joint_space(job).default.number(BATCH_SIZE)
    known = device.survey(job, device.joint_space(job).free([]))
    work = Work(batch * max(1, round(PIECE_S / float(known.time_s[0]) / batch)), job.unit)
    true = np.array(truth(case, work.quantity))
    seen = Stalling(device, case, random)
    meter = Meter(seen)
    meter.tick_s  # noqa: B018 - observed while it idles, as the profiler does
    precision = Precision(most_s=bound_s)
    steadily = Steadily(
        device=seen,  # type: ignore[arg-type]
        workload=job,
        meter=meter,
        precision=precision,
        steps=lambda _: work,
    )
    recording, _ = steadily.record(Setting(), meter.edge())
    found = recording.estimate()
    assert found is not None
    value = np.array([found.time.value, found.energy.value])
    half = np.array([found.time.half, found.energy.half])
    worst = max(found.time.relative, found.energy.relative)
    spent_s = recording.total.time_s
    return Outcome(value / true - 1.0, half / true, spent_s, worst <= precision.relative)


def row(title: str, told: list[Outcome]) -> list[str]:
    errors = np.array([one.error for one in told])
    halves = np.array([one.half for one in told])
    inside = (np.abs(errors) <= halves).mean(axis=0)
    rms, width = np.sqrt((errors**2).mean(axis=0)), np.median(halves, axis=0)
    return [
        title,
        *(f"{share:.1%}" for share in inside),
        *(f"{one:.2%} / {other:.2%}" for one, other in zip(width, rms, strict=True)),
        f"{np.mean([one.spent_s for one in told]):.0f} s",
        f"{np.mean([one.precise for one in told]):.0%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--bounds", type=float, nargs="+", default=[20.0, 120.0])
    arguments = parser.parse_args()
    report = Report("steady_intervals", "Intervals of the steady state")
    report.say(
        f"{arguments.trials} trials a kind on a SIMULATED board ({WORKLOAD} on an A100 whose "
        "leakage and time constant are drawn at random; noise of 1 % a piece of a tenth of a "
        "second, a thermometer of whole degrees, a counter with ticks of 20 ms where nothing else "
        "is said), each from a cold start unless it is warm. A trial ends when time and energy are "
        "known to 1 %, or at its bound. The truth is the steady state of the same board. Given are "
        "how often the 95 % interval holds it, the median half-width over the error's RMS, and the "
        "mean length."
    )
    report.say()
    for bound_s in arguments.bounds:
        report.say(f"## At most {bound_s:g} s")
        report.say()
        rows = [
            row(title, [trial(draw, seed, bound_s) for seed in range(arguments.trials)])
            for title, draw in CASES.items()
        ]
        header = ["kind", "time", "energy", "half / RMS, time", "half / RMS, energy", "length"]
        report.table([*header, "known to 1 %"], rows)
    if arguments.write:
        print(report.write())


if __name__ == "__main__":
    main()
