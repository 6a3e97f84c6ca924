"""What a store holds, and a simulated board can survey, as tasks to learn from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from lowjoule.errors import InvalidValueError, LowjouleError
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting
from lowjoule.prediction.features import KNOBS, DeviceFigures, MeasuredTask
from lowjoule.prediction.tasks import prepare
from lowjoule.profile import Profile
from lowjoule.source import Source

if TYPE_CHECKING:
    from lowjoule.devices.interface import Device
    from lowjoule.store import Store
    from lowjoule.workloads import Workload


def tasks_of(store: Store) -> list[MeasuredTask]:
    """Return the measured tasks in `store` that a predictor can learn from, in its order.

    A task is a workload on a board. Its default is the largest limit and clocks at the median
    batch size measured. What turns a knob that cannot be predicted, or has too few settings, is
    left out.
    """
    from lowjoule.store.pooling import pooled

    found = []
    for kind in store.kinds():
        if kind.source == Source.PREDICTED.value:
            continue
        records = store.records(
            device_model=kind.device_model, workload=kind.workload, signature=kind.signature
        )
        alike = [one for one in records if set(one.achieved) == set(records[0].achieved)]
        device = DeviceFigures(model=kind.device_model)
        try:
            profile = pooled(alike)
            profile = profile.against(_top(profile))
            name = f"{kind.workload} on {kind.device_model}"
            task = MeasuredTask(name=name, model=kind.workload, device=device, profile=profile)
            prepare(task)
        except LowjouleError:
            continue
        found.append(task)
    return found


def _top(profile: Profile) -> Setting:
    rows = np.arange(len(profile))
    for name in KNOBS:
        if name in profile.settings:
            column = profile.settings[name][rows]
            middle = np.sort(column)[len(column) // 2]
            rows = rows[column == (middle if name == BATCH_SIZE else column.max())]
    return profile.setting(int(rows[0]))


def figures_of(device: Device) -> DeviceFigures:
    """Return what the knobs of `device` say of its largest limit and top clocks."""
    largest = {knob.name: float(knob.values[-1]) for knob in device.space.knobs if knob.name in KNOBS}
    return DeviceFigures(
        model=device.identity.model,
        power_limit_w=largest.get(POWER_LIMIT),
        sm_clock_hz=largest.get(SM_CLOCK),
        memory_clock_hz=largest.get(MEMORY_CLOCK),
    )


def without(tasks: Iterable[MeasuredTask], workload: Workload) -> list[MeasuredTask]:
    """Return the tasks that are not of `workload`, which is to be predicted.

    What was measured of it is no prediction; the same name or the same figures are the same work.
    """
    return [
        one
        for one in tasks
        if one.model != workload.name
        and (one.workload is None or one.workload.signature != workload.signature)
    ]
