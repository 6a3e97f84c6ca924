"""What can be turned within a training loop, on which device, and what runs there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowjoule.devices.interface import Device, WorkDevice
from lowjoule.devices.registry import OpenOptions, backends, open_device
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import BATCH_SIZE, MICRO_BATCH, Knob, Scope, Space, micro_batch_knob
from lowjoule.source import Source
from lowjoule.workloads import Workload


def open_named(
    device: Device | str | None, workload: Workload | str | None, batch: int | None
) -> Device:
    """Return `device`, opened where it is a name; without one the only GPU that is visible.

    A simulated device is opened in real time, with the loop's batch where it can run that.
    Raises `InvalidValueError` where no device is named and there are none or several: nothing is
    turned that was not named.
    """
    if device is None:
        device = _only_gpu()
    if not isinstance(device, str):
        return device
    opened = open_device(device, OpenOptions(wall_time=True))
    if batch is None or not isinstance(opened, WorkDevice):
        return opened
    with_batch = open_device(device, OpenOptions(wall_time=True, default={BATCH_SIZE: str(batch)}))
    try:
        loop_space(with_batch, workload_of(with_batch, workload), None, None)
    except InvalidValueError:
        return opened  # work is counted in samples: part of a larger batch takes part of its time
    return with_batch


def _only_gpu() -> str:
    backend = backends().get("nvml")
    found = [] if backend is None else [one.spec for one in backend.available()]
    if len(found) != 1:
        seen = f"there are {', '.join(found)}" if found else "there is no GPU here"
        raise InvalidValueError(
            f"no device is named to tune, and {seen}",
            cure="name one, like device='nvml:0', or a simulated one, like 'sim:a100'",
        )
    return found[0]


def workload_of(device: Device, workload: Workload | str | None) -> Workload:
    """Return what runs: on a device that runs work itself one that it knows."""
    if isinstance(workload, Workload):
        return workload
    if not isinstance(device, WorkDevice):
        return Workload(name=workload or "training loop")
    if device.identity.source is Source.REPLAYED:
        raise InvalidValueError(
            f"{device.identity.model} is a table of measurements, which cannot run beside a loop",
            cure="use the driver (lowjoule tune), or a GPU, or a simulated one",
        )
    return device.workload(workload)


def loop_space(device: Device, workload: Workload, batch: int | None, micro: int | None) -> Space:
    """Return what could be turned in a loop: the device's knobs, and the micro-batch.

    `micro` is the micro-batch that the loop uses by itself, where it can use smaller ones: a
    larger one might not fit, and is not tried. What is of the workload and needs a restart is
    held.
    """
    if not isinstance(device, WorkDevice):
        knobs = device.space.knobs if micro is None else (*device.space.knobs, _micro(batch, micro))
        return Space(knobs, device.space.rules)
    joint = device.joint_space(workload)
    if micro is None:
        return Space(tuple(k for k in joint.knobs if k.name != MICRO_BATCH), joint.rules)
    if BATCH_SIZE in joint.names and joint.knob(BATCH_SIZE).default != batch:
        raise InvalidValueError(
            f"the loop's batch is {batch} and that of {workload.name} on "
            f"{device.identity.model} is {joint.knob(BATCH_SIZE).default}",
            cure="open the device with the loop's batch_size as its default, one of "
            + joint.knob(BATCH_SIZE).describe(),
        )
    own = _micro(batch, micro)
    knobs = tuple(own if knob.name == MICRO_BATCH else knob for knob in joint.knobs)
    return replace(joint, knobs=knobs if MICRO_BATCH in joint.names else (*knobs, own))


def _micro(batch: int | None, micro: int) -> Knob:
    if batch is None or batch % micro:
        raise InvalidValueError(
            f"a micro-batch of {micro} of a batch of {batch}",
            cure="say how many samples a step has (samples_per_step), a multiple of micro_batch",
        )
    knob = micro_batch_knob(batch, micro)
    return replace(knob, values=tuple(v for v in knob.values if float(v) <= micro))


def free_knobs(space: Space, knobs: Iterable[str] | None) -> list[str]:
    """Return what to turn: `knobs`, else all that a loop can turn without changing learning."""
    if knobs is None:
        able = [k for k in space.knobs if k.scope <= Scope.STEP]
        able = [k for k in able if not (k.changes_learning or k.upkeep)]
        return [knob.name for knob in able]
    names = list(knobs)
    for name in names:
        if space.knob(name).scope > Scope.STEP:
            raise InvalidValueError(
                f"{name} cannot be turned within a training loop", cure="tune it between runs"
            )
    return names
