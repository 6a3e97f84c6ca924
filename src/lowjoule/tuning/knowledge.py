"""What is known of a task before its first trial, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lowjoule.devices.figures import figures_of
from lowjoule.devices.interface import Device, WorkDevice
from lowjoule.errors import LowjouleError
from lowjoule.knobs import Space
from lowjoule.prediction.features import KNOBS, MeasuredTask
from lowjoule.prediction.members import Recipe
from lowjoule.prediction.predictor import Predictor
from lowjoule.prediction.prior import TaskPrior, generic_prior, learned_prior
from lowjoule.prediction.stored import without
from lowjoule.source import Source
from lowjoule.tuning.grid import coarse
from lowjoule.tuning.search import Problem, Search
from lowjoule.workloads import Activity, DeviceFigures, Workload

_MOST_SURVEYED = 300  # settings of a task that are learned from: more change no figure of physics


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known of a task before its first trial.

    Without a `predictor` that is physics with generic figures; with one it is a mixture of both,
    each as likely as the task's own trials make it. `workload` gives static counts, `activity`
    what was counted at the default.
    """

    device: DeviceFigures
    predictor: Predictor | None = None
    workload: Workload | None = None
    activity: Activity | None = None

    def priors(self, space: Space) -> list[TaskPrior]:
        """Return the beliefs to start from, of the knobs of `space`, which must be predicted."""
        found = [generic_prior(space, self.device)]
        if self.predictor is not None:
            found.append(
                learned_prior(self.predictor, space, self.device, self.workload, self.activity)
            )
        return found


def knowledge_of(
    device: Device,
    workload: Workload,
    *,
    predictor: Predictor | None = None,
    tasks: Sequence[MeasuredTask] = (),
) -> Knowledge:
    """Return what is known of `workload` on `device`.

    That is `predictor`, or else what `tasks` of other workloads teach, where they are of two
    models at least. Tasks of `workload` itself are left out. What a saved predictor has learned
    from is not looked at.
    """
    if predictor is None:
        others = without(tasks, workload)
        if len({one.model for one in others}) > 1:
            predictor = Predictor.fit(others, Recipe(trees=False))
    return Knowledge(device=figures_of(device), predictor=predictor, workload=workload)


def surveyed_tasks(
    device: WorkDevice, workload: Workload, knobs: Iterable[str]
) -> list[MeasuredTask]:
    """Return the other workloads that a simulated `device` knows, surveyed over `knobs`.

    `workload` itself is not among them. On a device that is not simulated there are none: a
    table's other tasks are learned from when they are in a store.
    """
    if device.identity.source is not Source.SIMULATED:
        return []
    turned = [name for name in knobs if name in KNOBS]
    found = []
    for name in device.workload_names():
        other = device.workload(name)
        try:
            joint = device.joint_space(other)
            space = joint.free([one for one in turned if one in joint.names])
            profile = device.survey(other, coarse(space, _MOST_SURVEYED))
            task = MeasuredTask(
                name=f"{name} on {device.identity.model}",
                model=name,
                device=figures_of(device),
                profile=profile,
                workload=other,
            )
        except LowjouleError:  # it does not run at this board's default
            continue
        found.append(task)
    return without(found, workload)


def default_search(device: Device, workload: Workload) -> Callable[[Problem], Search]:
    """Return what makes the search that is used where none is named: the hybrid, untaught."""

    def search(problem: Problem) -> Search:
        from lowjoule.tuning.hybrid import HybridSearch

        return HybridSearch(problem, knowledge_of(device, workload))

    return search
