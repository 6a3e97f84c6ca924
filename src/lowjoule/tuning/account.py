"""The accounts of a tuning: what is turned, what a search is told, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowjoule.devices.interface import Identity
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import (
    MODULE_POWER_LIMIT,
    POWER_LIMIT,
    Knob,
    Setting,
    Space,
    show_setting,
    turnable,
)
from lowjoule.objectives import Deadline, EnergyBudget, parse_constraint, parse_objective
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.profiling import Trial
from lowjoule.tuning.result import Saving, Side, TuneResult
from lowjoule.tuning.search import Observation, Recommendation
from lowjoule.workloads import Work, Workload
from lowjoule.workloads.work import parse_work

JOB_TRIALS = 100.0


def of_job(constraint: Constraint, job: Work | None) -> Constraint:
    """Return a bound on time or energy as one on the whole job; the others are unchanged."""
    if not isinstance(constraint, Deadline | EnergyBudget):
        return constraint
    if job is None:
        raise InvalidValueError(
            f"{constraint.text} is of a whole job and no job is given",
            cure="say how much work it is (--job '90 epochs')",
        )
    return constraint.over(job.quantity)


def goal_of(
    objective: Objective | str, constraints: Iterable[Constraint | str], job: Work | str | None
) -> tuple[Objective, tuple[Constraint, ...], Work | None]:
    """Return what is wanted of a tuning; each part may be a text ("eds", "slowdown<=5%").

    Bounds on time and energy become those of the whole job. Raises what parsing raises, and
    `InvalidValueError` for such a bound without a job.
    """
    work = parse_work(job) if isinstance(job, str) else job
    wanted = parse_objective(objective) if isinstance(objective, str) else objective
    bounds = [parse_constraint(one) if isinstance(one, str) else one for one in constraints]
    return wanted, tuple(of_job(one, work) for one in bounds), work


def space_around(
    joint: Space, found: Setting, knobs: Iterable[str] | None
) -> tuple[Space, str | None]:
    """Return `joint` around the setting `found` in force, free in `knobs`, and what to say of it.

    The setting in force is the baseline, and a power limit is never raised above it.
    """
    note = None
    changed = joint.default.changed(found)
    if changed:
        setting = show_setting(found.only(changed), joint)
        note = f"the device was found at {setting}: this is the baseline"
    around = tuple(_as_found(knob, found) for knob in joint.knobs)
    return turnable(Space(around, joint.rules, joint.listed), knobs), note


def _as_found(knob: Knob, found: Setting) -> Knob:
    """Return `knob` with the value in force as its default, a power limit capped at it."""
    if knob.name not in found:
        return knob
    value = found[knob.name]
    values = [*knob.values, *(() if value in knob.values else (value,))]
    if knob.name in {POWER_LIMIT, MODULE_POWER_LIMIT}:
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
        at_s=trial.at_s,
    )


def _per(value: float | None, quantity: float) -> float | None:
    return None if value is None else value / quantity


def _first_known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def default_side(seen: Sequence[Observation], setting: Setting, objective: Objective) -> Side:
    """Return the figures of the default `setting`: the means of its trials among those `seen`.

    Under an objective relative to it, it is 1 by definition; otherwise the uncertainty is
    that of the mean, and not known from a single window.
    """
    told = [one for one in seen if one.asked == setting]
    times = np.array([one.time_s for one in told if one.time_s is not None])
    energies = np.array([one.energy_j for one in told if one.energy_j is not None])
    outcome = Outcome(time_s=np.asarray(times.mean()), energy_j=np.asarray(energies.mean()))
    values = objective.values(Outcome(time_s=times, energy_j=energies), outcome)
    spread: float | None = 0.0
    if not objective.needs_baseline:
        several = len(values) > 1
        spread = float(values.std(ddof=1) / np.sqrt(len(values))) if several else None
    return Side(
        setting=setting,
        time_s=float(times.mean()),
        energy_j=float(energies.mean()),
        objective=float(objective.values(outcome, outcome)),
        uncertainty=spread,
    )


def side_of(found: Recommendation) -> Side:
    """Return what a search recommends as one of two sides."""
    return Side(
        setting=found.setting,
        time_s=found.time_s,
        energy_j=found.energy_j,
        objective=found.objective,
        uncertainty=found.uncertainty,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a tuning was about, and from which its result is made."""

    identity: Identity
    workload: Workload
    space: Space
    objective: Objective
    constraints: tuple[Constraint, ...]

    def show(self, setting: Setting) -> str:
        """Return what can be turned of `setting`, for people."""
        free = [knob.name for knob in self.space.knobs if len(knob.values) > 1]
        return show_setting(setting.only(free), self.space)

    def sides(self, seen: Sequence[Observation], found: Recommendation | None) -> tuple[Side, Side]:
        """Return default and chosen setting; the default is chosen where nothing is better.

        `found` is None where the search recommends nothing.
        """
        default = default_side(seen, self.space.default, self.objective)
        if found is None:
            return default, default
        chosen = side_of(found)
        if chosen.setting == default.setting and default.uncertainty is None:
            default = replace(default, uncertainty=found.uncertainty)
        if chosen.setting == default.setting or self._no_better(seen, chosen, default):
            chosen = default
        return default, chosen

    def result(
        self,
        trials: Sequence[Trial],
        found: Recommendation | None,
        job: Work,
        notes: Iterable[str],
        *,
        seen: Sequence[Observation] | None = None,
        paid: Sequence[Trial] | None = None,
        held: Sequence[Trial] = (),
    ) -> TuneResult:
        """Return the result of `trials`; `paid` are those whose price counts, if not the same.

        `seen` is what was observed of them, where that was corrected to be comparable.
        `held` are windows of the chosen setting after the search: they say what it really takes,
        where a trial was picked for being low.
        """
        told = [observe(one) for one in trials] if seen is None else seen
        default, chosen = self.sides(told, found)
        chosen = self._as_held(chosen, default, held)
        return TuneResult(
            identity=self.identity,
            workload=self.workload,
            space=self.space,
            objective=self.objective.name,
            constraints=tuple(one.text for one in self.constraints),
            default=default,
            chosen=chosen,
            trials=tuple(trials),
            saving=Saving.of(trials if paid is None else paid, default, chosen, job),
            confidence=None if found is None else found.confidence,
            kept=None if found is None else found.kept,
            notes=(*notes, *(() if found is None else found.notes)),
        )

    def _as_held(self, chosen: Side, default: Side, held: Sequence[Trial]) -> Side:
        told = [one for one in held if one.work and one.measurement]
        work = sum(one.work.quantity for one in told if one.work)
        if not work or chosen.setting == default.setting or told[0].asked != chosen.setting:
            return chosen
        time_s = sum(one.measurement.time_s for one in told if one.measurement) / work
        energy_j = sum(one.measurement.energy_j for one in told if one.measurement) / work
        here, base = (
            Outcome(time_s=np.asarray(one_s), energy_j=np.asarray(one_j))
            for one_s, one_j in ((time_s, energy_j), (default.time_s, default.energy_j))
        )
        value = float(self.objective.values(here, base))
        return replace(chosen, time_s=time_s, energy_j=energy_j, objective=value)

    def _no_better(self, seen: Sequence[Observation], chosen: Side, default: Side) -> bool:
        """Return whether the default keeps to the constraints and is as good by its own figures."""
        if chosen.objective < default.objective:
            return False
        first = next(one for one in seen if one.asked == default.setting)
        outcome = Outcome(
            time_s=np.asarray(default.time_s),
            energy_j=np.asarray(default.energy_j),
            **{
                name: None if (value := getattr(first, name)) is None else np.asarray(value)
                for name in ("peak_power_w", "memory_bytes", "latency_s")
            },
        )
        return all(float(one.excess(outcome, outcome)) <= 0.0 for one in self.constraints)
