"""The driver: runs any search on any device that runs work, and keeps the accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lowjoule.control import Claim
from lowjoule.devices.interface import WorkDevice
from lowjoule.errors import DeviceError
from lowjoule.knobs import Setting, Space, show_setting
from lowjoule.objectives.objective import Constraint, Objective
from lowjoule.profiling import Profiler, Trial
from lowjoule.tuning.account import JOB_TRIALS, Account, goal_of, observe, space_around
from lowjoule.tuning.inquiry import Inquiry
from lowjoule.tuning.knowledge import default_search
from lowjoule.tuning.result import TuneResult
from lowjoule.tuning.search import Observation, Problem, Search
from lowjoule.workloads import Work, Workload

SearchFactory = Callable[[Problem], Search]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What the driver tells of a trial that has just ended in `space`."""

    space: Space
    draws: int
    trial: Trial
    observation: Observation


class Driver:
    """Runs a search: applies each setting through a claim, measures, tells, and restores.

    `search` is by default the hybrid of physics and trials, with nothing learned from. `knobs`
    names what may be turned; by default everything that leaves learning alone. The
    default setting (the baseline) is the one in force on the device when `run` claims it, and
    a power limit is never raised above it. `job` is the work of the whole job (by default the
    workload's typical run, or a hundred times the first trial); it weighs the search's cost
    against what it saves. Objective, constraints and job may be texts ("eds", "slowdown<=5%").
    """

    def __init__(
        self,
        device: WorkDevice,
        workload: Workload,
        *,
        objective: Objective | str,
        search: SearchFactory | None = None,
        constraints: Iterable[Constraint | str] = (),
        knobs: Iterable[str] | None = None,
        job: Work | str | None = None,
        start: Setting | None = None,
        window_s: float = 10.0,
        again_after: int = 5,
        on_trial: Callable[[Tried], None] | None = None,
    ) -> None:
        self.device = device
        self.workload = workload
        self.objective, self.constraints, given = goal_of(objective, constraints, job)
        self.job = given or workload.job
        if self.job is not None:
            self.job.check(Work(1.0, workload.unit))
        self._knobs = None if knobs is None else tuple(knobs)
        self.notes: list[str] = []
        self.space = self._space(device.current())
        self._search = search or default_search(device, workload)
        self._start = start
        self._window_s, self._again_after = window_s, again_after
        self._on_trial = on_trial
        self._trials: list[Trial] = []

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of the last run so far, also of one that failed or was interrupted."""
        return tuple(self._trials)

    def run(self) -> TuneResult:
        """Run the search to its end and return what it found.

        The device is as it was before when this returns or raises. Raises `InfeasibleError` when
        no tried setting meets the constraints, `DeviceError` when the default does not run.
        """
        self._trials, self.notes = [], []
        with Claim(self.device, f"the tuning of {self.workload.name}") as claim:
            self.space = self._space(claim.prior)
            profiler = Profiler(claim, self.device, self.workload, window_s=self._window_s)
            warming = None if profiler.replayed else self._ran(profiler.warm_up(self.space.default))
            first = self._ran(profiler.measure(self.space.default))
            job = self.job or self._assumed_job(first)
            # a table does not drift
            again_after = 0 if profiler.replayed else self._again_after
            inquiry = Inquiry(self._search, self._problem(job), again_after=again_after)
            self._tell(inquiry, first, warming)
            while (setting := inquiry.ask()) is not None:
                self._tell(inquiry, profiler.measure(setting))
        self.notes += [*inquiry.notes, *claim.notes]
        return self._result(inquiry, job)

    def _problem(self, job: Work) -> Problem:
        return Problem(
            space=self.space,
            objective=self.objective,
            constraints=self.constraints,
            default=self.space.default,
            start=self._start,
            remaining_work=job.quantity,
        )

    def _ran(self, trial: Trial) -> Trial:
        """Return a trial of the default, which everything is compared with, where it ran."""
        if trial.failure is not None:
            raise DeviceError(
                f"{self.workload.name} does not run at the default "
                f"{show_setting(trial.asked, self.space)} on "
                f"{self.device.identity.model}: {trial.failure}",
                cure="choose another default or workload",
            )
        return trial

    def _tell(self, inquiry: Inquiry, trial: Trial, warming: Trial | None = None) -> None:
        """Tell the search of a trial; what a warm-up took is the job's price, and not its own."""
        self._trials.append(trial if warming is None else _with_price_of(warming, trial))
        inquiry.tell(trial)
        if self._on_trial is not None:
            self._on_trial(
                Tried(
                    space=self.space,
                    draws=len(self._trials),
                    trial=trial,
                    observation=observe(trial),
                )
            )

    def _assumed_job(self, first: Trial) -> Work:
        job = Work(JOB_TRIALS * first.total_work, self.workload.unit)
        self.notes.append(f"the job is taken to be {job}: say how much it is")
        return job

    def _result(self, inquiry: Inquiry, job: Work) -> TuneResult:
        account = Account(
            identity=self.device.identity,
            workload=self.workload,
            space=self.space,
            objective=self.objective,
            constraints=self.constraints,
        )
        return account.result(
            self.trials,
            inquiry.recommend(),
            job,
            (*self.device.notes, *self.notes),
            seen=inquiry.observations,
        )

    def _space(self, found: Setting) -> Space:
        """Return the joint space of device and workload around the setting in force."""
        space, note = space_around(self.device.joint_space(self.workload), found, self._knobs)
        self.notes += [] if note is None else [note]
        return space


def _with_price_of(warming: Trial, first: Trial) -> Trial:
    """Return `first`, what the warm-up before it took included."""
    return replace(
        first,
        warmup_work=first.warmup_work + warming.total_work,
        overhead_s=first.overhead_s + warming.total_s,
        overhead_j=first.overhead_j + warming.total_j,
    )
