"""What a benchmark is going to measure, in an order that may be cut off anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lowjoule.benchmarking.design import design
from lowjoule.devices.interface import Identity
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting, Space
from lowjoule.prediction import anchor_settings
from lowjoule.workloads import Workload

KNOBS = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK, BATCH_SIZE)
"""What a benchmark turns unless it is told otherwise: what a predictor can learn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One workload, the space that is looked at, and the settings to measure, in order."""

    workload: Workload
    space: Space
    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, workload: Workload, space: Space, count: int, seed: int) -> Task:
        """Return the task of at most `count` settings: default, anchors, then the design."""
        anchors = anchor_settings(space)
        return cls(
            workload=workload,
            space=space,
            settings=tuple(design(space, anchors, count, seed)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured on a device in one configuration, called `run`.

    The name of the run tells board, driver, default setting, knobs, window and seed apart, so
    that trials of another configuration are never taken for its own; how many settings, which
    workloads and how long does not count: more of them go on where fewer have ended.
    """

    run: str
    tasks: tuple[Task, ...]

    def __iter__(self) -> Iterator[tuple[Task, Setting]]:
        """Yield every trial: each round has one of every workload."""
        rounds = zip_longest(*(task.settings for task in self.tasks))
        for one in rounds:
            for task, setting in zip(self.tasks, one, strict=True):
                if setting is not None:
                    yield task, setting

    def __len__(self) -> int:
        return sum(len(task.settings) for task in self.tasks)


def run_name(
    identity: Identity, default: Setting, knobs: Sequence[str], window_s: float, seed: int
) -> str:
    """Return the name of the run of one configuration; the same in every process."""
    told = {
        "device": identity.uuid,
        "model": identity.model,
        "driver": identity.driver,
        "default": dict(default),
        "knobs": sorted(knobs),
        "window_s": window_s,
        "seed": seed,
    }
    text = json.dumps(told, sort_keys=True)
    return "benchmark-" + hashlib.sha256(text.encode()).hexdigest()[:16]
