"""One search over a loop: its trials, what to try next, and what is best so far. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lowjoule.errors import InfeasibleError
from lowjoule.knobs import Setting
from lowjoule.profiling import Precision, Trial
from lowjoule.tuning.account import JOB_TRIALS, Account
from lowjoule.tuning.inquiry import Inquiry
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search
from lowjoule.workloads import Work


class Purpose(StrEnum):
    """What a setting is in force for."""

    DEFAULT = "the default"
    TRIAL = "a trial"
    AGAIN = "the default again"
    HOLD = "the best, held"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a loop is tuned.

    The default is measured again after each `again_after` trials; `retunes` is how often a search
    begins anew when what is held has changed. `turn_micro` sets the micro-batch, and how many of
    them make a step of `batch` samples.
    """

    account: Account
    search: Callable[[Problem], Search]
    precision: Precision
    job: Work | None = None
    again_after: int = 5
    retunes: int = 2
    batch: int | None = None
    turn_micro: Callable[[int, int], object] | None = None


class Round:
    """A search from the default on; `note` takes what is to be said of it."""

    def __init__(self, plan: Plan, note: Callable[[str], None]) -> None:
        self.plan = plan
        self.failures = 0
        self._note = note
        self._inquiry: Inquiry | None = None

    @property
    def trials(self) -> list[Trial]:
        """All trials so far, the default's first."""
        return [] if self._inquiry is None else self._inquiry.trials

    @property
    def observations(self) -> list[Observation]:
        """What was observed of them, drift taken out."""
        return [] if self._inquiry is None else self._inquiry.observations

    @property
    def default_known(self) -> bool:
        """Whether there is a figure of the default."""
        default = self.plan.account.space.default
        return any(one.asked == default and one.failure is None for one in self.trials)

    def take(self, trial: Trial, done: float) -> None:
        """Take in a trial, the default's first; `done` is the work of the job done so far."""
        account = self.plan.account
        if trial.throttled:
            self._note(f"{account.show(trial.achieved)} was measured throttled for heat")
        if trial.failure is not None:
            self._note(f"{account.show(trial.asked)} failed: {trial.failure}")
        if self._inquiry is None:
            problem = self._problem(trial, done)
            self._inquiry = Inquiry(self.plan.search, problem, again_after=self.plan.again_after)
        self._inquiry.tell(trial)
        self.failures = self.failures + 1 if trial.failure else 0

    def next(self) -> tuple[Setting, Purpose]:
        """Return what to put in force now, and what for."""
        assert self._inquiry is not None
        setting = self._inquiry.ask()
        if setting is not None:
            again = setting == self.plan.account.space.default
            return setting, Purpose.AGAIN if again else Purpose.TRIAL
        for note in self._inquiry.notes:
            self._note(note)
        self._say_precision()
        return self.best(), Purpose.HOLD

    def confirmed(self, trial: Trial) -> Setting:
        """Take in a window of what is held, which costs nothing, and return what is best now."""
        assert self._inquiry is not None
        self._inquiry.confirm(trial)
        return self.best()

    def best(self) -> Setting:
        """Return the best setting found so far, the default where nothing is better."""
        return self.plan.account.sides(self.observations, self.recommended())[1].setting

    def recommended(self) -> Recommendation | None:
        """Return what the search recommends, None where that is nothing."""
        if self._inquiry is None:
            return None
        try:
            return self._inquiry.recommend()
        except InfeasibleError as error:
            self._note(f"the default is kept: {error.problem}")
            return None

    def _problem(self, first: Trial, done: float) -> Problem:
        account, job = self.plan.account, self.plan.job
        if job is None:
            left = JOB_TRIALS * first.total_work
            unit = account.workload.unit.value
            self._note(f"{left:,.0f} {unit}s are taken to be left: say how much the job is")
        else:
            left = max(job.quantity - done + first.total_work, 0.0)
        return Problem(
            space=account.space,
            objective=account.objective,
            constraints=account.constraints,
            default=account.space.default,
            remaining_work=left,
        )

    def _say_precision(self) -> None:
        """Say how well the trials are known where that is less well than was asked."""
        known = [one.relative_half for one in self.trials if one.relative_half is not None]
        asked = self.plan.precision.relative
        short = sum(half > asked for half in known)
        if short:
            self._note(
                f"{short} of {len(known)} windows ended at {self.plan.precision.most_s:g} s with "
                f"intervals wider than {asked:.1%}, {max(known):.1%} at most"
            )
