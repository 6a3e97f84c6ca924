"""What a workload asks of a board: the load of a step, and the memory that it needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.physics import Load
from lowjoule.errors import InvalidValueError
from lowjoule.workloads import Workload
from lowjoule.workloads.precision import WIDTH_BYTES

Floats = NDArray[np.float64]


# Whole programs on any board: the best that kernels reach of the peak rate and of the bandwidth,
# and the reuse (operations a byte, over the board's balance of the two) at which half is reached.
_BEST_RATE = 0.8
_BEST_BANDWIDTH = 0.7
_HALF_REUSE = 0.35
_VECTOR_INTENSITY = 0.7  # power of full vector units over that of full matrix units
_RESERVED_BYTES = 1e9  # what driver and runtime take


def supported_precisions(model: GpuModel, workload: Workload) -> tuple[str, ...]:
    """Return the workload's precisions that the board has, the workload's own first if it has it.

    Where it has none of them the answer is fp32, in which everything runs.
    """
    wanted = dict.fromkeys((workload.precision, "fp16", "fp32", *workload.precisions))
    allowed = {*workload.precisions, workload.precision}
    found = tuple(one for one in wanted if one in model.precisions and one in allowed)
    return found or ("fp32",)


def peak_rate(model: GpuModel, workload: Workload, precision: str) -> float:
    """Return the peak of the units that do the workload's operations, per second."""
    vector = model.vector.get(precision, model.vector["fp32"])
    if workload.compute_unit == "vector":
        return vector
    return model.tensor.get(precision, vector)


def load_of(
    model: GpuModel, workload: Workload, batch: ArrayLike, micro: ArrayLike, precision: str
) -> Load:
    """Return the load of steps of `batch` samples in micro-batches of at most `micro`.

    Each micro-step has the overhead of a step and reads weights and gradients again (three
    passes of 16-bit parameters); the rest of a step's own traffic comes once a step. Raises
    `InvalidValueError` for a workload of unknown operations and traffic.
    """
    if workload.operations is None or workload.memory_traffic_bytes is None:
        raise InvalidValueError(
            f"{workload.name} does not say its operations and memory traffic",
            cure="simulate a workload of the catalogue, or give both",
        )
    batch = np.asarray(batch, dtype=np.float64)
    at_once = np.minimum(batch, np.asarray(micro, dtype=np.float64))
    parts = np.ceil(batch / at_once)
    width = WIDTH_BYTES.get(precision, 2) / WIDTH_BYTES.get(workload.precision, 2)
    again = 6.0 * (workload.parameters or 0.0) if workload.training else workload.step_traffic_bytes
    traffic = batch * workload.memory_traffic_bytes * width
    traffic = traffic + workload.step_traffic_bytes + (parts - 1.0) * again
    operations = batch * workload.operations
    peak = peak_rate(model, workload, precision)
    balance = peak / model.bandwidth_bytes_s
    reuse = operations / traffic
    rate = _BEST_RATE * reuse / (reuse + _HALF_REUSE * balance)
    filled = rate * at_once / (at_once + workload.half_batch)
    vector = workload.compute_unit == "vector" or precision not in model.tensor
    return Load(
        compute_s=operations / (peak * np.maximum(filled, 1e-12)),
        memory_s=traffic / (model.bandwidth_bytes_s * _BEST_BANDWIDTH),
        overhead_s=parts * workload.overhead_s,
        useful=filled,
        intensity=_VECTOR_INTENSITY if vector else 1.0,
    )


def memory_bytes(
    workload: Workload, batch: ArrayLike, micro: ArrayLike, precision: ArrayLike
) -> Floats:
    """Return the device memory that a step needs; what the workload does not say counts 0."""
    own = WIDTH_BYTES.get(workload.precision, 2)
    width = np.vectorize(lambda one: WIDTH_BYTES.get(str(one), 2) / own, otypes=[float])(precision)
    at_once = np.minimum(batch, micro)
    per_sample = workload.memory_per_sample_bytes or 0.0
    fixed = workload.memory_fixed_bytes or 0.0
    return np.asarray(_RESERVED_BYTES + fixed + at_once * per_sample * width)
