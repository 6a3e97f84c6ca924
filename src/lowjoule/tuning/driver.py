"""The driver: runs any search on any device that runs work, and keeps the accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from lowjoule.control import Claim
from lowjoule.devices.interface import WorkDevice
from lowjoule.errors import DeviceError, InvalidValueError
from lowjoule.knobs import POWER_LIMIT, Knob, Setting, Space, show_setting, turnable
from lowjoule.objectives import Deadline, EnergyBudget
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.profiling import Profiler, Trial
from lowjoule.tuning.result import Saving, Side, TuneResult
from lowjoule.tuning.search import Observation, Problem, Search
from lowjoule.workloads import Work, Workload

SearchFactory = Callable[[Problem], Search]
JOB_TRIALS = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the driver tells of a trial that has just ended in `space`."""

    space: Space
    draws: int
    trial: Trial
    observation: Observation


class Driver:
    """Runs a search: applies each setting through a claim, measures, tells, and restores.

    `knobs` names what may be turned; by default everything that leaves learning alone. The
    default setting (the baseline) is the one in force on the device when `run` claims it, and
    a power limit is never raised above it. `job` is the work of the whole job (by default the
    workload's typical run, or a hundred times the first trial); it weighs the search's cost
    against what it saves.
    """

    def __init__(
        self,
        device: WorkDevice,
        workload: Workload,
        *,
        objective: Objective,
        search: SearchFactory,
        constraints: Iterable[Constraint] = (),
        knobs: Iterable[str] | None = None,
        job: Work | None = None,
        start: Setting | None = None,
        window_s: float = 10.0,
        on_trial: Callable[[Progress], None] | None = None,
    ) -> None:
        self.device = device
        self.workload = workload
        self.objective = objective
        self.constraints = tuple(self._of_job(one, job) for one in constraints)
        self.job = job or workload.job
        if self.job is not None:
            self.job.check(Work(1.0, workload.unit))
        self._knobs = None if knobs is None else tuple(knobs)
        self.notes: list[str] = []
        self.space = self._space(device.current())
        self._search = search
        self._start = start
        self._window_s = window_s
        self._on_trial = on_trial
        self._trials: list[Trial] = []

    @staticmethod
    def _of_job(constraint: Constraint, job: Work | None) -> Constraint:
        """Return a bound on time or energy as one on the whole job; the others are unchanged."""
        if not isinstance(constraint, Deadline | EnergyBudget):
            return constraint
        if job is None:
            raise InvalidValueError(
                f"{constraint.text} is of a whole job and no job is given",
                cure="say how much work it is (--job '90 epochs')",
            )
        return constraint.over(job.quantity)

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
            first = self._first(profiler)
            job = self.job or self._assumed_job(first)
            search = self._search(self._problem(job))
            self._tell(search, first)
            while (setting := search.ask()) is not None:
                self._tell(search, profiler.measure(setting))
        self.notes += claim.notes
        return self._result(search, job)

    def _problem(self, job: Work) -> Problem:
        return Problem(
            space=self.space,
            objective=self.objective,
            constraints=self.constraints,
            default=self.space.default,
            start=self._start,
            remaining_work=job.quantity,
        )

    def _first(self, profiler: Profiler) -> Trial:
        """Return the trial of the default, which everything is compared with."""
        trial = profiler.measure(self.space.default)
        if trial.failure is not None:
            raise DeviceError(
                f"{self.workload.name} does not run at the default "
                f"{show_setting(trial.asked, self.space)} on "
                f"{self.device.identity.model}: {trial.failure}",
                cure="choose another default or workload",
            )
        return trial

    def _tell(self, search: Search, trial: Trial) -> None:
        self._trials.append(trial)
        observation = observe(trial)
        search.tell(observation)
        if self._on_trial is not None:
            self._on_trial(
                Progress(
                    space=self.space,
                    draws=len(self._trials),
                    trial=trial,
                    observation=observation,
                )
            )

    def _assumed_job(self, first: Trial) -> Work:
        job = Work(JOB_TRIALS * first.total_work, self.workload.unit)
        self.notes.append(f"the job is taken to be {job}: say how much it is")
        return job

    def _result(self, search: Search, job: Work) -> TuneResult:
        default = self._default_side()
        found = search.recommend()
        chosen = Side(
            setting=found.setting,
            time_s=found.time_s,
            energy_j=found.energy_j,
            objective=found.objective,
            uncertainty=found.uncertainty,
        )
        if chosen.setting == default.setting and default.uncertainty is None:
            default = replace(default, uncertainty=found.uncertainty)
        if chosen.setting == default.setting or self._no_better(chosen, default):
            chosen = default
        return TuneResult(
            identity=self.device.identity,
            workload=self.workload,
            space=self.space,
            objective=self.objective.name,
            constraints=tuple(one.text for one in self.constraints),
            default=default,
            chosen=chosen,
            trials=self.trials,
            saving=Saving.of(self._trials, default, chosen, job),
            confidence=found.confidence,
            kept=found.kept,
            notes=(*self.device.notes, *self.notes, *found.notes),
        )

    def _no_better(self, chosen: Side, default: Side) -> bool:
        """Return whether the default keeps to the constraints and is as good by its own figures."""
        if chosen.objective < default.objective:
            return False
        first = observe(self._trials[0])
        outcome = Outcome(
            time_s=np.asarray(default.time_s),
            energy_j=np.asarray(default.energy_j),
            **{
                name: None if (value := getattr(first, name)) is None else np.asarray(value)
                for name in ("peak_power_w", "memory_bytes", "latency_s")
            },
        )
        return all(float(one.excess(outcome, outcome)) <= 0.0 for one in self.constraints)

    def _default_side(self) -> Side:
        """Return the default's figures: the means of its windows.

        Under an objective relative to it, it is 1 by definition; otherwise the uncertainty is
        that of the mean, and not known from a single window.
        """
        told = [observe(trial) for trial in self._trials if trial.asked == self.space.default]
        times = np.array([one.time_s for one in told if one.time_s is not None])
        energies = np.array([one.energy_j for one in told if one.energy_j is not None])
        outcome = Outcome(time_s=np.asarray(times.mean()), energy_j=np.asarray(energies.mean()))
        values = self.objective.values(Outcome(time_s=times, energy_j=energies), outcome)
        spread: float | None = 0.0
        if not self.objective.needs_baseline:
            several = len(values) > 1
            spread = float(values.std(ddof=1) / np.sqrt(len(values))) if several else None
        return Side(
            setting=self.space.default,
            time_s=float(times.mean()),
            energy_j=float(energies.mean()),
            objective=float(self.objective.values(outcome, outcome)),
            uncertainty=spread,
        )

    def _space(self, found: Setting) -> Space:
        """Return the joint space of device and workload around the setting in force."""
        joint = self.device.joint_space(self.workload)
        knobs = tuple(_as_found(knob, found) for knob in joint.knobs)
        changed = joint.default.changed(found)
        if changed:
            setting = show_setting(found.only(changed), joint)
            self.notes.append(f"the device was found at {setting}: this is the baseline")
        joint = Space(knobs, joint.rules, joint.listed)
        return turnable(joint, self._knobs)


def _as_found(knob: Knob, found: Setting) -> Knob:
    """Return `knob` with the value in force as its default, a power limit capped at it."""
    if knob.name not in found:
        return knob
    value = found[knob.name]
    values = [*knob.values, *(() if value in knob.values else (value,))]
    if knob.name == POWER_LIMIT:
        values = [one for one in values if float(one) <= float(value)]
    ordered = values if isinstance(value, str) else sorted(values, key=float)
    return replace(knob, values=tuple(ordered), default=value)


def observe(trial: Trial) -> Observation:
    """Return what a search is told of `trial`: figures of one unit of work."""
    measured = trial.measurement
    quantity = trial.work.quantity if trial.work else None
    if measured is None or quantity is None:
        return Observation(
            asked=trial.asked,
            achieved=trial.achieved,
            time_s=None,
            energy_j=None,
            overhead_s=trial.overhead_s,
            overhead_j=trial.overhead_j,
            failure=trial.failure,
        )
    return Observation(
        asked=trial.asked,
        achieved=trial.achieved,
        time_s=measured.time_s / quantity,
        energy_j=measured.energy_j / quantity,
        time_sd_s=_per(trial.told.time_sd_s, quantity),
        energy_sd_j=_first_known(
            _per(trial.told.energy_sd_j, quantity), measured.uncertainty_j / quantity or None
        ),
        peak_power_w=_first_known(trial.told.peak_power_w, measured.peak_power_w),
        memory_bytes=trial.told.memory_bytes,
        latency_s=trial.told.latency_s,
        work=trial.total_work,
        overhead_s=trial.overhead_s,
        overhead_j=trial.overhead_j,
    )


def _per(value: float | None, quantity: float) -> float | None:
    return None if value is None else value / quantity


def _first_known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
