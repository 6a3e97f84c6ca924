"""What a real GPU here measures: reading alone, no setting is written.

    python benchmarks/real_gpu.py [--device nvml:GPU-8932f937] [--most-s 150] [--write]

Capabilities, the counter's tick, the cost of calls, the agreement of counter and integral idle and
under load, and the energy of a sample over batch sizes of a real training step (PyTorch; on the
processor where CUDA is not to be had, and then it says so).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import lowjoule as lj
from lowjoule.clock import WallClock
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.errors import LowjouleError
from lowjoule.quantities import Unit, show
from report import Report

CALLS = 200
BATCHES = (16, 32, 64, 128, 256, 512)
CLOCK = WallClock()
NOTHING = "n/a"


def main() -> int:
    """Print, and with --write keep, what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="nvml:0")
    parser.add_argument("--most-s", type=float, default=150.0, help="time for what is measured")
    parser.add_argument("--name", default="real_gpu", help="name of the result that is kept")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        device = lj.open_device(options.device)
    except LowjouleError as error:
        print(f"no GPU is measured: {error}", file=sys.stderr)
        return 2
    if not isinstance(device, NvmlDevice):
        print(f"{options.device} is no NVIDIA GPU", file=sys.stderr)
        return 2
    before = device.current()
    report = Report(options.name, f"A real GPU: {device.identity.model}")
    capabilities(report, device)
    costs(report, device)
    work = Training()
    work.steps(64, 0.1)  # libraries load with the first one
    end_s = CLOCK.now_s() + options.most_s
    agreement(report, device, work, options.most_s * 0.25)
    batches(report, device, work, end_s)
    after = device.current()
    report.say(
        f"Settings before and after are {'the same' if before == after else 'NOT the same'}."
    )
    if options.write:
        print(report.write())
    return 0 if before == after else 1


def capabilities(report: Report, device: NvmlDevice) -> None:
    """Tell what works on the board, as it answered."""
    known = device.identity
    report.say(f"Driver {known.driver}; scope {known.scope}; torch {Training.about()}.")
    report.say()
    report.say("## What it measures and controls")
    report.say()
    rows = [
        [one.name, "yes" if one.works else "no", one.detail.replace("|", "/") or NOTHING]
        for one in device.abilities()
    ]
    report.table(["ability", "works", "detail"], rows)
    for note in device.notes:
        report.say(f"Note: {note}.")


def costs(report: Report, device: NvmlDevice) -> None:
    """Tell how often the counter moves and what calls take."""
    report.say("## The counter's tick and the cost of calls")
    report.say()
    try:
        counter = device.measure_counter(3.0)
        period = NOTHING if counter.period_s is None else show(counter.period_s, Unit.SECOND)
        report.say(f"The energy counter moves every {period} (median of the moves within 3 s).")
    except LowjouleError as error:
        report.say(f"No counter: {error}.")
    report.say()
    calls: dict[str, Callable[[], object]] = {
        "sample (energy and power)": device.sample,
        "read (all that it says)": device.read,
        "current (the setting in force)": device.current,
        "begin and end of a window": lambda: lj.measure("call", devices=device).start().stop(),
    }
    rows = []
    for name, call in calls.items():
        times_s = sorted(_times_s(call))
        figures = (statistics.median(times_s), times_s[int(0.99 * len(times_s))], times_s[-1])
        rows.append([name, *(show(one, Unit.SECOND) for one in figures)])
    report.table([f"call, {CALLS} times", "median", "99 %", "most"], rows)


def _times_s(call: Callable[[], object]) -> Iterator[float]:
    call()
    for _ in range(CALLS):
        begin_s = CLOCK.now_s()
        call()
        yield CLOCK.now_s() - begin_s


class Training:
    """A training step of a small convolutional network, on the GPU where CUDA is to be had."""

    def __init__(self) -> None:
        self._torch: Any = _torch()
        torch = self._torch
        self.place = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
        if torch is None:
            return
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        layers += [torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten()]
        layers += [torch.nn.Linear(64 * 16 * 16, 10)]
        self._model = torch.nn.Sequential(*layers).to(self.place)
        self._optimiser = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self._loss = torch.nn.CrossEntropyLoss()

    @staticmethod
    def about() -> str:
        """Return which PyTorch there is, and on what it runs here."""
        torch = _torch()
        if torch is None:
            return "is not installed: nothing is trained"
        on = "CUDA" if torch.cuda.is_available() else "the processor: the GPU does not do this work"
        return f"{torch.__version__} on {on}"

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return self._torch is not None

    def step(self, batch: int) -> None:
        """Train on one batch of images made up."""
        torch = self._torch
        images = torch.randn(batch, 3, 32, 32, device=self.place)
        labels = torch.randint(0, 10, (batch,), device=self.place)
        self._optimiser.zero_grad()
        self._loss(self._model(images), labels).backward()
        self._optimiser.step()

    def finish(self) -> None:
        """Return when the device is done."""
        if self.place == "cuda":
            self._torch.cuda.synchronize()

    def steps(self, batch: int, most_s: float) -> int:
        """Train for about `most_s` and return the steps."""
        end_s, done = CLOCK.now_s() + most_s, 0
        if not self.runs:
            return 0
        while CLOCK.now_s() < end_s or not done:
            self.step(batch)
            done += 1
        self.finish()
        return done


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def agreement(report: Report, device: NvmlDevice, work: Training, most_s: float) -> None:
    """Compare counter and integrated power, idle and under load."""
    report.say("## Counter and integrated power")
    report.say()
    rows = []
    kinds: dict[str, Callable[[float], object]] = {"idle": CLOCK.sleep}
    if work.runs:
        kinds["training, batch of 64"] = lambda length_s: work.steps(64, length_s)
    for name, run in kinds.items():
        for length_s in (most_s / 12, most_s / 4):
            with lj.measure(name, devices=device) as window:
                run(length_s)
            found = next(iter(window.devices.values()))
            counter_j, integral_j = found.counter_j, found.integral_j
            apart = NOTHING
            if counter_j is not None and integral_j:
                apart = f"{counter_j / integral_j - 1:+.2%}"
            rows.append(
                [
                    name,
                    _shown(found.time_s, Unit.SECOND),
                    *(_shown(one, Unit.JOULE) for one in (counter_j, integral_j)),
                    apart,
                    f"{_shown(found.energy_j, Unit.JOULE)} ± "
                    f"{_shown(found.uncertainty_j, Unit.JOULE)}",
                    ", ".join(sorted(found.flags)) or "-",
                ]
            )
    head = ["load", "time", "counter", "integral", "counter over integral", "energy", "flags"]
    report.table(head, rows)


def batches(report: Report, device: NvmlDevice, work: Training, end_s: float) -> None:
    """Tell the energy of a sample over batch sizes, as far as time goes."""
    report.say("## Energy per sample of a training step")
    report.say()
    if not work.runs:
        report.say("PyTorch is not here: nothing was trained.")
        return
    rows = []
    for place, batch in enumerate(BATCHES):
        each_s = (end_s - CLOCK.now_s()) / (len(BATCHES) - place)
        if each_s < 0.2:
            report.say(f"There was no time left for batches from {batch} on.")
            break
        work.steps(batch, each_s * 0.2)
        with lj.measure("training", devices=device) as window:
            samples = work.steps(batch, each_s * 0.7) * batch
        found = next(iter(window.devices.values()))
        energy_j, half_j, time_s = found.energy_j, found.uncertainty_j, found.time_s
        rows.append(
            [
                str(batch),
                str(samples),
                _shown(None if not time_s else time_s / samples, Unit.SECOND),
                _shown(None if energy_j is None else energy_j / samples, Unit.JOULE),
                _shown(None if half_j is None else half_j / samples, Unit.JOULE),
                _shown(found.power_w, Unit.WATT),
                ", ".join(sorted(found.flags)) or "-",
            ]
        )
    head = ["batch", "samples", "time a sample", "energy a sample", "±", "mean power", "flags"]
    report.table(head, rows)


def _shown(value: float | None, unit: Unit) -> str:
    return NOTHING if value is None else show(value, unit)


if __name__ == "__main__":
    sys.exit(main())
