"""What each rank of a job on this node is told of who tunes what."""

from __future__ import annotations

from lowjoule.devices.interface import Device

_CURE = "for each rank to tune its own GPU pass each_rank=True and that GPU as device"


def left_to_first(rank: int, device: Device | str | None) -> str:
    """Return what a rank is told that tunes nothing; `device` is the one it named, not opened."""
    named = device if isinstance(device, str) else None if device is None else device.identity.model
    meant = f"{named} as rank 0 names it" if named else "the GPU that it sees"
    return (
        f"rank {rank} turns nothing and leaves the tuning to rank 0 of its node, "
        f"which tunes {meant}; {_CURE}"
    )


def tunes_alone(rank: int, device: Device, others: int) -> str:
    """Return what the rank is told that tunes for itself, beside `others` that do not."""
    identity = device.identity
    return (
        f"rank {rank} tunes {identity.model} ({identity.uuid}) and the {others} other rank"
        f"{'s' if others > 1 else ''} of this node turn nothing; {_CURE}"
    )
