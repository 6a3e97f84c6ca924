"""Measures proxies or workloads over designed settings of a device, into a store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lowjoule.benchmarking.plan import KNOBS, Plan, Task, run_name
from lowjoule.benchmarking.result import BenchmarkResult, Covered
from lowjoule.benchmarking.timing import Timing
from lowjoule.control import Claim
from lowjoule.devices.figures import figures_of
from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.proxied import ProxiedDevice
from lowjoule.errors import InvalidValueError, OutOfMemoryError
from lowjoule.knobs import Setting
from lowjoule.prediction import anchor_settings
from lowjoule.profiling import Profiler, Trial
from lowjoule.store import Attempt, Record, Store, records_of_trials
from lowjoule.tuning.account import space_around
from lowjoule.workloads import Anchor, Signature, Workload
from lowjoule.workloads.signature import is_live

WINDOW_S = 5.0
SETTINGS = 32

_Key = tuple[str, str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One trial that has just ended: the `place`-th of `planned`, `spent_s` since the start."""

    task: Task
    trial: Trial
    place: int
    planned: int
    spent_s: float


class Benchmark:
    """Measures `workloads` (by default all that `device` knows) at up to `settings` settings each.

    Every trial is written to `store` when it has ended, a failed one as an attempt with its
    reason, so that the end of the process at any moment loses the trial under way and no more;
    another call with the same configuration goes on. No trial is begun that is not expected to
    end within `budget_s` of the device's own time. The default is the setting in force, a power
    limit is never raised above it, and the device is left as it was found.

    `on_plan` is told the plan, the trials done before and the expected time of one trial;
    `on_trial` each trial. Raises `UnknownNameError` for a workload or knob that there is not, and
    `InvalidValueError` for a budget in which no trial fits.
    """

    def __init__(
        self,
        device: WorkDevice,
        store: Store,
        *,
        workloads: Iterable[str] | None = None,
        knobs: Iterable[str] | None = None,
        settings: int = SETTINGS,
        budget_s: float = math.inf,
        window_s: float = WINDOW_S,
        seed: int = 0,
        on_plan: Callable[[Plan, int, float], None] | None = None,
        on_trial: Callable[[Happened], None] | None = None,
    ) -> None:
        if not (settings >= 1 and budget_s > 0 and 0 < window_s < math.inf):
            raise InvalidValueError(
                f"{settings} settings in {budget_s:g} s with windows of {window_s:g} s",
                cure="give at least one setting, and positive times",
            )
        self.device, self.store = device, store
        names = device.workload_names() if workloads is None else tuple(workloads)
        self._workloads = tuple(device.workload(name) for name in dict.fromkeys(names))
        self._knobs = None if knobs is None else tuple(knobs)
        self._settings, self._budget_s, self._seed = settings, budget_s, seed
        self._window_s = window_s
        self._on_plan, self._on_trial = on_plan, on_trial
        self.notes: list[str] = []

    def run(self) -> BenchmarkResult:
        """Measure what the budget allows of what is not done yet, and return what is done."""
        board = self.device.device if isinstance(self.device, ProxiedDevice) else self.device
        self.notes = []
        with Claim(board, f"the benchmark of {board.identity.model}") as claim:
            begin_s = self.device.clock.now_s()
            plan = self._planned(claim.prior)
            done = {_key(one): one for one in self.store.attempts(plan.run)}
            before = sum(_key_of(task, setting) in done for task, setting in plan)
            timing = Timing(self._window_s, plan.tasks)
            if self._on_plan is not None:
                self._on_plan(plan, before, timing.nominal_s)
            self._check_budget(timing, left=len(plan) - before)
            try:
                trials = self._measure(claim, plan, done, timing, begin_s)
            finally:
                if isinstance(self.device, ProxiedDevice):
                    self.device.release()
            time_s = self.device.clock.now_s() - begin_s
        self.notes += claim.notes
        return BenchmarkResult(
            run=plan.run,
            identity=board.identity,
            store=self.store.name,
            covered=tuple(self._covered(plan.run, task, done) for task in plan.tasks),
            trials=trials,
            time_s=time_s,
            before=before,
            notes=(*self.device.notes, *self.notes),
        )

    def _planned(self, found: Setting) -> Plan:
        tasks = []
        for workload in self._workloads:
            try:
                joint = self.device.joint_space(workload)
            except OutOfMemoryError as error:
                self.notes.append(f"{workload.name} is left out: {error.problem}")
                continue
            knobs = [name for name in KNOBS if name in joint.names]
            space, note = space_around(joint, found, self._knobs or knobs)
            if note is not None and note not in self.notes:
                self.notes.append(note)
            tasks.append(Task.of(workload, space, self._settings, self._seed))
        run = run_name(
            self.device.identity, found, self._knobs or KNOBS, self._window_s, self._seed
        )
        return Plan(run=run, tasks=tuple(tasks))

    def _check_budget(self, timing: Timing, *, left: int) -> None:
        if left and timing.nominal_s > self._budget_s:
            raise InvalidValueError(
                f"a budget of {self._budget_s:.3g} s is less than one trial takes, about "
                f"{timing.nominal_s:.3g} s",
                cure="give more, or a shorter window",
            )

    def _measure(
        self,
        claim: Claim,
        plan: Plan,
        done: dict[_Key, Attempt],
        timing: Timing,
        begin_s: float,
    ) -> int:
        """Measure in order until all is done or the budget is; return how many trials were."""
        profilers: dict[str, Profiler] = {}
        trials = 0
        for place, (task, setting) in enumerate(plan, start=1):
            if _key_of(task, setting) in done:
                continue
            start_s = self.device.clock.now_s()
            if start_s - begin_s + timing.expected_s(task, setting) > self._budget_s:
                break
            name = task.workload.name
            if name not in profilers:
                profilers[name] = self._profiler(claim, task.workload)
            trial = profilers[name].measure(setting)
            end_s = self.device.clock.now_s()
            timing.add(task, trial, end_s - start_s)
            attempt = self._keep(plan.run, task, setting, trial)
            done[_key(attempt)] = attempt
            trials += 1
            if self._on_trial is not None:
                self._on_trial(
                    Happened(
                        task=task,
                        trial=trial,
                        place=place,
                        planned=len(plan),
                        spent_s=end_s - begin_s,
                    )
                )
        return trials

    def _profiler(self, claim: Claim, workload: Workload) -> Profiler:
        return Profiler(claim, self.device, workload, window_s=self._window_s)

    def _keep(self, run: str, task: Task, setting: Setting, trial: Trial) -> Attempt:
        """Write the trial to the store; return the attempt that it was."""
        identity = self.device.identity
        records = records_of_trials(
            [trial],
            identity,
            task.workload,
            when_unix_s=self.device.clock.unix_s(),
            provenance={"command": "benchmark", "run": run, "seed": self._seed},
            signature=self._signature(task),
        )
        failure = trial.failure
        if failure is None and not records:
            failure = "the energy counter did not move"
        attempt = Attempt(
            run=run,
            device_model=identity.model,
            device_uuid=identity.uuid,
            workload=task.workload.name,
            signature=task.workload.signature,
            asked=setting,
            failure=failure,
        )
        self.store.add(records, [attempt])
        return attempt

    def _signature(self, task: Task) -> Signature:
        return Signature(
            workload=task.workload,
            device=figures_of(self.device, task.workload),
            default=task.space.default,
        )

    def _covered(self, run: str, task: Task, done: dict[_Key, Attempt]) -> Covered:
        found = [done.get(_key_of(task, setting)) for setting in task.settings]
        return Covered(
            workload=task.workload.name,
            measured=sum(one is not None and one.failure is None for one in found),
            infeasible=sum(one is not None and one.failure is not None for one in found),
            left=found.count(None),
            signature=self._signature(task).with_anchors(self._anchors(run, task)),
        )

    def _anchors(self, run: str, task: Task) -> Sequence[Anchor]:
        records = self.store.records(
            device_uuid=self.device.identity.uuid,
            workload=task.workload.name,
            signature=task.workload.signature,
        )
        own: dict[Setting, Record] = {
            one.asked.only(task.space.names): one
            for one in records
            if one.provenance.get("run") == run
        }
        return [
            Anchor(
                setting=setting,
                time_s=own[setting].time_s / own[setting].work.quantity,
                energy_j=own[setting].energy_j / own[setting].work.quantity,
                live=is_live(task.space, setting),
            )
            for setting in anchor_settings(task.space)
            if setting in own
        ]


def _key(attempt: Attempt) -> _Key:
    return attempt.workload, attempt.signature, attempt.asked


def _key_of(task: Task, setting: Setting) -> _Key:
    return task.workload.name, task.workload.signature, setting
