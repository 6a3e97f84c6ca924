"""Searches tried on tasks whose every setting was measured, under one price and one bound.

A rehearsal knows the truth, the search only what it was told: what it chose is judged on the
measured table, what it tried is paid for at the measured time and energy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting, Space
from lowjoule.objectives.objective import Objective
from lowjoule.prediction.features import MeasuredTask
from lowjoule.prediction.tasks import space_of
from lowjoule.tuning.account import JOB_TRIALS
from lowjoule.tuning.search import Observation, Problem, Search

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a way to choose came to on one task.

    `trials` were paid for. `regret` is the objective above the best measured, relative to it;
    `gain` below the default's, relative to that. `net_gain`, `net_energy` and `net_time` are what
    the whole job saves of the objective, energy and time of the default, trials included.
    """

    chosen: Setting
    trials: int
    regret: float
    gain: float
    net_gain: float
    net_energy: float
    net_time: float


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A measured task as a place to try searches on.

    `figures` (n, 3) are time, energy and the objective of each of `settings`, of one amount of
    work. A trial lasts as long as the default takes for that amount, as a measured window does, and
    does as much as its setting gets done meanwhile; a job is `job_trials` amounts.
    """

    space: Space
    objective: Objective
    settings: tuple[Setting, ...]
    figures: Floats
    home: int
    job_trials: float

    @classmethod
    def of(cls, task: MeasuredTask, objective: Objective, job_trials: float = JOB_TRIALS) -> Stage:
        """Return the stage of `task`; raises `InvalidValueError` for a job of less than a trial."""
        if not job_trials >= 1:
            raise InvalidValueError(f"a job of {job_trials:g} trials", cure="use at least 1")
        profile = task.profile
        space = space_of(profile)
        settings = tuple(profile.setting(row) for row in range(len(profile)))
        base = profile.baseline() if objective.needs_baseline else None
        values = objective.values(profile.outcome(), base)
        figures = np.column_stack([profile.time_s, profile.energy_j, values])
        return cls(space, objective, settings, figures, settings.index(space.default), job_trials)

    def judge(self, chosen: Setting, tried: Sequence[Setting]) -> Rehearsal:
        """Return what choosing `chosen` after trials of `tried` came to."""
        place = {setting: row for row, setting in enumerate(self.settings)}
        here, default = self.figures[place[chosen]], self.figures[self.home]
        best = self.figures[:, 2].min()
        rows = self.figures[[place[one] for one in tried]]
        done = default[0] / rows[:, 0]
        job = max(self.job_trials, float(done.sum()))
        whole = done @ rows + (job - done.sum()) * here
        net = (job * default - whole) / np.abs(job * default)
        return Rehearsal(
            chosen=chosen,
            trials=len(tried),
            regret=float((here[2] - best) / abs(best)),
            gain=float((default[2] - here[2]) / abs(default[2])),
            net_gain=float(net[2]),
            net_energy=float(net[1]),
            net_time=float(net[0]),
        )

    def rehearse(
        self,
        make: Callable[[Problem], Search],
        *,
        trials: int | None = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> Rehearsal:
        """Return what the search that `make` gives came to after at most `trials` trials.

        The default is always the first. Every draw multiplies time and energy by 1 + `noise`
        times a normal number, from a generator seeded with `seed`.
        """
        random = np.random.default_rng(seed)
        search = make(
            Problem(
                space=self.space,
                objective=self.objective,
                default=self.space.default,
                remaining_work=self.job_trials,
            )
        )
        place = {setting: row for row, setting in enumerate(self.settings)}
        tried: list[Setting] = []
        setting: Setting | None = self.space.default
        while setting is not None and (trials is None or len(tried) < trials):
            time_s, energy_j, _ = self.figures[place[setting]]
            # four deviations at most: what was drawn stays positive
            wobble = 1.0 + noise * np.clip(random.standard_normal(2), -4.0, 4.0)
            search.tell(
                Observation(
                    asked=setting,
                    achieved=setting,
                    time_s=float(time_s * wobble[0]),
                    energy_j=float(energy_j * wobble[1]),
                    work=float(self.figures[self.home, 0] / time_s),
                )
            )
            tried.append(setting)
            setting = search.ask()
        return self.judge(search.recommend().setting, tried)
