"""Energy and time of a served token, by batch, precision and GPUs: models never seen.

Run `python benchmarks/inference_prediction.py [--write]`; needs `mlenergy_v3` among the data.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from data_root import needed_root
from lowjoule.prediction.inference import Deployment, InferencePredictor, Served
from lowjoule.workloads import DeviceFigures
from report import Report

PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8", "mxfp4": "mxfp4"}
# Peak dense bf16 rate, bandwidth and memory by data sheet.
BOARDS = {
    "H100": DeviceFigures(
        model="H100", operations_per_s=989e12, bandwidth_bytes_per_s=3.35e12, memory_bytes=80e9
    ),
    "B200": DeviceFigures(
        model="B200", operations_per_s=2250e12, bandwidth_bytes_per_s=8e12, memory_bytes=180e9
    ),
}
KINDS = {"Dense Transformer": "dense", "MoE": "moe", "Mamba-Transformer Hybrid": "hybrid"}
Probe = Callable[[Sequence[Served]], list[tuple[int, int]]]


def read(path: Path) -> list[Served]:
    """Return the deployments of language models in the published table."""
    rows: dict[Deployment, list[tuple[float, float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["energy_per_token_joules"]:
                continue  # images and videos have no tokens
            deployment = Deployment(
                model=row["model_id"],
                use=row["task"],
                device=BOARDS[row["gpu_model"]],
                parameters=1e9 * float(row["total_params_billions"]),
                active_parameters=1e9 * float(row["activated_params_billions"]),
                architecture=KINDS[row["architecture"]],
                precision=PRECISIONS[row["weight_precision"]],
                gpus=int(row["num_gpus"]),
                tensor_parallel=int(float(row["par_tensor_parallel"])),
                expert_parallel=int(float(row["par_expert_parallel"])),
                data_parallel=int(float(row["par_data_parallel"])),
            )
            time_s = 1.0 / float(row["output_throughput_tokens_per_sec"])
            rows[deployment].append(
                (float(row["max_num_seqs"]), time_s, float(row["energy_per_token_joules"]))
            )
    found = []
    for deployment, points in rows.items():
        batch, times, energies = np.array(sorted(points)).T
        found.append(Served(deployment, batch, times, energies))
    return found


def family(one: Served) -> str:
    """Return vendor and size: precisions, fine-tunings and generations of it are one model."""
    return f"{one.deployment.model.split('/')[0]} {one.deployment.parameters / 1e9:g}B"


def name(one: Served) -> str:
    return one.deployment.model


def nothing(tried: Sequence[Served]) -> list[tuple[int, int]]:
    del tried
    return []


def probe_each(key: Callable[[Served], object]) -> Probe:
    """Return what names a probe (deployment, row) of each `key`: the first one's middle batch."""

    def probes(tried: Sequence[Served]) -> list[tuple[int, int]]:
        first: dict[object, int] = {}
        for place, one in enumerate(tried):
            first.setdefault(key(one), place)
        return [(place, (len(tried[place].batch) - 1) // 2) for place in first.values()]

    return probes


def service(one: Served) -> object:
    return one.deployment.keys[1]


def deployment(one: Served) -> object:
    return one.deployment.keys[2]


PROBES: dict[str, Probe] = {
    "none": nothing,
    "one a model": probe_each(name),
    "one a model, use and GPU": probe_each(service),
    "one a deployment": probe_each(deployment),
}


def trial(
    predictor: InferencePredictor, tried: Sequence[Served], probe: Probe
) -> tuple[np.ndarray, np.ndarray]:
    """Return relative errors of time and energy, and what lay inside, (n, 2) each."""
    probes = probe(tried)
    told = [tried[place].only(np.array([row])) for place, row in probes]
    errors, inside = [], []
    for place, one in enumerate(tried):
        rest = np.setdiff1d(np.arange(len(one.batch)), [row for p, row in probes if p == place])
        if not len(rest):
            continue
        left = one.only(rest)
        found = predictor.predict(one.deployment, left.batch, told)
        pairs = (
            (found.time_s, found.time_interval_s, left.time_s),
            (found.energy_j, found.energy_interval_j, left.energy_j),
        )
        errors.append(np.stack([np.abs(value / truth - 1.0) for value, _, truth in pairs], axis=1))
        inside.append(
            np.stack([(lo <= truth) & (truth <= hi) for _, (lo, hi), truth in pairs], axis=1)
        )
    return np.concatenate(errors), np.concatenate(inside)


def left_out(
    served: Sequence[Served], key: Callable[[Served], str]
) -> tuple[dict[str, dict[str, tuple[np.ndarray, np.ndarray]]], float]:
    """Return errors and coverage by probes and by what was left out, and the seconds of a fit."""
    found: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {label: {} for label in PROBES}
    took = []
    for one in sorted({key(s) for s in served}):
        start = time.process_time()
        predictor = InferencePredictor.fit([s for s in served if key(s) != one])
        took.append(time.process_time() - start)
        tried = [s for s in served if key(s) == one]
        for label, probe in PROBES.items():
            found[label][one] = trial(predictor, tried, probe)
        print(f"  {one}", flush=True)
    return found, float(np.mean(took))


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result")
    options = parser.parse_args()
    root = needed_root()
    served = read(root / "mlenergy_v3" / "leaderboard_v3_configurations.csv")
    report = Report("inference_prediction", "Tokens of served models never seen (published data)")
    report.say(
        f"{sum(len(one.batch) for one in served)} measurements of {len(served)} deployments on "
        "H100 and B200, by batch (`max_num_seqs`), precision and number of GPUs. Known before a "
        "run: parameters, active parameters, architecture, precision, GPUs and how the model is "
        "split. A probe is the middle batch; probes are not scored. A deployment is a model for "
        "one use on so many GPUs of one kind, split in one way."
    )
    report.say()
    header = ["probes", "energy: mean", "by model", "median", "90th", "worst model"]
    header += ["time: mean", "inside 90 %: energy", "time"]
    for title, key in (("A model left out", name), ("A vendor's size left out", family)):
        found, took = left_out(served, key)
        report.say(f"## {title} ({len(next(iter(found.values())))} times)")
        report.say()
        rows = []
        for label, each in found.items():
            every = np.concatenate([errors for errors, _ in each.values()])
            inside = np.mean([hit.mean(axis=0) for _, hit in each.values()], axis=0)
            means = {one: float(errors[:, 1].mean()) for one, (errors, _) in each.items()}
            worst = max(means, key=lambda one: means[one])
            rows.append(
                [
                    label,
                    percent(float(every[:, 1].mean())),
                    percent(float(np.mean(list(means.values())))),
                    percent(float(np.median(every[:, 1]))),
                    percent(float(np.percentile(every[:, 1], 90))),
                    f"{worst} {percent(means[worst])}",
                    percent(float(every[:, 0].mean())),
                    percent(float(inside[1])),
                    percent(float(inside[0])),
                ]
            )
        report.table(header, rows)
        report.say(f"A fit takes {took:.1f} s of CPU on average.")
        report.say()
    report.say(
        "Goals (mean error of the energy of a token, a model left out): at most 25 % without a "
        "probe, 12 % with one. In the second table precisions, fine-tunings and generations of one "
        "size by one vendor (Qwen3-30B-A3B: instruct, thinking, coder, vision, omni) are one model."
    )
    if options.write:
        print(f"written to {report.write()}")


if __name__ == "__main__":
    main()
