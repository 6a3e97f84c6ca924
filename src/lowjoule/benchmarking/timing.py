"""How long a trial is going to take, learned from those before it."""

from __future__ import annotations

from collections.abc import Sequence

from lowjoule.benchmarking.plan import Task
from lowjoule.knobs import BATCH_SIZE, Setting
from lowjoule.profiling import Trial

_TICKS_S = 0.3  # a meter watches the counter for at most so long, once a workload


class Timing:
    """The expected time of a trial: its longest window and latencies, and what steps add to them.

    A trial ends with a whole step, so that where steps are long they decide. The longest step of
    a workload seen so far, per sample, stands for its next ones.
    """

    def __init__(self, window_s: float, tasks: Sequence[Task]) -> None:
        latencies = [knob.latency_s for task in tasks for knob in task.space.knobs]
        self.nominal_s = window_s + max(latencies, default=0.0) + _TICKS_S
        self._sample_s: dict[str, float] = {}
        self._longest_s: dict[str, float] = {}

    def expected_s(self, task: Task, setting: Setting) -> float:
        """Return how long the trial of `setting` should take at most."""
        name = task.workload.name
        step_s = self._sample_s.get(name, 0.0) * _batch(setting)
        return max(self.nominal_s + 3.0 * step_s, self._longest_s.get(name, 0.0))

    def add(self, task: Task, trial: Trial, took_s: float) -> None:
        """Learn from a trial that took `took_s` in all."""
        name = task.workload.name
        if trial.failure is None:
            self._longest_s[name] = max(self._longest_s.get(name, 0.0), took_s)
        if trial.measurement is not None and trial.work is not None:
            each_s = trial.measurement.time_s / trial.work.quantity
            self._sample_s[name] = max(self._sample_s.get(name, 0.0), each_s)


def _batch(setting: Setting) -> float:
    return setting.number(BATCH_SIZE) if BATCH_SIZE in setting else 1.0
