"""How a predictor learns: priors, residuals of tasks without their own model, intervals.

Every split is over models, never over rows or tasks (BERT on two data sets is one model): what a
task's residuals and intervals are computed with has seen no task of its model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.prediction.features import MeasuredTask
from lowjoule.prediction.intervals import FIGURES, Calibration, calibrate
from lowjoule.prediction.learning import Joint, batch, expand, learn
from lowjoule.prediction.members import Example, Recipe, State, answer, assemble
from lowjoule.prediction.tasks import Known, anchor, prepare

Floats = NDArray[np.float64]

FOLDS = 6  # models go out one by one up to this many, in so many groups beyond


def folds(models: Sequence[str], count: int = FOLDS) -> list[NDArray[np.intp]]:
    """Return the tasks of each fold: no model is in two of them.

    `models` names each task's model. The models with most tasks are dealt out first, each to the
    fold with the fewest tasks. Raises `InvalidValueError` where there are fewer than two models.
    """
    names = np.array(models)
    found, sizes = np.unique(names, return_counts=True)
    if len(found) < 2:
        raise InvalidValueError(
            f"all {len(names)} tasks are of one model", cure="measure tasks of another model too"
        )
    dealt: list[list[str]] = [[] for _ in range(min(count, len(found)))]
    totals = np.zeros(len(dealt))
    for place in np.argsort(-sizes, kind="stable"):
        fold = int(np.argmin(totals))
        dealt[fold].append(str(found[place]))
        totals[fold] += sizes[place]
    return [np.flatnonzero(np.isin(names, one)) for one in dealt]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What training gives: the state, its intervals, and the errors behind them.

    `errors` (rows, 2) are signed, of log time and power of every unseen row predicted without its
    model; `tasks` (rows,) numbers their tasks.
    """

    state: State
    calibration: Calibration
    errors: Floats
    tasks: NDArray[np.intp]


def train(tasks: Sequence[MeasuredTask], recipe: Recipe) -> Trained:
    """Return what `tasks` teach.

    Raises `InvalidValueError` where they are of fewer than two models, `MissingExtraError` where
    `recipe` needs trees that are not installed.
    """
    known = [prepare(task) for task in tasks]
    splits = folds([one.model for one in known])
    parts = [
        (one.rows.at, np.exp(one.rows.logs[:, 0]), np.exp(one.rows.logs[:, 1])) for one in known
    ]
    fitted = expand(batch(parts))
    statics = np.stack([one.static for one in known])
    everyone = np.arange(len(known))
    without = []
    for held in splits:
        kept = np.setdiff1d(everyone, held)
        without.append(learn(fitted.only(kept), statics[kept]))
    examples = _examples(known, statics, splits, without, recipe)
    joint = learn(fitted, statics)
    state = assemble(examples, joint, recipe)
    scores, errors, rows_of = _scores(examples, splits, without, recipe, state)
    models = [known[task].model for task in rows_of]
    calibration = calibrate(scores, models, rows_of.astype(np.float64), recipe.level)
    return Trained(state, calibration, errors, rows_of)


def _examples(
    known: list[Known],
    statics: Floats,
    splits: list[NDArray[np.intp]],
    without: list[Joint],
    recipe: Recipe,
) -> list[Example]:
    found: dict[int, Example] = {}
    for held, joint in zip(splits, without, strict=True):
        anchors = [known[task].rows.only(known[task].anchors) for task in held]
        said = anchor(anchors, statics[held], joint, baseline=recipe.baseline)
        for task, one in zip(held, said, strict=True):
            rows = known[task].rows
            found[int(task)] = Example(known[task], one, rows.logs - one.base(rows.at))
    return [found[task] for task in range(len(known))]


def _scores(
    examples: list[Example],
    splits: list[NDArray[np.intp]],
    without: list[Joint],
    recipe: Recipe,
    state: State,
) -> tuple[dict[str, Floats], Floats, NDArray[np.intp]]:
    """Return errors over their scale by figure, the errors themselves, and the rows' tasks."""
    errors, scales, tasks = [], [], []
    for held, joint in zip(splits, without, strict=True):
        rest = [one for place, one in enumerate(examples) if place not in held]
        part = assemble(rest, joint, recipe, warm=state)
        for task in held:
            one = examples[task]
            unseen = one.known.unseen
            found = answer(part, one.said, one.known.rows.at.only(unseen), recipe)
            errors.append(one.known.rows.logs[unseen] - found.mean(recipe))
            scales.append(found.scale)
            tasks.append(np.full(len(unseen), task, dtype=np.intp))
    error, scale = np.concatenate(errors), np.concatenate(scales)
    both = (error[:, 0], error[:, 1], error.sum(axis=1))
    spread = (scale[:, 0], scale[:, 1], np.hypot(scale[:, 0], scale[:, 1]))
    scores = {name: np.abs(off) / far for name, off, far in zip(FIGURES, both, spread, strict=True)}
    return scores, error, np.concatenate(tasks)
