"""What a store holds, as tasks to learn from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.figures import published_figures
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import BATCH_SIZE, Setting, show_values
from lowjoule.prediction.features import KNOBS, MeasuredTask
from lowjoule.prediction.tasks import prepare
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads import Signature, Workload, WorkUnit, load, names

if TYPE_CHECKING:
    from lowjoule.store import Kind, Record, Store


def tasks_of(store: Store) -> list[MeasuredTask]:
    """Return everything in `store` that a predictor can learn from, in the store's order.

    A task is a workload on a board, measured with one set of knobs; where one that cannot be
    predicted was turned (a precision, a micro-batch), each of its values is a task of its own.
    What is known of a task is the signature that its records carry; where they carry none, the
    catalogue's figures of a workload of that name and definition, and what is published of the
    board. The default is the signature's; where that was not measured, the workload's batch size
    (or the median one) with the largest limit and clocks measured at it. Left out is what was
    itself predicted, and what has too few settings to learn from: all of them would be anchors.
    """
    found: list[MeasuredTask] = []
    for kind in store.kinds():
        if kind.source != Source.PREDICTED.value:
            parts = list(_parts(_records(store, kind)))
            tasks = (_task(part, alone=len(parts) == 1) for part in parts)
            found += [task for task in tasks if task is not None]
    return found


def without(tasks: Iterable[MeasuredTask], workload: Workload) -> list[MeasuredTask]:
    """Return the tasks that are not of `workload`, which is to be predicted.

    What was measured of it is no prediction; the same name or the same figures are the same work.
    """
    return [
        one
        for one in tasks
        if one.model != workload.name
        and (one.workload is None or one.workload.signature != workload.signature)
    ]


def signature_of(records: Sequence[Record]) -> Signature:
    """Return what is known of the task of `records`, all of one kind.

    That is what the newest of them that say it carry. A record of another program, or one that
    cannot be read, says nothing.
    """
    from lowjoule.store.conversion import SIGNATURE

    told = Signature()
    for record in reversed(records):
        carried = record.provenance.get(SIGNATURE)
        if isinstance(carried, dict):
            try:
                told = Signature.from_dict(carried)
                break
            except InvalidValueError:
                continue
    one = records[0]
    workload = told.workload or _catalogued(one.workload, one.signature)
    return Signature(
        workload=workload,
        device=told.device or published_figures(one.device_model, workload),
        activity=told.activity,
        default=told.default,
    )


def _records(store: Store, kind: Kind) -> list[Record]:
    return store.records(
        device_model=kind.device_model,
        device_uuid=kind.device_uuid,
        workload=kind.workload,
        signature=kind.signature,
        source=Source(kind.source),
        unit=WorkUnit(kind.unit),
    )


def _parts(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield the records that differ in nothing but knobs that can be predicted."""
    parts: dict[tuple[frozenset[str], Setting], list[Record]] = defaultdict(list)
    for record in records:
        held = record.achieved.only(set(record.achieved) - set(KNOBS))
        parts[frozenset(record.achieved), held].append(record)
    yield from parts.values()


def _task(records: Sequence[Record], *, alone: bool) -> MeasuredTask | None:
    from lowjoule.store.pooling import pooled

    signature = signature_of(records)
    profile = pooled(records)
    default = _default(profile, _defaults(records), signature.workload)
    held = records[0].achieved.only(set(records[0].achieved) - set(KNOBS))
    name = f"{records[0].workload} on {records[0].device_model}"
    try:
        task = MeasuredTask.of(
            profile.against(default),
            signature,
            name=name if alone else f"{name}, {show_values(held)}",
            model=records[0].workload if signature.workload is None else None,
        )
        prepare(task)
    except InvalidValueError:
        return None
    return task


def _defaults(records: Sequence[Record]) -> list[Setting]:
    """Return the defaults that `records` carry, the commonest first."""
    from lowjoule.store.conversion import SIGNATURE

    found: Counter[Setting] = Counter()
    for record in records:
        carried = record.provenance.get(SIGNATURE)
        default = carried.get("default") if isinstance(carried, dict) else None
        if isinstance(default, dict):
            found[Setting(default)] += 1
    return [setting for setting, _ in found.most_common()]


def _default(profile: Profile, told: Sequence[Setting], workload: Workload | None) -> Setting:
    """Return the setting of `profile` that stands for nobody having turned a knob."""
    first = profile.setting(0)
    held = first.only(set(first) - set(KNOBS))
    measured = {profile.setting(row) for row in range(len(profile))}
    for one in told:
        whole = Setting({**first, **one.only(profile.settings), **held})
        if whole in measured:
            return whole
    return _assumed(profile, workload)


def _assumed(profile: Profile, workload: Workload | None) -> Setting:
    rows = np.arange(len(profile))
    for name in KNOBS:
        if name in profile.settings:
            column = profile.settings[name]
            wanted = _value(name, column[rows], workload)
            rows = rows[column[rows] == wanted]
    return profile.setting(int(rows[0]))


def _value(name: str, values: NDArray[Any], workload: Workload | None) -> Any:
    if name != BATCH_SIZE:
        return values.max()
    ordered = np.unique(values)
    batch = None if workload is None else workload.default_batch
    if batch is None:
        return ordered[(len(ordered) - 1) // 2]
    fitting = ordered[ordered <= batch]
    return fitting[-1] if len(fitting) else ordered[0]


def _catalogued(name: str, definition: str) -> Workload | None:
    """Return the catalogue's workload, where that is the one that was measured."""
    if name not in names():
        return None
    known = load(name)
    return known if known.signature == definition else None
