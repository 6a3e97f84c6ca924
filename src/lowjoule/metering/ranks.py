"""Which of the processes of a job on this machine this one is, as launchers tell it."""

from __future__ import annotations

import os

_LOCAL = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_RANKS = ("LOCAL_RANK", "RANK")
_COUNTS = ("LOCAL_WORLD_SIZE", "WORLD_SIZE")


def local_rank() -> int:
    """Return the rank of this process among those of its node; 0 where no launcher set one."""
    return _first(_LOCAL) or 0


def rank_here() -> int:
    """Return the rank of this process on its node, or in its job; 0 where none was set."""
    return _first(_RANKS) or 0


def others_here() -> int:
    """Return how many other ranks this node has, as launchers say it; 0 where none does."""
    return max(0, (_first(_COUNTS) or 1) - 1)


def _first(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None
