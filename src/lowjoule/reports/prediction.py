"""A predicted frontier for people: choice, intervals, a picture, a table, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InfeasibleError
from lowjoule.knobs import Knob, Setting, Space, show_setting
from lowjoule.objectives import Constraint, Objective
from lowjoule.prediction.feasibility import Feasibility, feasibility, measured
from lowjoule.prediction.predictor import Prediction
from lowjoule.profile import Frontier
from lowjoule.profile.point import Point
from lowjoule.quantities import Unit, show
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.frontier import HOVERED, change, hover, point_at, point_dict, setting_text
from lowjoule.reports.listing import Listing, spread
from lowjoule.reports.page import Page
from lowjoule.source import Source

Floats = NDArray[np.float64]

_LISTED = 20
_CROSSED = 9  # frontier points whose intervals are drawn
_VIEW = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked: of which workload on which board, what is made small, under which bounds.

    `calibrated` is whether the board's simulation was fitted to measurements, None where no
    simulation is part of it.
    """

    workload: str
    board: str
    calibrated: bool | None
    space: Space
    objective: Objective
    constraints: tuple[Constraint, ...] = ()

    @property
    def title(self) -> str:
        """What it is a prediction of."""
        mark = " (uncalibrated)" if self.calibrated is False else ""
        return f"{self.workload} on {self.board}{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReport:
    """A prediction, what would be chosen of it, and what should be measured.

    `row` is the chosen row of `prediction.profile`; `sure_row` the best that keeps to the
    constraints over its whole interval, None where there is none; `wanted` are settings whose
    measurement would make the prediction better; `notes` what else is to be known.
    """

    asked: Asked
    prediction: Prediction
    kept: Feasibility
    row: int
    sure_row: int | None
    frontier: Frontier
    frontier_rows: NDArray[np.intp]
    wanted: tuple[Setting, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        asked: Asked,
        prediction: Prediction,
        *,
        wanted: Sequence[Setting] = (),
        notes: Sequence[str] = (),
    ) -> PredictionReport:
        """Return the report on `prediction`.

        Raises `InfeasibleError` where no setting keeps to the constraints, even somewhere in its
        interval; what keeps to them only there is chosen where nothing is likelier.
        """
        kept = feasibility(prediction, asked.constraints)
        profile = prediction.profile
        allowed = kept.likely if kept.likely.any() else kept.perhaps
        if not allowed.any():
            profile.frontier().choose(asked.objective, *asked.constraints)  # names the closest
            raise InfeasibleError("no setting keeps to the constraints", cure="relax one")
        front = profile.take(allowed).frontier()
        return cls(
            asked=asked,
            prediction=prediction,
            kept=kept,
            row=_best(prediction, asked.objective, allowed),
            sure_row=_best(prediction, asked.objective, kept.surely) if kept.surely.any() else None,
            frontier=front,
            frontier_rows=np.flatnonzero(allowed)[front.rows],
            wanted=tuple(wanted),
            notes=(*notes, *prediction.notes),
        )

    @property
    def chosen(self) -> Point:
        """The chosen setting with its predicted figures."""
        return self.prediction.profile.point(self.row)

    @property
    def default(self) -> Point | None:
        """The default as predicted or measured."""
        return point_at(self.prediction.profile, self.prediction.profile.default)

    @property
    def needs_measuring(self) -> bool:
        """Whether the chosen setting keeps to the constraints in a part of its interval only."""
        return bool(self.asked.constraints) and not self.kept.surely[self.row]

    def sentences(self) -> list[str]:
        """Return the report in words."""
        asked, found = self.asked, self.prediction
        bound = "".join(f", {one.text}" for one in asked.constraints)
        energy = self._range("energy", self.row, Unit.JOULE)
        time = self._range("time", self.row, Unit.SECOND)
        lines = [
            f"All figures are predicted but those of anchors. {len(self.frontier)} of "
            f"{len(found.profile):,} settings are on the frontier{bound}.",
            f"Chosen by {asked.objective.name}: {setting_text(asked.space, self.chosen)}"
            f"{self._against_default()}; {energy} and {time} of {found.profile.work} "
            f"({found.level:.0%} intervals).",
            *self._doubts(),
            f"Intervals come from {found.groups} models held out one by one; a new model can be "
            f"promised at most {found.most:.0%}.",
        ]
        if asked.calibrated is False:
            lines.append(
                f"{asked.board} is uncalibrated: its simulation follows data sheets, no "
                "measurement of it."
            )
        lines += self._wishes()
        return lines + [f"Note: {note}." for note in self.notes]

    def _doubts(self) -> list[str]:
        if not self.needs_measuring:
            return []
        bounds = " and ".join(one.text for one in self.asked.constraints)
        only = "in the middle" if self.kept.likely[self.row] else "at an end"
        line = f"It keeps to {bounds} only {only} of its interval: measure it before believing it."
        if self.sure_row is None:
            return [line, "No setting is sure to."]
        sure = self.prediction.profile.point(self.sure_row)
        return [line, f"Sure to is {setting_text(self.asked.space, sure)}."]

    def _wishes(self) -> list[str]:
        if not self.wanted:
            return []
        turned = [knob.name for knob in self.asked.space.knobs if len(knob.values) > 1]
        each = "; ".join(show_setting(one.only(turned), self.asked.space) for one in self.wanted)
        return [f"Measured, these settings would make it better: {each}."]

    def _against_default(self) -> str:
        base = self.default
        if base is None:
            return ""
        point = self.chosen
        energy = change(point.energy_j, base.energy_j)
        return f", energy {energy} and time {change(point.time_s, base.time_s)} of default"

    def _range(self, figure: str, row: int, unit: Unit) -> str:
        """Return an interval in words, or the figure alone where it was measured."""
        profile = self.prediction.profile
        value = {"time": profile.time_s, "energy": profile.energy_j}[figure][row]
        if measured(profile)[row]:
            return show(float(value), unit)
        low, high = self.prediction.interval(figure)
        return f"{show(float(value), unit)} ({show(float(low[row]), unit)} to " + (
            f"{show(float(high[row]), unit)})"
        )

    def _width(self, figure: str, row: int) -> str:
        """Return half the interval, relative, empty where the figure was measured."""
        if measured(self.prediction.profile)[row]:
            return ""
        low, high = self.prediction.interval(figure)
        return f"{np.sqrt(high[row] / low[row]) - 1.0:.0%}"

    def figure(self) -> Figure:
        """Return time against energy: settings, frontier with intervals, anchors, the choice."""
        profile = self.prediction.profile
        view = np.flatnonzero(self._in_view())
        anchors = np.flatnonzero(self._anchors())
        crossed = self.frontier_rows[spread(len(self.frontier_rows), _CROSSED)]
        series = [
            self._series("settings", Role.POINTS, view),
            self._series("frontier", Role.LINE, self.frontier_rows, crossed=crossed),
            self._series("anchors", Role.ANCHOR, anchors),
        ]
        base = self.default
        if base is not None:
            row = self._row_of(base.setting)
            series.append(self._series("default", Role.DEFAULT, np.array([row])))
        name = f"chosen ({self.asked.objective.name})"
        chosen = np.array([self.row])
        series.append(self._series(name, Role.CHOSEN, chosen, crossed=chosen))
        shown = np.concatenate([view, anchors, self.frontier_rows])
        return Figure(
            title=self.asked.title,
            description=f"Predicted energy against predicted time of {self.asked.title}: lines "
            f"through the frontier are {self.prediction.level:.0%} intervals, squares are anchors.",
            source=Source.PREDICTED,
            x=Axis.over(f"time of {profile.work}", profile.time_s[shown], Unit.SECOND),
            y=Axis.over(f"energy of {profile.work}", profile.energy_j[shown], Unit.JOULE),
            series=tuple(one for one in series if len(one.x)),
        )

    def listing(self, most: int | None = _LISTED) -> Listing:
        """Return the frontier's points as a table, at most about `most` of them."""
        rows = self.frontier_rows
        kept = tuple(np.flatnonzero(rows == self.row).tolist())
        places = spread(len(rows), most or len(rows), kept)
        left_out = len(rows) - len(places)
        knobs = self._free()
        figures = ("time", "time ±", "energy", "energy ±", "more time", "more energy")
        columns = (*(knob.name for knob in knobs), *figures, "")
        return Listing(
            title=f"PREDICTED: frontier of {self.asked.title}, of {self.prediction.profile.work}, "
            f"± {self.prediction.level:.0%} intervals"
            + (f" ({left_out} points left out)" if left_out else ""),
            columns=columns,
            rows=tuple(self._cells(int(rows[place]), knobs) for place in places),
            numbers=frozenset(columns[:-1]),
        )

    def page(self) -> Page:
        """Return the report as a page."""
        return Page(
            title=f"Predicted frontier of {self.asked.title}",
            source=Source.PREDICTED,
            sentences=self.sentences(),
            figures=(self.figure(),),
            listings=(self.listing(most=None),),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, version 1; SI units, missing values are null."""
        found, asked = self.prediction, self.asked
        base = self.default
        return {
            "version": 1,
            "source": Source.PREDICTED.value,
            "device": asked.board,
            "calibrated": asked.calibrated,
            "workload": asked.workload,
            "objective": asked.objective.name,
            "constraints": [one.text for one in asked.constraints],
            "work": {"quantity": found.profile.work.quantity, "unit": found.profile.work.unit},
            "units": {knob.name: knob.unit.value for knob in asked.space.knobs},
            "level": found.level,
            "groups": found.groups,
            "most": found.most,
            "default": None if base is None else self._dict(self._row_of(base.setting)),
            "chosen": self._dict(self.row),
            "needs_measuring": self.needs_measuring,
            "sure": None if self.sure_row is None else self._dict(self.sure_row),
            "points": len(found.profile),
            "frontier": [self._dict(int(row)) for row in self.frontier_rows],
            "anchors": [self._dict(int(row)) for row in np.flatnonzero(self._anchors())],
            "wanted": [dict(one) for one in self.wanted],
            "notes": list(self.notes),
        }

    def _dict(self, row: int) -> dict[str, object]:
        found = self.prediction
        sources = found.profile.sources
        ends: Mapping[str, tuple[Floats, Floats]] = {
            "time_interval_s": found.time_interval_s,
            "energy_interval_j": found.energy_interval_j,
            "power_interval_w": found.power_interval_w,
        }
        return {
            **point_dict(found.profile.point(row)),
            **{name: [float(pair[0][row]), float(pair[1][row])] for name, pair in ends.items()},
            "source": found.profile.source.value if sources is None else str(sources[row]),
            "outside": bool(found.outside[row]),
        }

    def _anchors(self) -> NDArray[np.bool_]:
        sources = self.prediction.profile.sources
        if sources is None:
            return np.zeros(len(self.prediction.profile), dtype=np.bool_)
        return np.asarray(sources != Source.PREDICTED.value)

    def _row_of(self, setting: Setting) -> int:
        keep = np.ones(len(self.prediction.profile), dtype=np.bool_)
        for name, column in self.prediction.profile.settings.items():
            keep &= column == setting[name]
        return int(np.flatnonzero(keep)[0])

    def _series(
        self, name: str, role: Role, rows: NDArray[np.intp], crossed: NDArray[np.intp] | None = None
    ) -> Series:
        profile = self.prediction.profile
        hovers: tuple[str, ...] = ()
        if len(rows) <= HOVERED:
            hovers = tuple(f"{hover(self.asked.space, profile.point(int(r)))}" for r in rows)
        ends = None
        if crossed is not None:
            drawn = np.isin(rows, crossed) & ~measured(profile)[rows]
            ends = [
                (np.where(drawn, pair[0][rows], np.nan), np.where(drawn, pair[1][rows], np.nan))
                for pair in (self.prediction.time_interval_s, self.prediction.energy_interval_j)
            ]
        return Series(
            name=name,
            role=role,
            x=profile.time_s[rows],
            y=profile.energy_j[rows],
            hovers=hovers,
            x_ends=None if ends is None else ends[0],
            y_ends=None if ends is None else ends[1],
        )

    def _in_view(self) -> NDArray[np.bool_]:
        """Return the settings worth drawing: far from the frontier, all else would be a blot."""
        profile = self.prediction.profile
        keep = np.ones(len(profile), dtype=np.bool_)
        for column in (profile.time_s, profile.energy_j):
            front = column[np.append(self.frontier_rows, self.row)]
            reach = float(front.max()) + _VIEW * max(float(np.ptp(front)), 0.05 * front.max())
            keep &= column <= reach
        return keep

    def _free(self) -> list[Knob]:
        columns = self.prediction.profile.settings
        rows = self.frontier_rows
        varied = [k for k in self.asked.space.knobs if len(set(columns[k.name][rows])) > 1]
        return varied or list(self.asked.space.knobs)

    def _cells(self, row: int, knobs: Sequence[Knob]) -> tuple[str, ...]:
        point, base = self.prediction.profile.point(row), self.default
        changes = (
            ("n/a", "n/a")
            if base is None
            else (change(point.time_s, base.time_s), change(point.energy_j, base.energy_j))
        )
        marks = {
            "chosen": row == self.row,
            "default": base is not None and point.setting == base.setting,
            "anchor": bool(self._anchors()[row]),
            "beyond": bool(self.prediction.outside[row]),
            "unsure": bool(self.asked.constraints) and not self.kept.surely[row],
        }
        return (
            *(knob.show(point.setting[knob.name]) for knob in knobs),
            show(point.time_s, Unit.SECOND),
            self._width("time", row),
            show(point.energy_j, Unit.JOULE),
            self._width("energy", row),
            *changes,
            " ".join(name for name, true in marks.items() if true),
        )


def _best(prediction: Prediction, objective: Objective, allowed: NDArray[np.bool_]) -> int:
    """Return the row of least `objective` among those allowed."""
    profile = prediction.profile
    outcome = profile.outcome()
    base = profile.baseline() if objective.needs_baseline else None
    values = np.where(allowed, objective.values(outcome, base), np.inf)
    return int(np.argmin(values))
