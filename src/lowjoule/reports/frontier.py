"""A frontier for people: the choice on it, a picture, a table, and its JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowjoule.devices.interface import Identity
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import BATCH_SIZE, MICRO_BATCH, Knob, Setting, Space
from lowjoule.objectives import Constraint, Objective
from lowjoule.profile import Choice, Frontier, Profile
from lowjoule.profile.point import Point
from lowjoule.quantities import Unit, show
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.listing import Listing, spread
from lowjoule.reports.page import Page

HOVERED = 2000
_LISTED = 20
_VIEW = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierReport:
    """What is known of a workload on a device, and what would be chosen of it.

    `profile` holds all points that may be chosen from, before the constraints; `frontier` those
    that keep to them and that no other beats. `default` is None where it was not measured.
    """

    identity: Identity
    workload: str
    space: Space
    objective: Objective
    constraints: tuple[Constraint, ...]
    profile: Profile
    frontier: Frontier
    choice: Choice
    default: Point | None

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
    ) -> FrontierReport:
        """Return the report on the points of `profile` that `space` allows.

        Raises `InfeasibleError` where no point keeps to the constraints.
        """
        profile = within(profile, space)
        choice = profile.frontier().choose(objective, *constraints)
        return cls(
            identity=identity,
            workload=workload,
            space=space,
            objective=objective,
            constraints=tuple(constraints),
            profile=profile,
            frontier=profile.where(*constraints).frontier(),
            choice=choice,
            default=point_at(profile, profile.default),
        )

    @property
    def title(self) -> str:
        """What it is a frontier of."""
        return f"{self.workload} on {self.identity.title}"

    def figure(self) -> Figure:
        """Return time against energy: all points, the frontier, default and chosen."""
        front = self.frontier
        profile = self._in_view()
        marked = [p for p in (self.default, self.choice.point) if p is not None]
        priced = not (isinstance(profile.price_w, float) and profile.price_w == 0.0)
        energy = "energy beyond waiting" if priced else "energy"
        beyond = len(self.profile) - len(profile)
        series = [
            Series(
                name="other points" + (f" ({beyond} are beyond)" if beyond else ""),
                role=Role.POINTS,
                x=profile.time_s,
                y=profile.effective_j,
                hovers=self._hovers(profile),
            ),
            Series(
                name="frontier",
                role=Role.LINE,
                x=front.time_s,
                y=front.effective_j,
                hovers=self._hovers(front.profile.take(front.rows)),
            ),
        ]
        for point, role, name in (
            (self.default, Role.DEFAULT, "default"),
            (self.choice.point, Role.CHOSEN, f"chosen ({self.objective.name})"),
        ):
            if point is not None:
                series.append(self._mark(point, role, name))
        return Figure(
            title=self.title,
            description=f"Energy against time of {self.title}: all points, frontier, default, "
            f"and what {self.objective.name} chooses.",
            source=self.identity.source,
            x=Axis.over(f"time of {profile.work}", profile.time_s, Unit.SECOND),
            y=Axis.over(
                f"{energy} of {profile.work}",
                np.append(profile.effective_j, [self._cost(point) for point in marked]),
                Unit.JOULE,
            ),
            series=tuple(series),
        )

    def sentences(self) -> list[str]:
        """Return the report in words."""
        bound = "".join(f", {one.text}" for one in self.constraints)
        lines = [
            f"{len(self.frontier)} of {len(self.profile)} points are on the frontier{bound}.",
            f"Chosen by {self.objective.name}: {setting_text(self.space, self.choice.point)}"
            f"{self._against_default()}.",
        ]
        if len(self.frontier) > 2:
            knee = self.frontier.knee()
            lines.append(f"The knee is at {setting_text(self.space, knee)}.")
        if self.default is None:
            lines.append("The default was not measured.")
        return lines

    def listing(self, most: int | None = _LISTED) -> Listing:
        """Return the frontier's points as a table, at most about `most` of them."""
        front = self.frontier
        kept = [k for k, point in enumerate(front) if point.setting == self.choice.point.setting]
        places = spread(len(front), most or len(front), tuple(kept))
        left_out = len(front) - len(places)
        rows = [self._row(front[place], chosen=place in kept) for place in places]
        knobs = [knob.name for knob in self._free()]
        figures = ("time", "energy", "power", "more time", "more energy")
        return Listing(
            title=f"{self.identity.source.value.upper()}: frontier of {self.title}, "
            f"of {front.profile.work}" + (f" ({left_out} points left out)" if left_out else ""),
            columns=(*knobs, *figures, ""),
            rows=tuple(rows),
            numbers=frozenset((*knobs, *figures)),
        )

    def page(self) -> Page:
        """Return the report as a page."""
        return Page(
            title=f"Frontier of {self.title}",
            source=self.identity.source,
            sentences=self.sentences(),
            figures=(self.figure(),),
            listings=(self.listing(most=None),),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, version 1; SI units, missing values are null."""
        front = self.frontier
        return {
            "version": 1,
            "source": self.identity.source.value,
            "device": self.identity.model,
            "calibrated": self.identity.calibrated,
            "device_uuid": self.identity.uuid,
            "workload": self.workload,
            "objective": self.objective.name,
            "constraints": [one.text for one in self.constraints],
            "work": {"quantity": front.profile.work.quantity, "unit": front.profile.work.unit},
            "units": {knob.name: knob.unit.value for knob in self.space.knobs},
            "default": None if self.default is None else point_dict(self.default),
            "chosen": {**point_dict(self.choice.point), "objective": self.choice.value},
            "knee": point_dict(front.knee()),
            "points": len(self.profile),
            "frontier": [point_dict(point) for point in front],
        }

    def _in_view(self) -> Profile:
        """Return the points worth drawing: far from the frontier, all else would be a blot."""
        keep = np.ones(len(self.profile), dtype=np.bool_)
        marked = [p for p in (self.default, self.choice.point) if p is not None]
        for column, front, ends in (
            (self.profile.time_s, self.frontier.time_s, [p.time_s for p in marked]),
            (
                self.profile.effective_j,
                self.frontier.effective_j,
                [self._cost(p) for p in marked],
            ),
        ):
            near = np.append(front, ends)
            reach = float(near.max()) + _VIEW * max(float(np.ptp(near)), 0.05 * abs(near.max()))
            keep &= column <= reach
        return self.profile.take(keep)

    def _free(self) -> list[Knob]:
        """Return the knobs that differ along the frontier, or all where none does."""
        settings = [point.setting for point in self.frontier]
        knobs = [k for k in self.space.knobs if len({one[k.name] for one in settings}) > 1]
        return knobs or list(self.space.knobs)

    def _cost(self, point: Point) -> float:
        price = self.profile.price_w
        wait_w = price if isinstance(price, float) else point.wait_power_w
        return point.energy_j if wait_w is None else point.energy_j - wait_w * point.time_s

    def _mark(self, point: Point, role: Role, name: str) -> Series:
        return Series(
            name=name,
            role=role,
            x=np.array([point.time_s]),
            y=np.array([self._cost(point)]),
            hovers=(f"{name}: {hover(self.space, point)}",),
        )

    def _hovers(self, profile: Profile) -> tuple[str, ...]:
        if len(profile) > HOVERED:
            return ()
        return tuple(hover(self.space, point) for point in profile)

    def _row(self, point: Point, *, chosen: bool) -> tuple[str, ...]:
        base = self.default
        changes = (
            ("n/a", "n/a")
            if base is None
            else (change(point.time_s, base.time_s), change(point.energy_j, base.energy_j))
        )
        is_default = base is not None and point.setting == base.setting
        remark = " ".join(["chosen"] * chosen + ["default"] * is_default)
        return (
            *(knob.show(point.setting[knob.name]) for knob in self._free()),
            show(point.time_s, Unit.SECOND),
            show(point.energy_j, Unit.JOULE),
            show(point.power_w, Unit.WATT),
            *changes,
            remark,
        )

    def _against_default(self) -> str:
        if self.default is None:
            return ""
        point = self.choice.point
        energy = change(point.energy_j, self.default.energy_j)
        return f", energy {energy} and time {change(point.time_s, self.default.time_s)} of default"


def within(profile: Profile, space: Space) -> Profile:
    """Return the points whose held knobs (those with a single value) stand at that value.

    Where the space leaves the micro-batch out, those whose batch runs whole.

    Raises `InvalidValueError` where none is left.
    """
    keep = np.ones(len(profile), dtype=np.bool_)
    for knob in space.knobs:
        if len(knob.values) == 1 and knob.name in profile.settings:
            keep &= profile.settings[knob.name] == knob.values[0]
    if MICRO_BATCH in profile.settings and MICRO_BATCH not in space.names:
        keep &= profile.settings[MICRO_BATCH] >= profile.settings[BATCH_SIZE]
    if not keep.any():
        raise InvalidValueError(
            f"no point has the default {dict(space.default)}",
            cure="choose another default, or turn more knobs with --knobs",
        )
    return profile if keep.all() else profile.take(keep)


def point_at(profile: Profile, setting: Setting | None) -> Point | None:
    """Return the first point of `profile` at `setting`, None where there is none."""
    if setting is None:
        return None
    keep = np.ones(len(profile), dtype=np.bool_)
    for name, value in setting.items():
        if name in profile.settings:
            keep &= profile.settings[name] == value
    rows = np.flatnonzero(keep)
    return profile.point(int(rows[0])) if len(rows) else None


def point_dict(point: Point) -> dict[str, object]:
    """Return the JSON form of a point."""
    return {
        "setting": dict(point.setting),
        "time_s": point.time_s,
        "energy_j": point.energy_j,
        "power_w": point.power_w,
    }


def setting_text(space: Space, point: Point) -> str:
    """Return a point's setting in words with units."""
    return ", ".join(f"{k.name} {k.show(point.setting[k.name])}" for k in space.knobs)


def hover(space: Space, point: Point) -> str:
    """Return what is shown when a point is pointed at."""
    figures = (
        f"{show(point.time_s, Unit.SECOND)}, {show(point.energy_j, Unit.JOULE)}, "
        f"{show(point.power_w, Unit.WATT)}"
    )
    return f"{setting_text(space, point)}: {figures}"


def change(value: float, base: float) -> str:
    """Return a relative change in words."""
    return f"{value / base - 1.0:+.1%}"
