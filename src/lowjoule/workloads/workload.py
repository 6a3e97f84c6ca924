"""A workload: what is run, and what is known about it before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowjoule.knobs import BATCH_SIZE, Knob
from lowjoule.workloads.work import Work, WorkUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is run, per sample (or token, request), in SI units; None is "not known".

    `operations` (a multiply-add is two) and `memory_traffic_bytes` are per unit of work, at
    full saturation; a `training` counts forward and backward. `step_traffic_bytes` is what a
    step moves once whatever its batch: the weights that it reads, gradients and the optimiser's
    state. `overhead_s` is the fixed host and launch time of a step; `half_batch` is the batch at
    which a step reaches half of the device's attainable rate (Michaelis-Menten saturation);
    `memory_fixed_bytes` and `memory_per_sample_bytes` its need. `compute_unit` is "tensor"
    where matrix units do the operations, "vector" otherwise; `precision` what it runs in when
    nobody turns that knob, one of `precisions`. `job` is the amount of work of one typical run,
    used to weigh a search against what it saves. `model` is the network or application that
    several workloads share (its training, its inference); None where the name says it.
    """

    name: str
    model: str | None = None
    unit: WorkUnit = WorkUnit.SAMPLE
    training: bool = True
    operations: float | None = None
    memory_traffic_bytes: float | None = None
    step_traffic_bytes: float = 0.0
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

    @property
    def default_batch(self) -> int | None:
        """The batch size when nobody turns it, None where it is not among the knobs."""
        for knob in self.knobs:
            if knob.name == BATCH_SIZE:
                return int(knob.default)
        return None

    @property
    def signature(self) -> str:
        """A short hash of what makes this the work it is; the same in every process and version.

        What describes it (`model`, `description`, `sources`), what is typical (`job`) and what
        may be turned (`knobs`, `precisions`) do not count.
        """
        import hashlib
        import json

        identifying: dict[str, str | bool | float | None] = {
            name: getattr(self, name) for name in _NAMES
        }
        for name in _FIGURES:
            value = getattr(self, name)
            identifying[name] = None if value is None else float(value)
        text = json.dumps(identifying, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_NAMES = ("name", "unit", "training", "compute_unit", "precision")
_FIGURES = (
    "operations",
    "memory_traffic_bytes",
    "step_traffic_bytes",
    "parameters",
    "overhead_s",
    "half_batch",
    "memory_fixed_bytes",
    "memory_per_sample_bytes",
)

IDENTIFYING = (*_NAMES, *_FIGURES)
"""The fields that make a workload the work it is."""
