"""Synthetic tasks for the predictor's tests: physics with a departure of each model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowjoule.devices.replay import ReplayDevice, read_table
from lowjoule.knobs import Space, standard_knob
from lowjoule.prediction.baseline import NAMES, generic, logs
from lowjoule.prediction.features import MeasuredTask, Scale, places
from lowjoule.profile import Profile
from lowjoule.workloads import DeviceFigures, Work, WorkUnit

BOARD = DeviceFigures(model="board", power_limit_w=300.0)


def limit_and_batch() -> Space:
    """Return six limits by six batch sizes."""
    limits = [100.0, 140.0, 180.0, 220.0, 260.0, 300.0]
    return Space(
        (
            standard_knob("power_limit", limits, 300.0),
            standard_knob("batch_size", [8, 16, 32, 64, 128, 256], 128),
        )
    )


def clocks(count: int = 20) -> Space:
    """Return core clocks from 0.4 of the top one."""
    values = np.linspace(0.4, 1.0, count) * 1.5e9
    return Space((standard_knob("sm_clock", values.tolist(), float(values[-1])),))


def figures_of(seed: int, *, spread: float = 0.5) -> np.ndarray:
    """Return a task's figures, drawn from a part of the generic prior's spread."""
    mean, covariance = generic()
    draw = np.random.default_rng(seed).standard_normal(len(mean))
    figures: np.ndarray = mean + spread * draw * np.sqrt(np.diag(covariance))
    figures[NAMES.index("time")] = np.log(0.1)
    return figures


def made(
    space: Space,
    seed: int,
    *,
    model: str | None = None,
    device: DeviceFigures = BOARD,
    depart: float = 0.0,
    noise: float = 0.0,
) -> MeasuredTask:
    """Return a measured task that is physics, times a smooth departure and noise."""
    columns = space.columns()
    scale = Scale.of(space.default, columns, device)
    at = places(columns, scale, len(space))
    rng = np.random.default_rng(1000 + seed)
    figures = logs(figures_of(seed), at) + np.array([0.0, np.log(300.0)])
    turned = at.coordinates()
    for figure in range(2):
        figures[:, figure] += depart * np.sin(turned @ rng.normal(size=4) + rng.uniform(0, 6))
        figures[:, figure] += noise * rng.standard_normal(len(space))
    time_s = np.exp(figures[:, 0])
    profile = Profile(
        work=Work(1.0, WorkUnit.EPOCH),
        time_s=time_s,
        energy_j=time_s * np.exp(figures[:, 1]),
        settings=columns,
        default=space.default,
    )
    name = model or f"model{seed}"
    return MeasuredTask(name=f"{device.model} {name}", model=name, device=device, profile=profile)


def several(count: int, *, depart: float = 0.05, noise: float = 0.01) -> list[MeasuredTask]:
    """Return limit x batch tasks of as many models."""
    return [made(limit_and_batch(), seed, depart=depart, noise=noise) for seed in range(count)]


def trainings(data: Path) -> list[MeasuredTask]:
    """Return the published trainings, limit x batch size; their model is the network."""
    found = []
    for gpu in ("v100", "p100", "a40"):
        replay = ReplayDevice(read_table(data / "zeus_nsdi23" / f"summary_power_{gpu}.csv"))
        for name in replay.workload_names():
            if name.endswith("/adam"):
                continue
            default = replay.joint_space(replay.workload(name)).default
            found.append(
                MeasuredTask(
                    name=f"{gpu} {name}",
                    model=name.split("/")[1],
                    device=DeviceFigures(model=gpu),
                    profile=replay.table.profile(name, default),
                )
            )
    return found
