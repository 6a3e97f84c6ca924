"""Ranks of one job on this node: which of them this is, and who tunes what."""

from __future__ import annotations

import os

from lowjoule.devices.interface import Device

_RANKS = ("LOCAL_RANK", "RANK")
_COUNTS = ("LOCAL_WORLD_SIZE", "WORLD_SIZE")
_CURE = "for each rank to tune its own GPU pass each_rank=True and that GPU as device"


def rank_here() -> int:
    """Return the rank of this process on its node, as launchers set it; 0 where none did."""
    return _told(_RANKS) or 0


def others_here() -> int:
    """Return how many other ranks this node has, as launchers say it; 0 where none does."""
    return max(0, (_told(_COUNTS) or 1) - 1)


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


def _told(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None
