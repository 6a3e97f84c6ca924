"""`lowjoule evaluate`: how good predictions and searches are on models never seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import html_option, json_option, names, pairs, ratio

if TYPE_CHECKING:
    from lowjoule.prediction.evaluation import Split
    from lowjoule.prediction.features import MeasuredTask
    from lowjoule.prediction.predictor import Predictor
    from lowjoule.tuning.evaluation import MakeSearch
    from lowjoule.tuning.search import Problem, Search

LEFT_OUT = ("model", "device", "both")


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="TABLE|STORE...")
@click.option(
    "--leave-out",
    type=click.Choice(LEFT_OUT),
    default="model",
    show_default=True,
    help="What a predictor may not have seen of what it is tried on.",
)
@click.option(
    "--model",
    "pattern",
    metavar="REGEX",
    help="What of a workload's name is its model: the first group, or all that is found. By "
    "default workloads that share a part of their names between slashes are one model.",
)
@click.option(
    "--objective", default="eds", show_default=True, metavar="NAME", help="What is made small."
)
@click.option(
    "--search",
    "wanted",
    metavar="NAME,...",
    callback=names,
    help="Compare these searches alone; by default all that `tune --search` knows.",
)
@click.option(
    "--trials",
    type=click.IntRange(1),
    default=9,
    show_default=True,
    help="Trials of each search, the default setting's among them.",
)
@click.option(
    "--job-trials",
    type=click.FloatRange(1.0),
    default=100.0,
    show_default=True,
    help="Work of a job, in trials, that what trials cost is weighed against.",
)
@click.option(
    "--noise",
    default="0",
    show_default=True,
    metavar="RATIO",
    callback=ratio,
    help="Spread added to each draw of a search, like 1.5%.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of random numbers."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    callback=pairs,
    help="Which column of a table is which, like time_s=duration. May be repeated.",
)
@click.option(
    "--default",
    "default",
    multiple=True,
    metavar="KNOB=VALUE",
    callback=pairs,
    help="Another default of a knob, like batch_size=64. May be repeated.",
)
@html_option
@json_option
def evaluate(
    places: tuple[str, ...],
    leave_out: str,
    pattern: str | None,
    objective: str,
    wanted: tuple[str, ...] | None,
    trials: int,
    job_trials: float,
    noise: float,
    seed: int,
    columns: dict[str, str],
    default: dict[str, str],
    html: str | None,
    as_json: bool,
) -> None:
    """Tell how good predictions and searches are on the tasks of tables and stores.

    Every task is predicted by a predictor that has not seen its model, from a few anchors; then
    the default, the offline choice and every search are compared at equal trials.
    """
    from lowjoule.cli import console
    from lowjoule.cli.learning import measured_tasks
    from lowjoule.objectives import parse_objective
    from lowjoule.reports.evaluation import EvaluationReport
    from lowjoule.tuning import evaluation

    tasks = measured_tasks(places, columns=columns, default=default, pattern=pattern)
    splits = _splits(tasks, leave_out)
    made = _searches(wanted, trials, seed)
    contest = evaluation.Contest(
        objective=parse_objective(objective),
        searches=made,
        trials=trials,
        whole=frozenset({"exhaustive", "just-in-time"} & set(made)),
        job_trials=job_trials,
        noise=noise,
        seed=seed,
    )
    found = evaluation.evaluate(splits, contest, on_split=_reporter(len(splits)))
    report = EvaluationReport(
        found=found,
        contest=contest,
        left_out=_WORDS[leave_out],
        notes=tuple(f"no {name} search: {why}" for name, why in found.refused.items()),
    )
    if html is not None:
        report.page().write(html)
        console.show_progress(f"wrote {html}")
    if as_json:
        console.emit_json(report.to_dict())
    elif html is None:
        for listing in (report.accuracy(), report.intervals(), report.searches(), report.models()):
            console.print_listing(listing)
        console.print_sentences(report.sentences())


_WORDS = {"model": "a model", "device": "a board", "both": "a model and a board"}


def _splits(tasks: list[MeasuredTask], leave_out: str) -> list[Split]:
    """Return the splits that can be learned from: of at least two models known."""
    from lowjoule.cli.console import show_progress
    from lowjoule.errors import InvalidValueError
    from lowjoule.prediction.evaluation import by_both, by_device, by_model

    make = {"model": by_model, "device": by_device, "both": by_both}[leave_out]
    every = make(tasks)
    found = [one for one in every if len({task.model for task in one.known}) >= 2]
    models, boards = {one.model for one in tasks}, {one.device.model for one in tasks}
    if not found:
        raise InvalidValueError(
            f"{len(tasks)} tasks of {len(models)} models on {len(boards)} boards leave too little "
            f"to learn from without {_WORDS[leave_out]}",
            cure="give tables of at least three models (two boards for --leave-out device); if "
            "models were taken to be one that are not, say what is the model with --model",
        )
    if len(found) < len(every):
        show_progress(f"note: {len(every) - len(found)} splits leave too little to learn from")
    show_progress(
        f"{len(tasks)} tasks of {len(models)} models ({', '.join(sorted(models))}) on "
        f"{len(boards)} boards"
    )
    return found


def _searches(wanted: tuple[str, ...] | None, trials: int, seed: int) -> dict[str, MakeSearch]:
    """Return what makes each search that `tune --search` knows, or those `wanted`."""
    from lowjoule.cli.tune import SEARCHES, search_factory
    from lowjoule.errors import UnknownNameError
    from lowjoule.tuning.hybrid import HybridSearch
    from lowjoule.tuning.knowledge import Knowledge

    for name in wanted or ():
        if name not in SEARCHES:
            raise UnknownNameError.among("search", name, SEARCHES)

    def made(name: str) -> MakeSearch:
        def make(problem: Problem, predictor: Predictor, task: MeasuredTask) -> Search:
            known = Knowledge(
                device=task.device,
                predictor=predictor,
                workload=task.workload,
                activity=task.activity,
            )
            hybrid = partial(HybridSearch, knowledge=known)
            draws = trials if name == "random" else None
            return search_factory(name, draws, seed, hybrid)(problem)

        return make

    return {name: made(name) for name in wanted or SEARCHES}


def _reporter(count: int) -> Callable[[int, Split], None]:
    from lowjoule.cli.console import show_progress

    def report(place: int, split: Split) -> None:
        models = ", ".join(sorted({one.model for one in split.tried}))
        show_progress(f"{place + 1} of {count}: {len(split.tried)} tasks of {models}")

    return report
