"""Objectives: what a choice makes small, as functions of columns.

Every objective is "lower is better" inside (a throughput is negative); reports turn it into the
figure that people read. All are vectorised over the columns of a profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Time and energy of equal amounts of work, as arrays of one shape (or 0-d).

    A column that was not measured is None. `time_s` and `energy_j` are of the same work, per
    unit or in total; objectives with a baseline need the baseline's to be of it too.
    """

    time_s: Floats
    energy_j: Floats
    peak_power_w: Floats | None = None
    memory_bytes: Floats | None = None
    latency_s: Floats | None = None

    @property
    def power_w(self) -> Floats:
        """Average power."""
        return np.asarray(self.energy_j / self.time_s)


class Objective(Protocol):
    """What a choice makes small."""

    @property
    def name(self) -> str:
        """The name by which text selects it ("eds")."""
        ...

    @property
    def needs_baseline(self) -> bool:
        """Whether `values` needs the outcome of the default setting."""
        ...

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return the figure of each row; lower is better."""
        ...


class Constraint(Protocol):
    """What a choice must keep to."""

    @property
    def text(self) -> str:
        """The constraint as the user would write it ("slowdown<=5%")."""
        ...

    @property
    def needs_baseline(self) -> bool:
        """Whether `excess` needs the outcome of the default setting."""
        ...

    def excess(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return by how much, relative to the bound, each row breaks it; <= 0 keeps it.

        Raises `IncomparableError` where the column it is about was not measured.
        """
        ...
