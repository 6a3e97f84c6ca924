"""The published measurements that the simulation is calibrated against, as cases by board."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibration_fit import Case, Floats
from lowjoule.devices.replay import read_table
from lowjoule.devices.simulated import gpu
from lowjoule.devices.simulated.catalogue import chip_of
from lowjoule.devices.simulated.physics import Chip
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK

# The published defaults of the traces (batch size), and the share of the largest limit at which
# the second anchor lies.
_BATCHES = {"cifar100": 1024, "imagenet": 256, "squad": 32, "librispeech": 256}
_BATCHES |= {"movielens-1m": 1024, "sentiment140": 128}
_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Group:
    """Cases measured on one board; `family` is the set of measurements that they are of."""

    family: str
    board: str
    chip: Chip
    cases: list[Case]


def groups(root: Path) -> list[Group]:
    """Return all groups of measurements under `root`."""
    stages = root / "perseus_sosp24" / "stage_profile"
    ttu = root / "ttu_dvfs"
    titan = root / "gpuptx_gtxtitanx" / "gtxtitanx_core_x_mem.csv"
    found = [
        Group("Zeus traces", name, _cool(gpu(name).chip), _zeus(root, name))
        for name in ("v100", "p100", "a40")
    ]
    found += [
        Group(
            "GPT-3 stages",
            name,
            _cool(gpu(name).chip),
            _clocked(stages / file, 1.0, gpu(name).default_limit_w),
        )
        for name, file in (
            ("a100-40gb", "gpt3-175b+a100_sxm_bf16.csv"),
            ("a40", "gpt3-175b+a40_bf16.csv"),
        )
    ]
    suites = ("SPEC_A100__GA100-dvfs-accel", *(f"dgemm_stream__GA100-dvfs-{n}" for n in _KERNELS))
    clocked = [one for name in suites for one in _clocked(ttu / f"{name}-dcgm.csv", 1.0, 500.0)]
    found.append(Group("TTU kernels", "a100-40gb", _cool(gpu("a100-40gb").chip), clocked))
    found.append(Group("gpuPTX kernels", "GTX Titan X", _cool(chip_of(250.0)), _titan(titan)))
    fma = _fma(root / "kernel_tuner_a100" / "synthetic_fp32_cache_NVIDIA_A100-PCIE-40GB.json")
    found.append(Group("FMA kernel", "A100 PCIe", _cool(chip_of(250.0)), [fma]))
    return found


_KERNELS = ("dgemm", "stream")


def _cool(chip: Chip) -> Chip:
    from dataclasses import replace

    return replace(chip, throttle_c=1e6)  # nothing throttled for heat in these measurements


def _case(name: str, table: dict[str, Floats], choose: Callable[[Case], list[int]]) -> Case:
    case = Case(name, **table, anchors=())
    anchors = tuple(dict.fromkeys(choose(case)))
    assert len(anchors) <= 3
    return Case(name, **table, anchors=anchors)


def _zeus(root: Path, board: str) -> list[Case]:
    table = read_table(root / "zeus_nsdi23" / f"summary_power_{board}.csv")
    cases = []
    for name, task in table.tasks.items():
        if name.count("/") > 1:
            continue  # another optimiser of the same training
        points = list(task.points.values())
        batch = np.array([one.setting.number(BATCH_SIZE) for one in points])
        limit_w = np.array([one.setting.number(POWER_LIMIT) for one in points])
        top = limit_w == limit_w.max()
        default = min(_BATCHES[name.split("/")[0]], batch[top].max())
        columns = {
            "x": np.ones(len(points)),
            "m": np.ones(len(points)),
            "limit_w": limit_w,
            "batch": batch / default,
            "time_s": np.array([one.time_s for one in points]),
            "power_w": np.array([one.power_w for one in points]),
        }
        cases.append(_case(name, columns, _zeus_anchors))
    return cases


def _zeus_anchors(case: Case) -> list[int]:
    """The default, the default batch at 0.6 of the most limit, the least batch at the most."""
    most = case.limit_w.max()

    def nearest(batch: float, limit_w: float) -> int:
        gap = np.abs(np.log(case.batch / batch)) * 10 + np.abs(case.limit_w - limit_w) / most
        return int(np.argmin(gap))

    return [nearest(1.0, most), nearest(1.0, _SHARE * most), nearest(case.batch.min(), most)]


def _clocked(path: Path, m: float, limit_w: float) -> list[Case]:
    cases = []
    for name, task in read_table(path).tasks.items():
        points = list(task.points.values())
        clock = np.array([one.setting.number(SM_CLOCK) for one in points])
        columns = {
            "x": clock / clock.max(),
            "m": np.full(len(points), m),
            "limit_w": np.full(len(points), limit_w),
            "batch": np.ones(len(points)),
            "time_s": np.array([one.time_s for one in points]),
            "power_w": np.array([one.power_w for one in points]),
        }
        cases.append(_case(name, columns, _clock_anchors))
    return cases


def _clock_anchors(case: Case) -> list[int]:
    """The top, three quarters of the top, and the lowest clock."""
    wanted = (1.0, 0.75, float(case.x.min()))
    return [int(np.argmin(np.abs(case.x - one))) for one in wanted]


def _titan(path: Path) -> list[Case]:
    cases = []
    for name, task in read_table(path).tasks.items():
        points = list(task.points.values())
        clock = np.array([one.setting.number(SM_CLOCK) for one in points])
        memory = np.array([one.setting.number(MEMORY_CLOCK) for one in points])
        columns = {
            "x": clock / clock.max(),
            "m": memory / memory.max(),
            "limit_w": np.full(len(points), 250.0),
            "batch": np.ones(len(points)),
            "time_s": np.array([one.time_s for one in points]),
            "power_w": np.array([one.power_w for one in points]),
        }
        cases.append(_case(name, columns, _titan_anchors))
    return cases


def _titan_anchors(case: Case) -> list[int]:
    """Both clocks at the top, the lowest core clock, and the lowest memory clock."""

    def nearest(x: float, m: float) -> int:
        return int(np.argmin(np.abs(case.x - x) + 10 * np.abs(case.m - m)))

    low = float(case.m.min())
    return [nearest(1.0, 1.0), nearest(float(case.x.min()), 1.0), nearest(1.0, low)]


def _fma(path: Path) -> Case:
    # one kernel, in the tuner's cache format, which no table reader of ours takes
    rows = list(json.loads(path.read_text(encoding="utf-8"))["cache"].values())
    clock = np.array([row["core_freq"] for row in rows], dtype=np.float64)
    columns = {
        "x": clock / clock.max(),
        "m": np.ones(len(rows)),
        "limit_w": np.full(len(rows), 250.0),
        "batch": np.ones(len(rows)),
        "time_s": np.array([row["time"] for row in rows]) / 1e3,
        "power_w": np.array([row["nvml_power"] for row in rows]),
    }
    return _case("fma", columns, _clock_anchors)
