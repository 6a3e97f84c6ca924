"""Every setting of a workload on a simulated board, at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.demand import load_of, memory_bytes, supported_precisions
from lowjoule.devices.simulated.governor import Steady, steady
from lowjoule.devices.simulated.physics import Load
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Knob,
    Space,
)
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads import Work, Workload

MOST_SETTINGS = 200_000
Columns = dict[str, NDArray[np.generic]]


def survey(model: GpuModel, workload: Workload, space: Space) -> Profile:
    """Return the profile of one unit of work over `space`: settings that run, warm, no spread."""
    columns = _columns(space, workload, model)
    time_s, power_w = evaluate(model, workload, columns)
    known = None not in (workload.memory_fixed_bytes, workload.memory_per_sample_bytes)
    return Profile(
        work=Work(1.0, workload.unit),
        time_s=time_s,
        energy_j=time_s * power_w,
        peak_power_w=power_w,
        memory_bytes=_memory(columns, workload, model) if known else None,
        settings=columns,
        default=space.default,
        source=Source.SIMULATED,
    )


def evaluate(
    model: GpuModel, workload: Workload, columns: Columns
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the time of one unit of work and the power, of `n` settings as one array a knob."""
    batch = np.asarray(columns[BATCH_SIZE], dtype=np.float64)
    micro = np.asarray(columns.get(MICRO_BATCH, batch), dtype=np.float64)
    count = len(batch)
    time_s, power_w = np.empty(count), np.empty(count)
    for precision, rows in _by_precision(model, workload, columns):
        load = load_of(model, workload, batch[rows], micro[rows], precision)
        found = _steady(model, load, {k: v[rows] for k, v in columns.items()})
        time_s[rows] = found.time_s / batch[rows]
        power_w[rows] = found.power_w
    return time_s, power_w


def _by_precision(
    model: GpuModel, workload: Workload, columns: Columns
) -> Iterator[tuple[str, slice | NDArray[np.bool_]]]:
    """Return the precisions of the settings, each with its rows."""
    if PRECISION not in columns:
        yield supported_precisions(model, workload)[0], slice(None)
        return
    for one in dict.fromkeys(columns[PRECISION].tolist()):
        yield str(one), columns[PRECISION] == one


def _steady(model: GpuModel, load: Load, columns: Columns) -> Steady:
    top = model.clocks_hz[-1]
    return steady(
        model.chip,
        load,
        clocks=np.array(model.clocks_hz) / top,
        asked=np.asarray(columns[SM_CLOCK], dtype=np.float64) / top,
        limit_w=np.asarray(columns[POWER_LIMIT], dtype=np.float64),
        m=np.asarray(columns[MEMORY_CLOCK], dtype=np.float64) / model.memory_clocks_hz[-1],
    )


def _columns(space: Space, workload: Workload, model: GpuModel) -> Columns:
    """Return the settings of `space` that meet its rules and fit the memory, as arrays."""
    values = [np.array(knob.values) for knob in space.knobs]
    grid = np.meshgrid(*values, indexing="ij")
    columns: Columns = {n: g.ravel() for n, g in zip(space.names, grid, strict=True)}
    good = np.ones(len(columns[POWER_LIMIT]), dtype=np.bool_)
    for rule in space.rules:
        good &= rule.allows(columns)
    good &= _memory(columns, workload, model) <= model.memory_bytes
    return {name: column[good] for name, column in columns.items()}


def _memory(columns: Columns, workload: Workload, model: GpuModel) -> NDArray[np.float64]:
    """Return the device memory that each setting needs."""
    batch = columns[BATCH_SIZE]
    own = np.full(len(batch), supported_precisions(model, workload)[0])
    needed = memory_bytes(
        workload, batch, columns.get(MICRO_BATCH, batch), columns.get(PRECISION, own)
    )
    return np.broadcast_to(needed, len(batch))


def thinned(space: Space) -> Space:
    """Return `space` with every second clock, then limit, left out while it is too large.

    Too large is above `MOST_SETTINGS`; defaults and ends are kept.
    """
    knobs = {knob.name: knob for knob in space.knobs}
    turn = (SM_CLOCK, POWER_LIMIT)
    for attempt in range(12):
        count = int(np.prod([len(knob.values) for knob in knobs.values()]))
        if count <= MOST_SETTINGS:
            break
        name = turn[attempt % 2]
        knobs[name] = _half(knobs[name])
    return Space(tuple(knobs.values()), space.rules)


def _half(knob: Knob) -> Knob:
    kept = {*knob.values[::2], knob.values[0], knob.values[-1], knob.default}
    return replace(knob, values=tuple(v for v in knob.values if v in kept))
