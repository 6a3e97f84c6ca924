"""The signature of a task: all that is known of it before its settings are predicted.

What it does (static counts), what it runs on (the board's figures), what counters say of it, and
a few settings measured (its anchors). It travels as JSON; what is missing is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Scope, Setting, Space
from lowjoule.workloads.figures import Activity, DeviceFigures
from lowjoule.workloads.work import WorkUnit
from lowjoule.workloads.workload import IDENTIFYING, Workload

VERSION = 1
"""The version of the JSON form."""

_CURE = "it is not one that lowjoule wrote: measure the task again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One setting measured: time and energy of one unit of work, both positive.

    A `live` one can be taken while the job runs; the others turn something that only a start
    of the job can (a batch size, a precision), so they are chosen before the run.
    """

    setting: Setting
    time_s: float
    energy_j: float
    live: bool

    def __post_init__(self) -> None:
        if not (0 < self.time_s < math.inf and 0 < self.energy_j < math.inf):
            raise InvalidValueError(
                f"an anchor of {self.time_s:g} s and {self.energy_j:g} J",
                cure="measure a unit of work that takes time and energy",
            )


def is_live(space: Space, setting: Setting) -> bool:
    """Return whether a running job can be brought to `setting` from the default of `space`."""
    changed = space.default.changed(setting)
    return all(space.knob(name).scope <= Scope.STEP for name in changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What is known of a task: of its work, its device, its counters, and of some settings.

    Each part may be missing. `default` is the setting in force when nobody turns a knob; the
    anchors follow in the order in which they were measured, the default among them where it was.
    """

    workload: Workload | None = None
    device: DeviceFigures | None = None
    activity: Activity | None = None
    default: Setting | None = None
    anchors: tuple[Anchor, ...] = ()

    def with_anchors(self, anchors: Iterable[Anchor]) -> Signature:
        """Return the same with other anchors."""
        return replace(self, anchors=tuple(anchors))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; a part that is missing is left out, a figure that is, too.

        Of the workload it keeps what makes it the work it is (`Workload.signature`) and its
        model: not the knobs, the job and the words about it.
        """
        told: dict[str, object] = {"version": VERSION}
        if self.workload is not None:
            told["workload"] = _known(
                {name: getattr(self.workload, name) for name in (*IDENTIFYING, "model")}
            )
        for name in ("device", "activity"):
            part = getattr(self, name)
            if part is not None:
                told[name] = _known(asdict(part))
        if self.default is not None:
            told["default"] = dict(self.default)
        if self.anchors:
            told["anchors"] = [
                {
                    "setting": dict(one.setting),
                    "time_s": one.time_s,
                    "energy_j": one.energy_j,
                    "live": one.live,
                }
                for one in self.anchors
            ]
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Signature:
        """Return what `to_dict` gave; raises `InvalidValueError` for anything else.

        Fields that this version does not know are passed over.
        """
        if told.get("version") != VERSION:
            raise InvalidValueError(
                f"a signature of version {told.get('version')!r}, this reads {VERSION}", cure=_CURE
            )
        try:
            workload, device = told.get("workload"), told.get("device")
            activity, default = told.get("activity"), told.get("default")
            return cls(
                workload=None if workload is None else _workload(workload),
                device=None if device is None else DeviceFigures(**_own(DeviceFigures, device)),
                activity=None if activity is None else Activity(**_own(Activity, activity)),
                default=None if default is None else Setting(default),
                anchors=tuple(
                    Anchor(**{**_own(Anchor, one), "setting": Setting(one["setting"])})
                    for one in told.get("anchors", ())
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidValueError(f"a signature cannot be read ({error})", cure=_CURE) from error


def _known(figures: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in figures.items() if value is not None}


def _own(kind: type[Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `kind` in `told`; numbers are checked to be such."""
    names = {field.name for field in fields(kind)}
    found = {name: value for name, value in told.items() if name in names}
    for name, value in found.items():
        words = name in ("model", "setting", "live", *_WORDS)
        if not words and not (isinstance(value, int | float) and math.isfinite(value)):
            raise TypeError(f"{name} is no number")
    return found


_WORDS = ("name", "unit", "training", "compute_unit", "precision")


def _workload(told: Mapping[str, Any]) -> Workload:
    own = {k: v for k, v in _own(Workload, told).items() if k in (*IDENTIFYING, "model")}
    return Workload(**{**own, "unit": WorkUnit(own["unit"])})
