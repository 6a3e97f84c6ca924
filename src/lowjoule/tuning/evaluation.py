"""How well predictions and searches do on models never seen: one report over measured tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lowjoule.errors import InvalidValueError
from lowjoule.objectives.objective import Objective
from lowjoule.prediction.evaluation import Scored, Split, score_task
from lowjoule.prediction.features import MeasuredTask
from lowjoule.prediction.members import Recipe
from lowjoule.prediction.predictor import Prediction, Predictor
from lowjoule.tuning.account import JOB_TRIALS
from lowjoule.tuning.rehearsal import Rehearsal, Stage
from lowjoule.tuning.search import Problem, Search

DEFAULT, OFFLINE = "default", "offline choice"

MakeSearch = Callable[[Problem, Predictor, MeasuredTask], Search]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What searches are compared under.

    `searches` make one for a problem, a predictor that has not seen the task, and the task, of
    which it may look at what is known before the first trial only; those in `whole` run to their
    own end, the others for `trials` trials at most. A job is the work of `job_trials` trials.
    """

    objective: Objective
    searches: Mapping[str, MakeSearch]
    trials: int = 9
    whole: frozenset[str] = frozenset()
    job_trials: float = JOB_TRIALS
    noise: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Evaluation:
    """Scores of predictions, and by way to choose what it came to, both in the tasks' order.

    `level` is the coverage asked of intervals, `groups` the fewest models behind them; `refused`
    are searches that do not take some task, with why: they are in no comparison.
    """

    scores: list[Scored] = field(default_factory=list)
    rehearsals: dict[str, list[Rehearsal]] = field(default_factory=dict)
    level: float = 0.9
    groups: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    def ways(self) -> tuple[str, ...]:
        """Return the ways to choose, in the order in which they are shown."""
        return tuple(self.rehearsals)


def evaluate(
    splits: Iterable[Split],
    contest: Contest,
    *,
    recipe: Recipe | None = None,
    on_split: Callable[[int, Split], None] | None = None,
) -> Evaluation:
    """Return how predictors fitted to each split's known tasks, and searches, do on the others.

    `on_split` is called before each with its place. Raises what fitting raises.
    """
    found = Evaluation()
    for place, split in enumerate(splits):
        if on_split is not None:
            on_split(place, split)
        predictor = Predictor.fit(split.known, recipe)
        groups = predictor.calibration.groups
        found.level = predictor.calibration.level
        found.groups = min(found.groups, groups) if found.groups else groups
        for task in split.tried:
            _try(found, predictor, task, contest)
    for name in found.refused:
        found.rehearsals.pop(name, None)
    return found


def _try(found: Evaluation, predictor: Predictor, task: MeasuredTask, contest: Contest) -> None:
    scored, prediction = score_task(predictor, task)
    found.scores.append(scored)
    stage = Stage.of(task, contest.objective, contest.job_trials)
    results = {
        DEFAULT: stage.judge(stage.space.default, [stage.space.default]),
        OFFLINE: _offline(stage, prediction, scored),
    }
    for name, make in contest.searches.items():

        def search(problem: Problem, make: MakeSearch = make) -> Search:
            return make(problem, predictor, task)

        most = None if name in contest.whole else contest.trials
        try:
            results[name] = stage.rehearse(
                search, trials=most, noise=contest.noise, seed=contest.seed
            )
        except InvalidValueError as error:
            found.refused[name] = error.problem
    for name, result in results.items():
        found.rehearsals.setdefault(name, []).append(result)


def _offline(stage: Stage, prediction: Prediction, scored: Scored) -> Rehearsal:
    """Return what the best setting as predicted comes to, its anchors measured and paid for."""
    profile = prediction.profile
    base = profile.baseline() if stage.objective.needs_baseline else None
    row = int(np.argmin(stage.objective.values(profile.outcome(), base)))
    return stage.judge(profile.setting(row), scored.anchors)


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return mean, median, 90th percentile and largest of `values`."""
    every = np.asarray(values, dtype=np.float64)
    return {
        "mean": float(every.mean()),
        "median": float(np.median(every)),
        "p90": float(np.percentile(every, 90)),
        "worst": float(every.max()),
    }
