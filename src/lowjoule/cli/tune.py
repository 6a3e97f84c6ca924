"""`lowjoule tune`: try a few settings, choose the best, show what it saves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from lowjoule.cli.advising import advise_options
from lowjoule.cli.options import (
    DeviceChoice,
    device_options,
    json_option,
    knobs_option,
    objective_on,
    objective_options,
)

if TYPE_CHECKING:
    from lowjoule.cli.advising import Board, BoardAdvice
    from lowjoule.devices.interface import Device, WorkDevice
    from lowjoule.store import Store
    from lowjoule.tuning.driver import Driver, SearchFactory, Tried
    from lowjoule.tuning.result import TuneResult
    from lowjoule.tuning.search import Problem, Search
    from lowjoule.workloads import Workload

SEARCHES = ("linear", "hybrid", "exhaustive", "random", "just-in-time")


@click.command()
@device_options
@objective_options
@knobs_option
@click.option(
    "--job", metavar="AMOUNT", help="Work of the whole job, like '90 epochs' or '1.5M samples'."
)
@click.option("--window", default="10s", show_default=True, help="Length of a measured window.")
@click.option(
    "--search",
    "search_name",
    type=click.Choice(SEARCHES),
    default="linear",
    show_default=True,
    help="How settings to try are chosen.",
)
@click.option(
    "--predictor",
    "predictor_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A saved predictor for the hybrid search to start from. Without it that learns from "
    "--store, or on a simulated board from the catalogue, never from the workload itself.",
)
@click.option(
    "--draws", type=click.IntRange(1), default=None, help="Draws of the random search (default 14)."
)
@click.option(
    "--store", metavar="PLACE", help="Keep every trial in this store: a path or a database URL."
)
@advise_options
@json_option
def tune(
    device: DeviceChoice,
    objective: str,
    constraints: tuple[str, ...],
    knobs: tuple[str, ...] | None,
    job: str | None,
    window: str,
    search_name: str,
    predictor_file: str | None,
    draws: int | None,
    store: str | None,
    advise: bool,
    boards: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find the setting of least energy (or another objective) of a workload on a device.

    Tries a few settings, measures each, and prints default against chosen with the saving net
    of the search. The device is left as it was found. With --advise, what turns the boards that
    are here to the setting chosen is printed for an administrator, and no device is written to.
    """
    from lowjoule.cli.console import show_progress
    from lowjoule.objectives import parse_constraint
    from lowjoule.quantities import Unit, parse
    from lowjoule.tuning.driver import Driver
    from lowjoule.workloads.work import parse_work

    _refuse_what_does_not_go_together(device, search_name, predictor_file, draws, store)
    here = _boards(boards, advise)
    device = replace(device, alone=device.alone or advise)
    opened, workload = device.open()
    with _store(store) as kept:
        known = LearnedFrom(opened, workload, predictor_file, kept)
        driver = Driver(
            opened,
            workload,
            objective=objective_on(opened, objective),
            constraints=[parse_constraint(text) for text in constraints],
            search=search_factory(search_name, draws, device.seed, known.search),
            knobs=knobs,
            job=parse_work(job) if job else None,
            window_s=parse(window, Unit.SECOND),
            on_trial=_reporter(show_progress),
        )
        try:
            result = driver.run()
        finally:
            if kept is not None:
                show_progress(_keep(driver, kept, device.seed))
        _tell(result, None if here is None else _advice(opened, result, here), as_json)


def _refuse_what_does_not_go_together(
    device: DeviceChoice,
    search_name: str,
    predictor_file: str | None,
    draws: int | None,
    store: str | None,
) -> None:
    from lowjoule.errors import InvalidValueError

    if store is not None and device.noise:
        raise InvalidValueError(
            "draws with --noise are not measurements", cure="leave out --store or --noise"
        )
    if predictor_file is not None and search_name != "hybrid":
        raise InvalidValueError(
            f"--predictor does not concern the {search_name} search",
            cure="leave it out, or choose --search hybrid",
        )
    if draws is not None and search_name != "random":
        raise InvalidValueError(
            f"--draws does not concern the {search_name} search",
            cure="leave it out, or choose --search random",
        )


def _boards(specs: tuple[str, ...], advise: bool) -> list[Board] | None:
    """Return the boards to be advised on, opened before anything is searched; None for none."""
    from lowjoule.cli.advising import opened_boards
    from lowjoule.errors import InvalidValueError

    if specs and not advise:
        raise InvalidValueError("--board without --advise", cure="add --advise, or leave it out")
    return opened_boards(specs) if advise else None


def _store(place: str | None) -> AbstractContextManager[Store | None]:
    """Open the store before anything is searched: what cannot be kept is known at once."""
    if place is None:
        return nullcontext()
    from lowjoule.store import Store

    return Store.open(place)


def _keep(driver: Driver, store: Store, seed: int) -> str:
    """Put every trial into `store`, of a failed run too, and return a line that says so."""
    from lowjoule.clock import WallClock
    from lowjoule.devices.figures import figures_of
    from lowjoule.store import records_of_trials
    from lowjoule.workloads import Signature

    signature = Signature(
        workload=driver.workload,
        device=figures_of(driver.device, driver.workload),
        default=driver.space.default,
    )
    records = records_of_trials(
        driver.trials,
        driver.device.identity,
        driver.workload,
        when_unix_s=WallClock().unix_s(),
        provenance={"command": "tune", "objective": driver.objective.name, "seed": seed},
        signature=signature,
    )
    added = store.add(records) if records else 0
    return f"{added} of {len(records)} trials are new in {store.name}"


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """Where the hybrid search learns from: a saved predictor, else a store, else the catalogue."""

    device: WorkDevice
    workload: Workload
    predictor_file: str | None = None
    store: Store | None = None

    def search(self, problem: Problem) -> Search:
        """Return the hybrid search for `problem`."""
        from pathlib import Path

        from lowjoule.prediction.saving import load
        from lowjoule.prediction.stored import tasks_of
        from lowjoule.tuning.hybrid import HybridSearch
        from lowjoule.tuning.knowledge import knowledge_of, surveyed_tasks

        if self.predictor_file is not None:
            predictor = load(Path(self.predictor_file))
            return HybridSearch(
                problem, knowledge_of(self.device, self.workload, predictor=predictor)
            )
        turned = [knob.name for knob in problem.space.knobs if len(knob.values) > 1]
        tasks = surveyed_tasks(self.device, self.workload, turned)
        tasks += [] if self.store is None else tasks_of(self.store)
        return HybridSearch(problem, knowledge_of(self.device, self.workload, tasks=tasks))


def search_factory(name: str, draws: int | None, seed: int, hybrid: SearchFactory) -> SearchFactory:
    """Return what makes the search called `name` for a problem; `hybrid` makes that one."""
    from lowjoule.tuning import ExhaustiveSearch, JustInTime, LinearSearch, RandomSearch

    if name == "hybrid":
        return hybrid
    if name == "random":
        return lambda problem: RandomSearch(problem, draws=draws or 14, seed=seed)
    if name == "exhaustive":
        return ExhaustiveSearch
    return JustInTime if name == "just-in-time" else LinearSearch


def _reporter(show_progress: Callable[[str], None]) -> Callable[[Tried], None]:
    """Return a callback that tells of each trial in one line on standard error."""
    from lowjoule.knobs import show_setting
    from lowjoule.quantities import Unit, show

    def report(progress: Tried) -> None:
        seen = progress.observation
        turned = [knob.name for knob in progress.space.knobs if len(knob.values) > 1]
        setting = show_setting(seen.asked.only(turned), progress.space)
        if seen.time_s is None or seen.energy_j is None:
            figures = f"failed: {seen.failure}"
        else:
            figures = f"{show(seen.energy_j, Unit.JOULE)}, {show(seen.time_s, Unit.SECOND)}"
        show_progress(f"draw {progress.draws}: {setting}: {figures}")

    return report


def _advice(device: Device, result: TuneResult, boards: list[Board]) -> list[BoardAdvice]:
    """Return what turns `boards` to what was chosen, of the device's knobs that were turned."""
    from lowjoule.cli.advising import advice_for

    own = [k.name for k in result.space.knobs if k.name in device.space.names and len(k.values) > 1]
    return advice_for(boards, result.chosen.setting.only(own))


def _tell(result: TuneResult, advice: list[BoardAdvice] | None, as_json: bool) -> None:
    from lowjoule.cli.advising import advice_dict, advice_sentences
    from lowjoule.cli.console import emit_json, output, print_sentences
    from lowjoule.reports.tuning import title, tuning_sentences, tuning_table

    if as_json:
        more = {} if advice is None else {"advice": advice_dict(advice)}
        emit_json({**result.to_dict(), **more})
        return
    console = output()
    console.print(tuning_table(result))
    for sentence in tuning_sentences(result):
        console.print(sentence, soft_wrap=True, highlight=False)
    if advice is not None:
        print_sentences(advice_sentences(advice, title(result)))
