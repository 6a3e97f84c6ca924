"""Kinds of boards, found by whatever a table, a driver or a person calls them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from lowjoule.devices.simulated.catalogue import GpuModel, gpu, gpu_names
from lowjoule.errors import UnknownNameError
from lowjoule.knobs import POWER_LIMIT
from lowjoule.profile import Profile
from lowjoule.workloads import DeviceFigures

_NOISE = {"nvidia", "amd", "tesla", "geforce", "instinct", "gpu", "graphics"}


def recognised(name: str) -> GpuModel | None:
    """Return the catalogue's board of a `name` like "NVIDIA A100-SXM4-80GB", None if it has none.

    Where a name leaves open which version it is (an A100 without its memory), it is the one that
    the catalogue calls so.
    """
    for one in gpu_names():
        if gpu(one).title.casefold() == name.casefold():
            return gpu(one)
    text = re.sub(r"(\d+)\s*gb\b", r"\1gb", name.casefold())
    text = re.sub(r"\b(sxm|pcie)\d*\b", r"\1", text)
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and word not in _NOISE]
    for count in range(len(words), 0, -1):
        for joint in ("-", ""):
            try:
                return gpu(joint.join(words[:count]))
            except UnknownNameError:
                continue
    return None


def same_board(one: str, other: str) -> bool:
    """Return whether two names mean one kind of board."""
    if one.casefold() == other.casefold():
        return True
    first, second = recognised(one), recognised(other)
    return first is not None and second is not None and first.name == second.name


def with_limit(figures: DeviceFigures, profile: Profile) -> DeviceFigures:
    """Return `figures` with the catalogue's largest limit where nothing else tells one.

    Not where `profile`, measured on the board, drew more: then it is another version of it.
    """
    if figures.power_limit_w is not None or POWER_LIMIT in profile.settings:
        return figures
    known = recognised(figures.model)
    drawn_w = float(np.max(profile.energy_j / profile.time_s))
    if known is None or drawn_w > known.limits_w[-1]:
        return figures
    return replace(figures, power_limit_w=known.limits_w[-1])
