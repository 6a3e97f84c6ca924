"""Records of what was just measured: trials of a search, points of a replayed table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from lowjoule.devices.interface import Identity
from lowjoule.knobs import Setting
from lowjoule.profile import Profile
from lowjoule.profiling import Trial
from lowjoule.store.record import Record
from lowjoule.workloads import Signature, Workload

SIGNATURE = "signature"
"""Where a record's provenance keeps what is known of its task (`Signature.to_dict`)."""


def records_of(
    profile: Profile,
    identity: Identity,
    workload: Workload,
    *,
    when_unix_s: float | None = None,
    provenance: Mapping[str, object] | None = None,
    signature: Signature | None = None,
) -> list[Record]:
    """Return one record a point of `profile`, measured on the device of `identity`.

    `when_unix_s` is when it was measured; leave it None where that is not known (the time of an
    import would make each import look new). The records' source is the profile's. What is known
    of the task (`signature`) goes into each, so that it is there to learn from.
    """
    make = _maker(identity, workload, when_unix_s)
    told = _told(provenance, signature)
    return [
        make(
            source=profile.source,
            asked=(setting := _completed(point.setting, workload)),
            achieved=setting,
            work=profile.work,
            time_s=point.time_s,
            energy_j=point.energy_j,
            time_sd_s=point.time_sd_s,
            energy_sd_j=point.energy_sd_j,
            windows=point.windows,
            peak_power_w=point.peak_power_w,
            wait_power_w=point.wait_power_w,
            memory_bytes=point.memory_bytes,
            latency_s=point.latency_s,
            provenance=told,
        )
        for point in profile
    ]


def records_of_trials(
    trials: Iterable[Trial],
    identity: Identity,
    workload: Workload,
    *,
    when_unix_s: float | None = None,
    provenance: Mapping[str, object] | None = None,
    signature: Signature | None = None,
) -> list[Record]:
    """Return one record a trial that gave a figure; what failed, or drew nothing, is no point.

    The provenance tells each trial's place in the sequence, as "trial", from 1 on, and what is
    known of the task (`signature`).
    """
    make = _maker(identity, workload, when_unix_s)
    told = _told(provenance, signature)
    records = []
    for place, trial in enumerate(trials, start=1):
        measured = trial.measurement
        if measured is None or trial.work is None or measured.energy_j <= 0:
            continue
        records.append(
            make(
                source=measured.source,
                asked=_completed(trial.asked, workload),
                achieved=_completed(trial.achieved, workload),
                work=trial.work,
                time_s=measured.time_s,
                energy_j=measured.energy_j,
                energy_sd_j=measured.uncertainty_j or None,
                peak_power_w=measured.peak_power_w
                if trial.told.peak_power_w is None
                else trial.told.peak_power_w,
                memory_bytes=trial.told.memory_bytes,
                latency_s=trial.told.latency_s,
                provenance={"trial": place, **told},
            )
        )
    return records


def _told(
    provenance: Mapping[str, object] | None, signature: Signature | None
) -> Mapping[str, object]:
    known = {} if signature is None else {SIGNATURE: signature.to_dict()}
    return {**(provenance or {}), **known}


def _completed(setting: Setting, workload: Workload) -> Setting:
    """Return `setting` with the workload's own knobs that it does not name at their default.

    A record must say its batch size and precision even where nobody turned them.
    """
    return Setting({**{knob.name: knob.default for knob in workload.knobs}, **setting})


def _maker(
    identity: Identity, workload: Workload, when_unix_s: float | None
) -> Callable[..., Record]:
    """Return what makes records of `workload` on that device."""
    return partial(
        Record,
        device_model=identity.model,
        device_uuid=identity.uuid,
        backend=identity.backend,
        driver=identity.driver,
        workload=workload.name,
        signature=workload.signature,
        when_unix_s=when_unix_s,
    )
