"""How a predictor learns: priors, residuals of tasks without their own model, intervals.

Every split is over models, never over rows or tasks (BERT on two data sets is one model): what a
task's residuals and intervals are computed with has seen no task of its model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.prediction import hyper
from lowjoule.prediction.features import MeasuredTask
from lowjoule.prediction.hyper import HeldOut, with_neighbours
from lowjoule.prediction.intervals import FIGURES, Calibration, calibrate
from lowjoule.prediction.learning import Joint, batch, expand, learn
from lowjoule.prediction.members import (
    CANDIDATES,
    SIMPLE,
    Answer,
    Example,
    Pair,
    Recipe,
    State,
    answer,
    assemble,
    grown,
)
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
    """What training gives: the state, the members chosen for each kind of task, the intervals.

    `recipe` names the hyper-parameters that were chosen.
    """

    state: State
    chosen: dict[str, Pair]
    calibration: Calibration
    recipe: Recipe


def train(tasks: Sequence[MeasuredTask], recipe: Recipe) -> Trained:
    """Return what `tasks` teach.

    Raises `InvalidValueError` where they are of fewer than two models, `MissingExtraError` where
    `recipe` needs trees that are not installed.
    """
    known = [prepare(task, recipe.clock_anchors) for task in tasks]
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
    state = assemble(examples, learn(fitted, statics), replace(recipe, trees=False, members=None))
    tried = _held_out(examples, splits, without, recipe, state)
    recipe, tried = hyper.chosen(tried, recipe)
    state = with_neighbours(state, recipe)
    if recipe.grows:
        state = grown(state, examples, recipe)
    answers = _unseen(examples, tried, recipe)
    chosen = _choose(examples, answers, recipe)
    return Trained(state, chosen, _calibrate(examples, answers, chosen, recipe), recipe)


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


def _held_out(
    examples: list[Example],
    splits: list[NDArray[np.intp]],
    without: list[Joint],
    recipe: Recipe,
    state: State,
) -> list[HeldOut]:
    """Return each fold's tasks with what the others teach, trees not grown yet."""
    bare = replace(recipe, trees=False, members=None)
    found = []
    for place, joint in zip(splits, without, strict=True):
        rest = tuple(one for n, one in enumerate(examples) if n not in place)
        tried = tuple(examples[n] for n in place)
        part = assemble(rest, joint, bare, warm=state)
        found.append(HeldOut(place, rest, tried, part))
    return found


def _unseen(examples: list[Example], held: list[HeldOut], recipe: Recipe) -> list[Answer]:
    """Return the answers for each task's rows that are not anchors, learned without its model."""
    found: dict[int, Answer] = {}
    for one in held:
        for task, example in zip(one.places, one.tried, strict=True):
            at = example.known.rows.at.only(example.known.unseen)
            found[int(task)] = answer(one.state, example.said, at, recipe)
    return [found[task] for task in range(len(examples))]


def _choose(examples: list[Example], answers: list[Answer], recipe: Recipe) -> dict[str, Pair]:
    """Return the members for time and power of each kind of task, by errors on models not seen."""
    if recipe.members is not None:
        pair = (recipe.members, recipe.members)
        return {one.known.rows.kind: pair for one in examples}
    chosen: dict[str, Pair] = {}
    for kind in sorted({one.known.rows.kind for one in examples}):
        own = [n for n, one in enumerate(examples) if one.known.rows.kind == kind]
        part = [examples[n] for n in own]
        told = [answers[n] for n in own]
        simple = _model_errors(part, told, SIMPLE[0])
        best, most = [SIMPLE[0], SIMPLE[0]], np.zeros(2)
        for members in CANDIDATES:
            if not all(name in told[0].members for name in members) or len(simple) < 3:
                continue
            gain = simple - _model_errors(part, told, members)
            mean = gain.mean(axis=0)
            error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
            for f in range(2):
                if mean[f] > max(error[f], most[f]):
                    best[f], most[f] = members, mean[f]
        chosen[kind] = (best[0], best[1])
    return chosen


def _model_errors(
    examples: list[Example], answers: list[Answer], members: tuple[str, ...]
) -> Floats:
    """Return each model's mean absolute error of log time and power, shape (models, 2)."""
    each: dict[str, list[Floats]] = {}
    for one, found in zip(examples, answers, strict=True):
        error = np.abs(found.mean((members, members)) - one.known.rows.logs[one.known.unseen])
        each.setdefault(one.known.model, []).append(error.mean(axis=0))
    return np.array([np.mean(errors, axis=0) for errors in each.values()])


def _calibrate(
    examples: list[Example], answers: list[Answer], chosen: dict[str, Pair], recipe: Recipe
) -> Calibration:
    """Return intervals from errors over their scale, of every row that is not an anchor."""
    errors, scales, tasks, models = [], [], [], []
    for task, (one, found) in enumerate(zip(examples, answers, strict=True)):
        truth = one.known.rows.logs[one.known.unseen]
        errors.append(found.mean(chosen[one.known.rows.kind]) - truth)
        scales.append(found.scale)
        tasks += [task] * len(truth)
        models += [one.known.model] * len(truth)
    error, scale = np.concatenate(errors), np.concatenate(scales)
    both = (error[:, 0], error[:, 1], error.sum(axis=1))
    spread = (scale[:, 0], scale[:, 1], np.hypot(scale[:, 0], scale[:, 1]))
    scores = {name: np.abs(off) / far for name, off, far in zip(FIGURES, both, spread, strict=True)}
    return calibrate(scores, models, np.array(tasks), recipe.level)
