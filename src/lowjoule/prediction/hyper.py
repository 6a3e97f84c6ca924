"""Hyper-parameters, chosen over models: how trees grow, how many neighbours answer.

Every candidate is judged on tasks whose model it was not fitted to, and each model counts as one.
Whoever evaluates a predictor leaves models out of all of this: the choice is nested in the
evaluation (Cawley & Talbot 2010 show what a choice on the rows that are scored would feign).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lowjoule.prediction.boosted import GROWTHS
from lowjoule.prediction.members import Example, Recipe, State, features, grown
from lowjoule.prediction.neighbours import COUNTS, NEIGHBOURS

Floats = NDArray[np.float64]

_T = TypeVar("_T")
_FEWEST = 3  # models, below which a standard error says nothing


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Tasks of some models (`tried`, at `places` of all tasks) and the `state` of the `rest`.

    Raises `ValueError` where a model is on both sides: nothing that is chosen so is worth anything.
    """

    places: NDArray[np.intp]
    rest: tuple[Example, ...]
    tried: tuple[Example, ...]
    state: State

    def __post_init__(self) -> None:
        both = {o.known.model for o in self.rest} & {o.known.model for o in self.tried}
        if both:
            raise ValueError(f"{', '.join(sorted(both))} is learned from and tried")

    def grown(self, recipe: Recipe) -> HeldOut:
        """Return the same with trees grown as `recipe` says."""
        return replace(self, state=grown(with_neighbours(self.state, recipe), self.rest, recipe))


def with_neighbours(state: State, recipe: Recipe) -> State:
    """Return `state` with as many neighbours as `recipe` says."""
    if recipe.neighbours is None:
        return state
    one, two = (near.counting(recipe.neighbours) for near in state.neighbours)
    return replace(state, neighbours=(one, two))


def chosen(held: Sequence[HeldOut], recipe: Recipe) -> tuple[Recipe, list[HeldOut]]:
    """Return `recipe` with what it leaves open chosen, and `held` with all that it says learned."""
    if recipe.neighbours is None:
        each = {count: _neighbours(held, count) for count in COUNTS}
        recipe = replace(recipe, neighbours=_best(each, NEIGHBOURS))
    if not recipe.grows:
        return recipe, [replace(o, state=with_neighbours(o.state, recipe)) for o in held]
    growths = GROWTHS if recipe.growth is None else (recipe.growth,)
    grown_so = {
        growth: [one.grown(replace(recipe, growth=growth)) for one in held] for growth in growths
    }
    growth = growths[0]
    if len(growths) > 1:
        growth = _best({one: _trees(part, recipe) for one, part in grown_so.items()}, growth)
    return replace(recipe, growth=growth), grown_so[growth]


def _best(errors: dict[_T, dict[str, float]], usual: _T) -> _T:
    """Return the candidate of least error, the usual one unless that is clearly better."""
    best, most = usual, 0.0
    for candidate, each in errors.items():
        gain = np.array([errors[usual][model] - each[model] for model in each])
        if len(gain) < _FEWEST:
            continue
        if gain.mean() > max(gain.std(ddof=1) / np.sqrt(len(gain)), most):
            best, most = candidate, float(gain.mean())
    return best


def _neighbours(held: Sequence[HeldOut], count: int) -> dict[str, float]:
    """Return each model's mean absolute error of residuals by `count` neighbours."""
    found: dict[str, list[float]] = {}
    for one in held:
        near = [part.counting(count) for part in one.state.neighbours]
        for task in one.tried:
            unseen = task.known.unseen
            phi = one.state.basis.rows(task.known.rows.coordinates[unseen])
            told = [phi @ part.estimate(task.said.signature)[0] for part in near]
            off = np.abs(task.residuals[unseen] - np.stack(told, axis=1))
            found.setdefault(task.known.model, []).append(float(off.mean()))
    return {model: float(np.mean(each)) for model, each in found.items()}


def _trees(held: Sequence[HeldOut], recipe: Recipe) -> dict[str, float]:
    """Return each model's mean absolute error of residuals by the trees of `held`."""
    found: dict[str, list[float]] = {}
    for one in held:
        state = one.state
        for task in one.tried:
            unseen = task.known.unseen
            at = task.known.rows.at.only(unseen)
            table = features(task.said, at, state.near(task.said, at, recipe))
            told = np.stack([tree(table) for tree in state.trees], axis=1)
            off = np.abs(task.residuals[unseen] - told)
            found.setdefault(task.known.model, []).append(float(off.mean()))
    return {model: float(np.mean(each)) for model, each in found.items()}
