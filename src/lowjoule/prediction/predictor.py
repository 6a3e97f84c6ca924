"""The offline predictor: learns from measured tasks, answers for a task with a few anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Space
from lowjoule.prediction.boosted import GAIN, available
from lowjoule.prediction.features import (
    KNOBS,
    MeasuredTask,
    places,
    static_signature,
)
from lowjoule.prediction.intervals import FIGURES, Calibration
from lowjoule.prediction.members import SIMPLE, Answer, Pair, Recipe, State, answer, hull_rows
from lowjoule.prediction.monotone import monotone
from lowjoule.prediction.tasks import Anchored, Observed, anchor, free, known_knobs, scale_of
from lowjoule.prediction.training import train
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads import Activity, DeviceFigures, Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """All settings of a space as predicted, in the space's order, with intervals.

    `profile` holds time and energy; a setting that is an anchor keeps what was measured, and its
    source says so. Each interval is a pair of arrays (n,), low and high, in which settings of a
    new model should lie with the share `level`, and no more often than `most` promises (`groups`
    models are behind it). `members` are what the prediction is the mean of, and what it leaves
    out: logarithms of time (s) and power (W), shape (n, 2) each. `outside` marks settings beyond
    what was learned from, whose intervals are wider. `notes` say what limits the prediction.
    """

    profile: Profile
    time_interval_s: tuple[Floats, Floats]
    power_interval_w: tuple[Floats, Floats]
    energy_interval_j: tuple[Floats, Floats]
    members: Mapping[str, Floats]
    outside: NDArray[np.bool_]
    level: float
    groups: int
    most: float
    notes: tuple[str, ...] = ()

    def interval(self, figure: str) -> tuple[Floats, Floats]:
        """Return the interval of "time", "power" or "energy"."""
        ends = (self.time_interval_s, self.power_interval_w, self.energy_interval_j)
        return ends[FIGURES.index(figure)]

    @property
    def power_w(self) -> Floats:
        """Average power of every setting, shape (n,)."""
        return np.asarray(self.profile.energy_j / self.profile.time_s)

    def take(self, rows: NDArray[np.bool_]) -> Prediction:
        """Return the prediction of some settings, by a mask (n,)."""

        def pair(ends: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
            return ends[0][rows], ends[1][rows]

        return replace(
            self,
            profile=self.profile.take(rows),
            time_interval_s=pair(self.time_interval_s),
            power_interval_w=pair(self.power_interval_w),
            energy_interval_j=pair(self.energy_interval_j),
            members={name: one[rows] for name, one in self.members.items()},
            outside=self.outside[rows],
        )


class Predictor:
    """Predicts time and power of every setting of a task from a few measured ones.

    Made by `fit` or `saving.load`; it does not change afterwards.
    """

    def __init__(
        self, state: State, chosen: dict[str, Pair], calibration: Calibration, recipe: Recipe
    ) -> None:
        self.state = state
        self.chosen = chosen
        self.calibration = calibration
        self.recipe = recipe

    @classmethod
    def fit(cls, tasks: Sequence[MeasuredTask], recipe: Recipe | None = None) -> Predictor:
        """Return the predictor that `tasks`, of at least two models, teach.

        Without XGBoost trees are left out of the choice of members, and every prediction notes it;
        a recipe that names them raises `MissingExtraError` then. Raises `InvalidValueError` where
        all tasks are of one model.
        """
        recipe = recipe or Recipe()
        if recipe.members is None and recipe.trees and not available():
            recipe = replace(recipe, trees=False)
        trained = train(tasks, recipe)
        return cls(trained.state, trained.chosen, trained.calibration, trained.recipe)

    def predict(
        self,
        space: Space,
        anchors: Profile,
        device: DeviceFigures,
        workload: Workload | None = None,
        *,
        activity: Activity | None = None,
        all_members: bool = False,
    ) -> Prediction:
        """Return every setting of `space` as predicted from `anchors`, measured on `device`.

        `anchors` are settings of the space's knobs, best those of `features.anchor_settings`; the
        prediction is of the same work. `workload` gives static counts, `activity` what was counted
        at the default; both may be left out. `all_members` asks for trees even where they are not
        part of the prediction. Raises `InvalidValueError` where an anchor lacks a
        knob of the space, the space turns a knob beside the four, or a value is impossible.
        """
        missing = [name for name in space.names if name not in anchors.settings]
        if missing or not len(anchors):
            raise InvalidValueError(
                f"no anchor has a value for {', '.join(missing) or 'any knob'}",
                cure="measure the default first, with every knob of the space",
            )
        columns = space.columns()
        scale = scale_of(space, device)
        known = known_knobs(columns)
        observed = Observed.of(anchors, scale, known, activity)
        said = self._said(observed, device, static_signature(device, workload, activity))
        at = free(places(columns, scale, len(space)), known, activity)
        members, strange = self._members(observed, device)
        trees = all_members or "boosted" in (*members[0], *members[1])
        found = answer(self.state, said, at, self.recipe, trees=trees)
        logs = found.mean(members)
        kept = monotone(columns, logs[:, 0], logs[:, 1])
        notes = (*strange, *self._notes(said, at.coordinates(), kept))
        return self._told(logs, found, anchors, space, notes)

    def _said(self, observed: Observed, device: DeviceFigures, static: Floats) -> Anchored:
        boards = self.state.devices.get(observed.kind, ())
        return anchor(
            [observed],
            static[None, :],
            self.state.joint,
            baseline=self.recipe.baseline,
            boards=None if device.model in boards else len(boards),
        )[0]

    def _members(self, anchors: Observed, device: DeviceFigures) -> tuple[Pair, tuple[str, ...]]:
        """Return whose mean the prediction is, and what is unlike everything learned from.

        Neighbours and trees know boards and anchors like those they have seen; where either is
        another, physics and the Gaussian process stand alone.
        """
        notes = []
        kind = anchors.kind
        if kind not in self.chosen:
            notes.append(f"no task with the knobs {kind.replace('+', ', ')} was learned from")
        elif device.model not in self.state.devices[kind]:
            notes.append(f"no task of this kind on a {device.model} was learned from")
        if not (self.state.turned == anchors.turned).all(axis=1).any():
            notes.append("the anchors turn other knobs than those that were learned with")
        if self.recipe.members is not None:
            return (self.recipe.members, self.recipe.members), tuple(notes)
        return SIMPLE if notes else self.chosen[kind], tuple(notes)

    def _notes(self, said: Anchored, wanted: Floats, kept: bool) -> tuple[str, ...]:
        notes = []
        if not self.state.trees and not available():
            notes.append(GAIN)
        silent = (np.ptp(wanted, axis=0) > 1e-6) & ~said.anchors.turned
        if silent.any():
            alone = ", ".join(name for name, one in zip(KNOBS, silent, strict=True) if one)
            notes.append(f"no anchor turns {alone}: its effect is what other tasks had")
        beyond = self.state.hull.named(hull_rows(said, wanted))
        if beyond:
            notes.append(f"{', '.join(beyond)} goes beyond what was learned from: wider there")
        if not kept:
            notes.append("the space is too large to be made monotone along limits and clocks")
        if self.calibration.most < self.calibration.level:
            notes.append(
                f"{self.calibration.groups} models can promise {self.calibration.most:.0%} at most"
            )
        return tuple(notes)

    def _told(
        self,
        logs: Floats,
        found: Answer,
        anchors: Profile,
        space: Space,
        notes: tuple[str, ...],
    ) -> Prediction:
        columns = space.columns()
        figures, ends = self._figures(logs, found.scale)
        sources = np.full(len(logs), Source.PREDICTED.value, dtype=object)
        _keep_measured(columns, anchors, figures, ends, sources)
        profile = Profile(
            work=anchors.work,
            time_s=figures["time"],
            energy_j=figures["energy"],
            settings=columns,
            default=space.default,
            source=Source.PREDICTED,
            sources=sources.astype(str),
        )
        return Prediction(
            profile=profile,
            time_interval_s=ends["time"],
            power_interval_w=ends["power"],
            energy_interval_j=ends["energy"],
            members=found.members,
            outside=found.outside > 1e-6,
            level=self.calibration.level,
            groups=self.calibration.groups,
            most=self.calibration.most,
            notes=notes,
        )

    def _figures(
        self, logs: Floats, scale: Floats
    ) -> tuple[dict[str, Floats], dict[str, tuple[Floats, Floats]]]:
        """Return time, power and energy, and the ends of their intervals."""
        centre = {"time": logs[:, 0], "power": logs[:, 1], "energy": logs.sum(axis=1)}
        spread = {"time": scale[:, 0], "power": scale[:, 1]}
        spread["energy"] = np.hypot(spread["time"], spread["power"])
        figures = {name: np.exp(one) for name, one in centre.items()}
        ends = {}
        for name, one in centre.items():
            half = self.calibration.factor(name) * spread[name]
            ends[name] = (np.exp(one - half), np.exp(one + half))
        return figures, ends


def _keep_measured(
    columns: Mapping[str, NDArray[Any]],
    anchors: Profile,
    figures: dict[str, Floats],
    ends: dict[str, tuple[Floats, Floats]],
    sources: NDArray[Any],
) -> None:
    """Put what was measured in the rows of anchors, and let their intervals contain it."""
    own = (
        np.full(len(anchors), anchors.source.value) if anchors.sources is None else anchors.sources
    )
    for row in range(len(anchors)):
        same = np.ones(len(sources), dtype=np.bool_)
        for name, column in columns.items():
            same &= column == anchors.settings[name][row]
        time_s, energy_j = float(anchors.time_s[row]), float(anchors.energy_j[row])
        told = {"time": time_s, "power": energy_j / time_s, "energy": energy_j}
        for name, value in told.items():
            figures[name][same] = value
            low, high = ends[name]
            low[same] = np.minimum(low[same], value)
            high[same] = np.maximum(high[same], value)
        sources[same] = own[row]
