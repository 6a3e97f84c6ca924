"""The published measurements that the simulation is calibrated against, as cases by board."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calibration_fit import Case, Floats
from lowjoule.devices.replay import read_table
from lowjoule.devices.simulated import gpu
from lowjoule.devices.simulated.catalogue import chip_of
from lowjoule.devices.simulated.physics import Chip
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting

# The published defaults of the traces (batch size).
_BATCHES = {"cifar100": 1024, "imagenet": 256, "squad": 32, "librispeech": 256}
_BATCHES |= {"movielens-1m": 1024, "sentiment140": 128}
# The share of the largest limit, and of the top clock, of the anchors beside the ends. Clocks
# take turns from workload to workload, so that together they show where the voltage rises.
_LIMIT_SHARE = 0.6
_CLOCK_SHARES = (0.75, 0.88, 0.62)
_CORE_SHARES = (0.51, 0.85, 0.7)

_SHARED = ("idle_w", "memory_w", "voltage_floor", "voltage_knee")
Choose = Callable[[Case, int], list[int]]


@dataclass(frozen=True, slots=True)
class Group:
    """Cases measured on one board; `family` is the set of measurements that they are of.

    `own` are the figures that are fitted for each case, `shared` those of the board.
    """

    family: str
    board: str
    chip: Chip
    cases: list[Case]
    own: tuple[str, ...]
    shared: tuple[str, ...] = _SHARED


def groups(root: Path) -> list[Group]:
    """Return all groups of measurements under `root`."""
    stages = root / "perseus_sosp24" / "stage_profile"
    training = ("compute", "memory", "overhead", "intensity", "half_batch")
    clocked = ("compute", "memory", "intensity")
    found = [
        Group(
            "Zeus traces",
            name,
            _cool(chip_of(gpu(name).default_limit_w)),
            _zeus(root, name),
            training,
        )
        for name in ("v100", "p100", "a40")
    ]
    for name, file in (
        ("a100-40gb", "gpt3-175b+a100_sxm_bf16.csv"),
        ("a40", "gpt3-175b+a40_bf16.csv"),
    ):
        limit_w = gpu(name).default_limit_w
        cases = _clocked([stages / file], limit_w, _clock_anchors)
        found.append(
            Group("GPT-3 stages", name, _cool(chip_of(gpu(name).default_limit_w)), cases, clocked)
        )
    names = ("SPEC_A100__GA100-dvfs-accel", "dgemm_stream__GA100-dvfs-dgemm")
    paths = [root / "ttu_dvfs" / f"{name}-dcgm.csv" for name in names]
    paths.append(root / "ttu_dvfs" / "dgemm_stream__GA100-dvfs-stream-dcgm.csv")
    cases = _clocked(paths, 500.0, _clock_anchors)
    found.append(Group("TTU kernels", "A100 SXM 500 W", _cool(chip_of(500.0)), cases, clocked))
    titan = _clocked(
        [root / "gpuptx_gtxtitanx" / "gtxtitanx_core_x_mem.csv"], 250.0, _core_memory_anchors
    )
    shared = (*_SHARED, "memory_idle_w")
    found.append(Group("gpuPTX kernels", "Titan X", _cool(chip_of(250.0)), titan, clocked, shared))
    fma = _fma(root / "kernel_tuner_a100" / "synthetic_fp32_cache_NVIDIA_A100-PCIE-40GB.json")
    found.append(Group("FMA kernel", "A100 PCIe", _cool(chip_of(250.0)), [fma], clocked[::2]))
    return found


def _cool(chip: Chip) -> Chip:
    return replace(chip, throttle_c=1e6)  # nothing throttled for heat in these measurements


def _case(  # one row a setting, in SI units
    name: str,
    settings: Iterable[Mapping[str, float]],
    time_s: Floats,
    power_w: Floats,
    choose: Callable[[Case], list[int]],
) -> Case:
    rows = list(settings)
    columns = {key: np.array([row[key] for row in rows], dtype=np.float64) for key in rows[0]}
    case = Case(name=name, **columns, time_s=time_s, power_w=power_w, anchors=())
    anchors = tuple(dict.fromkeys(choose(case)))
    assert len(anchors) <= 3
    return replace(case, anchors=anchors)


def _zeus(root: Path, board: str) -> list[Case]:
    table = read_table(root / "zeus_nsdi23" / f"summary_power_{board}.csv")
    cases = []
    for name, task in table.tasks.items():
        if name.count("/") > 1:
            continue  # another optimiser of the same training
        points = list(task.points.values())
        batches = [one.setting.number(BATCH_SIZE) for one in points]
        default = min(_BATCHES[name.split("/")[0]], max(batches))
        rows = [
            {"x": 1.0, "m": 1.0, "limit_w": s.number(POWER_LIMIT), "batch": b / default}
            for s, b in zip((one.setting for one in points), batches, strict=True)
        ]
        time_s = np.array([one.time_s for one in points])
        power_w = np.array([one.power_w for one in points])
        cases.append(_case(name, rows, time_s, power_w, _limit_batch_anchors))
    return cases


def _limit_batch_anchors(case: Case) -> list[int]:
    """The default, the default batch at 0.6 of the most limit, the least batch at the most."""
    most = float(case.limit_w.max())

    def nearest(batch: float, limit_w: float) -> int:
        gap = 10 * np.abs(np.log(case.batch / batch)) + np.abs(case.limit_w - limit_w) / most
        return int(np.argmin(gap))

    least = float(case.batch.min())
    return [nearest(1.0, most), nearest(1.0, _LIMIT_SHARE * most), nearest(least, most)]


def _clocked(paths: list[Path], limit_w: float, choose: Choose) -> list[Case]:
    cases: list[Case] = []
    for path in paths:
        for name, task in read_table(path).tasks.items():
            points = list(task.points.values())
            settings = [one.setting for one in points]
            top = max(one.number(SM_CLOCK) for one in settings)
            memory = max(_memory(one) for one in settings)
            rows = [
                {
                    "x": one.number(SM_CLOCK) / top,
                    "m": _memory(one) / memory,
                    "limit_w": limit_w,
                    "batch": 1.0,
                }
                for one in settings
            ]
            time_s = np.array([one.time_s for one in points])
            power_w = np.array([one.power_w for one in points])
            turn = len(cases)
            cases.append(_case(name, rows, time_s, power_w, lambda c, t=turn: choose(c, t)))  # type: ignore[misc]
    return cases


def _memory(setting: Setting) -> float:
    return setting.number(MEMORY_CLOCK) if MEMORY_CLOCK in setting else 1.0


def _clock_anchors(case: Case, turn: int) -> list[int]:
    """The top, the lowest clock, and one between them."""
    wanted = (1.0, float(case.x.min()), _CLOCK_SHARES[turn % len(_CLOCK_SHARES)])
    return [int(np.argmin(np.abs(case.x - one))) for one in wanted]


def _core_memory_anchors(case: Case, turn: int) -> list[int]:
    """Both clocks at the top, a lower core clock, and the lowest memory clock."""

    def nearest(x: float, m: float) -> int:
        return int(np.argmin(np.abs(case.x - x) + 10 * np.abs(case.m - m)))

    low_x = _CORE_SHARES[turn % len(_CORE_SHARES)]
    other_x = (1.0, 0.75)[turn % 2]
    return [nearest(1.0, 1.0), nearest(low_x, 1.0), nearest(other_x, float(case.m.min()))]


def _fma(path: Path) -> Case:
    # one kernel, in its tuner's cache format, which is no table
    cache = json.loads(path.read_text(encoding="utf-8"))["cache"].values()
    top = max(one["core_freq"] for one in cache)
    rows = [
        {"x": one["core_freq"] / top, "m": 1.0, "limit_w": 250.0, "batch": 1.0} for one in cache
    ]
    time_s = np.array([one["time"] for one in cache]) / 1e3
    power_w = np.array([one["nvml_power"] for one in cache])
    return _case("fma", rows, time_s, power_w, lambda case: _clock_anchors(case, 0))
