"""Tuning inside a plain training loop."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TypeVar

from lowjoule.clock import WallClock
from lowjoule.devices.interface import Device, WorkDevice
from lowjoule.errors import BusyError, InvalidValueError
from lowjoule.knobs import MICRO_BATCH, Setting, Space
from lowjoule.metering import Meter
from lowjoule.metering.ranks import others_here, rank_here
from lowjoule.metering.sync import Sync
from lowjoule.objectives import EDS
from lowjoule.objectives.objective import Constraint, Objective
from lowjoule.profiling import Precision
from lowjoule.tuning.account import Account, goal_of, space_around
from lowjoule.tuning.beside import Beside
from lowjoule.tuning.conductor import Conductor, Stage
from lowjoule.tuning.hand import Hand
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.loop_space import free_knobs, loop_space, open_named, workload_of
from lowjoule.tuning.progress import Phase, Progress, samples_in
from lowjoule.tuning.ranks import left_to_first, tunes_alone
from lowjoule.tuning.result import TuneResult
from lowjoule.tuning.round import Plan, Purpose
from lowjoule.tuning.search import Problem, Search
from lowjoule.tuning.windows import Windows
from lowjoule.workloads import Work, Workload

log = logging.getLogger("lowjoule.tuning")
T = TypeVar("T")


class Tuner:
    """Tunes a device while a training loop runs on it, as a context manager.

        with lj.Tuner(device="nvml:0", objective="eds", job="90M samples") as tuner:
            for batch in tuner.steps(loader):
                train_step(batch)

    The loop is never waited for nor held up: the device is read a few times a second, and
    written on a thread beside. First the setting in force (the default) is measured, then what
    the search asks for, each until time and energy of a unit of work are known to `precision` or
    `window_s` is over; then the best is held and watched, and the search begins anew (twice at
    most) when what it takes has changed. On leaving, everything is as it was found. Whatever
    fails in here is logged once, and the training goes on at the prior setting.

    `knobs` are those of the device (by default all), and "micro_batch" where `accumulate` is
    given: it is called between two steps with a micro-batch and how many of them make a step of
    `samples_per_step`; the loop's own is `micro_batch`, by default the whole batch, and a larger
    one is not tried. `job` is the work of the whole training. A simulated device takes the
    card's place: it runs `workload` beside the loop, which takes its time. Of several ranks on a
    node only rank 0 tunes; the others count nothing and turn nothing. With `each_rank` each tunes
    the device that it names, its own, as if it were alone. `sync` says how work that a device only
    has in its queue is told from work that is done (see `measure`).

    Where the loop tells nothing for `expires_s` (a notebook left open), what was found is put back
    and the tuning is over.

    Raises at construction what is wrong with its arguments, and nothing afterwards.
    """

    def __init__(
        self,
        device: Device | str | None = None,
        *,
        objective: Objective | str | None = None,
        constraints: Iterable[Constraint | str] = (),
        knobs: Iterable[str] | None = None,
        job: Work | str | None = None,
        workload: Workload | str | None = None,
        samples_per_step: int | None = None,
        accumulate: Callable[[int, int], object] | None = None,
        micro_batch: int | None = None,
        search: Callable[[Problem], Search] = LinearSearch,
        precision: float = 0.01,
        window_s: float = 20.0,
        again_after: int = 5,
        retunes: int = 2,
        expires_s: float | None = 1800.0,
        sync: Sync = "auto",
        rank: int | None = None,
        each_rank: bool = False,
    ) -> None:
        self.rank = rank_here() if rank is None else rank
        self.notes: list[str] = []
        self._tunes = each_rank or not self.rank
        self._samples = samples_per_step
        wanted = EDS() if objective is None else objective
        self._objective, self._constraints, self._job = goal_of(wanted, constraints, job)
        self._search, self._again_after, self._retunes = search, again_after, retunes
        self._expires_s, self._sync = expires_s, sync
        self._precision = Precision(relative=precision, most_s=window_s)
        self._accumulate = accumulate
        self._entered = self._pauses = 0
        self._idle, self._warned = True, False
        self._conductor: Conductor | None = None
        self._beside: Beside | None = None
        self._hand: Hand | None = None
        self._process: int | None = None
        if not self._tunes:
            self._say(left_to_first(self.rank, device))
            return
        self.device = open_named(device, workload, samples_per_step)
        self.workload = workload_of(self.device, workload)
        self._choose(knobs, micro_batch)
        if (others := others_here()) and not each_rank:
            self._say(tunes_alone(self.rank, self.device, others))

    def _choose(self, knobs: Iterable[str] | None, micro_batch: int | None) -> None:
        """Find what can be turned; raises what is wrong with the arguments."""
        if self._samples is not None and self._samples < 1:
            raise InvalidValueError(
                f"{self._samples} samples a step", cure="count at least one, or leave it out"
            )
        if self._job is not None:
            self._job.check(Work(1.0, self.workload.unit))
        micro = (micro_batch or self._samples) if self._accumulate else None
        if self._accumulate and micro is None:
            raise InvalidValueError(
                "accumulate is given and the samples of a step are not known",
                cure="say how many a step has (samples_per_step)",
            )
        self._joint = loop_space(self.device, self.workload, self._samples, micro)
        self._free = free_knobs(self._joint, knobs)
        if isinstance(self.device, WorkDevice):
            own = self.device.space.names
            held = self._joint.default.only(n for n in self._joint.names if n not in own)
            self._beside = Beside(self.device, self.workload, held)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy as one that turns nothing: a data loader's worker may be handed the tuner too."""
        return _copied, (self.rank,)

    def __enter__(self) -> Tuner:
        self._entered += 1
        if self._entered == 1 and self._tunes:
            self._guarded(self._begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._guarded(self._end)

    def steps(self, loader: Iterable[T]) -> Generator[T, None, None]:
        """Give the batches of `loader`, each a step; what is between two calls does not count.

        Outside a `with` the tuning lasts as long as this one loop.
        """
        # within a `with` it is that which ends the tuning: a generator that an exception leaves
        # suspended lives on until the traceback is gone
        with nullcontext() if self._entered else self:
            try:
                for batch in loader:
                    self._wake()
                    yield batch
                    self._guarded(self._step_of, batch)
            finally:
                self._rest()

    def step(self, samples: float | None = None) -> None:
        """Tell that a step is done, of `samples` (by default `samples_per_step`)."""
        self._guarded(self._step, samples)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is inside: validation, a checkpoint."""
        counted = not self._idle
        self._rest()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if counted:
                self._wake()

    def push(self, progress: Progress) -> None:
        """Take in an event of a loop, a launcher or a callback; other ranks' are left aside."""
        if self._conductor is not None and progress.rank == self.rank:
            self._guarded(self._conductor.push, progress)

    @property
    def setting(self) -> Setting | None:
        """The setting in force, None while nothing is tuned."""
        return None if self._conductor is None else self._conductor.standing.in_force

    @property
    def settled(self) -> bool:
        """Whether the search is over and its best is held."""
        on = self._conductor is not None and self._conductor.stage is not Stage.OFF
        return on and self._conductor is not None and self._conductor.purpose is Purpose.HOLD

    @property
    def status(self) -> str:
        """What happens now, in one sentence."""
        conductor = self._conductor
        if conductor is None:
            return self.notes[-1] if self.notes else "the tuning has not begun"
        count = len(conductor.trials)
        if conductor.stage is Stage.OFF:
            last = conductor.notes[-1:] if conductor.gave_up else []
            return last[0] if last else f"the tuning is over, after {count} trials"
        setting = conductor.plan.account.show(conductor.standing.asked)
        return (
            f"{conductor.stage.value} {setting} for {conductor.purpose.value}, {count} trials done"
        )

    def result(self) -> TuneResult | None:
        """Return what was found and what it saves net of the search, so far or in the end.

        None where not even the default was measured; `status` says why.
        """
        if self._conductor is None:
            return None
        device_notes = self.device.notes if isinstance(self.device, WorkDevice) else ()
        return self._conductor.result((*device_notes, *self.notes))

    def _begin(self) -> None:
        background = isinstance(self.device.clock, WallClock)
        owner = f"the tuning of {self.workload.name}"
        hand = Hand(self.device, owner, background=background, expires_s=self._expires_s)
        self._hand, self._process = hand, os.getpid()
        atexit.register(self._at_exit)  # for a loop that ends with the program, in no `with`
        try:
            prior = hand.take()
        except BusyError as error:
            self._say(
                f"rank {self.rank} tunes nothing: {error.problem}; one process turns a device"
            )
            return
        space, note = space_around(self._joint, prior, self._free)
        self.notes += [] if note is None else [note]
        clock = self.device.clock
        # a simulated card is waited for by what launches on it
        sync = None if self._beside is not None else self._sync
        windows = Windows(self._precision, Meter(self.device), clock, sync=sync)
        self._conductor = Conductor(self._plan(space), hand, windows, clock)
        self._idle = True

    def _plan(self, space: Space) -> Plan:
        return Plan(
            account=Account(
                identity=self.device.identity,
                workload=self.workload,
                space=space,
                objective=self._objective,
                constraints=self._constraints,
            ),
            search=self._search,
            precision=self._precision,
            job=self._job,
            again_after=self._again_after,
            retunes=self._retunes,
            batch=self._samples,
            turn_micro=self._accumulate,
        )

    def _step_of(self, batch: object) -> None:
        count = None
        if not self._samples:
            try:
                count = samples_in(batch)
            except Exception:  # noqa: BLE001 - a batch may be anything; it counts as one then
                count = None
        self._step(count)

    def _step(self, samples: float | None) -> None:
        if self._pauses or not self._tunes:
            return
        if not self._entered:
            self._warn("step() was called outside of the tuner's with: nothing is tuned")
        quantity = float(self._samples or samples or 1.0)
        if not (self._samples or samples):
            self._note("samples could not be counted: a step counts as one")
        began_uncounted = self._idle
        self._run_beside(quantity)
        self._wake()
        conductor = self._conductor
        if conductor is not None and not began_uncounted and self._entered:
            now_s = self.device.clock.now_s()
            conductor.push(Progress(work=quantity, time_s=now_s, rank=self.rank))

    def _run_beside(self, quantity: float) -> None:
        if self._beside is None:
            return
        conductor = self._conductor
        turned = Setting() if conductor is None else conductor.standing.in_force.only([MICRO_BATCH])
        try:
            self._beside.step(quantity, turned)
        except Exception as error:
            if conductor is None:
                raise
            conductor.failed(error)
        if conductor is not None:
            conductor.told = self._beside.told

    def _wake(self) -> None:
        """Count from now on, if it was not counted."""
        if self._idle and not self._pauses:
            self._idle = False
            self._phase(Phase.RESUME)

    def _rest(self) -> None:
        """Count nothing from now on, until the next step of `steps`, or the end of one."""
        if not self._idle:
            self._idle = True
            if self._beside is not None:
                self._guarded(self._beside.drain)
            self._phase(Phase.PAUSE)

    def _phase(self, phase: Phase) -> None:
        if self._conductor is not None:
            now_s = self.device.clock.now_s()
            self._guarded(
                self._conductor.push, Progress(work=0.0, time_s=now_s, phase=phase, rank=self.rank)
            )

    def _end(self) -> None:
        if self._process != os.getpid():
            return
        atexit.unregister(self._at_exit)
        self._rest()
        self._process = None
        if self._conductor is not None:
            self._conductor.close()
        hand, self._hand = self._hand, None
        if hand is None:
            return
        if not hand.leave():
            self._warn("the driver has not answered: what was found may not be put back yet")
        self.notes += [note for note in hand.notes if note not in self.notes]

    def _at_exit(self) -> None:
        self._guarded(self._end)

    def _guarded(self, action: Callable[..., object], *arguments: object) -> None:
        """Carry out `action`; what fails is ours, and no reason to end a training."""
        if self._process not in (None, os.getpid()):
            return  # a forked child, which has neither the hand nor the claim
        try:
            action(*arguments)
        except Exception as error:
            if self._conductor is not None and self._conductor.stage is not Stage.OFF:
                self._conductor.give_up(f"{type(error).__name__}: {error}")
                log.debug("the fault in full", exc_info=True)
            else:
                self._warn(f"nothing is tuned: {error}")

    def _warn(self, text: str) -> None:
        self._note(text)
        told = self._warned or (self._conductor is not None and self._conductor.gave_up)
        if not told:
            self._warned = True
            log.warning("%s", text)

    def _say(self, text: str) -> None:
        self._note(text)
        log.info("%s", text)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _copied(rank: int) -> Tuner:
    made = Tuner(rank=rank or 1)
    made.notes = ["this is a copy: the tuning is where the tuner was made"]
    return made
