"""`lowjoule predict`: the frontier of a workload on a board that need not be here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowjoule.cli.options import (
    DeviceChoice,
    html_option,
    json_option,
    knobs_option,
    objective_on,
    objective_options,
    table_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lowjoule.devices.interface import WorkDevice
    from lowjoule.knobs import Setting
    from lowjoule.prediction import MeasuredTask, Prediction, Predictor
    from lowjoule.prediction.target import Target
    from lowjoule.profile import Profile
    from lowjoule.workloads import Workload


@click.command()
@click.argument("workload")
@click.option(
    "--device",
    "board",
    metavar="BOARD",
    required=True,
    help="A board of the catalogue, like h100 (lowjoule devices --all), or a replay:FILE.",
)
@click.option(
    "--anchors",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="A table of settings measured of this workload on this board. Without it what the store "
    "or a table has of it is taken, or else a simulation.",
)
@click.option(
    "--tasks",
    multiple=True,
    metavar="FILE",
    help="Learn from this table, exported file or store. May be repeated.",
)
@click.option("--store", metavar="PLACE", help="Learn from this store: a path or a database URL.")
@click.option("--predictor", metavar="FILE", help="Use a predictor that --save wrote.")
@click.option("--save", metavar="FILE", help="Keep what was learned in this file.")
@table_options
@objective_options
@knobs_option
@html_option
@json_option
def predict(
    workload: str,
    board: str,
    anchors: str | None,
    tasks: tuple[str, ...],
    store: str | None,
    predictor: str | None,
    save: str | None,
    columns: dict[str, str],
    default: dict[str, str],
    objective: str,
    constraints: tuple[str, ...],
    knobs: tuple[str, ...] | None,
    html: str | None,
    as_json: bool,
) -> None:
    """Predict the time and energy of WORKLOAD at every setting of a board, with intervals.

    Learned from tables and stores of other workloads; told by a few measured settings of this one
    (its anchors). Says which settings to measure to make it better.
    """
    from lowjoule.cli import console
    from lowjoule.cli.delivery import check_place, is_for_people
    from lowjoule.objectives import parse_constraint
    from lowjoule.prediction.target import Target
    from lowjoule.reports.prediction import Asked, PredictionReport

    check_place(html)
    check_place(save)
    bounds = [parse_constraint(text) for text in constraints]
    opened = _open(board, columns, default)
    table = None if anchors is None else _read(anchors, columns, workload)
    target = Target.of(opened, _workload(opened, workload, table), knobs)
    learned, own = _learned(target, predictor, store, tasks, columns)
    if save is not None:
        _save(learned, save)
    measured = table[1] if table is not None else own
    told, calibrated, notes = target.anchors(measured)
    found, more = _predicted(target, learned, told)
    report = PredictionReport.of(
        Asked(
            workload=target.workload.name,
            board=target.board,
            calibrated=calibrated,
            space=target.space,
            objective=objective_on(opened, objective),
            constraints=tuple(bounds),
        ),
        found,
        wanted=_wanted(target, told),
        notes=(*notes, *more),
    )
    if is_for_people(report, html, as_json=as_json):
        console.print_chart(report.figure())
        console.print_listing(report.listing())
        console.print_sentences(report.sentences())


def _open(board: str, columns: dict[str, str], default: dict[str, str]) -> WorkDevice:
    spec = board if ":" in board else f"sim:{board}"
    table = spec.startswith("replay:")
    return DeviceChoice(spec=spec, columns=columns if table else {}, default=default).open_device()


def _read(path: str, columns: Mapping[str, str], name: str) -> tuple[Workload, Profile]:
    """Return the workload called `name`, or the only one, of a table of anchors."""
    from lowjoule.devices.registry import OpenOptions
    from lowjoule.devices.replay import ReplayDevice, read_table

    table = read_table(path, columns)
    known = name if name in table.tasks or len(table.tasks) > 1 else next(iter(table.tasks))
    device = ReplayDevice(table, OpenOptions())
    workload = device.workload(known)
    return workload, device.survey(workload)


def _workload(device: WorkDevice, name: str, table: tuple[Workload, Profile] | None) -> Workload:
    """Return the workload as the device knows it, or as its anchors tell it."""
    from dataclasses import replace

    from lowjoule.errors import UnknownNameError

    try:
        return device.workload(name)
    except UnknownNameError:
        if table is None:
            raise
    # nothing is known of it but its anchors: no counts, no memory
    return replace(table[0], name=name)


def _learned(
    target: Target,
    saved: str | None,
    store: str | None,
    tables: tuple[str, ...],
    columns: Mapping[str, str],
) -> tuple[Predictor, Profile | None]:
    """Return the predictor, and what was measured of the target itself."""
    from lowjoule.cli.console import show_progress
    from lowjoule.cli.learning import measured_tasks, where_to_learn
    from lowjoule.errors import InvalidValueError
    from lowjoule.prediction import Predictor, load

    if saved is not None:
        if store is not None or tables:
            raise InvalidValueError(
                "--predictor has learned already", cure="leave out --tasks and --store"
            )
        return load(Path(saved)), None
    places = where_to_learn(store, tables)
    tasks = measured_tasks(places, columns=columns)
    own = [one for one in tasks if target.is_of(one)]
    others = [one for one in tasks if not target.is_of(one)]
    count = len({one.model for one in others})
    if count < 2:
        raise InvalidValueError(
            f"{', '.join(places)} {'has' if len(places) == 1 else 'have'} tasks of "
            f"{count or 'no'} model{'' if count == 1 else 's'} to learn from beside "
            f"{target.workload.name} on {target.board}",
            cure="name tables of at least two other models with --tasks, or import them",
        )
    show_progress(f"learning from {len(others)} tasks of {count} models")
    return Predictor.fit(others), _only(own, target)


def _only(own: list[MeasuredTask], target: Target) -> Profile | None:
    """Return what was measured of the target: the profile with most settings."""
    from lowjoule.source import Source

    kept = [one for one in own if one.profile.source is not Source.SIMULATED]
    if not kept or target.device.identity.source is Source.REPLAYED:
        return None
    return max((one.profile for one in kept), key=len)


def _predicted(
    target: Target, learned: Predictor, told: Profile
) -> tuple[Prediction, tuple[str, ...]]:
    """Return the prediction of what fits the board's memory, and notes."""
    boards = sorted({name for names in learned.state.devices.values() for name in names})
    found = learned.predict(target.space, told, target.figures(boards), target.workload)
    fits = target.fits(found.profile.settings)
    if fits is None:
        return found, ("what fits the board's memory is not known",)
    if fits.all():
        return found, ()
    return found.take(fits), (f"{int((~fits).sum()):,} settings do not fit the memory",)


def _wanted(target: Target, told: Profile) -> tuple[Setting, ...]:
    from lowjoule.prediction.anchoring import lacking
    from lowjoule.source import Source

    return lacking(target.space, None if told.source is Source.SIMULATED else told)


def _save(learned: Predictor, path: str) -> None:
    from lowjoule.cli.console import show_progress
    from lowjoule.prediction import save

    save(learned, Path(path))
    show_progress(f"what was learned is in {path}")
