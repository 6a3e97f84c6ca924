"""The linear search on published measurements; skipped where they are absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowjoule.devices.replay import ReplayDevice, read_table
from lowjoule.knobs import Setting, Space
from lowjoule.tuning.linear import LinearSearch
from search_problems import EDS, play, problem, truth

Task = tuple[Space, dict[Setting, tuple[float, float]]]


def tasks(path: Path) -> list[Task]:
    device = ReplayDevice(read_table(path))
    found = []
    for name in device.workload_names():
        space = device.joint_space(device.workload(name))
        points = device.table.task(name).points
        found.append((space, {one: (p.time_s, p.energy_j) for one, p in points.items()}))
    return found


def regrets(found: list[Task]) -> tuple[list[float], list[int]]:
    regret, trials = [], []
    for space, figures in found:
        task = problem(space, EDS())
        played = play(LinearSearch(task), figures.__getitem__)
        values = truth(task, figures.__getitem__)
        regret.append(values[played.chosen] / min(values.values()) - 1.0)
        trials.append(len(played.asked))
    return regret, trials


def test_power_limit_and_batch_size_of_published_trainings(data: Path) -> None:
    folder = data / "zeus_nsdi23"
    paths = sorted(folder.glob("summary_power_*.csv"))
    regret, trials = regrets([task for path in paths for task in tasks(path)])
    assert len(regret) >= 18
    assert np.mean(regret) < 0.0075  # a hill climb that looks two past a worse point
    assert max(trials) <= 14


def test_clock_of_published_pipeline_stages(data: Path) -> None:
    folder = data / "perseus_sosp24" / "stage_profile"
    regret, trials = regrets(
        [task for path in sorted(folder.glob("*.csv")) for task in tasks(path)]
    )
    assert len(regret) == 32
    assert np.mean(regret) < 0.005
    assert max(trials) <= 10
