"""Spaces, surfaces and a loop for tests of searches, without devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lowjoule.knobs import Knob, Scope, Setting, Space, Value
from lowjoule.objectives import EDS, Energy
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.quantities import Unit
from lowjoule.tuning.search import Observation, Problem, Search

Figures = Callable[[Setting], tuple[float, float]]
__all__ = ["EDS", "Energy", "Played", "knob", "play", "problem", "told", "truth"]


def knob(
    name: str, values: Sequence[Value], default: Value | None = None, scope: Scope = Scope.LIVE
) -> Knob:
    """A knob, its last value by default in force."""
    return Knob(
        name=name,
        unit=Unit.NONE,
        values=tuple(values),
        default=values[-1] if default is None else default,
        scope=scope,
    )


def problem(
    space: Space,
    objective: Objective | None = None,
    *,
    constraints: tuple[Constraint, ...] = (),
    start: Setting | None = None,
    remaining_work: float | None = None,
) -> Problem:
    return Problem(
        space=space,
        objective=objective or Energy(),
        constraints=constraints,
        default=space.default,
        start=start,
        remaining_work=remaining_work,
    )


def told(setting: Setting, figures: tuple[float, float] | None, **more: float) -> Observation:
    """What a search is told of a trial; a failure where there are no figures."""
    time_s, energy_j = figures if figures else (None, None)
    return Observation(
        asked=setting,
        achieved=setting,
        time_s=time_s,
        energy_j=energy_j,
        failure=None if figures else "out of memory",
        **more,
    )


@dataclass
class Played:
    """A search that was run to its end."""

    search: Search
    asked: list[Setting] = field(default_factory=list)

    @property
    def chosen(self) -> Setting:
        return self.search.recommend().setting


def play(
    search: Search,
    figures: Callable[[Setting], tuple[float, float] | None],
    *,
    noise: float = 0.0,
    seed: int = 0,
    most: int = 1000,
    work: float = 1.0,
) -> Played:
    """Run `search`; the figures of a setting may be None for a failure."""
    rng = np.random.default_rng(seed)
    played = Played(search)
    while (setting := search.ask()) is not None:
        played.asked.append(setting)
        assert len(played.asked) <= most, "the search does not end"
        found = figures(setting)
        if found is not None:
            wobble = 1.0 + noise * rng.standard_normal(2)
            found = (found[0] * float(wobble[0]), found[1] * float(wobble[1]))
        search.tell(told(setting, found, work=work))
    return played


def truth(task: Problem, figures: Figures) -> dict[Setting, float]:
    """The objective of every setting, by brute force."""
    settings = task.space.settings
    rows = np.array([figures(one) for one in settings])
    outcome = Outcome(time_s=rows[:, 0], energy_j=rows[:, 1])
    time_s, energy_j = figures(task.default)
    baseline = Outcome(time_s=np.asarray(time_s), energy_j=np.asarray(energy_j))
    values = task.objective.values(outcome, baseline)
    return dict(zip(settings, values.tolist(), strict=True))
