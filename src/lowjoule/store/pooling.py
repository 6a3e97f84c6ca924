"""Repeated measurements of one setting become one point of a profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from lowjoule.errors import StoreError
from lowjoule.knobs import Setting
from lowjoule.knobs.space import columns_of
from lowjoule.profile import Profile
from lowjoule.profile.spread import pooled_sd
from lowjoule.store.record import Record
from lowjoule.workloads import Work

_Group = Sequence[Record]


def pooled(records: Sequence[Record], *, default: Setting | None = None) -> Profile:
    """Return the profile of `records`, at least one, all of one device, workload and source.

    Records of equal achieved settings become one point: means weighted by windows, standard
    deviations of one window from the scatter within and between the records (law of total
    variance), the largest peak power and memory. An optional figure that some point lacks is None
    for all of them, as in every profile. Where records are of different amounts of work
    everything is scaled to one unit of it. A setting keeps the place where it first appears.
    Raises `StoreError` where a knob has numbers in some records and names in others.
    """
    work = _common_work(records)
    groups: dict[Setting, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.achieved].append(_scaled(record, work))
    _check_kinds(groups)

    def column(pool: Callable[[_Group, str], float | None], name: str) -> list[float] | None:
        return _dense([pool(group, name) for group in groups.values()])

    return Profile(
        work=work,
        time_s=[_mean(group, "time_s") for group in groups.values()],
        energy_j=[_mean(group, "energy_j") for group in groups.values()],
        settings=columns_of(groups),
        time_sd_s=_dense([_spread(g, "time_s", "time_sd_s") for g in groups.values()]),
        energy_sd_j=_dense([_spread(g, "energy_j", "energy_sd_j") for g in groups.values()]),
        wait_power_w=column(_known_mean, "wait_power_w"),
        peak_power_w=column(_largest, "peak_power_w"),
        latency_s=column(_known_mean, "latency_s"),
        memory_bytes=column(_largest, "memory_bytes"),
        windows=[sum(record.windows for record in group) for group in groups.values()],
        default=default,
        source=records[0].source,
    )


def _common_work(records: _Group) -> Work:
    amounts = {record.work.quantity for record in records}
    return Work(amounts.pop() if len(amounts) == 1 else 1.0, records[0].work.unit)


def _scaled(record: Record, work: Work) -> Record:
    """Return `record` for another amount of its work."""
    if record.work == work:
        return record
    factor = work.ratio(record.work)
    return replace(
        record,
        work=work,
        time_s=record.time_s * factor,
        energy_j=record.energy_j * factor,
        time_sd_s=None if record.time_sd_s is None else record.time_sd_s * factor,
        energy_sd_j=None if record.energy_sd_j is None else record.energy_sd_j * factor,
    )


def _known(group: _Group, name: str) -> list[Record]:
    return [record for record in group if getattr(record, name) is not None]


def _mean(group: _Group, name: str) -> float:
    values = [getattr(record, name) for record in group]
    return float(np.average(values, weights=[record.windows for record in group]))


def _known_mean(group: _Group, name: str) -> float | None:
    known = _known(group, name)
    return _mean(known, name) if known else None


def _largest(group: _Group, name: str) -> float | None:
    return max((getattr(record, name) for record in _known(group, name)), default=None)


def _spread(group: _Group, name: str, sd_name: str) -> float | None:
    """Return the standard deviation of one window, None where nothing tells it."""
    return pooled_sd(
        [getattr(record, name) for record in group],
        [getattr(record, sd_name) for record in group],
        [record.windows for record in group],
    )


def _dense(values: Sequence[float | None]) -> list[float] | None:
    """Return a column, None unless every row has a figure: a profile has no holes."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _check_kinds(settings: Iterable[Setting]) -> None:
    kinds: dict[str, set[bool]] = defaultdict(set)
    for setting in settings:
        for name, value in setting.items():
            kinds[name].add(isinstance(value, str))
    for name, found in kinds.items():
        if len(found) > 1:
            raise StoreError(
                f"knob {name} has numbers in some records and names in others",
                cure="ask for one value of it, or forget the wrong records",
            )
