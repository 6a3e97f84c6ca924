"""A workload: what is run, and what is known about it before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowjoule.knobs import Knob
from lowjoule.workloads.work import Work, WorkUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is run, per sample (or token, request), in SI units; None is "not known".

    `operations` and `memory_traffic_bytes` are per unit of work, at full saturation;
    `overhead_s` is the fixed host and launch time of a step; `half_batch` is the batch at which
    a step reaches half of the device's attainable rate (Michaelis-Menten saturation);
    `memory_fixed_bytes` and `memory_per_sample_bytes` its need. `job` is the amount of work of
    one typical run, used to weigh a search against what it saves.
    """

    name: str
    unit: WorkUnit = WorkUnit.SAMPLE
    operations: float | None = None
    memory_traffic_bytes: float | None = None
    parameters: float | None = None
    overhead_s: float = 0.0
    half_batch: float = 0.0
    memory_fixed_bytes: float | None = None
    memory_per_sample_bytes: float | None = None
    compute_unit: str = "tensor"
    precision: str = "bf16"
    precisions: tuple[str, ...] = ()
    knobs: tuple[Knob, ...] = ()
    job: Work | None = None
    description: str = ""
    sources: tuple[str, ...] = field(default=())
