"""All that is known of a workload on a device, and the frame of the commands that report it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lowjoule.cli.console import show_progress
from lowjoule.cli.delivery import Report, check_place, is_for_people
from lowjoule.cli.options import (
    DeviceChoice,
    html_option,
    json_option,
    knobs_option,
    known_options,
    objective_on,
    objective_options,
)
from lowjoule.errors import DeviceError, UnsupportedError

if TYPE_CHECKING:
    from lowjoule.devices.interface import WorkDevice
    from lowjoule.knobs import Space
    from lowjoule.objectives import Constraint, Objective
    from lowjoule.profile import Profile
    from lowjoule.workloads import Workload

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A profile, the device whose it is, which of its knobs may be turned, and to what end."""

    device: WorkDevice
    workload: Workload
    space: Space
    profile: Profile
    objective: Objective
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked of a command that reports what is known, and where it goes."""

    device: DeviceChoice
    objective: str
    constraints: tuple[str, ...]
    knobs: tuple[str, ...] | None
    html: str | None
    as_json: bool

    def known(self, *, every: bool = False) -> Known:
        """Return all that is known of the chosen workload.

        By default what leaves learning alone may be turned, or all where `every` is set. A
        device that cannot tell what it knows is measured, with a line on standard error a
        setting. What cannot be read or written is refused first.
        """
        from lowjoule.knobs import turnable
        from lowjoule.objectives import parse_constraint

        check_place(self.html)
        bounds = tuple(parse_constraint(text) for text in self.constraints)
        device, workload = self.device.open()
        joint = device.joint_space(workload)
        every = every and self.knobs is None
        space = turnable(joint, joint.names if every else self.knobs)
        try:
            profile = device.survey(workload, space)
            for note in device.notes:
                show_progress(f"note: {note}")
        except UnsupportedError:
            profile = _measured(device, workload, space)
        return Known(
            device=device,
            workload=workload,
            space=space,
            profile=profile,
            objective=objective_on(device, self.objective),
            constraints=bounds,
        )

    def is_for_people(self, report: Report) -> bool:
        """Write the page and the JSON that were asked for; True where neither was."""
        return is_for_people(report, self.html, as_json=self.as_json)


def survey_options(command: F) -> F:
    """Add the options of a command that reports what is known; it gets them as `asked`."""

    @functools.wraps(command)
    def with_asked(
        *,
        device: DeviceChoice,
        objective: str,
        constraints: tuple[str, ...],
        knobs: tuple[str, ...] | None,
        html: str | None,
        as_json: bool,
        **others: Any,
    ) -> Any:
        asked = Asked(
            device=device,
            objective=objective,
            constraints=constraints,
            knobs=knobs,
            html=html,
            as_json=as_json,
        )
        return command(asked=asked, **others)

    options = (known_options, objective_options, knobs_option, html_option, json_option)
    for option in reversed(options):
        with_asked = option(with_asked)
    return with_asked  # type: ignore[return-value]


def _measured(device: WorkDevice, workload: Workload, space: Space) -> Profile:
    """Return a profile of every setting of `space`, each measured once, the device restored."""
    import numpy as np

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
