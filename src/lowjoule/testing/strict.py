"""A table that gives away only what a search has asked for.

Proves that a search sees nothing else:

    table, permits = strict(read_table("runs.csv"))
    device = ReplayDevice(table)
    permits.allow(device.joint_space(workload).default)     # the driver's own baseline
    Driver(device, workload, search=permits.asked(LinearSearch), ...).run()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lowjoule.devices.replay.table import Table
from lowjoule.knobs import Setting
from lowjoule.profile import Point
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search


class UntoldReadError(AssertionError):
    """A figure of a strict table was read that no search had asked for."""


@dataclass(slots=True)
class Permits:
    """The settings whose figures may be read, and those that were, in order."""

    allowed: set[Setting] = field(default_factory=set)
    read: list[Setting] = field(default_factory=list)

    def allow(self, setting: Setting) -> None:
        """Let the figures of `setting` be read from now on."""
        self.allowed.add(setting)

    def asked(self, search: Callable[[Problem], Search]) -> Callable[[Problem], Search]:
        """Return `search` such that whatever it asks for may be read, from when it asks."""
        return lambda problem: _Asking(search(problem), self)


def strict(table: Table) -> tuple[Table, Permits]:
    """Return `table` with its figures locked, and the permits that unlock them.

    Which settings were measured stays open, as it is the space of the search; any other read of
    a time or an energy raises `UntoldReadError`: a survey, too.
    """
    permits = Permits()
    tasks = {
        name: replace(task, points=_LockedPoints(task.points, permits))
        for name, task in table.tasks.items()
    }
    return replace(table, tasks=tasks), permits


class _LockedPoints(Mapping[Setting, Point]):
    """Points by setting, each readable once it is permitted."""

    def __init__(self, points: Mapping[Setting, Point], permits: Permits) -> None:
        self._points = points
        self._permits = permits

    def __getitem__(self, setting: Setting) -> Point:
        point = self._points[setting]
        if setting not in self._permits.allowed:
            raise UntoldReadError(f"{setting} was read before any search asked for it")
        self._permits.read.append(setting)
        return point

    def __contains__(self, setting: object) -> bool:
        return setting in self._points

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


class _Asking:
    """A search whose every ask is a permit."""

    def __init__(self, search: Search, permits: Permits) -> None:
        self._search = search
        self._permits = permits

    def ask(self) -> Setting | None:
        """Pass on the search's ask, permitted."""
        setting = self._search.ask()
        if setting is not None:
            self._permits.allow(setting)
        return setting

    def tell(self, observation: Observation) -> None:
        """Pass it on."""
        self._search.tell(observation)

    def recommend(self) -> Recommendation:
        """Pass it on."""
        return self._search.recommend()
