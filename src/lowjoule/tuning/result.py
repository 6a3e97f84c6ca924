"""What a tuning found, what it cost, and what it saves net of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowjoule.devices.interface import Identity
from lowjoule.knobs import Setting, Space
from lowjoule.profiling import Trial
from lowjoule.workloads import Work, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two settings compared: figures of one unit of work.

    `objective` is the objective's value and `uncertainty` its standard deviation, in its unit;
    None where it is not known.
    """

    setting: Setting
    time_s: float
    energy_j: float
    objective: float
    uncertainty: float | None

    @property
    def power_w(self) -> float:
        """Mean power."""
        return self.energy_j / self.time_s

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "setting": dict(self.setting),
            "time_s": self.time_s,
            "energy_j": self.energy_j,
            "power_w": self.power_w,
            "objective": self.objective,
            "uncertainty": self.uncertainty,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What the chosen setting saves on a whole job, the search paid for.

    All against running `job` at the default setting. The work that trials did counts for the
    job, as far as the job needs it. `net_energy_j` and `net_time_s` are negative where the search
    costs more than it saves; `break_even_work` is the amount of work, trials included, after
    which the energy spent is less than the default would have spent, for good; None when that
    never happens.
    """

    job: Work
    search_work: float
    search_time_s: float
    search_energy_j: float
    net_energy_j: float
    net_time_s: float
    break_even_work: float | None

    @classmethod
    def of(cls, trials: Sequence[Trial], default: Side, chosen: Side, job: Work) -> Saving:
        """Return the account of `trials` followed by the rest of `job` at `chosen`."""
        work = sum(trial.total_work for trial in trials)
        time_s = sum(trial.total_s for trial in trials)
        energy_j = sum(trial.total_j for trial in trials)
        left = max(0.0, job.quantity - work)
        return cls(
            job=job,
            search_work=work,
            search_time_s=time_s,
            search_energy_j=energy_j,
            net_energy_j=default.energy_j * job.quantity - energy_j - chosen.energy_j * left,
            net_time_s=default.time_s * job.quantity - time_s - chosen.time_s * left,
            break_even_work=_break_even(trials, default.energy_j, chosen.energy_j),
        )


def _break_even(trials: Sequence[Trial], default_j: float, chosen_j: float) -> float | None:
    """Return the work after which the energy saved is positive and stays so."""
    excess_j = work = 0.0
    since: float | None = None
    for trial in trials:
        work += trial.total_work
        excess_j += trial.total_j - default_j * trial.total_work
        since = (since or work) if excess_j < 0 else None
    gain_j = default_j - chosen_j
    if gain_j < 0:
        return None  # what the search saved is lost again in the rest of the job
    if since is None and gain_j > 0:
        return work + max(0.0, excess_j) / gain_j
    return since


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """The outcome of a tuning run.

    `draws` is the number of windows measured, `settings_tried` the number of different settings;
    `confidence` the probability that no other tried setting is better, `kept` that the chosen one
    keeps the constraints, None where the search cannot tell. Times and energies of `default` and
    `chosen` are of one unit of work.
    """

    identity: Identity
    workload: Workload
    space: Space
    objective: str
    constraints: tuple[str, ...]
    default: Side
    chosen: Side
    trials: tuple[Trial, ...]
    saving: Saving
    confidence: float | None
    kept: float | None
    notes: tuple[str, ...]

    @property
    def draws(self) -> int:
        """Windows measured, failed ones included."""
        return len(self.trials)

    @property
    def settings_tried(self) -> int:
        """Different settings asked for."""
        return len({trial.asked for trial in self.trials})

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, version 1; SI units, missing values are null."""
        saving = self.saving
        return {
            "version": 1,
            "source": self.identity.source.value,
            "device": self.identity.model,
            "calibrated": self.identity.calibrated,
            "device_uuid": self.identity.uuid,
            "workload": self.workload.name,
            "objective": self.objective,
            "constraints": list(self.constraints),
            "work": {"quantity": 1.0, "unit": self.workload.unit.value},
            "units": {knob.name: knob.unit.value for knob in self.space.knobs},
            "default": self.default.to_dict(),
            "chosen": self.chosen.to_dict(),
            "confidence": self.confidence,
            "constraints_kept": self.kept,
            "trials": self.settings_tried,
            "draws": self.draws,
            "job_work": saving.job.quantity,
            "search_work": saving.search_work,
            "search_time_s": saving.search_time_s,
            "search_energy_j": saving.search_energy_j,
            "net_energy_saving_j": saving.net_energy_j,
            "net_time_saving_s": saving.net_time_s,
            "break_even_work": saving.break_even_work,
            "history": [_trial_dict(trial) for trial in self.trials],
            "notes": list(self.notes),
        }


def _trial_dict(trial: Trial) -> dict[str, object]:
    measured = trial.measurement
    work = trial.work.quantity if trial.work else None
    return {
        "asked": dict(trial.asked),
        "achieved": dict(trial.achieved),
        "work": work,
        "time_s": measured.time_s / work if measured and work else None,
        "energy_j": measured.energy_j / work if measured and work else None,
        "uncertainty_j": measured.uncertainty_j / work if measured and work else None,
        "overhead_s": trial.overhead_s,
        "overhead_j": trial.overhead_j,
        "failure": trial.failure,
    }
