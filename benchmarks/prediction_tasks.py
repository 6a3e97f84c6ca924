"""Published tables as tasks to learn from and to try the offline predictor on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from lowjoule.devices.replay import ReplayDevice, read_table
from lowjoule.prediction import Activity, DeviceFigures, MeasuredTask

# The boards' largest limits, where the table does not vary the limit, by data sheet: A40 300 W,
# Titan X 250 W, A100 SXM in the 500 W version (what the TTU set states; the stages draw 475 W).
A100 = DeviceFigures(model="A100 SXM", power_limit_w=500.0)
A40 = DeviceFigures(model="A40", power_limit_w=300.0)
TITAN = DeviceFigures(model="GTX Titan X", power_limit_w=250.0)
ZEUS = {name: DeviceFigures(model=name.upper()) for name in ("v100", "p100")} | {"a40": A40}


def zeus(root: Path) -> list[MeasuredTask]:
    """Return 18 trainings, limit x batch size; their model is the network, whatever the data."""
    found = []
    for gpu, device in ZEUS.items():
        path = root / "zeus_nsdi23" / f"summary_power_{gpu}.csv"
        found += [
            one
            for one in _tasks(path, gpu, device, lambda name: name.split("/")[1])
            # cifar100 was run with a second optimizer on one GPU; published runs use the first
            if not one.name.endswith("/adam")
        ]
    return found


def spec(root: Path) -> list[MeasuredTask]:
    """Return SPEC ACCEL applications, DGEMM and STREAM by core clock, with DCGM's activities."""
    found = []
    for name in ("SPEC_A100__GA100-dvfs-accel", *_DENSE):
        path = root / "ttu_dvfs" / f"{name}-dcgm.csv"
        found += _tasks(path, "a100", A100, lambda name: name, _activities(path))
    return found


_DENSE = ("dgemm_stream__GA100-dvfs-dgemm", "dgemm_stream__GA100-dvfs-stream")
_PIPES = ("tensor_activity", "fp64_active", "fp32_active", "fp16_active")


def _activities(path: Path) -> dict[str, Activity]:
    """Return the activities of each application at its highest clock."""
    best: dict[str, tuple[float, Activity]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            clock = float(row["sm_app_clock"])
            if clock > best.get(row["application"], (0.0, None))[0]:
                pipes = [float(row[name]) for name in _PIPES if row.get(name)]
                activity = Activity(
                    compute=max(pipes),
                    memory=float(row["dram_active"]),
                    busy=float(row["sm_active"]),
                    running=float(row["gr_engine_active"]),
                    clock=float(row["sm_clock"]) / clock,
                )
                best[row["application"]] = (clock, activity)
    return {name: activity for name, (_, activity) in best.items()}


def stages(root: Path, gpu: str) -> list[MeasuredTask]:
    """Return the GPT-3 pipeline stages' instructions by core clock; all are of one model."""
    device = A100 if gpu == "a100_sxm" else A40
    path = root / "perseus_sosp24" / "stage_profile" / f"gpt3-175b+{gpu}_bf16.csv"
    return _tasks(path, gpu, device, lambda _: "gpt3-175b")


def titan(root: Path, *, real: bool) -> list[MeasuredTask]:
    """Return kernels by core x memory clock: real ones, or the micro-benchmarks."""
    path = root / "gpuptx_gtxtitanx" / "gtxtitanx_core_x_mem.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    names = {line.split(",")[1] for line in lines if line.startswith("real,")}
    tasks = _tasks(path, "titan-x", TITAN, lambda name: name.split("#")[0])
    return [one for one in tasks if (one.model in names) is real]


def _tasks(
    path: Path,
    label: str,
    device: DeviceFigures,
    model_of: Callable[[str], str],
    activities: dict[str, Activity] | None = None,
) -> list[MeasuredTask]:
    replay = ReplayDevice(read_table(path))
    found = []
    for name in replay.workload_names():
        default = replay.joint_space(replay.workload(name)).default
        found.append(
            MeasuredTask(
                name=f"{label} {name}",
                model=model_of(name),
                device=device,
                profile=replay.table.profile(name, default),
                activity=None if activities is None else activities.get(name.split("/")[0]),
            )
        )
    return found
