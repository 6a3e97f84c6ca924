"""`lowjoule benchmark`: measure known work over a device's settings, to predict others from."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import json_option, names

if TYPE_CHECKING:
    from lowjoule.benchmarking import BenchmarkResult, Happened, Plan
    from lowjoule.devices.interface import WorkDevice

ESTIMATE = "rapl:estimate"


@click.command()
@click.option(
    "--device",
    "spec",
    metavar="KIND:NAME",
    default=ESTIMATE,
    help="A device, like sim:a100, nvml:0 or rapl:package-0; without one the CPU, with its "
    "energy estimated.",
)
@click.option(
    "--proxies",
    metavar="NAME,...",
    callback=names,
    help="Measure these alone; of a simulated device, workloads of the catalogue.",
)
@click.option("--budget", default="20min", show_default=True, help="Time that this may take.")
@click.option(
    "--settings",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Settings of each proxy at most.",
)
@click.option(
    "--knobs",
    metavar="NAME,...",
    callback=names,
    help="What is turned; by default limit, clocks and batch size.",
)
@click.option("--window", default="5s", show_default=True, help="Length of a measured window.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the design."
)
@click.option("--real-time", is_flag=True, help="Let a simulated device take real time.")
@click.option("--store", metavar="PLACE", help="The store: a path or a database URL.")
@json_option
def benchmark(
    spec: str,
    proxies: tuple[str, ...] | None,
    budget: str,
    settings: int,
    knobs: tuple[str, ...] | None,
    window: str,
    seed: int,
    real_time: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Measure proxies of training and inference over a device's settings, into the store.

    A real device runs them in PyTorch, a simulated one runs the catalogue. What was measured is
    kept trial by trial: run it again to go on. The device is left as it was found.
    """
    from lowjoule.benchmarking import Benchmark
    from lowjoule.cli.console import emit_json
    from lowjoule.quantities import Unit, parse
    from lowjoule.store import Store

    budget_s = parse(budget, Unit.SECOND)
    device = _opened(spec, seed, real_time)
    with Store.open(store) as kept, _Shown(budget_s, kept.name) as shown:
        result = Benchmark(
            device,
            kept,
            workloads=proxies,
            knobs=knobs,
            settings=settings,
            budget_s=budget_s,
            window_s=parse(window, Unit.SECOND),
            seed=seed,
            on_plan=shown.plan,
            on_trial=shown.trial,
        ).run()
    if as_json:
        emit_json(result.to_dict())
    else:
        _print(result)


def _opened(spec: str, seed: int, real_time: bool) -> WorkDevice:
    from lowjoule.devices.interface import WorkDevice
    from lowjoule.devices.proxied import ProxiedDevice
    from lowjoule.devices.registry import OpenOptions, open_device
    from lowjoule.errors import InvalidValueError
    from lowjoule.source import Source

    device = open_device(spec, OpenOptions(seed=seed, wall_time=real_time))
    if not isinstance(device, WorkDevice):
        return ProxiedDevice(device)
    if device.identity.source is Source.REPLAYED:
        raise InvalidValueError(
            f"{spec} is a table of measurements, of which nothing new can be measured",
            cure="put it into the store as it is (lowjoule import)",
        )
    return device


class _Shown:
    """Tells what happens on standard error: a bar on a terminal, a line a trial elsewhere."""

    def __init__(self, budget_s: float, store: str) -> None:
        from rich.progress import Progress

        self._budget_s, self._store = budget_s, store
        self._stack = ExitStack()
        self._bar: Progress | None = None

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self, plan: Plan, before: int, trial_s: float) -> None:
        """Tell what is to be done, how long it takes, and what is done already."""
        from lowjoule.cli.console import show_progress
        from lowjoule.quantities import Unit, show

        left = len(plan) - before
        if before:
            show_progress(f"going on: {before} of {len(plan)} trials are in {self._store} already")
        text = f"{left} trials of {len(plan.tasks)} workloads, about {show(trial_s, Unit.SECOND)}"
        text += f" each, {show(left * trial_s, Unit.SECOND)} in all"
        if left * trial_s > self._budget_s:
            allowed = int(self._budget_s / trial_s)
            text += f"; the budget of {show(self._budget_s, Unit.SECOND)} allows about {allowed}"
        show_progress(text)
        if sys.stderr.isatty():
            self._begin(len(plan), before)

    def _begin(self, planned: int, before: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        from lowjoule.cli.console import output

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        bar = Progress(*columns, console=output(errors=True), transient=True)
        self._bar = self._stack.enter_context(bar)
        self._bar.add_task("", total=planned, completed=before)

    def trial(self, happened: Happened) -> None:
        """Tell of one trial."""
        from lowjoule.cli.console import show_progress

        text = _line(happened)
        if self._bar is None:
            show_progress(f"trial {happened.place} of {happened.planned}: {text}")
        else:
            task = self._bar.task_ids[0]
            self._bar.update(task, advance=1, description=text)


def _line(happened: Happened) -> str:
    from lowjoule.knobs import show_setting
    from lowjoule.quantities import Unit, show

    trial, space = happened.trial, happened.task.space
    turned = [knob.name for knob in space.knobs if len(knob.values) > 1]
    setting = show_setting(trial.asked.only(turned), space)
    if trial.measurement is None:
        figures = f"infeasible: {trial.failure}"
    else:
        figures = f"{show(trial.measurement.power_w, Unit.WATT)}"
    spent = show(happened.spent_s, Unit.SECOND)
    return f"{happened.task.workload.name}: {setting}: {figures} (after {spent})"


def _print(result: BenchmarkResult) -> None:
    from lowjoule.cli.console import print_listing, print_sentences
    from lowjoule.quantities import Unit, show
    from lowjoule.reports.listing import Listing

    rows = [
        (one.workload, str(one.measured), str(one.infeasible), str(one.left))
        for one in result.covered
    ]
    columns = ("workload", "settings measured", "infeasible", "left")
    source = result.identity.source.value.upper()
    print_listing(
        Listing(
            title=f"{source}: {result.identity.model}",
            columns=columns,
            rows=tuple(rows),
            numbers=frozenset(columns[1:]),
        )
    )
    spent = show(result.time_s, Unit.SECOND)
    said = [f"{result.trials} trials in {spent} are new in {result.store}."]
    if result.left:
        said.append(f"{result.left} trials are left: run the same command again to go on.")
    print_sentences([*said, *(f"Note: {note}." for note in result.notes)])
