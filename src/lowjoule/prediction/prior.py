"""What is believed of a task's settings before any of them was measured.

The belief that a predictor starts from, in the form that a search conditions on what it measures
one by one: figures of physics with their covariance, and weights of what physics leaves. Without
anything learned from it is the generic belief of physics, and the searches' own covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import Space
from lowjoule.prediction.baseline import generic
from lowjoule.prediction.boosted import GAIN, available
from lowjoule.prediction.features import KNOBS, places, static_signature
from lowjoule.prediction.gaussian import Basis, Weights
from lowjoule.prediction.predictor import Predictor
from lowjoule.prediction.tasks import known_knobs, scale_of
from lowjoule.workloads import Activity, DeviceFigures, Workload

Floats = NDArray[np.float64]

# What physics leaves of a surface is taken to be a quarter of the surface's own spread, time and
# power alike: physics that left as much as there was would be none, and none is ever exact.
LEFT = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class TaskPrior:
    """A normal belief about a task: figures of physics, and weights of what physics leaves.

    `mean` (COUNT,) and `covariance` are of the figures (`baseline.FIGURES`); `weights` of the
    `basis` for log time and log power. `notes` say what the belief comes from.
    """

    mean: Floats
    covariance: Floats
    basis: Basis
    weights: tuple[Weights, Weights]
    notes: tuple[str, ...] = ()


def generic_prior(space: Space, device: DeviceFigures) -> TaskPrior:
    """Return what physics alone says of the settings of `space`.

    Raises `InvalidValueError` where it turns a knob beside the four that are predicted.
    """
    columns = space.columns()
    known_knobs(columns)
    at = places(columns, scale_of(space, device), len(space))
    basis = Basis.of(at.coordinates())
    size = len(basis.knots)
    left = Weights(np.zeros(size), LEFT**2 * np.eye(size))
    mean, covariance = generic()
    note = "no other task was learned from: the prediction is physics with generic figures"
    return TaskPrior(mean, covariance, basis, (left, left), (note,))


def learned_prior(
    predictor: Predictor,
    space: Space,
    device: DeviceFigures,
    workload: Workload | None = None,
    activity: Activity | None = None,
) -> TaskPrior:
    """Return what `predictor` believes of a task on `device` before its first anchor.

    Raises `InvalidValueError` where `space` turns a knob beside the four that are predicted.
    """
    state = predictor.state
    known = known_knobs(space.columns())
    kind = "+".join(name for name, has in zip(KNOBS, known, strict=True) if has)
    boards = state.devices.get(kind, ())
    static = static_signature(device, workload, activity)
    figures = state.joint.each(static[None, :], None if device.model in boards else len(boards))
    weights = tuple(
        Weights(one.shared.mean, one.shared.covariance + one.own_var * np.eye(len(one.shared.mean)))
        for one in state.mixed
    )
    return TaskPrior(
        figures.mean[0],
        figures.covariance[0],
        state.basis,
        (weights[0], weights[1]),
        _notes(predictor, kind, device),
    )


def _notes(predictor: Predictor, kind: str, device: DeviceFigures) -> tuple[str, ...]:
    state = predictor.state
    count = len(state.mixed[0].tasks)
    boards = sorted({name for names in state.devices.values() for name in names})
    notes = [f"predictions are learned from {count} tasks on {', '.join(boards)}"]
    if kind not in state.devices:
        notes.append(f"none of them turned {kind.replace('+', ' and ')}")
    elif device.model not in state.devices[kind]:
        notes.append(f"none of them on {device.model}: its figures are taken from the others'")
    if not available():
        notes.append(GAIN)
    return tuple(notes)
