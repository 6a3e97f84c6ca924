"""The members of the prediction: baseline, Gaussian process, neighbours, boosted trees.

Each adds to the baseline what it thinks remains, in logarithms; the prediction is the mean of
the members that `Recipe` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.prediction import gaussian
from lowjoule.prediction.boosted import Growth, Trees
from lowjoule.prediction.features import ANCHORED, KNOBS, STATIC, Places
from lowjoule.prediction.gaussian import Basis, Mixed
from lowjoule.prediction.intervals import Hull
from lowjoule.prediction.learning import Joint, slopes
from lowjoule.prediction.neighbours import Neighbours
from lowjoule.prediction.tasks import Anchored, Known

Floats = NDArray[np.float64]

Pair = tuple[tuple[str, ...], tuple[str, ...]]
MEMBERS = ("physics", "gaussian", "neighbours", "boosted")
FEATURES = (
    *KNOBS,
    *("base_time", "base_power", "headroom"),
    *("neighbours_time", "neighbours_power"),
    ANCHORED[0],
    *STATIC,
    *ANCHORED[1:],
)
_MOST_WIDENING = 10.0


SIMPLE: Pair = (("physics", "gaussian"), ("physics", "gaussian"))
# What may take the place of `SIMPLE`; the last two are the published combination and its trees.
CANDIDATES = (
    ("physics", "gaussian", "neighbours"),
    ("physics", "gaussian", "boosted"),
    ("physics", "gaussian", "neighbours", "boosted"),
    ("neighbours", "boosted"),
    ("boosted",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a prediction is made.

    `members` are those that the prediction is the mean of. None chooses them for each kind of
    task (by its knobs) and figure: physics and the Gaussian process, unless another of
    `CANDIDATES` is better on models not seen by more than one standard error (Breiman et al. 1984,
    section 3.4.3). `trees` off leaves boosted trees out of the choice. `clock_anchors` is how many
    core clocks are measured beside the default where there is no limit to turn. `growth` and
    `neighbours` None choose how trees grow and how many neighbours answer from a few candidates,
    by errors on models held out, the usual ones unless others are better by a standard error.

    For ablations, `baseline` off lets members start from the default's own figures instead of
    physics, and `neighbour_feature` off takes the neighbour estimate from in front of the trees.
    """

    members: tuple[str, ...] | None = None
    trees: bool = True
    clock_anchors: int = 1
    baseline: bool = True
    neighbour_feature: bool = True
    growth: Growth | None = None
    neighbours: int | None = None
    level: float = 0.9

    @property
    def grows(self) -> bool:
        """Whether trees are grown."""
        return self.trees if self.members is None else "boosted" in self.members


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A task to learn from: what its anchors say without its own model, and what they miss.

    `residuals` (n, 2) are of all rows' log time and power over the baseline.
    """

    known: Known
    said: Anchored
    residuals: Floats


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Everything learned from some tasks; `mixed` and `trees` hold time and power.

    `farthest` is the largest distance between a task's signature and the nearest of another
    model; `turned` (kinds, 4) the knobs that anchors of one task or another turned; `devices` the
    boards that each kind of task was measured on.
    """

    joint: Joint
    basis: Basis
    mixed: tuple[Mixed, Mixed]
    neighbours: tuple[Neighbours, Neighbours]
    trees: tuple[Trees, ...]
    hull: Hull
    farthest: float
    turned: NDArray[np.bool_]
    devices: dict[str, tuple[str, ...]]

    def near(self, said: Anchored, at: Places, recipe: Recipe) -> Floats | None:
        """Return the neighbours' estimate (n, 2) that trees get; None where they get none."""
        if not recipe.neighbour_feature:
            return None
        return _near(self, said, self.basis.rows(at.coordinates()))


def assemble(
    examples: Sequence[Example], joint: Joint, recipe: Recipe, warm: State | None = None
) -> State:
    """Return what `examples` teach. `warm`, learned from more tasks, saves most of the time."""
    coordinates = [one.known.rows.coordinates for one in examples]
    basis = Basis.of(np.concatenate(coordinates)) if warm is None else warm.basis
    rows = [basis.rows(one) for one in coordinates]
    mixed = tuple(
        gaussian.learn(
            [(phi, one.residuals[:, f]) for phi, one in zip(rows, examples, strict=True)],
            start=None if warm is None else warm.mixed[f],
        )
        for f in range(2)
    )
    signatures = np.stack([one.said.signature for one in examples])
    models = [one.known.model for one in examples]
    count = recipe.neighbours
    near = tuple(Neighbours(signatures, mixed[f].tasks, models, count) for f in range(2))
    apart = [near[0].estimate(one.said.signature, without=one.known.model) for one in examples]
    finite = [far for _, far in apart if np.isfinite(far)]
    known = np.concatenate(coordinates)
    state = State(
        joint=joint,
        basis=basis,
        mixed=(mixed[0], mixed[1]),
        neighbours=(near[0], near[1]),
        trees=(),
        hull=_hull(examples, known),
        farthest=max(finite, default=np.inf),
        turned=np.unique([one.said.anchors.turned for one in examples], axis=0),
        devices=_devices(examples),
    )
    return grown(state, examples, recipe) if recipe.grows else state


def _hull(examples: Sequence[Example], coordinates: Floats) -> Hull:
    """Return where the tasks' settings lie, and how near to the largest limit their defaults do."""
    level = np.array([one.said.signature[0] for one in examples])
    level = level[np.isfinite(level)] if np.isfinite(level).any() else np.zeros(1)
    return Hull(
        (*KNOBS, "power_of_the_default"),
        np.append(coordinates.min(axis=0), level.min()),
        np.append(coordinates.max(axis=0), level.max()),
    )


def hull_rows(said: Anchored, coordinates: Floats) -> Floats:
    """Return the coordinates of a `State.hull`, shape (n, 5)."""
    return np.column_stack([coordinates, np.full(len(coordinates), said.signature[0])])


def _devices(examples: Sequence[Example]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for one in examples:
        found.setdefault(one.known.rows.kind, set()).add(one.known.device)
    return {kind: tuple(sorted(names)) for kind, names in sorted(found.items())}


def grown(state: State, examples: Sequence[Example], recipe: Recipe) -> State:
    """Return `state`, learned from `examples`, with trees grown of what it leaves."""
    rows = [state.basis.rows(one.known.rows.coordinates) for one in examples]
    tables, targets, weights = [], [], []
    for phi, one in zip(rows, examples, strict=True):
        near = _near(state, one.said, phi, without=one.known.model)
        unseen = one.known.unseen
        table = features(one.said, one.known.rows.at, near if recipe.neighbour_feature else None)
        tables.append(table[unseen])
        targets.append(one.residuals[unseen])
        # a task counts as one, however many settings of it were measured
        weights.append(np.full(len(unseen), 1.0 / len(unseen)))
    table, target = np.concatenate(tables), np.concatenate(targets)
    weight = np.concatenate(weights)
    weight *= len(weight) / weight.sum()
    growth = recipe.growth or Growth()
    trees = tuple(
        Trees.grow(table, target[:, f], weight, growth, _constraints(f, recipe)) for f in range(2)
    )
    return replace(state, trees=trees)


def _constraints(figure: int, recipe: Recipe) -> tuple[int, ...] | None:
    """Return the monotone constraints of trees that stand on no baseline."""
    if recipe.baseline:
        return None
    sign = -1 if figure == 0 else 1
    turned = {*KNOBS[1:], "headroom"}
    return tuple(sign if name in turned else 0 for name in FEATURES)


def _near(state: State, said: Anchored, phi: Floats, *, without: str = "") -> Floats:
    found = [phi @ one.estimate(said.signature, without=without)[0] for one in state.neighbours]
    return np.stack(found, axis=1)


def features(said: Anchored, at: Places, near: Floats | None) -> Floats:
    """Return the trees' `FEATURES` at `at`, shape (n, k), NaN where not known.

    Where there is a baseline the anchors' elasticities, the last columns, are left to it and the
    neighbours: trees would know each of some tens of tasks again by those.
    """
    count = len(at)
    known = np.where(said.anchors.known, 1.0, np.nan)
    base = said.base(at)
    elasticities = said.signature[1 : len(ANCHORED)]
    signature = np.concatenate([said.signature[:1], said.signature[len(ANCHORED) :], elasticities])
    parts = [
        at.coordinates() * known,
        base - said.home,
        said.headroom(at)[:, None],
        np.full((count, 2), np.nan) if near is None else near,
        np.tile(signature, (count, 1)),
    ]
    table = np.concatenate(parts, axis=1)
    return table[:, : -len(elasticities)] if said.baseline else table


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Logarithms of time and power by member, shape (n, 2) each, and the scale of their error.

    `outside` (n,) is how far each setting lies outside what was learned from, in ranges.
    """

    members: dict[str, Floats]
    scale: Floats
    outside: Floats

    def mean(self, members: Pair) -> Floats:
        """Return the mean of the members named for time and for power."""
        parts = [
            np.mean([self.members[name][:, f] for name in names], axis=0)
            for f, names in enumerate(members)
        ]
        return np.stack(parts, axis=1)


def answer(
    state: State, said: Anchored, at: Places, recipe: Recipe, *, trees: bool = True
) -> Answer:
    """Return every member's prediction at `at`; `trees` off leaves out those, the slowest."""
    coordinates = at.coordinates()
    phi = state.basis.rows(coordinates)
    base = said.base(at)
    anchors = state.basis.rows(said.anchors.coordinates)
    left = said.anchors.logs - said.base(said.anchors.at)
    own = [m.given(anchors, left[:, f]) for f, m in enumerate(state.mixed)]
    spread = _baseline_spread(state, said, at)
    process, scale = [], []
    for f, weights in enumerate(own):
        mean, variance = gaussian.moments(weights, phi, extra=spread[f])
        process.append(mean)
        scale.append(np.sqrt(variance + state.mixed[f].noise_var))
    near = _near(state, said, phi)
    members = {
        "physics": base,
        "gaussian": base + np.stack(process, axis=1),
        "neighbours": base + near,
    }
    if state.trees and trees:
        table = features(said, at, near if recipe.neighbour_feature else None)
        members["boosted"] = base + np.stack([one(table) for one in state.trees], axis=1)
    away = state.hull.outside(hull_rows(said, coordinates))
    novelty = state.neighbours[0].estimate(said.signature)[1] / state.farthest - 1.0
    if np.isfinite(novelty):
        away = away + max(novelty, 0.0)
    widening = np.minimum(1.0 + away, _MOST_WIDENING)
    return Answer(members, np.stack(scale, axis=1) * widening[:, None], away)


def _baseline_spread(state: State, said: Anchored, at: Places) -> list[Floats]:
    """Return how unsure the baseline's figures leave log time and power, as covariances (m, m).

    They are of weights of the basis, found at its knots, so that many settings cost no more.
    """
    if not said.baseline:
        return [np.zeros((len(state.basis.knots),) * 2)] * 2
    turned = np.exp(state.basis.knots)
    largest = np.full(len(turned), at.largest_w[0])
    here = Places(turned[:, 0], largest * turned[:, 1], turned[:, 2], turned[:, 3], largest)
    slope = slopes(said.figures, here)
    inverse = np.linalg.inv(state.basis.rows(state.basis.knots))
    found = []
    for f in range(2):
        covariance = slope[:, f] @ said.covariance @ slope[:, f].T
        found.append(inverse @ covariance @ inverse.T)
    return found
