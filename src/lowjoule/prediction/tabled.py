"""What tables of measurements teach: each workload of a table as a task to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowjoule.devices.figures import figures_of
from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.replay import ReplayDevice, Table
from lowjoule.prediction.features import MeasuredTask

# Which part of a workload's name is the model, where a published table says so.
_PART = {"zeus-power": 1}


def tasks_of_table(table: Table, default: Mapping[str, str] | None = None) -> list[MeasuredTask]:
    """Return the workloads of `table` as tasks.

    `default` overrides defaults, as text by knob. A workload of one setting is left out: nothing
    can be learned from it.
    """
    device = ReplayDevice(table, OpenOptions(default=default or {}))
    found = []
    for name, task in table.tasks.items():
        if len(task.points) < 2:
            continue
        workload = device.workload(name)
        model = _model(table.format, name)
        profile = table.profile(name, device.joint_space(workload).default)
        one = MeasuredTask(
            name=f"{name} on {table.model}",
            model=model or name,
            device=figures_of(device, workload),
            profile=profile,
            workload=replace(workload, model=model),
        )
        found.append(one)
    return found


def _model(kind: str, name: str) -> str | None:
    parts = name.split("/")
    return parts[_PART[kind]] if kind in _PART and len(parts) > _PART[kind] else None
