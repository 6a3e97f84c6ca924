"""How well a predictor does on tasks that it has not seen: errors and coverage, task by task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import Setting
from lowjoule.prediction.features import MeasuredTask
from lowjoule.prediction.intervals import FIGURES
from lowjoule.prediction.members import Recipe
from lowjoule.prediction.predictor import Prediction, Predictor
from lowjoule.prediction.tasks import prepare, space_of
from lowjoule.profile import Profile

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """What is learned from and what is tried; no model (or board) of a test is learned from."""

    known: tuple[MeasuredTask, ...]
    tried: tuple[MeasuredTask, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One task's predictions against what was measured, without its anchors.

    `errors[member]` has shape (n, 2): relative errors of throughput and power, signed; the
    member "prediction" is what `Predictor.predict` returns. `inside` (n, 3) tells which of
    time, power and energy lie in their interval, `width` (n, 3) is its half-width in logarithms.
    `anchors` are the settings that were told.
    """

    task: MeasuredTask
    anchors: tuple[Setting, ...]
    errors: dict[str, Floats]
    inside: NDArray[np.bool_]
    width: Floats


def by_model(tasks: Sequence[MeasuredTask]) -> list[Split]:
    """Return a split for each model, left out on all boards."""
    return _each(tasks, [one.model for one in tasks])


def by_device(tasks: Sequence[MeasuredTask]) -> list[Split]:
    """Return a split for each board, left out with everything measured on it."""
    return _each(tasks, [one.device.model for one in tasks])


def _each(tasks: Sequence[MeasuredTask], keys: Sequence[str]) -> list[Split]:
    found = []
    for key in sorted(set(keys)):
        tried = tuple(one for one, own in zip(tasks, keys, strict=True) if own == key)
        known = tuple(one for one, own in zip(tasks, keys, strict=True) if own != key)
        found.append(Split(known, tried))
    return found


def by_both(tasks: Sequence[MeasuredTask]) -> list[Split]:
    """Return a split for each model on each board, where neither is learned from."""
    pairs = sorted({(one.model, one.device.model) for one in tasks})
    found = []
    for model, name in pairs:
        tried = tuple(o for o in tasks if o.model == model and o.device.model == name)
        known = tuple(o for o in tasks if o.model != model and o.device.model != name)
        found.append(Split(known, tried))
    return found


def score(splits: Iterable[Split], recipe: Recipe | None = None) -> list[Scored]:
    """Return every tried task's score under predictors fitted to the known ones."""
    found = []
    for split in splits:
        predictor = Predictor.fit(split.known, recipe)
        found += [score_task(predictor, task)[0] for task in split.tried]
    return found


def score_task(predictor: Predictor, task: MeasuredTask) -> tuple[Scored, Prediction]:
    """Return the score of one task under a predictor that has not seen it, and the prediction."""
    profile = task.profile
    known = prepare(task, predictor.recipe.clock_anchors)
    found = predictor.predict(
        space_of(profile),
        profile.take(known.anchors),
        task.device,
        task.workload,
        activity=task.activity,
        all_members=True,
    )
    unseen = known.unseen
    order = _order(found.profile, profile)[unseen]
    truth = known.rows.logs[unseen]
    told = {name: one[order] for name, one in found.members.items()}
    told["prediction"] = np.log(
        np.stack([found.profile.time_s[order], found.power_w[order]], axis=1)
    )
    errors = {name: np.expm1((one - truth) * np.array([-1.0, 1.0])) for name, one in told.items()}
    inside, width = [], []
    values = np.exp(np.column_stack([truth, truth.sum(axis=1)]))
    for figure, value in zip(FIGURES, values.T, strict=True):
        low, high = found.interval(figure)
        inside.append((low[order] <= value) & (value <= high[order]))
        width.append(np.log(high[order] / low[order]) / 2.0)
    anchors = tuple(profile.setting(int(row)) for row in known.anchors)
    ends = np.stack(inside, axis=1), np.stack(width, axis=1)
    return Scored(task, anchors, errors, *ends), found


def _order(predicted: Profile, measured: Profile) -> NDArray[np.intp]:
    """Return the predicted row of each measured one."""
    place = {predicted.setting(row): row for row in range(len(predicted))}
    rows = [place[measured.setting(row)] for row in range(len(measured))]
    return np.array(rows, dtype=np.intp)


def by_member(scores: Sequence[Scored], member: str = "prediction") -> Floats:
    """Return mean absolute errors of throughput and power of each task, shape (tasks, 2)."""
    return np.array([np.mean(np.abs(one.errors[member]), axis=0) for one in scores])


def coverage(scores: Sequence[Scored]) -> dict[str, Floats]:
    """Return the share of time, power and energy inside their intervals, by model, shape (3,)."""
    found = {}
    for model in sorted({one.task.model for one in scores}):
        own = [one.inside.mean(axis=0) for one in scores if one.task.model == model]
        found[model] = np.mean(own, axis=0)
    return found
