"""`lowjoule tune`: try a few settings, choose the best, show what it saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import (
    DeviceChoice,
    device_options,
    json_option,
    knobs_option,
    objective_on,
    objective_options,
)

if TYPE_CHECKING:
    from lowjoule.tuning.driver import Progress, SearchFactory
    from lowjoule.tuning.result import TuneResult

SEARCHES = ("linear", "exhaustive", "random", "just-in-time")


@click.command()
@device_options
@objective_options
@knobs_option
@click.option("--job", metavar="AMOUNT", help="Work of the whole job, like '90 epochs'.")
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
    "--draws", type=click.IntRange(1), default=None, help="Draws of the random search (default 14)."
)
@json_option
def tune(
    device: DeviceChoice,
    objective: str,
    constraints: tuple[str, ...],
    knobs: tuple[str, ...] | None,
    job: str | None,
    window: str,
    search_name: str,
    draws: int | None,
    as_json: bool,
) -> None:
    """Find the setting of least energy (or another objective) of a workload on a device.

    Tries a few settings, measures each, and prints default against chosen with the saving net
    of the search. The device is left as it was found.
    """
    from lowjoule.cli.console import emit_json, show_progress
    from lowjoule.objectives import parse_constraint
    from lowjoule.quantities import Unit, parse
    from lowjoule.tuning.driver import Driver
    from lowjoule.workloads.work import parse_work

    opened, workload = device.open()
    driver = Driver(
        opened,
        workload,
        objective=objective_on(opened, objective),
        constraints=[parse_constraint(text) for text in constraints],
        search=search_factory(search_name, draws, device.seed),
        knobs=knobs,
        job=parse_work(job) if job else None,
        window_s=parse(window, Unit.SECOND),
        on_trial=_reporter(show_progress),
    )
    result = driver.run()
    if as_json:
        emit_json(result.to_dict())
    else:
        _print(result)


def search_factory(name: str, draws: int | None, seed: int) -> SearchFactory:
    """Return what makes the search called `name` for a problem."""
    from lowjoule.tuning import ExhaustiveSearch, JustInTime, LinearSearch, RandomSearch

    if name == "random":
        return lambda problem: RandomSearch(problem, draws=draws or 14, seed=seed)
    if name == "exhaustive":
        return ExhaustiveSearch
    return JustInTime if name == "just-in-time" else LinearSearch


def _reporter(show_progress: Callable[[str], None]) -> Callable[[Progress], None]:
    """Return a callback that tells of each trial in one line on standard error."""
    from lowjoule.knobs import show_setting
    from lowjoule.quantities import Unit, show

    def report(progress: Progress) -> None:
        seen = progress.observation
        turned = [knob.name for knob in progress.space.knobs if len(knob.values) > 1]
        setting = show_setting(seen.asked.only(turned), progress.space)
        if seen.time_s is None or seen.energy_j is None:
            figures = f"failed: {seen.failure}"
        else:
            figures = f"{show(seen.energy_j, Unit.JOULE)}, {show(seen.time_s, Unit.SECOND)}"
        show_progress(f"draw {progress.draws}: {setting}: {figures}")

    return report


def _print(result: TuneResult) -> None:
    from lowjoule.cli.console import output
    from lowjoule.reports.tuning import tuning_sentences, tuning_table

    console = output()
    console.print(tuning_table(result))
    for sentence in tuning_sentences(result):
        console.print(sentence, soft_wrap=True, highlight=False)
