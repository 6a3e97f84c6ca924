"""Tasks in the form that the predictor's parts work on: places, logarithms, anchors, signature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import POWER_LIMIT, Setting, Space, standard_knob
from lowjoule.prediction.baseline import logs
from lowjoule.prediction.features import (
    KNOBS,
    MeasuredTask,
    Places,
    Rows,
    Scale,
    anchor_settings,
    anchored_signature,
    places,
    static_signature,
)
from lowjoule.prediction.learning import Fitted, Joint, batch, fit
from lowjoule.profile import Profile
from lowjoule.workloads import Activity, DeviceFigures

Floats = NDArray[np.float64]

_FULL_CLOCK = 0.99  # clocks come in steps of 1 % and their counters round


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Settings that were measured: places, `coordinates` (n, 4) and `logs` (n, 2) of time, power.

    `known` tells which of the four knobs the task has.
    """

    at: Places
    coordinates: Floats
    logs: Floats
    known: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        profile: Profile,
        scale: Scale,
        known: NDArray[np.bool_],
        activity: Activity | None = None,
    ) -> Observed:
        """Return the rows of `profile`; `activity` is what was counted at its default.

        Raises `InvalidValueError` where one took no energy.
        """
        if not (profile.energy_j > 0).all():
            raise InvalidValueError(
                "a measured setting took no energy", cure="measure it again, or leave it out"
            )
        at = free(places(profile.settings, scale, len(profile)), known, activity)
        figures = np.log(np.stack([profile.time_s, profile.energy_j / profile.time_s], axis=1))
        return cls(at, at.coordinates(), figures, known)

    @property
    def kind(self) -> str:
        """The knobs that the task has, as one word."""
        return "+".join(name for name, has in zip(KNOBS, self.known, strict=True) if has)

    @property
    def turned(self) -> NDArray[np.bool_]:
        """Which of the four knobs have more than one value here."""
        return np.asarray(np.ptp(self.coordinates, axis=0) > 1e-6)

    def only(self, rows: Rows) -> Observed:
        """Return some of the rows."""
        return Observed(self.at.only(rows), self.coordinates[rows], self.logs[rows], self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A measured task, prepared: all its rows, which of them are anchors, what it is like."""

    name: str
    model: str
    device: str
    rows: Observed
    anchors: NDArray[np.intp]
    static: Floats

    @property
    def unseen(self) -> NDArray[np.intp]:
        """The rows that are not anchors."""
        return np.setdiff1d(np.arange(len(self.rows.logs)), self.anchors)


def known_knobs(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return which of the four knobs `columns` turn.

    Raises `InvalidValueError` where they turn another: its effect would be taken for nothing.
    """
    turned = {name for name, column in columns.items() if (column != column[0]).any()}
    other = sorted(turned - set(KNOBS))
    if other:
        raise InvalidValueError(
            f"the effect of {', '.join(other)} cannot be predicted",
            cure=f"hold it at one value with space.free, which may name {', '.join(KNOBS)}",
        )
    return np.array([name in turned for name in KNOBS])


def free(at: Places, known: NDArray[np.bool_], activity: Activity | None) -> Places:
    """Return the places without a limit where the default is known to run below it.

    No setting of a task that turns no limit draws more than its default: what did not hold the
    clock down there does so nowhere. `known` tells which knobs are turned.
    """
    held = activity is None or activity.clock is None or activity.clock < _FULL_CLOCK
    return at if held or known[KNOBS.index(POWER_LIMIT)] else at.unlimited()


def prepare(task: MeasuredTask, clock_anchors: int = 1) -> Known:
    """Return `task` with the anchors that `anchor_settings` would have measured of it.

    Raises `InvalidValueError` where that leaves no other row, or another knob is turned.
    """
    profile = task.profile
    default = profile.default or Setting()
    scale = Scale.of(default, profile.settings, task.device)
    rows = Observed.of(profile, scale, known_knobs(profile.settings), task.activity)
    place = {profile.setting(row): row for row in range(len(profile))}
    wanted = anchor_settings(space_of(profile), clock_anchors)
    anchors = np.array([place[one] for one in wanted], dtype=np.intp)
    if len(anchors) == len(profile):
        raise InvalidValueError(
            f"all settings of {task.name} are anchors", cure="use tasks with more settings"
        )
    static = static_signature(task.device, task.workload, task.activity)
    return Known(task.name, task.model, task.device.model, rows, anchors, static)


def space_of(profile: Profile) -> Space:
    """Return the space of a profile's settings, with its default."""
    default = profile.default or Setting()
    settings = [profile.setting(row) for row in range(len(profile))]
    knobs = []
    for name in profile.settings:
        values = [one[name] for one in settings]
        home = default.get(name)
        if home is None or home not in values:
            raise InvalidValueError(
                f"the default of {name} is not among the measured settings",
                cure="measure the default, or name another with profile.against",
            )
        knobs.append(standard_knob(name, values, home))
    return Space(tuple(knobs), listed=frozenset(settings))


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """What the anchors of one task say: the baseline's figures, their units, the signature.

    `baseline` off means that the default's own figures stand for every setting (for ablations).
    """

    anchors: Observed
    figures: Floats
    covariance: Floats
    units: Floats
    signature: Floats
    home: Floats
    baseline: bool = True

    def base(self, at: Places) -> Floats:
        """Return the baseline's log time and power at `at`, shape (n, 2)."""
        if not self.baseline:
            return np.tile(self.home, (len(at), 1))
        return np.asarray(logs(self.figures, at) + self.units)

    def headroom(self, at: Places) -> Floats:
        """Return the logarithm of the limit over what would be drawn without it; NaN if none."""
        demand = self.home[1]
        if self.baseline:
            demand = logs(self.figures, at.unlimited())[..., 1] + self.units[1]
        limit = np.where(np.isfinite(at.limit_w), at.limit_w, math.nan)
        return np.asarray(np.log(limit) - demand)


def anchor(
    observed: Sequence[Observed],
    statics: Floats,
    joint: Joint,
    *,
    baseline: bool = True,
    boards: int | None = None,
) -> list[Anchored]:
    """Return what the anchors of some tasks say under a learned prior, all in one fit.

    `statics` has shape (tasks, s); `boards` is as in `Joint.each`.
    """
    parts = [(one.at, np.exp(one.logs[:, 0]), np.exp(one.logs[:, 1])) for one in observed]
    rows = batch(parts)
    fitted: Fitted = fit(rows, joint.each(statics, boards))
    found = []
    for number, one in enumerate(observed):
        home = one.logs[int(np.argmin(np.sum(one.coordinates**2, axis=1)))]
        largest = one.at.largest_w[0]
        level = home[1] - math.log(largest) if math.isfinite(largest) else math.nan
        signature = anchored_signature(one.coordinates, one.logs, level)
        found.append(
            Anchored(
                anchors=one,
                figures=fitted.figures[number],
                covariance=fitted.covariance[number],
                units=rows.units[number],
                signature=np.concatenate([signature, statics[number]]),
                home=home,
                baseline=baseline,
            )
        )
    return found


def scale_of(space: Space, device: DeviceFigures) -> Scale:
    """Return what the knobs of `space` on a device are relative to."""
    columns = {knob.name: np.array(knob.values) for knob in space.knobs}
    return Scale.of(space.default, columns, device)
