"""All that is known of a workload on a device: told by the device, or measured one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lowjoule.cli.console import show_progress
from lowjoule.cli.options import DeviceChoice
from lowjoule.errors import DeviceError, UnsupportedError

if TYPE_CHECKING:
    from lowjoule.devices.interface import WorkDevice
    from lowjoule.knobs import Space
    from lowjoule.profile import Profile
    from lowjoule.workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A profile, the device whose it is, and which of its knobs may be turned."""

    device: WorkDevice
    workload: Workload
    space: Space
    profile: Profile


def known(choice: DeviceChoice, knobs: tuple[str, ...] | None, *, every: bool = False) -> Known:
    """Return all that is known of the chosen workload.

    `knobs` may be turned; by default what leaves learning alone, or all where `every` is set.
    A device that cannot tell what it knows is measured, with a line on standard error a setting.
    """
    from lowjoule.knobs import turnable

    device, workload = choice.open()
    joint = device.joint_space(workload)
    space = turnable(joint, joint.names if every and knobs is None else knobs)
    try:
        profile = device.survey(workload, space)
        for note in device.notes:
            show_progress(f"note: {note}")
    except UnsupportedError:
        profile = _measured(device, workload, space)
    return Known(device=device, workload=workload, space=space, profile=profile)


def _measured(device: WorkDevice, workload: Workload, space: Space) -> Profile:
    """Return a profile of every setting of `space`, each measured once, the device restored."""
    from lowjoule.control import Claim
    from lowjoule.knobs.space import columns_of
    from lowjoule.profile import Profile
    from lowjoule.profiling import Profiler
    from lowjoule.workloads import Work

    settings, times, energies = [], [], []
    with Claim(device, f"the survey of {workload.name}") as claim:
        profiler = Profiler(claim, device, workload)
        for place, setting in enumerate(space, start=1):
            trial = profiler.measure(setting)
            show_progress(f"measured {place} of {len(space)} settings")
            if trial.measurement is None or trial.work is None:
                continue
            settings.append(setting)
            times.append(trial.measurement.time_s / trial.work.quantity)
            energies.append(trial.measurement.energy_j / trial.work.quantity)
    if not settings:
        raise DeviceError(
            f"{workload.name} runs at no setting of {device.identity.model}",
            cure="choose another workload or device",
        )
    return Profile(
        work=Work(1.0, workload.unit),
        time_s=np.array(times),
        energy_j=np.array(energies),
        settings=columns_of(settings),
        default=space.default if space.default in settings else None,
        source=device.identity.source,
    )
