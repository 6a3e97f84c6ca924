"""The knobs of a simulated board and of the work on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.demand import memory_bytes, supported_precisions
from lowjoule.errors import OutOfMemoryError, UnknownNameError
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Knob,
    Space,
    Value,
    micro_batch_knob,
    standard_knob,
)
from lowjoule.knobs.space import Columns
from lowjoule.quantities import Unit, show
from lowjoule.workloads import Workload

_BATCHES = tuple(2**n for n in range(13))
DEVICE_KNOBS = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK)
WORK_KNOBS = (BATCH_SIZE, MICRO_BATCH, PRECISION)


@dataclass(frozen=True, slots=True)
class Splits:
    """The micro-batch divides the batch, or leaves it whole.

    A step runs at most `whole` samples at once where the micro-batch is `whole`, its default:
    a smaller batch then runs undivided.
    """

    whole: float

    def allows(self, columns: Columns) -> NDArray[np.bool_]:
        """Return the rows in which the batch is a multiple of the micro-batch, or undivided."""
        if MICRO_BATCH not in columns or BATCH_SIZE not in columns:
            count = len(next(iter(columns.values()))) if columns else 0
            return np.ones(count, dtype=np.bool_)
        micro, batch = columns[MICRO_BATCH], columns[BATCH_SIZE]
        return np.asarray((batch % micro == 0) | ((micro == self.whole) & (batch < micro)))

    def reason(self) -> str:
        """Return the condition in words."""
        return f"{MICRO_BATCH} must divide {BATCH_SIZE}, or be {self.whole:g} for a smaller one"


def device_space(model: GpuModel, wanted: Mapping[str, str]) -> Space:
    """Return limits and clocks, with the defaults that `wanted` overrides, as text."""
    knobs = (
        standard_knob(
            POWER_LIMIT, model.limits_w, model.default_limit_w, latency_s=model.limit_latency_s
        ),
        _clock(SM_CLOCK, model.clocks_hz, model),
        _clock(MEMORY_CLOCK, model.memory_clocks_hz, model),
    )
    return Space(tuple(_overridden(knob, wanted) for knob in knobs))


def work_space(model: GpuModel, workload: Workload, wanted: Mapping[str, str]) -> Space:
    """Return batch size, micro-batch and, where there are several, precision.

    Batches of which not even a single sample at a time fits are left out, and micro-batches
    above what fits at once; the default is the workload's own or the largest that fits. Raises
    `OutOfMemoryError` where nothing fits.
    """
    precisions = supported_precisions(model, workload)
    default_precision = wanted.get(PRECISION, precisions[0])
    given = next((knob for knob in workload.knobs if knob.name == BATCH_SIZE), None)
    batch = given or standard_knob(BATCH_SIZE, _BATCHES, 64)
    if BATCH_SIZE in wanted:
        batch = replace(batch, default=batch.parse(wanted[BATCH_SIZE]))
    fitting = [v for v in batch.values if fits(model, workload, float(v), default_precision)]
    if not fitting:
        least = float(memory_bytes(workload, 1.0, 1.0, default_precision))
        raise OutOfMemoryError(
            f"{workload.name} needs {show(least, Unit.BYTE)} and {model.title} has "
            f"{show(model.memory_bytes, Unit.BYTE)}",
            cure="choose another device or a smaller model",
        )
    default = batch.default if batch.default in fitting else fitting[-1]
    batch = replace(batch, values=tuple(fitting), default=default)
    knobs = [batch]
    if workload.training:
        knobs.append(_overridden(_micro_batches(batch), wanted))
    if len(precisions) > 1:
        knobs.append(_overridden(standard_knob(PRECISION, precisions, precisions[0]), wanted))
    others = [knob for knob in workload.knobs if knob.name not in WORK_KNOBS]
    if others:
        raise UnknownNameError.among("knob of simulated work", others[0].name, WORK_KNOBS)
    return Space(tuple(knobs), rules=(Splits(float(default)),))


def _micro_batches(batch: Knob) -> Knob:
    """Return how much of a batch runs at once: what divides the default, or larger ones whole."""
    knob = micro_batch_knob(int(batch.default))
    larger = (v for v in batch.values if float(v) > float(batch.default))
    return replace(knob, values=(*knob.values, *larger))


def fits(model: GpuModel, workload: Workload, at_once: float, precision: str) -> bool:
    """Return whether `at_once` samples fit the board's memory."""
    needed = memory_bytes(workload, at_once, at_once, precision)
    return bool(needed <= model.memory_bytes)


def check_wanted(wanted: Mapping[str, str]) -> None:
    """Raise `UnknownNameError` for a default of a knob that no simulated board has."""
    for name in wanted:
        if name not in DEVICE_KNOBS and name not in WORK_KNOBS:
            raise UnknownNameError.among("knob", name, (*DEVICE_KNOBS, *WORK_KNOBS))


def _clock(name: str, values: tuple[float, ...], model: GpuModel) -> Knob:
    return standard_knob(name, values, values[-1], latency_s=model.clock_latency_s)


def _overridden(knob: Knob, wanted: Mapping[str, str]) -> Knob:
    if knob.name not in wanted:
        return knob
    value: Value = knob.parse(wanted[knob.name])
    return replace(knob, default=value)
