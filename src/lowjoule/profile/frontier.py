"""A frontier: what a decision looks at, as a view of a profile."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lowjoule.errors import InfeasibleError
from lowjoule.objectives.objective import Constraint, Objective
from lowjoule.profile.choice import Choice, choose
from lowjoule.profile.composition import or_, repeated, then
from lowjoule.profile.hull import Hull
from lowjoule.profile.plan import Plan
from lowjoule.profile.point import Point
from lowjoule.profile.profile import Floats, Profile
from lowjoule.profile.pruning import Indices, pareto

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Frontier:
    """The points of `profile` that no other beats in time and effective (priced) energy.

    A view: it holds row numbers only, in ascending time (and so descending effective energy).
    Choices with constraints and compositions look at all points of the profile, because a
    point that is dominated in time and energy can be the best one under a bound or when tied.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @cached_property
    def rows(self) -> Indices:
        """The rows of the profile on the frontier, in ascending time."""
        return pareto(self.profile.time_s, self.profile.effective_j)

    @property
    def time_s(self) -> Floats:
        """Time of each point, ascending."""
        return self.profile.time_s[self.rows]

    @property
    def energy_j(self) -> Floats:
        """Energy of each point."""
        return self.profile.energy_j[self.rows]

    @property
    def effective_j(self) -> Floats:
        """Effective energy of each point, descending."""
        return self.profile.effective_j[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Point]:
        return (self.profile.point(int(row)) for row in self.rows)

    def __getitem__(self, place: int) -> Point:
        return self.profile.point(int(self.rows[place]))

    def __repr__(self) -> str:
        return f"<Frontier: {len(self)} of {len(self.profile)} points>"

    def plan(self, place: int) -> Plan:
        """Return what the point at `place` applies."""
        return self.profile.plan(int(self.rows[place]))

    def choose(self, objective: Objective, *constraints: Constraint) -> Choice:
        """Return the point of least `objective` among those that keep to every constraint.

        Objectives see effective energy, constraints what is really drawn. Raises
        `InfeasibleError` that names the closest point when none does.
        """
        return choose(self.profile, self.rows, objective, constraints)

    def then(
        self,
        other: Frontier,
        *,
        tied: Collection[str] = (),
        switch_s: float = 0.0,
        switch_j: float = 0.0,
    ) -> Frontier:
        """Return the frontier of this work and then `other`; see `composition.then`."""
        composed = then(
            self.profile,
            other.profile,
            tied=tied,
            switch_s=switch_s,
            switch_j=switch_j,
            pruned=True,
        )
        return Frontier(composed)

    def repeated(self, times: float) -> Frontier:
        """Return the frontier of this work `times` times, each at the same setting."""
        return Frontier(repeated(self.profile, times))

    def or_(self, other: Frontier) -> Frontier:
        """Return the frontier of the alternatives of both."""
        return Frontier(or_(self.profile, other.profile))

    def knee(self) -> Point:
        """Return the point farthest below the chord between the ends (Satopaa et al., 2011).

        Both axes are scaled to their range; a frontier of one or two points gives the first.
        Raises `InfeasibleError` for an empty one.
        """
        if len(self) == 0:
            raise InfeasibleError("the frontier has no point", cure="measure or relax first")
        time, cost = _unit(self.time_s), _unit(self.effective_j)
        return self[int(np.argmax(1.0 - time - cost))] if len(self) > 2 else self[0]

    def hypervolume(self, time_s: float, energy_j: float) -> float:
        """Return the area, in joule seconds, dominated within the corner (`time_s`, `energy_j`).

        Points beyond the corner do not count (Zitzler and Thiele, 1999).
        """
        inside = (self.time_s < time_s) & (self.effective_j < energy_j)
        times = np.append(self.time_s[inside], time_s)
        return float(np.sum(np.diff(times) * (energy_j - self.effective_j[inside])))

    def hull(self) -> Hull:
        """Return the lower convex hull: what mixtures in time can reach."""
        return Hull.of(self.time_s, self.effective_j, self)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the profile and its frontier with matplotlib; returns the axes.

        Raises `MissingExtraError` where matplotlib is absent.
        """
        from lowjoule.profile.picture import draw

        return draw(self, axes)

    def _repr_html_(self) -> str:
        from lowjoule.profile.picture import html

        return html(self)


def _unit(values: Floats) -> Any:
    span = values.max() - values.min()
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)
