"""Where the rows of a profile come from, and what may be said of all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.source import Source

_WEAKEST_FIRST = (
    Source.PREDICTED,
    Source.SIMULATED,
    Source.ESTIMATED,
    Source.REPLAYED,
    Source.MEASURED,
)

Sources = NDArray[Any]


def weakest(sources: Iterable[Source]) -> Source:
    """Return the source that a figure made of all of `sources` must be called by.

    A sum of a measured and a simulated figure is a simulated one.
    """
    return min(sources, key=_WEAKEST_FIRST.index)


def joined(
    left: tuple[Source, Sources | None, int], right: tuple[Source, Sources | None, int]
) -> Sources | None:
    """Return the sources of the rows of two profiles, one below the other; None where all agree.

    Each side is its source, its rows' sources (None where all are the former) and its length.
    """
    if left[1] is None and right[1] is None and left[0] is right[0]:
        return None
    return np.concatenate(
        [np.full(n, source.value) if rows is None else rows for source, rows, n in (left, right)]
    )
