"""Tables of real measurements as in-memory tasks for searches, and clean surfaces made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.replay import ReplayDevice, read_table
from lowjoule.knobs import Setting, Space
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.tuning.search import Observation, Problem, Search

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Time (s) and energy (J) of one unit of work at every setting that was measured."""

    name: str
    space: Space
    figures: dict[Setting, tuple[float, float]]

    @cached_property
    def outcome(self) -> Outcome:
        """The figures of all settings, in the space's order."""
        rows = np.array([self.figures[one] for one in self.space.settings])
        return Outcome(time_s=rows[:, 0], energy_j=rows[:, 1])

    @cached_property
    def baseline(self) -> Outcome:
        """The figures of the default, 0-d."""
        time_s, energy_j = self.figures[self.space.default]
        return Outcome(time_s=np.asarray(time_s), energy_j=np.asarray(energy_j))

    def objective(self, objective: Objective) -> dict[Setting, float]:
        """Return the true value of `objective` at every setting."""
        values = objective.values(self.outcome, self.baseline)
        return dict(zip(self.space.settings, values.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Run:
    """What a search did on a table: the draws it took and what it chose."""

    draws: int
    settings: int
    chosen: Setting


def run_search(
    table: Table,
    objective: Objective,
    search_of: Callable[[Problem], Search],
    *,
    constraints: tuple[Constraint, ...] = (),
    noise: float = 0.0,
    seed: int = 0,
    remaining_work: float | None = None,
) -> Run:
    """Run a search on `table`; every draw multiplies time and energy by 1 + noise * N(0, 1)."""
    rng = np.random.default_rng(seed)
    search = search_of(
        Problem(
            space=table.space,
            objective=objective,
            constraints=constraints,
            default=table.space.default,
            remaining_work=remaining_work,
        )
    )
    draws = 0
    seen: set[Setting] = set()
    setting: Setting | None = table.space.default
    while setting is not None:
        time_s, energy_j = table.figures[setting]
        wobble = 1.0 + noise * rng.standard_normal(2)
        search.tell(
            Observation(
                asked=setting,
                achieved=setting,
                time_s=time_s * wobble[0],
                energy_j=energy_j * wobble[1],
                work=1.0,
            )
        )
        draws += 1
        seen.add(setting)
        setting = search.ask()
    return Run(draws, len(seen), search.recommend().setting)


def tables_of(path: Path, label: str) -> list[Table]:
    """Return a table for each workload of the published file at `path`, defaults as it has them."""
    device = ReplayDevice(read_table(path))
    found = []
    for name in device.workload_names():
        space = device.joint_space(device.workload(name))
        points = device.table.task(name).points
        figures = {one: (point.time_s, point.energy_j) for one, point in points.items()}
        found.append(Table(f"{label} {name}", space, figures))
    return found


def zeus_tables(root: Path) -> list[Table]:
    """Return the 18 (GPU, workload) tables of the Zeus traces, power limit x batch size."""
    found = []
    for gpu in ("v100", "p100", "a40"):
        path = root / "zeus_nsdi23" / f"summary_power_{gpu}.csv"
        # cifar100 was run with a second optimizer on one GPU; the published runs use the first
        found += [one for one in tables_of(path, gpu) if not one.name.endswith("/adam")]
    return found


def smoothed(tables: list[Table]) -> list[Table]:
    """Return `tables` with log time and log power replaced by smooth surfaces of two knobs.

    A discrete thin-plate smoother (squared second differences along each knob and squared mixed
    differences; Whittaker 1923, Eilers 2003) on the grid with divided differences in log
    coordinates. The two penalties are those with the least generalised cross-validation error
    over all tables together, for time and for power. It shares nothing with the model inside any
    of the searches that are compared on it.
    """
    grids = [_Grid.of(table) for table in tables]
    logs = [
        np.log(np.array([t.figures[one] for one in g.settings]))
        for t, g in zip(tables, grids, strict=True)
    ]
    time_s = _thin_plates([one[:, 0] for one in logs], grids)
    power_w = _thin_plates([one[:, 1] - one[:, 0] for one in logs], grids)
    clean = []
    for table, grid, times, powers in zip(tables, grids, time_s, power_w, strict=True):
        rows = zip(grid.settings, np.exp(times), np.exp(times + powers), strict=True)
        clean.append(replace(table, figures={one: (float(t), float(e)) for one, t, e in rows}))
    return clean


@dataclass(frozen=True)
class _Grid:
    """A full grid of two knobs and the three roughness penalties on it, each (n, n)."""

    settings: list[Setting]
    first: Floats
    second: Floats
    mixed: Floats

    @classmethod
    def of(cls, table: Table) -> _Grid:
        one, two = table.space.knobs
        x, y = (np.log(np.array(knob.values, dtype=np.float64)) for knob in (one, two))
        along = np.kron(_second(x), np.eye(len(y)))
        across = np.kron(np.eye(len(x)), _second(y))
        mixed = np.kron(_first(x), _first(y))
        settings = [Setting({one.name: a, two.name: b}) for a in one.values for b in two.values]
        return cls(settings, along.T @ along, across.T @ across, mixed.T @ mixed)

    def hat(self, first: float, second: float) -> Floats:
        both = float(np.sqrt(first * second))
        system = first * self.first + second * self.second + both * self.mixed
        return np.asarray(np.linalg.inv(np.eye(len(self.settings)) + system), dtype=np.float64)


def _thin_plates(values: list[Floats], grids: list[_Grid]) -> list[Floats]:
    """Return each of `values` smoothed with the penalties that its cross-validation prefers.

    They are never below those that are best over all tables: on a small table alone
    cross-validation may choose to interpolate, noise included.
    """
    steps = 10.0 ** np.arange(-3.0, 3.0, 0.5)
    errors = np.empty((len(values), len(steps), len(steps)))
    for n, (one, grid) in enumerate(zip(values, grids, strict=True)):
        for i, j in np.ndindex(len(steps), len(steps)):
            hat = grid.hat(float(steps[i]), float(steps[j]))
            free = 1.0 - np.trace(hat) / len(one)
            errors[n, i, j] = np.log(np.mean((one - hat @ one) ** 2) / free**2)
    floor = np.unravel_index(np.argmin(errors.sum(axis=0)), errors.shape[1:])
    smooth = []
    for one, grid, error in zip(values, grids, errors, strict=True):
        allowed = np.full_like(error, np.inf)
        allowed[floor[0] :, floor[1] :] = error[floor[0] :, floor[1] :]
        i, j = np.unravel_index(np.argmin(allowed), allowed.shape)
        smooth.append(np.asarray(grid.hat(float(steps[i]), float(steps[j])) @ one))
    return smooth


def _scaled(coordinates: Floats) -> Floats:
    """Return `coordinates` in units of their mean step, so that one penalty grid fits all."""
    steps: Floats = (coordinates - coordinates[0]) / np.mean(np.diff(coordinates))
    return steps


def _first(coordinates: Floats) -> Floats:
    x = _scaled(coordinates)
    return np.asarray(np.diff(np.eye(len(x)), axis=0) / np.diff(x)[:, None])


def _second(coordinates: Floats) -> Floats:
    x = _scaled(coordinates)
    middle = (x[2:] - x[:-2]) / 2.0
    return np.asarray(np.diff(_first(coordinates), axis=0) / middle[:, None])
