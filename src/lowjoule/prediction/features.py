"""What is known of a task before its settings are predicted: places, anchors, signature.

Every figure is relative to something that the task itself has (its default batch, the board's top
clocks and largest limit, its own anchors): absolute times and powers do not carry over to other
models and boards. What is not known is NaN in a signature; it is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import BATCH_SIZE, MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting, Space
from lowjoule.profile import Profile
from lowjoule.workloads import Activity, DeviceFigures, Signature, Workload

Floats = NDArray[np.float64]
Rows = NDArray[np.intp] | NDArray[np.bool_]

KNOBS = (BATCH_SIZE, POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTask:
    """A task whose settings were measured, to learn from.

    `profile` needs a `default`; `model` is what no split may share: the trained model (BERT on
    two data sets is one) or, for other work, the application. `workload` gives static counts,
    `activity` what was counted at the default.

    Raises `InvalidValueError` where the profile has no default or fewer than two points.
    """

    name: str
    model: str
    device: DeviceFigures
    profile: Profile
    workload: Workload | None = None
    activity: Activity | None = None

    def __post_init__(self) -> None:
        if self.profile.default is None:
            raise InvalidValueError(
                f"the profile of {self.name} names no default", cure="use profile.against(default)"
            )
        if len(self.profile) < 2:
            raise InvalidValueError(
                f"{self.name} has {len(self.profile)} measured settings",
                cure="measure at least two, the default among them",
            )

    @classmethod
    def of(
        cls,
        profile: Profile,
        signature: Signature,
        *,
        name: str | None = None,
        model: str | None = None,
    ) -> MeasuredTask:
        """Return the task of a stored profile and what is known of it.

        Its name is `name`, or the workload's; its model `model`, or what the workload says, or its
        name. The default is the profile's own, or the signature's. Raises `InvalidValueError`
        where nothing names the task or a default, or the device is not known.
        """
        workload, device = signature.workload, signature.device
        called = name or (None if workload is None else workload.name)
        if called is None or device is None:
            raise InvalidValueError(
                "a signature tells no " + ("workload" if called is None else "device"),
                cure="name the task, and give the figures of its device (the model alone will do)",
            )
        if profile.default is None and signature.default is not None:
            profile = profile.against(signature.default.only(profile.settings))
        if model is None and workload is not None:
            model = workload.model or workload.name
        return cls(
            name=called,
            model=model or called,
            device=device,
            profile=profile,
            workload=workload,
            activity=signature.activity,
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """What a task's knobs are relative to; NaN where that is not known."""

    batch: float
    limit_w: float
    sm_clock_hz: float
    memory_clock_hz: float

    @classmethod
    def of(
        cls, default: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], device: DeviceFigures
    ) -> Scale:
        """Return the default's batch and the largest limit and clocks of the board.

        Where the board's are not known, the largest of `columns` (arrays of shape (n,), by knob)
        take their place.
        """

        def top(figure: float | None, name: str) -> float:
            if figure is not None:
                return figure
            column = columns.get(name)
            return math.nan if column is None or not len(column) else float(np.max(column))

        batch = default.get(BATCH_SIZE)
        return cls(
            batch=top(None if batch is None else float(batch), BATCH_SIZE),
            limit_w=top(device.power_limit_w, POWER_LIMIT),
            sm_clock_hz=top(device.sm_clock_hz, SM_CLOCK),
            memory_clock_hz=top(device.memory_clock_hz, MEMORY_CLOCK),
        )


@dataclass(frozen=True, slots=True)
class Places:
    """Where settings lie: batch and clocks relative to a `Scale`, the limit in watts; shape (n,).

    A knob that is not there is at 1 (the limit at the board's largest, infinite where that is
    not known either); `largest_w` is that largest limit, of shape (n,) too.
    """

    batch: Floats
    limit_w: Floats
    sm_clock: Floats
    memory_clock: Floats
    largest_w: Floats

    def __len__(self) -> int:
        return int(self.batch.shape[-1])

    def only(self, rows: Rows) -> Places:
        """Return some of the places."""
        return Places(*(getattr(self, name)[rows] for name in Places.__slots__))

    def unlimited(self) -> Places:
        """Return the same places without any limit."""
        return replace(self, limit_w=np.full_like(self.limit_w, np.inf))

    def coordinates(self) -> Floats:
        """Return logarithms of the four knobs relative to the scale, shape (..., n, 4)."""
        known = np.isfinite(self.limit_w)
        ratio = np.where(known, self.limit_w, 1.0) / np.where(known, self.largest_w, 1.0)
        return np.log(np.stack([self.batch, ratio, self.sm_clock, self.memory_clock], axis=-1))


def places(columns: Mapping[str, NDArray[Any]], scale: Scale, count: int) -> Places:
    """Return the places of `count` settings given as one array of shape (count,) a knob.

    Raises `InvalidValueError` where a value is not a positive number.
    """

    def column(name: str, reference: float) -> Floats:
        values = columns.get(name)
        if values is None or math.isnan(reference):
            return np.ones(count)
        numbers = np.asarray(values, dtype=np.float64)
        if not (numbers > 0).all():
            raise InvalidValueError(
                f"{name} has a value that is not positive", cure="use positive limits and clocks"
            )
        return np.asarray(numbers / reference)

    largest = math.inf if math.isnan(scale.limit_w) else scale.limit_w
    limit = np.full(count, largest)
    if POWER_LIMIT in columns:
        limit = np.asarray(columns[POWER_LIMIT], dtype=np.float64)
    return Places(
        batch=column(BATCH_SIZE, scale.batch),
        limit_w=limit,
        sm_clock=column(SM_CLOCK, scale.sm_clock_hz),
        memory_clock=column(MEMORY_CLOCK, scale.memory_clock_hz),
        largest_w=np.full(count, largest),
    )


def anchor_settings(space: Space, clock_anchors: int = 1) -> tuple[Setting, ...]:
    """Return the settings worth measuring first, in order, without repetition.

    The default; 0.6 of the largest limit; the lowest memory clock; the smallest batch; a quarter
    of the default batch; each the nearest that the space has. Where there is no limit to turn,
    `clock_anchors` core clocks too, evenly spread below the top one (one is in the middle).
    """
    default = space.default
    values = {
        knob.name: [float(value) for value in knob.values]
        for knob in space.knobs
        if knob.name in KNOBS and len(knob.values) > 1
    }
    wanted: list[dict[str, float]] = [{}]
    if POWER_LIMIT in values:
        wanted.append({POWER_LIMIT: 0.6 * values[POWER_LIMIT][-1]})
    elif SM_CLOCK in values:
        low, high = values[SM_CLOCK][0], values[SM_CLOCK][-1]
        shares = [place / (clock_anchors + 1) for place in range(clock_anchors, 0, -1)]
        wanted += [{SM_CLOCK: low + (high - low) * share} for share in shares]
    if MEMORY_CLOCK in values:
        wanted.append({MEMORY_CLOCK: values[MEMORY_CLOCK][0]})
    if BATCH_SIZE in values:
        wanted.append({BATCH_SIZE: values[BATCH_SIZE][0]})
        wanted.append({BATCH_SIZE: float(default[BATCH_SIZE]) / 4.0})
    found: dict[Setting, None] = {}
    for one in wanted:
        found[_nearest(space, default, one)] = None
    return tuple(found)


def _nearest(space: Space, default: Setting, turned: Mapping[str, float]) -> Setting:
    here = default
    for name, value in turned.items():
        line = space.line(here, name)
        here = min(line, key=lambda one: abs(one.number(name) - value), default=here)
    return here


STATIC = (
    *("intensity", "balance", "operations_per_parameter", "step_traffic"),
    *("compute_activity", "memory_activity", "busy", "waiting"),
)
_LEAST_SHARE = 0.02  # counters tell shares of time to a few hundredths


def static_signature(
    device: DeviceFigures, workload: Workload | None, activity: Activity | None
) -> Floats:
    """Return what is known beside times and powers, in the order of `STATIC`.

    Logarithms of operations per byte of memory traffic, the board's balance (operations per
    byte), operations per parameter and the part of a step's bytes that does not grow with the
    batch, the counted activities as they are (mean power is linear in them) and how long the device
    waits for its host; NaN where not known.
    """
    intensity = ratio = fixed = math.nan
    if workload is not None:
        intensity = _log_ratio(workload.operations, workload.memory_traffic_bytes)
        ratio = _log_ratio(workload.operations, workload.parameters)
        fixed = _log_ratio(workload.step_traffic_bytes or None, workload.memory_traffic_bytes)
    balance = _log_ratio(device.operations_per_s, device.bandwidth_bytes_per_s)
    told = activity or Activity()
    counted = (told.compute, told.memory, told.busy)
    shares = [math.nan if c is None else c for c in counted]
    return np.array([intensity, balance, ratio, fixed, *shares, _waiting(told.running)])


def _waiting(running: float | None) -> float:
    """Return the logarithm of the time that the device waits over that in which it runs.

    That part of a step follows no clock (Amdahl 1967); it is the baseline's fixed part.
    """
    if running is None:
        return math.nan
    share = min(max(running, _LEAST_SHARE), 1.0 - _LEAST_SHARE)
    return math.log((1.0 - share) / share)


ANCHORED = (
    "level",
    *(
        f"{figure}_{role}"
        for figure in ("time", "power")
        for role in ("batch", "half_way", *KNOBS[1:])
    ),
)


def anchored_signature(coordinates: Floats, logs: Floats, level: float) -> Floats:
    """Return what anchors say of a task, in the order of `ANCHORED`; NaN where they do not.

    `coordinates` (n, 4) are the anchors' (`Places.coordinates`), `logs` (n, 2) their logarithms of
    time and power, `level` that of the default's power over the largest limit. For each knob
    stands the elasticity of both between the anchor farthest along it and the one nearest to the
    default; for the batch size that of an anchor half-way too.
    """
    home = int(np.argmin(np.sum(coordinates**2, axis=1)))
    away = coordinates - coordinates[home]
    slopes = np.full((2, len(KNOBS) + 1), math.nan)
    for knob in range(len(KNOBS)):
        others = np.delete(np.abs(away), knob, axis=1).max(axis=1)
        rows = np.flatnonzero((np.abs(away[:, knob]) > 1e-6) & (others < 1e-6))
        if not len(rows):
            continue
        rows = rows[np.argsort(-np.abs(away[rows, knob]), kind="stable")]
        place = knob + 1 if knob else 0
        slopes[:, place] = (logs[rows[0]] - logs[home]) / away[rows[0], knob]
        if knob == 0 and len(rows) > 1:
            slopes[:, 1] = (logs[rows[1]] - logs[home]) / away[rows[1], knob]
    return np.concatenate([[level], slopes.ravel()])


def _log_ratio(over: float | None, under: float | None) -> float:
    return math.log(over / under) if over and under else math.nan
