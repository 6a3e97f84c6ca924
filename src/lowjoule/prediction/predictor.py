"""The offline predictor: learns from measured tasks, answers for a task with a few anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting, Space
from lowjoule.prediction.boosted import GAIN, available
from lowjoule.prediction.features import (
    Activity,
    DeviceFigures,
    MeasuredTask,
    places,
    static_signature,
)
from lowjoule.prediction.intervals import FIGURES, Calibration
from lowjoule.prediction.members import Answer, Recipe, State, answer
from lowjoule.prediction.monotone import monotone
from lowjoule.prediction.tasks import Observed, anchor, known_knobs, scale_of
from lowjoule.prediction.training import train
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads import Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """All settings of a space as predicted, in the space's order, with intervals.

    `profile` holds time and energy; a setting that is an anchor keeps what was measured, and its
    source says so. Each interval is a pair of arrays (n,), low and high, that a setting of a
    new model should lie in with the share `level`, and no more often than `most` promises (`groups`
    models are behind it). `members` are the parts that the prediction is the mean of, and those that
    it leaves out: logarithms of time and power, shape (n, 2). `outside` marks settings beyond what was learned from, whose intervals
    are widened. `notes` say what limits the prediction.
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


class Predictor:
    """Predicts time and power of every setting of a task from a few measured ones.

    Made by `fit` or `saving.load`; it does not change afterwards.
    """

    def __init__(self, state: State, calibration: Calibration, recipe: Recipe) -> None:
        self.state = state
        self.calibration = calibration
        self.recipe = recipe

    @classmethod
    def fit(cls, tasks: Sequence[MeasuredTask], recipe: Recipe | None = None) -> Predictor:
        """Return the predictor that `tasks`, of at least two models, teach.

        Without XGBoost the default recipe is the mean of physics and the Gaussian process, and
        every prediction notes it; a recipe that names trees raises `MissingExtraError` then.
        Raises `InvalidValueError` where all tasks are of one model.
        """
        if recipe is None:
            recipe = Recipe()
            if not available():
                recipe = replace(recipe, members=("physics", "gaussian"))
        trained = train(tasks, recipe)
        return cls(trained.state, trained.calibration, recipe)

    def predict(
        self,
        space: Space,
        anchors: Profile,
        device: DeviceFigures,
        workload: Workload | None = None,
        *,
        activity: Activity | None = None,
    ) -> Prediction:
        """Return every setting of `space` as predicted from `anchors`, measured on `device`.

        `anchors` are settings of the space's knobs, best those of `features.anchor_settings`; the
        prediction is of the same work. `workload` gives static counts, `activity` what was counted
        at the default; both may be left out. Raises `InvalidValueError` where an anchor lacks a
        knob of the space or a value is impossible.
        """
        missing = [name for name in space.names if name not in anchors.settings]
        if missing or not len(anchors):
            raise InvalidValueError(
                f"no anchor has a value for {', '.join(missing) or 'any knob'}",
                cure="measure the default first, with every knob of the space",
            )
        columns = space.columns()
        scale = scale_of(space, device)
        observed = Observed.of(anchors, scale, known_knobs(columns))
        static = static_signature(device, workload, activity)[None, :]
        said = anchor([observed], static, self.state.joint, baseline=self.recipe.baseline)[0]
        at = places(columns, scale, len(space))
        found = answer(self.state, said, at, self.recipe)
        logs = found.mean(self.recipe)
        kept = monotone(columns, logs[:, 0], logs[:, 1])
        notes = self._notes(found, said.anchors.coordinates, at.coordinates(), kept)
        return self._told(logs, found, columns, anchors, space.default, notes)

    def _notes(self, found: Answer, anchors: Floats, wanted: Floats, kept: bool) -> tuple[str, ...]:
        hull = self.state.hull
        notes = []
        if "boosted" not in found.members:
            notes.append(GAIN)
        turned = np.ptp(wanted, axis=0) > 1e-6
        alone = [
            name
            for name, moves, told in zip(
                hull.names, turned, np.ptp(anchors, axis=0) > 1e-6, strict=True
            )
            if moves and not told
        ]
        if alone:
            notes.append(f"no anchor turns {', '.join(alone)}: its effect is an average one")
        beyond = hull.named(wanted)
        if beyond:
            notes.append(f"{', '.join(beyond)} lies outside what was learned from: wider there")
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
        columns: Mapping[str, NDArray[Any]],
        anchors: Profile,
        default: Setting,
        notes: tuple[str, ...],
    ) -> Prediction:
        centre = {"time": logs[:, 0], "power": logs[:, 1], "energy": logs.sum(axis=1)}
        spread = {"time": found.scale[:, 0], "power": found.scale[:, 1]}
        spread["energy"] = np.hypot(spread["time"], spread["power"])
        figures = {name: np.exp(one) for name, one in centre.items()}
        ends = {}
        for name, one in centre.items():
            half = self.calibration.factor(name) * spread[name]
            ends[name] = (np.exp(one - half), np.exp(one + half))
        sources = np.full(len(logs), Source.PREDICTED.value, dtype=object)
        _keep_measured(columns, anchors, figures, ends, sources)
        profile = Profile(
            work=anchors.work,
            time_s=figures["time"],
            energy_j=figures["energy"],
            settings=columns,
            default=default,
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
