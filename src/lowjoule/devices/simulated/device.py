"""A simulated GPU as a device that runs work."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np

from lowjoule.clock import Clock, VirtualClock, WallClock
from lowjoule.devices.interface import Identity, Reading, Told
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.simulated.board import Board, Controls, Job
from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.demand import load_of, memory_bytes, supported_precisions
from lowjoule.devices.simulated.spaces import (
    DEVICE_KNOBS,
    check_wanted,
    device_space,
    work_space,
)
from lowjoule.devices.simulated.state import ControlState, board_number, state_folder
from lowjoule.devices.simulated.survey import survey, thinned
from lowjoule.errors import InvalidValueError, OutOfMemoryError
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Applied,
    Setting,
    Space,
    show_setting,
)
from lowjoule.profile import Profile
from lowjoule.quantities import Unit, show
from lowjoule.source import Source
from lowjoule.workloads import Work, Workload
from lowjoule.workloads import catalogue as workloads

CONTROL_OF = {POWER_LIMIT: "limit_w", SM_CLOCK: "x", MEMORY_CLOCK: "m"}
_SPREAD = 0.01  # of the time of a run, and of its activity's power
_SLICE_S = 0.05  # how long a real wait goes without a look at what others have changed


class SimulatedDevice:
    """Runs the workloads of the catalogue on a modelled GPU, in virtual time or real time.

    Work takes the time that the physics says under the limits and clocks in force while it runs,
    times a lognormal factor of 1 % spread, drawn for each piece of work from a generator seeded
    with `OpenOptions.seed`; its power has a factor of its own. Work submitted while other work
    runs comes after it. Limit and clocks are kept in a file (`ControlState`) shared by all
    processes of the user; time, heat and work are those of this object. `notes` says what was
    wrong with that file.
    """

    def __init__(
        self, model: GpuModel, options: OpenOptions | None = None, *, folder: Path | None = None
    ) -> None:
        options = options or OpenOptions()
        check_wanted(options.default)
        self.model = model
        self.clock: Clock = WallClock() if options.wall_time else VirtualClock()
        self.space = device_space(model, options.default)
        self._wanted = dict(options.default)
        self._seed = options.seed
        self._slice_s = _SLICE_S if options.wall_time else float("inf")
        self._draws = 0
        self._lock = threading.RLock()
        place = (state_folder() if folder is None else folder) / f"{model.name}.json"
        what_if = any(name in DEVICE_KNOBS for name in options.default)
        self._state = ControlState(place, self.space, private=what_if or options.alone)
        self._known = self._state.setting()
        self._left = _left_over(self._state, self.space)
        phase = float(np.random.default_rng(options.seed).uniform())
        self._board = Board(model, self._controls(self._known), self.clock.now_s(), phase)

    @property
    def identity(self) -> Identity:
        """The board's kind; all boards of a kind in one folder of control states are one board."""
        return Identity(
            uuid=f"sim-{self.model.name}-{board_number(self._state.path.parent)}",
            model=self.model.title,
            vendor=self.model.vendor,
            backend="sim",
            driver="simulated 1",
            source=Source.SIMULATED,
            shared=not self._state.private,
            spec=self._spec(),
            calibrated=self.model.calibrated,
        )

    def _spec(self) -> str | None:
        # a state that is kept elsewhere is not where another process would look for it
        seen = not self._state.private and self._state.path.parent == state_folder()
        return f"sim:{self.model.name}" if seen else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What an earlier run left in the file of the control state, or is wrong with it."""
        return (*self._left, *self._state.notes)

    def read(self) -> Reading:
        """Return what the sensors say: each has its own period, the counter its ticks."""
        with self._lock:
            self._sync()
            board, state = self._board, self._board.state()
            memory = board.controls.m if state.utilisation else self._m(self.space.default)
            return Reading(
                time_s=board.now_s,
                energy_j=board.counter_j(),
                power_w=board.sensor_w(),
                power_window_s=self.model.power_window_s,
                sm_clock_hz=round(state.x * self.model.clocks_hz[-1]),
                memory_clock_hz=round(memory * self.model.memory_clocks_hz[-1]),
                temperature_c=board.temperature_c,
                utilisation=state.utilisation,
                throttle_reasons=state.reasons,
            )

    def current(self) -> Setting:
        """Return the limit and clocks that were last written, by whomever."""
        with self._lock:
            self._sync()
            return self._known

    def apply(self, setting: Setting) -> Applied:
        """Write `setting`, all of it or, on `InvalidValueError` or `UnknownNameError`, nothing.

        It is in force for work after the knob's latency.
        """
        values = {}
        for name, value in setting.items():
            knob = self.space.knob(name)
            values[name] = knob.values[knob.index(value)]
        with self._lock:
            self._sync()
            if values:
                self._state.write(values)
                self._known = self._state.setting()
                for name in values:
                    self._turn(name, self.space.knob(name).latency_s)
            return Applied(setting, self._known.only(setting))

    def workload_names(self) -> tuple[str, ...]:
        """Return the catalogue's workloads that fit the board and can run at the defaults given."""
        return tuple(name for name in workloads.names() if self._runs(name))

    def workload(self, name: str | None = None) -> Workload:
        """Return the workload called `name`, or that "module:function" builds."""
        if name is None:
            raise InvalidValueError(
                f"no workload is named for {self.model.title}",
                cure=f"choose one with --workload: {', '.join(self.workload_names())}",
            )
        return workloads.load(name)

    def workload_space(self, workload: Workload) -> Space:
        """Return the batch sizes, micro-batches and precisions that the board can run."""
        return work_space(self.model, workload, self._wanted)

    def joint_space(self, workload: Workload) -> Space:
        """Return limits, clocks and the workload's knobs."""
        own = self.workload_space(workload)
        return Space((*self.space.knobs, *own.knobs), rules=own.rules)

    def submit(self, workload: Workload, work: Work, setting: Setting) -> SimulatedExecution:
        """Start `work` with the workload's own knobs at `setting`, absent ones at the default.

        Without a micro-batch the batch runs whole.

        Work of part of a step takes that part of its time. Raises `OutOfMemoryError`,
        `InvalidValueError` for a value that the knob has not, and `IncomparableError`.
        """
        work.check(Work(1.0, workload.unit))
        space = self.workload_space(workload)
        for name in setting:
            space.knob(name)
        if MICRO_BATCH not in setting:
            space = replace(space, knobs=tuple(k for k in space.knobs if k.name != MICRO_BATCH))
        own = Setting({**space.default, **setting})
        space.check(own)
        batch = own.number(BATCH_SIZE)
        micro = own.number(MICRO_BATCH) if MICRO_BATCH in own else batch
        precision = str(own.get(PRECISION, self._only_precision(workload)))
        self._check_memory(workload, batch, micro, precision)
        load = load_of(self.model, workload, batch, micro, precision)
        with self._lock:
            self._sync()
            self._draws += 1
            random = np.random.default_rng([self._seed, self._draws])
            factors = np.exp(_SPREAD * random.standard_normal(2))
            job = Job(load, work.quantity / batch, float(factors[0]), float(factors[1]))
            self._board.jobs.append(job)
        return SimulatedExecution(self, job, self._told(workload, batch, micro, precision))

    def _told(self, workload: Workload, batch: float, micro: float, precision: str) -> Told:
        if None in (workload.memory_fixed_bytes, workload.memory_per_sample_bytes):
            return Told()
        return Told(memory_bytes=float(memory_bytes(workload, batch, micro, precision)))

    def survey(self, workload: Workload, space: Space | None = None) -> Profile:
        """Return the warm steady state at every setting, without spread and without running it.

        Where the settings are very many the clocks (then limits) are thinned, which `notes` says.
        """
        asked = space or self.joint_space(workload)
        seen = thinned(asked)
        for one, other in zip(asked.knobs, seen.knobs, strict=True):
            if len(other.values) < len(one.values):
                said = (
                    f"{len(other.values)} of {len(one.values)} values of {one.name} are looked at"
                )
                self._left += () if said in self._left else (said,)
        return survey(self.model, workload, seen)

    def _finish(self, job: Job) -> None:
        while True:
            with self._lock:
                self._sync()
                left_s = self._board.left_s(job)
            if left_s <= 0:
                return
            self.clock.sleep(min(left_s, self._slice_s))

    def _sync(self) -> None:
        """Bring the board to now, and take in what another process has written."""
        self._board.advance(self.clock.now_s())
        found = self._state.setting()
        if found != self._known:
            changed, self._known = self._known.changed(found), found
            for name in changed:
                self._turn(name, 0.0)
            self._board.advance(self._board.now_s)

    def _turn(self, name: str, latency_s: float) -> None:
        control = CONTROL_OF[name]
        value = getattr(self._controls(self._known), control)
        self._board.change(control, value, self._board.now_s + latency_s)

    def _controls(self, setting: Setting) -> Controls:
        return Controls(
            setting.number(POWER_LIMIT),
            setting.number(SM_CLOCK) / self.model.clocks_hz[-1],
            self._m(setting),
        )

    def _m(self, setting: Setting) -> float:
        return setting.number(MEMORY_CLOCK) / self.model.memory_clocks_hz[-1]

    def _runs(self, name: str) -> bool:
        try:
            self.workload_space(workloads.load(name))
        except (OutOfMemoryError, InvalidValueError):  # too large, or not at the default given
            return False
        return True

    def _only_precision(self, workload: Workload) -> str:
        return supported_precisions(self.model, workload)[0]

    def _check_memory(self, workload: Workload, batch: float, micro: float, precision: str) -> None:
        needed = float(memory_bytes(workload, batch, micro, precision))
        if needed > self.model.memory_bytes:
            raise OutOfMemoryError(
                f"{workload.name} with {min(batch, micro):g} samples at once in {precision} needs "
                f"{show(needed, Unit.BYTE)} of the {show(self.model.memory_bytes, Unit.BYTE)} of "
                f"{self.model.title}",
                cure="use a smaller batch_size or micro_batch",
            )


class SimulatedExecution:
    """Work under way on a simulated device."""

    def __init__(self, device: SimulatedDevice, job: Job, told: Told) -> None:
        self._device = device
        self._job = job
        self.told = told

    def wait(self) -> None:
        """Return when the work is done; at once where it already is."""
        self._device._finish(self._job)


def _left_over(state: ControlState, space: Space) -> tuple[str, ...]:
    changed = space.default.changed(state.setting())
    if not changed:
        return ()
    setting = show_setting(state.setting().only(changed), space)
    return (f"{state.path} keeps {setting} from an earlier run: delete it for a board as it comes",)
