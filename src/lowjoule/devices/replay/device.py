"""A table of measurements as a device: it answers only for what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lowjoule.clock import Clock, VirtualClock, WallClock
from lowjoule.devices.interface import Identity, Reading, Told
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.replay.defaults import DEVICE_KNOBS, WORKLOAD_KNOBS, default_setting
from lowjoule.devices.replay.table import Table, Task
from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs import Applied, Knob, Setting, Space, Value, standard_knob
from lowjoule.profile import Point, Profile
from lowjoule.source import Source
from lowjoule.workloads import Work, Workload

MOST_NOISE = 0.25
_FARTHEST = 3.9  # standard deviations; keeps 1 + noise positive at the most noise allowed
_ROUNDING = 1e-12  # a sleep to the end of a segment may stop a rounding error short of it


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of work on the device's time line."""

    start_s: float
    end_s: float
    energy_j: float

    def done(self, now_s: float) -> float:
        """Return which part of it has passed."""
        if now_s >= self.end_s or math.isclose(now_s, self.end_s, rel_tol=_ROUNDING):
            return 1.0
        return max(0.0, (now_s - self.start_s) / (self.end_s - self.start_s))


class ReplayDevice:
    """Runs the workloads of a `Table` on a virtual clock (or in real time, if so opened).

    Work takes the time and energy that were measured at the setting in force when it was
    submitted. With `OpenOptions.noise` above 0 every draw (a `submit`) multiplies its time by
    1 + n1 and its energy by 1 + n2, where n1 and n2 are independent normal numbers of that
    standard deviation from a generator seeded with `OpenOptions.seed`; power, their ratio, then
    varies by about 1.4 times as much. Between pieces of work the device draws nothing: what was
    not measured is not made up. Mean power is read while work runs, and None at other times.

    Until a knob is written the device stands at the default setting of the workload last asked
    for with `workload`. `draws` counts the pieces of work, `told` holds the settings that were
    revealed, `notes` what was assumed of the table.
    """

    def __init__(self, table: Table, options: OpenOptions | None = None) -> None:
        options = options or OpenOptions()
        if not 0 <= options.noise <= MOST_NOISE:
            raise InvalidValueError(
                f"a noise of {options.noise:g}", cure=f"use one from 0 to {MOST_NOISE:.0%}"
            )
        self.table = table
        self.clock: Clock = WallClock() if options.wall_time else VirtualClock()
        self.draws = 0
        self._wanted = dict(options.default)
        self._noise = options.noise
        self._random = np.random.default_rng(options.seed)
        self._defaults: dict[str, tuple[Setting, tuple[str, ...]]] = {}
        self._told: set[Setting] = set()
        self._energy_j = 0.0
        self._segments: list[_Segment] = []
        self.space = self._device_space()
        self._initial = self.space.default
        self._values: dict[str, Value] = dict(self._initial)

    @property
    def identity(self) -> Identity:
        """The table's board, and an identifier made of the table's content."""
        vendor = self.table.model.split()[0]
        return Identity(
            uuid=f"replay-{self.table.digest[:32]}",
            model=self.table.model,
            vendor=vendor if vendor in ("NVIDIA", "AMD") else "unknown",
            backend="replay",
            driver=f"table {self.table.format}",
            source=Source.REPLAYED,
            shared=False,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of the table and of the defaults of workloads asked for so far."""
        assumed = [note for _, notes in self._defaults.values() for note in notes]
        return (*self.table.notes, *assumed)

    @property
    def told(self) -> frozenset[Setting]:
        """The settings whose figures have been revealed by work run at them."""
        return frozenset(self._told)

    def read(self) -> Reading:
        """Return the counter and, while work runs, its mean power."""
        now_s = self.clock.now_s()
        pending = []
        running_j = 0.0
        power_w = window_s = None
        for segment in self._segments:
            done = segment.done(now_s)
            if done >= 1.0:
                self._energy_j += segment.energy_j
                continue
            pending.append(segment)
            running_j += segment.energy_j * done
            if now_s >= segment.start_s:
                window_s = segment.end_s - segment.start_s
                power_w = segment.energy_j / window_s
        self._segments = pending
        return Reading(
            time_s=now_s,
            energy_j=self._energy_j + running_j,
            power_w=power_w,
            power_window_s=window_s,
        )

    def current(self) -> Setting:
        """Return the limit and clocks in force."""
        return Setting(self._values)

    def apply(self, setting: Setting) -> Applied:
        """Write `setting`, all of it or, on `InvalidValueError` or `UnknownNameError`, nothing.

        Any single measured value may be written; whether the combination was measured is seen
        when work is submitted.
        """
        written = {}
        for name, value in setting.items():
            knob = self.space.knob(name)
            written[name] = knob.values[knob.index(value)]
        self._values.update(written)
        return Applied(setting, self.current().only(setting))

    def workload_names(self) -> tuple[str, ...]:
        """Return the workloads of the table, in the file's order."""
        return tuple(self.table.tasks)

    def workload(self, name: str | None = None) -> Workload:
        """Return the workload called `name`, or the only one; raises `UnknownNameError`."""
        task = self.table.task(name)
        self._check_wanted(task)
        default = self._default(task)
        if self._values == dict(self._initial):
            self._values.update(default.only(DEVICE_KNOBS))
            self._initial = self.current()
        return Workload(
            name=task.name,
            unit=task.unit,
            knobs=self._knobs(task, default, WORKLOAD_KNOBS),
            description=f"replayed from {self.table.name}",
            sources=(self.table.name,),
        )

    def workload_space(self, workload: Workload) -> Space:
        """Return the batch sizes (micro-batches, precisions) that were measured."""
        return self._measured(workload, WORKLOAD_KNOBS)

    def joint_space(self, workload: Workload) -> Space:
        """Return limits, clocks and the workload's own knobs, listing what was measured."""
        return self._measured(workload, (*DEVICE_KNOBS, *WORKLOAD_KNOBS))

    def submit(self, workload: Workload, work: Work, setting: Setting) -> ReplayExecution:
        """Start `work` with the workload's own knobs at `setting` (absent ones at the default).

        Work submitted while other work runs comes after it. Raises `NotMeasuredError` (naming
        the nearest measured settings) and `IncomparableError` for another unit of work.
        """
        task = self.table.task(workload.name)
        work.check(Work(1.0, task.unit))
        for name in setting:
            if name not in task.knobs or name in DEVICE_KNOBS:
                known = [one for one in task.knobs if one not in DEVICE_KNOBS]
                raise UnknownNameError.among(f"knob of {task.name}", name, known)
        own = self._default(task).only(WORKLOAD_KNOBS)
        in_force = self.current().only(task.knobs)
        asked = Setting({**in_force, **own, **setting})
        point = self.table.point(task.name, asked)
        return self._start(asked, point, work.quantity)

    def survey(self, workload: Workload, space: Space | None = None) -> Profile:  # noqa: ARG002
        """Return all points of `workload`, of one unit of work, without running it."""
        task = self.table.task(workload.name)
        return self.table.profile(task.name, default=self._default(task))

    def _start(self, asked: Setting, point: Point, quantity: float) -> ReplayExecution:
        self.draws += 1
        self._told.add(asked)
        draw = np.clip(self._random.standard_normal(2), -_FARTHEST, _FARTHEST)
        time_factor, energy_factor = 1.0 + self._noise * draw
        busy_s = self._segments[-1].end_s if self._segments else 0.0
        start_s = max(self.clock.now_s(), busy_s)
        end_s = start_s + point.time_s * quantity * float(time_factor)
        self._segments.append(
            _Segment(start_s, end_s, point.energy_j * quantity * float(energy_factor))
        )
        share = quantity / math.sqrt(max(point.windows, 1))
        told = Told(
            time_sd_s=None if point.time_sd_s is None else point.time_sd_s * share,
            energy_sd_j=None if point.energy_sd_j is None else point.energy_sd_j * share,
            peak_power_w=point.peak_power_w,
            memory_bytes=point.memory_bytes,
            latency_s=point.latency_s,
        )
        return ReplayExecution(self.clock, end_s, told)

    def _default(self, task: Task) -> Setting:
        if task.name not in self._defaults:
            self._defaults[task.name] = default_setting(task, self._wanted)
        return self._defaults[task.name][0]

    def _check_wanted(self, task: Task) -> None:
        for knob in self._wanted:
            if knob not in task.knobs:
                raise UnknownNameError.among(f"knob of {task.name}", knob, task.knobs)

    def _device_space(self) -> Space:
        """Return the limits and clocks of all tasks; the default is the first task's."""
        values: dict[str, list[Value]] = {}
        for task in self.table.tasks.values():
            for name in DEVICE_KNOBS:
                values.setdefault(name, []).extend(task.values(name))
        knobs = (
            standard_knob(name, found, max(found, key=float))
            for name, found in values.items()
            if found
        )
        return Space(tuple(knobs))

    def _measured(self, workload: Workload, names: Iterable[str]) -> Space:
        task = self.table.task(workload.name)
        knobs = self._knobs(task, self._default(task), names)
        kept = [knob.name for knob in knobs]
        listed = frozenset(setting.only(kept) for setting in task.points)
        return Space(knobs, listed=listed if kept else None)

    @staticmethod
    def _knobs(task: Task, default: Mapping[str, Value], names: Iterable[str]) -> tuple[Knob, ...]:
        return tuple(
            standard_knob(name, task.values(name), default[name])
            for name in names
            if name in task.knobs
        )


class ReplayExecution:
    """Work under way on a replayed table."""

    def __init__(self, clock: Clock, end_s: float, told: Told) -> None:
        self._clock = clock
        self._end_s = end_s
        self.told = told

    def wait(self) -> None:
        """Return when the work is done; a second call returns at once."""
        self._clock.sleep(self._end_s - self._clock.now_s())
