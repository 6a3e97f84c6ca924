"""From rows to points: variants of a workload, repeated measurements, units of work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from lowjoule.devices.replay.formats import Layout
from lowjoule.devices.replay.table import Task, show
from lowjoule.errors import TableError
from lowjoule.knobs import BATCH_SIZE, Setting
from lowjoule.profile import Point
from lowjoule.profile.spread import pooled_sd
from lowjoule.workloads import WorkUnit

T = TypeVar("T")
_PER_STEP = (WorkUnit.STEP, WorkUnit.ITERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: what was measured of one unit of work, in SI; `numbers` by `Point`'s fields."""

    line: int
    workload: str
    variant: str
    unit: WorkUnit
    setting: Setting
    repeat: str
    numbers: Mapping[str, float | None]
    windows: int


def tasks_of(
    name: str, how: Layout, rows: Sequence[Row]
) -> tuple[dict[str, Task], tuple[str, ...]]:
    """Return the tasks that `rows` of the table `name` make, by name, and notes.

    Raises `TableError` where a setting stands twice and nothing says that it was repeated, or
    where one workload counts in two units.
    """
    notes: list[str] = []
    groups = _by_workload(how, rows, notes)
    if how.format and how.format.repeats == "separate":
        groups = _separated(groups, notes)
    pooled = how.format is not None and how.format.repeats == "pool"
    tasks = {}
    for workload, group in groups.items():
        units = {row.unit for row in group}
        if len(units) > 1:
            raise TableError(
                f"{name} counts {workload} in {' and '.join(sorted(units))}",
                cure="use one unit for each workload",
            )
        group, unit = _per_sample(workload, group, how, notes)
        tasks[workload] = Task(
            name=workload,
            unit=unit,
            points=_points(name, group, repeated="repeat" in how.cells or pooled),
            published=_published(how, workload),
            alias=f"{workload}/{group[0].variant}" if group[0].variant else "",
        )
    return tasks, tuple(notes)


def _by_workload(how: Layout, rows: Sequence[Row], notes: list[str]) -> dict[str, list[Row]]:
    """Group rows by workload; a variant extends the name where a workload has several.

    The plain name then means the preferred variant, or else the first one.
    """
    variants: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        variants[row.workload][row.variant] += 1
    plain = {}
    for workload, found in variants.items():
        wanted = _longest_prefix(how.format.preferred, workload) if how.format else None
        plain[workload] = wanted if wanted in found else next(iter(found))
        if len(found) > 1:
            notes.append(f"{workload} means the variant {plain[workload]}")
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        own = row.variant == plain[row.workload]
        groups[row.workload if own else f"{row.workload}/{row.variant}"].append(row)
    return dict(groups)


def _separated(groups: Mapping[str, list[Row]], notes: list[str]) -> dict[str, list[Row]]:
    """Give the second row of a setting to a workload of its own, `name#2`, and so on."""
    result: dict[str, list[Row]] = defaultdict(list)
    for workload, group in groups.items():
        seen: Counter[Setting] = Counter()
        for row in group:
            seen[row.setting] += 1
            count = seen[row.setting]
            result[workload if count == 1 else f"{workload}#{count}"].append(row)
        notes.extend(
            f"{workload} stands {count} times: the further one is {workload}#{count}"
            for count in range(2, max(seen.values()) + 1)
        )
    return dict(result)


def _per_sample(
    workload: str, group: list[Row], how: Layout, notes: list[str]
) -> tuple[list[Row], WorkUnit]:
    """Count in samples where steps of several batch sizes would have to be compared.

    Only where the table says that its unit is a step; an assumed unit is left as it is.
    """
    unit = group[0].unit
    said = how.unit is not None or "unit" in how.cells
    batches = {row.setting.get(BATCH_SIZE) for row in group}
    if unit not in _PER_STEP or not said or len(batches) < 2:
        return group, unit
    notes.append(f"{workload}: {unit}s of several batch sizes are counted in samples")
    scaled = ("time_s", "energy_j", "time_sd_s", "energy_sd_j")
    result = []
    for row in group:
        batch = row.setting.number(BATCH_SIZE)
        numbers = {
            key: value / batch if key in scaled and value is not None else value
            for key, value in row.numbers.items()
        }
        result.append(replace(row, numbers=numbers))
    return result, WorkUnit.SAMPLE


def _points(name: str, group: Sequence[Row], *, repeated: bool) -> dict[Setting, Point]:
    by_setting: dict[Setting, list[Row]] = defaultdict(list)
    for row in group:
        by_setting[row.setting].append(row)
    if not repeated:
        for setting, rows in by_setting.items():
            if len(rows) > 1:
                raise TableError(
                    f"{name}, lines {rows[0].line} and {rows[1].line} both measure "
                    f"{rows[0].workload} at {show(setting)}",
                    cure="remove one, or name the column that tells them apart with "
                    "--column repeat=NAME (repeated measurements), variant=NAME or workload=NAME",
                )
    return {setting: _point(setting, rows) for setting, rows in by_setting.items()}


def _point(setting: Setting, rows: Sequence[Row]) -> Point:
    """Return the point of one setting: its rows pooled as repeated windows are everywhere."""
    windows = [row.windows for row in rows]

    def known(name: str) -> list[tuple[float, int]]:
        return [(v, row.windows) for row in rows if (v := row.numbers[name]) is not None]

    def mean(name: str) -> float | None:
        values = known(name)
        if not values:
            return None
        figures, weights = zip(*values, strict=True)
        return float(np.average(figures, weights=weights))

    def largest(name: str) -> float | None:
        return max((value for value, _ in known(name)), default=None)

    def spread(name: str, sd_name: str) -> float | None:
        means = [value for value, _ in known(name)]
        return pooled_sd(means, [row.numbers[sd_name] for row in rows], windows)

    time_s, energy_j = mean("time_s"), mean("energy_j")
    if time_s is None or energy_j is None:  # every row was checked to have both
        raise AssertionError(setting)
    return Point(
        setting=setting,
        time_s=time_s,
        energy_j=energy_j,
        time_sd_s=spread("time_s", "time_sd_s"),
        energy_sd_j=spread("energy_j", "energy_sd_j"),
        wait_power_w=mean("wait_power_w"),
        peak_power_w=largest("peak_power_w"),
        latency_s=mean("latency_s"),
        memory_bytes=largest("memory_bytes"),
        windows=sum(windows),
    )


def _published(how: Layout, workload: str) -> dict[str, float]:
    if how.format is None:
        return {}
    found = {k: _longest_prefix(table, workload) for k, table in how.format.default.items()}
    return {knob: value for knob, value in found.items() if value is not None}


def _longest_prefix(table: Mapping[str, T], name: str) -> T | None:
    fitting = [key for key in table if name == key or name.startswith(key + "/")]
    return table[max(fitting, key=len)] if fitting else None
