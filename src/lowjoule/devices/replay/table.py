"""A table of measurements: tasks, each a workload with the points measured of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from lowjoule.errors import InvalidValueError, NotMeasuredError, UnknownNameError
from lowjoule.knobs import Setting, Value, standard_knob
from lowjoule.profile import Point, Profile
from lowjoule.source import Source
from lowjoule.workloads import Work, WorkUnit

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One workload of a table: the points measured, of one `unit` of work each, by setting.

    `published` are the defaults that the table's authors state, by knob; `alias` is a longer name
    that means this task too.
    """

    name: str
    unit: WorkUnit
    points: Mapping[Setting, Point]
    published: Mapping[str, float] = field(default_factory=dict)
    alias: str = ""

    def values(self, knob: str) -> tuple[Value, ...]:
        """Return the measured values of `knob`, ascending for numbers; empty where it is absent."""
        found = dict.fromkeys(setting[knob] for setting in self.points if knob in setting)
        if any(isinstance(value, str) for value in found):
            return tuple(found)
        return tuple(sorted(found, key=float))

    @property
    def knobs(self) -> tuple[str, ...]:
        """The names of the knobs that the table varies or states."""
        return tuple(next(iter(self.points)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All tasks of one file. `digest` is the SHA-256 of what was read, in hexadecimal."""

    name: str
    digest: str
    model: str
    format: str
    tasks: Mapping[str, Task]
    notes: tuple[str, ...] = ()

    def task(self, name: str | None = None) -> Task:
        """Return the task called `name`, or the only one; raises `UnknownNameError`."""
        if name is None:
            if len(self.tasks) == 1:
                return next(iter(self.tasks.values()))
            raise UnknownNameError(
                f"{self.name} has {len(self.tasks)} workloads",
                cure=f"choose one of {_few(self.tasks)} with --workload",
            )
        if name in self.tasks:
            return self.tasks[name]
        for task in self.tasks.values():
            if name and task.alias == name:
                return task
        raise UnknownNameError.among(f"workload of {self.name}", name, self.tasks)

    def point(self, workload: str, setting: Setting) -> Point:
        """Return what was measured at `setting`.

        Raises `NotMeasuredError`, with the nearest measured settings, where nothing was.
        """
        points = self.task(workload).points
        if setting in points:
            return points[setting]
        near = sorted(points, key=lambda one: _distance(one, setting))[:_SHOWN]
        raise NotMeasuredError(
            f"{self.name} has no measurement of {workload} at {show(setting)}",
            cure="nearest are " + " or ".join(show(one) for one in near),
        )

    def profile(self, workload: str, default: Setting | None = None) -> Profile:
        """Return all points of `workload` in columns, of one unit of work, in the file's order."""
        task = self.task(workload)
        points = list(task.points.values())
        work = Work(1.0, task.unit)
        return Profile.from_points(points, work, default=default, source=Source.REPLAYED)

    def with_figures(self, workload: str, *, time_s: ArrayLike, energy_j: ArrayLike) -> Table:
        """Return the table with other times and energies of `workload`, in the points' order.

        For studies on a surface made from measurements (smoothed, say). Both arrays have one
        positive entry a point; raises `InvalidValueError` otherwise.
        """
        task = self.task(workload)
        times = np.asarray(time_s, dtype=np.float64)
        energies = np.asarray(energy_j, dtype=np.float64)
        shape = (len(task.points),)
        if times.shape != shape or energies.shape != shape:
            raise InvalidValueError(
                f"{times.shape} times and {energies.shape} energies for {shape[0]} points",
                cure="give one of each for every point",
            )
        if not (np.isfinite([times, energies]).all() and min(times.min(), energies.min()) > 0):
            raise InvalidValueError("a time or energy is not positive", cure="correct it")
        points = {
            setting: replace(point, time_s=float(t), energy_j=float(e))
            for (setting, point), t, e in zip(task.points.items(), times, energies, strict=True)
        }
        tasks = {**self.tasks, workload: replace(task, points=points)}
        notes = (*self.notes, f"the figures of {workload} are not those of the file")
        content = self.digest.encode() + workload.encode() + times.tobytes() + energies.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        return replace(self, tasks=tasks, notes=notes, digest=digest)


def show(setting: Setting) -> str:
    """Return `setting` for people."""
    shown = (f"{k}={standard_knob(k, (v,), v).show(v)}" for k, v in setting.items())
    return ", ".join(shown)


def _distance(measured: Setting, asked: Setting) -> tuple[int, float]:
    """Return how many knobs differ, and the sum of their relative differences."""
    differing = [name for name in measured if measured[name] != asked.get(name)]
    far = 0.0
    for name in differing:
        here, there = measured[name], asked.get(name)
        if there is None or isinstance(here, str) or isinstance(there, str):
            far += 1.0
        else:
            far += abs(here - there) / max(abs(here), abs(there))
    return len(differing), far


def _few(names: Mapping[str, object]) -> str:
    shown = list(names)
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
