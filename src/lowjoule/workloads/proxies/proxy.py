"""What a proxy is: one step of work at a batch size, and the counts that are known of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from lowjoule.errors import MissingExtraError
from lowjoule.workloads.catalogue import batch_knob
from lowjoule.workloads.precision import WIDTH_BYTES
from lowjoule.workloads.workload import Workload


class Range(NamedTuple):
    """The batch sizes of a proxy: the least, the default and the most."""

    least: int
    default: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a step does: for each sample, and once whatever its batch.

    Operations count a multiply-add as two; bytes are what each operator reads and writes.
    """

    operations: float
    sample_bytes: float
    step_bytes: float
    parameters: float


class Proxy(ABC):
    """One step of work of `batch` samples, built once and run often.

    `place` is a `torch.device`, `kind` a `torch.dtype`. `matrix` tells whether its operations are
    matrix products; the ranges of batch sizes fill a GPU, and take a CPU some milliseconds.
    Building and running raise what PyTorch raises where memory does not suffice.
    """

    name: ClassVar[str]
    model: ClassVar[str | None] = None
    description: ClassVar[str]
    training: ClassVar[bool] = False
    matrix: ClassVar[bool] = True
    on_gpu: ClassVar[Range]
    on_cpu: ClassVar[Range]

    @abstractmethod
    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        """Make all that a step needs."""

    @abstractmethod
    def step(self) -> None:
        """Do one step; on a GPU this returns when it is queued."""

    @classmethod
    @abstractmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts where a number takes `width_bytes`."""


def workload_of(proxy: type[Proxy], precision: str, *, gpu: bool) -> Workload:
    """Return the workload that `proxy` is in `precision`: its counts are exact, not estimates."""
    counted = proxy.counted(WIDTH_BYTES[precision])
    batches = proxy.on_gpu if gpu else proxy.on_cpu
    knob = batch_knob(batches.default, batches.least, batches.most, training=proxy.training)
    return Workload(
        name=proxy.name,
        model=proxy.model,
        training=proxy.training,
        operations=counted.operations,
        memory_traffic_bytes=counted.sample_bytes,
        step_traffic_bytes=counted.step_bytes,
        parameters=counted.parameters,
        compute_unit="tensor" if proxy.matrix and precision != "fp32" else "vector",
        precision=precision,
        precisions=(precision,),
        knobs=(knob,),
        description=proxy.description,
        sources=("counted from its shapes",),
    )


def need_torch(purpose: str) -> Any:
    """Return PyTorch; raises `MissingExtraError` where it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{purpose} needs PyTorch, which is used where found, never a dependency",
            cure="install it as pytorch.org says for this machine, or benchmark a simulated "
            "device (--device sim:a100)",
        ) from None
    return torch
