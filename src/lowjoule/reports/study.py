"""What each knob does alone: its sensitivity, with the others at the default and at the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lowjoule.devices.interface import Identity
from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.knobs import Knob, Setting, Space
from lowjoule.objectives import Constraint, Objective, Outcome
from lowjoule.profile import Profile
from lowjoule.profile.point import Point
from lowjoule.profile.profile import Floats
from lowjoule.quantities import Unit, show
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.frontier import change, hover, point_at, point_dict, setting_text, within
from lowjoule.reports.listing import Listing, spread
from lowjoule.reports.page import Page

_LISTED = 12


@dataclass(frozen=True)
class Sweep:
    """One knob over its values, the others as in `base`; `points` are in the values' order."""

    knob: Knob
    base: Setting
    points: tuple[Point, ...]
    quantity: float

    @cached_property
    def work_per_j(self) -> Floats:
        """Work per joule, which is throughput per watt."""
        return np.array([self.quantity / point.energy_j for point in self.points])

    @cached_property
    def work_per_s(self) -> Floats:
        """Throughput."""
        return np.array([self.quantity / point.time_s for point in self.points])

    @property
    def span(self) -> float:
        """Work per joule at the best value over that at the worst: 1 is "does not matter"."""
        return float(self.work_per_j.max() / self.work_per_j.min())

    @property
    def places(self) -> Floats:
        """Where the values stand on an axis: themselves, or 0, 1, 2... for names."""
        values = [point.setting[self.knob.name] for point in self.points]
        if any(isinstance(value, str) for value in values):
            return np.array([float(self.knob.index(value)) for value in values])
        return np.array([float(value) for value in values])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStudy:
    """A knob's sweeps from the default and from the best setting, and its own best value.

    `best` is the point of least objective along the sweep from the default.
    """

    knob: Knob
    at_default: Sweep
    at_best: Sweep
    default: Point
    best: Point
    objective: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The study of all knobs that have more than one value."""

    identity: Identity
    workload: str
    space: Space
    objective: Objective
    profile: Profile
    default: Point
    best: Point
    knobs: tuple[KnobStudy, ...]

    @classmethod
    def of(
        cls,
        profile: Profile,
        *,
        identity: Identity,
        workload: str,
        space: Space,
        objective: Objective,
        constraints: Sequence[Constraint] = (),
    ) -> Study:
        """Return the study of `profile` within `space`.

        Raises `InfeasibleError` where no point keeps to the constraints, `InvalidValueError`
        where no knob has two values, `IncomparableError` where the default was not measured.
        """
        profile = within(profile, space)
        default = point_at(profile, profile.default)
        if default is None:
            raise IncomparableError(
                "the default was not measured", cure="name another with --default KNOB=VALUE"
            )
        best = profile.frontier().choose(objective, *constraints).point
        studies = []
        for knob in space.knobs:
            sweep = _sweep(profile, knob, default.setting)
            if len(sweep.points) > 1:
                values = _values(objective, sweep.points, default)
                least = int(np.argmin(values))
                studies.append(
                    KnobStudy(
                        knob=knob,
                        at_default=sweep,
                        at_best=_sweep(profile, knob, best.setting),
                        default=default,
                        best=sweep.points[least],
                        objective=float(values[least]),
                    )
                )
        if not studies:
            raise InvalidValueError(
                f"no knob of {workload} was measured at two values",
                cure="use a device or table that varies one",
            )
        return cls(
            identity=identity,
            workload=workload,
            space=space,
            objective=objective,
            profile=profile,
            default=default,
            best=best,
            knobs=tuple(studies),
        )

    @property
    def title(self) -> str:
        """What is studied."""
        return f"{self.workload} on {self.identity.title}"

    @property
    def unit(self) -> str:
        """The unit of work."""
        return self.profile.work.unit.value

    def sentences(self) -> list[str]:
        """Return the study in words."""
        learning = [one.knob.name for one in self.knobs if one.knob.changes_learning]
        return [
            f"Default: {setting_text(self.space, self.default)}.",
            f"Best by {self.objective.name}: {setting_text(self.space, self.best)}.",
            f"{self.unit.capitalize()}s per joule are throughput per watt; a knob's span is the "
            "most of them over the least, the others at the default or at the best.",
            *([f"What is learned depends on {' and '.join(learning)}."] if learning else []),
        ]

    def summary(self) -> Listing:
        """Return one row a knob: what turning it alone, from the default, can do."""
        rows = []
        for study in sorted(self.knobs, key=lambda one: -one.at_default.span):
            knob, base, best = study.knob, study.default, study.best
            rows.append(
                (
                    knob.name,
                    knob.show(base.setting[knob.name]),
                    knob.show(best.setting[knob.name]),
                    change(best.energy_j, base.energy_j),
                    change(best.time_s, base.time_s),
                    f"{study.at_default.span:.2f}x",
                    f"{study.at_best.span:.2f}x",
                )
            )
        columns = ("default", "best alone", "more energy", "more time", "span", "best span")
        return Listing(
            title=f"{self.identity.source.value.upper()}: knobs of {self.title}, each alone",
            columns=("knob", *columns),
            rows=tuple(rows),
            numbers=frozenset(columns),
        )

    def listing(self, study: KnobStudy, most: int | None = _LISTED) -> Listing:
        """Return the sweep of one knob, at most about `most` of its values."""
        sweep = study.at_default
        kept = tuple(
            place
            for place, point in enumerate(sweep.points)
            if point in (study.default, study.best)
        )
        rows = []
        for place in spread(len(sweep.points), most or len(sweep.points), kept):
            point = sweep.points[place]
            marks = ["default"] * (point == study.default) + ["best alone"] * (point == study.best)
            rows.append(
                (
                    study.knob.show(point.setting[study.knob.name]),
                    f"{sweep.work_per_j[place]:.4g}",
                    f"{sweep.work_per_s[place]:.4g}",
                    show(point.power_w, Unit.WATT),
                    change(point.energy_j, study.default.energy_j),
                    change(point.time_s, study.default.time_s),
                    ", ".join(marks),
                )
            )
        columns = (study.knob.name, *self._units(), "power", "more energy", "more time")
        return Listing(
            title=f"{self.identity.source.value.upper()}: {study.knob.name} alone, "
            "the others at the default",
            columns=(*columns, ""),
            rows=tuple(rows),
            numbers=frozenset(columns),
        )

    def figures(self, study: KnobStudy) -> tuple[Figure, Figure]:
        """Return work per joule and throughput over one knob."""
        joule, second = self._units()
        return (
            self._figure(study, "efficiency", joule, lambda sweep: sweep.work_per_j),
            self._figure(study, "throughput", second, lambda sweep: sweep.work_per_s),
        )

    def page(self) -> Page:
        """Return the study as a page."""
        return Page(
            title=f"Study of {self.title}",
            source=self.identity.source,
            sentences=self.sentences(),
            figures=[figure for study in self.knobs for figure in self.figures(study)],
            listings=[self.summary(), *(self.listing(one, most=None) for one in self.knobs)],
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, version 1; SI units."""
        return {
            "version": 1,
            "source": self.identity.source.value,
            "device": self.identity.model,
            "calibrated": self.identity.calibrated,
            "device_uuid": self.identity.uuid,
            "workload": self.workload,
            "objective": self.objective.name,
            "work": {"quantity": self.profile.work.quantity, "unit": self.unit},
            "default": point_dict(self.default),
            "best": point_dict(self.best),
            "knobs": [_knob_dict(study) for study in self.knobs],
        }

    def _units(self) -> tuple[str, str]:
        return f"{self.unit}s/J", f"{self.unit}s/s"

    def _figure(self, study: KnobStudy, what: str, symbol: str, of: object) -> Figure:
        assert callable(of)
        knob = study.knob
        lines = (
            (study.at_default, Role.LINE, "others at default"),
            (study.at_best, Role.SECOND, "others at best"),
        )
        every = np.concatenate([of(sweep) for sweep, _, _ in lines])
        places = np.concatenate([sweep.places for sweep, _, _ in lines])
        series = [
            Series(
                name=name,
                role=role,
                x=sweep.places,
                y=of(sweep),
                hovers=tuple(hover(self.space, point) for point in sweep.points),
            )
            for sweep, role, name in lines
        ]
        for point, role, name in (
            (self.default, Role.DEFAULT, "default"),
            (self.best, Role.CHOSEN, f"best ({self.objective.name})"),
        ):
            one = Sweep(knob, point.setting, (point,), self.profile.work.quantity)
            hovers = (f"{name}: {hover(self.space, point)}",)
            series.append(Series(name=name, role=role, x=one.places, y=of(one), hovers=hovers))
        return Figure(
            title=f"{what} over {knob.name}: {self.workload}",
            description=f"{what.capitalize()} of {self.title} over {knob.name}, the other knobs at "
            f"the default and at the best setting by {self.objective.name}.",
            source=self.identity.source,
            x=_axis(knob, places),
            y=Axis.over(what, every, symbol),
            series=tuple(series),
        )


def _axis(knob: Knob, places: Floats) -> Axis:
    if isinstance(knob.values[0], str):
        return Axis.named(knob.name, [str(value) for value in knob.values])
    counted = knob.unit is Unit.COUNT and places.min() > 0 and places.max() / places.min() >= 8
    return Axis.over(knob.name, places, knob.unit, log=counted)


def _sweep(profile: Profile, knob: Knob, base: Setting) -> Sweep:
    """Return the points that differ from `base` in `knob` at most, one a value."""
    keep = np.ones(len(profile), dtype=np.bool_)
    for name, column in profile.settings.items():
        if name != knob.name:
            keep &= column == base[name]
    found: dict[object, Point] = {}
    for row in np.flatnonzero(keep):
        point = profile.point(int(row))
        if knob.name in point.setting:
            found.setdefault(point.setting[knob.name], point)
    order = {value: place for place, value in enumerate(knob.values)}
    points = sorted(found.values(), key=lambda one: order.get(one.setting[knob.name], len(order)))
    return Sweep(knob, base, tuple(points), profile.work.quantity)


def _values(objective: Objective, points: Sequence[Point], default: Point) -> Floats:
    outcome = Outcome(
        time_s=np.array([point.time_s for point in points]),
        energy_j=np.array([point.energy_j for point in points]),
    )
    base = Outcome(time_s=np.array(default.time_s), energy_j=np.array(default.energy_j))
    return objective.values(outcome, base)


def _knob_dict(study: KnobStudy) -> dict[str, object]:
    def sweep_dict(sweep: Sweep) -> list[dict[str, object]]:
        return [
            {
                **point_dict(point),
                "value": point.setting[study.knob.name],
                "work_per_j": sweep.work_per_j[place],
                "work_per_s": sweep.work_per_s[place],
            }
            for place, point in enumerate(sweep.points)
        ]

    return {
        "knob": study.knob.name,
        "unit": study.knob.unit.value,
        "changes_learning": study.knob.changes_learning,
        "best_alone": study.best.setting[study.knob.name],
        "objective": study.objective,
        "span_at_default": study.at_default.span,
        "span_at_best": study.at_best.span,
        "at_default": sweep_dict(study.at_default),
        "at_best": sweep_dict(study.at_best),
    }
