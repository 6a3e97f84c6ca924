"""Which settings of a space to measure: anchors, corners, and points that fill what is between.

Every beginning of the sequence is a design of its own, so that it may be cut off anywhere: each
point is the one that is farthest from all before it (farthest-first traversal; Gonzalez,
"Clustering to minimize the maximum intercluster distance", Theoretical Computer Science 38, 1985,
which is within a factor of two of the maximin design of Johnson, Moore and Ylvisaker, Journal of
Statistical Planning and Inference 26, 1990).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import Knob, Setting, Space

_LEVELS = 9  # values of a knob that are candidates: a grid of four knobs has 6561 points then


def design(space: Space, first: Iterable[Setting], count: int, seed: int = 0) -> list[Setting]:
    """Return at most `count` different settings of `space`, the best to begin with first.

    The default comes first, then `first` (anchors), then corners of the space and points between
    them in turn. Distance is Euclidean between places in the knobs' domains, each from 0 to 1, so
    that batch sizes in powers of two are spaced by their logarithm. `seed` decides between
    points that are equally far.
    """
    chosen = list(dict.fromkeys((space.default, *first)))[:count]
    grid = _grid(space)
    places = _places(space, grid)
    corner = np.isin(places, (0.0, 1.0)).all(axis=1)
    order = np.random.default_rng(seed).permutation(len(grid))
    near = np.full(len(grid), np.inf)
    for at in _places(space, chosen):
        near = np.minimum(near, _distance(places, at))
    turn = True
    while len(chosen) < count and near.max() > 0.0:
        wanted = np.where(corner == turn, near, 0.0)
        turn = not turn
        if wanted.max() > 0.0:
            best = int(order[np.argmax(wanted[order])])
            chosen.append(grid[best])
            near = np.minimum(near, _distance(places, places[best]))
    return chosen


def _grid(space: Space) -> list[Setting]:
    """Return the allowed settings of `space` thinned to a few values a knob, ends and default."""
    if space.listed is not None:
        return list(space.settings)
    thin = replace(space, knobs=tuple(_thinned(knob) for knob in space.knobs))
    return list(thin.settings)


def _thinned(knob: Knob) -> Knob:
    count = len(knob.values)
    if count <= _LEVELS:
        return knob
    kept = {round(place * (count - 1) / (_LEVELS - 1)) for place in range(_LEVELS)}
    kept.add(knob.index(knob.default))
    return replace(knob, values=tuple(knob.values[place] for place in sorted(kept)))


def _places(space: Space, settings: list[Setting]) -> NDArray[np.float64]:
    """Return where settings lie, shape (settings, free knobs), each from 0 to 1."""
    columns = []
    for knob in space.knobs:
        if len(knob.values) > 1:
            at = {value: i / (len(knob.values) - 1) for i, value in enumerate(knob.values)}
            columns.append([at[one[knob.name]] for one in settings])
    return np.array(columns, dtype=np.float64).reshape(len(columns), len(settings)).T


def _distance(places: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(((places - at) ** 2).sum(axis=1)))
