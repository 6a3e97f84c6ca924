"""All points of a task, in columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.knobs.space import columns_of
from lowjoule.objectives.objective import Constraint, Outcome
from lowjoule.profile.plan import Leaf, Plan
from lowjoule.profile.point import Point
from lowjoule.profile.provenance import Sources
from lowjoule.profile.reference import Reference
from lowjoule.profile.spread import energy_error_j
from lowjoule.source import Source
from lowjoule.workloads import Work

if TYPE_CHECKING:
    from lowjoule.profile.frontier import Frontier

Floats = NDArray[np.float64]
Rows = NDArray[np.intp] | NDArray[np.bool_] | slice

OPTIONAL = (
    "wait_power_w",
    "peak_power_w",
    "latency_s",
    "memory_bytes",
    "time_sd_s",
    "energy_sd_j",
    "windows",
)


class Origin(Protocol):
    """Where the rows of a composed profile come from."""

    def plan(self, row: int) -> Plan:
        """Return what row `row` applies."""
        ...

    def take(self, rows: Rows) -> Origin:
        """Return the origin of some rows."""
        ...


class Profile:
    """Every measured point of one amount of work, as NumPy columns of one length n.

    `settings` has one array of length n a knob. The figures are of all of `work`: `time_s` > 0,
    `energy_j` >= 0, finite. Optional columns are None where they were not measured; a scalar
    stands for all rows. `wait_power_w` is what the device draws while it waits, `default` the
    setting that relative objectives and constraints compare with. `gain_sd` is the relative
    standard deviation of the board's calibration gain: it cancels between points and adds in
    totals. `price_w` is the price of time, set by `priced`; `reference` the default's figures
    where the default may not be among the rows; `sources` each row's source (its `value`) where
    they differ, `source` then being the weakest. Columns are not copied and must not be written
    to afterwards.

    Raises `InvalidValueError` where a column is of another length or holds an impossible value.
    """

    def __init__(
        self,
        *,
        work: Work,
        time_s: ArrayLike,
        energy_j: ArrayLike,
        settings: Mapping[str, NDArray[Any]],
        wait_power_w: ArrayLike | None = None,
        peak_power_w: ArrayLike | None = None,
        latency_s: ArrayLike | None = None,
        memory_bytes: ArrayLike | None = None,
        time_sd_s: ArrayLike | None = None,
        energy_sd_j: ArrayLike | None = None,
        windows: ArrayLike | None = None,
        default: Setting | None = None,
        source: Source = Source.MEASURED,
        gain_sd: float = 0.0,
        price_w: Floats | float = 0.0,
        reference: Reference | None = None,
        origin: Origin | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.work = work
        self.time_s: Floats = np.atleast_1d(np.asarray(time_s, dtype=np.float64))
        self.energy_j: Floats = np.atleast_1d(np.asarray(energy_j, dtype=np.float64))
        self.settings = {name: np.asarray(column) for name, column in settings.items()}
        count = len(self.time_s)
        self.wait_power_w = _column("wait_power_w", wait_power_w, count)
        self.peak_power_w = _column("peak_power_w", peak_power_w, count)
        self.latency_s = _column("latency_s", latency_s, count)
        self.memory_bytes = _column("memory_bytes", memory_bytes, count)
        self.time_sd_s = _column("time_sd_s", time_sd_s, count)
        self.energy_sd_j = _column("energy_sd_j", energy_sd_j, count)
        self.windows = _column("windows", windows, count)
        self.default = default
        self.source = source
        self.gain_sd = gain_sd
        self.price_w = price_w
        self.sources = sources
        self.origin = origin
        self._reference = reference
        self._check()

    @classmethod
    def from_points(
        cls,
        points: Sequence[Point],
        work: Work,
        *,
        default: Setting | None = None,
        source: Source = Source.MEASURED,
    ) -> Profile:
        """Return the profile of `points`, all of the same knobs; a column some lack is None."""
        columns: dict[str, Any] = {}
        for name in ("time_s", "energy_j", *OPTIONAL):
            values = [getattr(point, name) for point in points]
            columns[name] = None if any(v is None for v in values) else np.array(values, float)
        return cls(
            work=work,
            settings=columns_of(point.setting for point in points),
            default=default,
            source=source,
            **columns,
        )

    def _check(self) -> None:
        count = len(self.time_s)
        figures = (("time_s", self.time_s), ("energy_j", self.energy_j))
        for name, column in (*figures, *self.settings.items()):
            if column.shape != (count,):
                raise _uneven(name, len(column), count)
        if count == 0:
            return
        if not (self.time_s.min() > 0 and self.time_s.max() < np.inf):
            raise _impossible("time_s", ~((self.time_s > 0) & np.isfinite(self.time_s)), "positive")
        if not (self.energy_j.min() >= 0 and self.energy_j.max() < np.inf):
            bad = ~((self.energy_j >= 0) & np.isfinite(self.energy_j))
            raise _impossible("energy_j", bad, "at least 0")
        for name in OPTIONAL:
            column = getattr(self, name)
            if column is not None and not (column.min() >= 0 and column.max() < np.inf):
                raise _impossible(name, ~((column >= 0) & np.isfinite(column)), "at least 0")

    def __len__(self) -> int:
        return len(self.time_s)

    def __iter__(self) -> Iterator[Point]:
        return (self.point(row) for row in range(len(self)))

    def __repr__(self) -> str:
        return f"<Profile of {self.work}: {len(self)} points, {self.source.value}>"

    @property
    def effective_j(self) -> Floats:
        """Energy less what waiting would have drawn (the energy itself where nothing is priced)."""
        if isinstance(self.price_w, float) and self.price_w == 0.0:
            return self.energy_j
        return np.asarray(self.energy_j - self.price_w * self.time_s)

    def setting(self, row: int) -> Setting:
        """Return the setting of one row: the knobs' values, tied ones only in a composition."""
        return Setting({name: _plain(column[row]) for name, column in self.settings.items()})

    def point(self, row: int) -> Point:
        """Return one row as a `Point`."""
        optional = {
            name: None if (column := getattr(self, name)) is None else float(column[row])
            for name in OPTIONAL
            if name != "windows"
        }
        return Point(
            setting=self.setting(row),
            time_s=float(self.time_s[row]),
            energy_j=float(self.energy_j[row]),
            windows=1 if self.windows is None else int(self.windows[row]),
            **optional,
        )

    def plan(self, row: int) -> Plan:
        """Return what row `row` applies: a leaf, or the tree of a composition."""
        return Leaf(setting=self.setting(row)) if self.origin is None else self.origin.plan(row)

    def total_sd_j(self, row: int) -> float | None:
        """Return the standard deviation of a row's energy as a total: spread and gain together."""
        error_j = energy_error_j(self)
        if error_j is None:
            return None
        return float(np.hypot(error_j[row], self.gain_sd * self.energy_j[row]))

    def outcome(self) -> Outcome:
        """Return the columns that constraints look at."""
        return Outcome(
            time_s=self.time_s,
            energy_j=self.energy_j,
            peak_power_w=self.peak_power_w,
            memory_bytes=self.memory_bytes,
            latency_s=self.latency_s,
        )

    @property
    def reference(self) -> Reference | None:
        """The default's figures, the mean of its rows; None where they are not known."""
        if self._reference is None and self.default is not None:
            rows = self.at_default()
            if rows.any() and not self._unsaid(rows):
                own_w = None if self.wait_power_w is None else float(self.wait_power_w[rows].mean())
                price_w = np.broadcast_to(self.price_w, len(self))[rows]
                self._reference = Reference(
                    float(self.time_s[rows].mean()),
                    float(self.energy_j[rows].mean()),
                    float(price_w.mean()),
                    own_w,
                )
        return self._reference

    def at_default(self) -> NDArray[np.bool_]:
        """Return which rows are at the default, by the knobs that it names; none without one."""
        default = self.default or Setting()
        shared = [name for name in default if name in self.settings]
        rows = np.full(len(self), bool(shared) or not self.settings)
        for name in shared:
            rows &= self.settings[name] == default[name]
        return rows

    def _unsaid(self, rows: NDArray[np.bool_]) -> list[str]:
        """Return the knobs that vary among the default's rows because it does not name them."""
        names = [name for name in self.settings if name not in (self.default or {})]
        return [n for n in names if (self.settings[n][rows] != self.settings[n][rows][0]).any()]

    def baseline(self, *, effective: bool = False) -> Outcome | None:
        """Return the default's figures, with its effective energy if asked; None without default.

        Raises `IncomparableError` when a default is named and was not measured, or names no
        value of a knob that varies.
        """
        reference = self.reference
        if reference is not None:
            return reference.outcome(effective=effective)
        if self.default is None:
            return None
        rows = self.at_default()
        raise IncomparableError(
            f"the default {dict(self.default)} "
            + ("names several points" if rows.any() else "is not in the profile"),
            cure=f"say its {', '.join(self._unsaid(rows))} too"
            if rows.any()
            else "measure it, or name another default",
        )

    def against(self, default: Setting) -> Profile:
        """Return the same points, compared with another default."""
        return self._with(default=default, reference=None)

    def predicted(self) -> Profile:
        """Return the points that were predicted rather than measured, simulated or replayed."""
        own = np.full(len(self), self.source.value) if self.sources is None else self.sources
        return self.take(own == Source.PREDICTED.value)

    def take(self, rows: Rows) -> Profile:
        """Return the profile of some rows (indices, a mask or a slice); the baseline is kept."""
        return self._with(
            time_s=self.time_s[rows],
            energy_j=self.energy_j[rows],
            settings={name: column[rows] for name, column in self.settings.items()},
            origin=None if self.origin is None else self.origin.take(rows),
            sources=None if self.sources is None else self.sources[rows],
            price_w=self.price_w if isinstance(self.price_w, float) else self.price_w[rows],
            **{n: None if (c := getattr(self, n)) is None else c[rows] for n in OPTIONAL},
        )

    def with_origin(self, origin: Origin) -> Profile:
        """Return the same points, coming from somewhere else."""
        return self._with(origin=origin)

    def _with(self, **changes: Any) -> Profile:
        """Return this profile with some constructor arguments changed."""
        same = {name: getattr(self, name) for name in ("time_s", "energy_j", *OPTIONAL)}
        same |= {
            "work": self.work,
            "settings": self.settings,
            "default": self.default,
            "source": self.source,
            "gain_sd": self.gain_sd,
            "price_w": self.price_w,
            "reference": self.reference,
            "origin": self.origin,
            "sources": self.sources,
        }
        return Profile(**{**same, **changes})

    def where(self, *constraints: Constraint) -> Profile:
        """Return the points that keep to every constraint; may be empty.

        Raises `IncomparableError` where a constraint is about a column that was not measured.
        """
        keep = np.ones(len(self), dtype=np.bool_)
        for constraint in constraints:
            baseline = self.baseline() if constraint.needs_baseline else None
            keep &= constraint.excess(self.outcome(), baseline) <= 0.0
        return self.take(keep)

    def priced(self, wait_w: float | None = None) -> Profile:
        """Return the profile in which waiting has its price.

        Its frontier compares energy - P*time: what a point draws beyond what the device would
        draw anyway while it waits. `wait_w` is P for all points; without it the points' own
        waiting power is used (`IncomparableError` where it was not measured).
        """
        if wait_w is None and self.wait_power_w is None:
            raise IncomparableError(
                "the profile has no waiting power", cure="pass the power of waiting, wait_w"
            )
        if wait_w is not None and not 0 <= wait_w < np.inf:
            raise InvalidValueError(f"a waiting power of {wait_w} W", cure="use at least 0 W")
        reference = self.reference
        return self._with(
            price_w=self.wait_power_w if wait_w is None else float(wait_w),
            reference=None if reference is None else reference.priced(wait_w),
        )

    def scaled(self, work: Work) -> Profile:
        """Return the same points for another amount of the same unit of work."""
        factor = work.ratio(self.work)
        scaled: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else column * factor
            for name in ("time_s", "energy_j", "time_sd_s", "energy_sd_j")
        }
        reference = self.reference
        if reference is not None:
            scaled["reference"] = reference.scaled(factor)
        return self._with(work=work, **scaled)

    def then(
        self,
        other: Profile,
        *,
        tied: Collection[str] = (),
        switch_s: float = 0.0,
        switch_j: float = 0.0,
    ) -> Profile:
        """Return all pairs of this work and then `other`; see `composition.then`."""
        from lowjoule.profile.composition import then

        return then(self, other, tied=tied, switch_s=switch_s, switch_j=switch_j)

    def repeated(self, times: float) -> Profile:
        """Return this work `times` times, each at the same setting."""
        from lowjoule.profile.composition import repeated

        return repeated(self, times)

    def or_(self, other: Profile) -> Profile:
        """Return the alternatives of both: either way does the same work."""
        from lowjoule.profile.composition import or_

        return or_(self, other)

    def frontier(self) -> Frontier:
        """Return the view of the points that no other beats in time and (priced) energy."""
        from lowjoule.profile.frontier import Frontier

        return Frontier(self)


def _column(name: str, values: ArrayLike | None, count: int) -> Floats | None:
    if values is None:
        return None
    column: Floats = np.asarray(values, dtype=np.float64)
    if column.ndim == 0:
        return np.broadcast_to(column, (count,))
    if len(column) != count:
        raise _uneven(name, len(column), count)
    return column


def _uneven(name: str, rows: int, count: int) -> InvalidValueError:
    return InvalidValueError(
        f"column {name} has {rows} rows and time_s {count}",
        cure="give every column one value a point",
    )


def _impossible(name: str, bad: NDArray[np.bool_], bound: str) -> InvalidValueError:
    row = int(np.flatnonzero(bad)[0])
    return InvalidValueError(
        f"column {name} has an impossible value in row {row} ({int(bad.sum())} in all)",
        cure=f"every value must be finite and {bound}: remove or correct the row",
    )


def _plain(value: Any) -> float | int | str:
    item = value.item() if isinstance(value, np.generic) else value
    if isinstance(item, str):
        return item
    return int(item) if float(item).is_integer() and abs(item) < 1e15 else float(item)
