"""Devices by name: "sim:a100", "replay:runs.csv", and what plug-ins add.

A backend is registered under the entry-point group `lowjoule.devices`; its entry point is a
class without constructor arguments that meets `Backend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Protocol, cast

from lowjoule.devices.interface import Device
from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.source import Source

GROUP = "lowjoule.devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """How a device is opened; each backend uses what concerns it.

    `seed` seeds every random draw; `noise` is the relative standard deviation that a replayed
    table adds to each draw; `default` overrides knobs' defaults, as text ("250W"); `columns`
    maps our names to a table's column names; `wall_time` lets simulated work take real time;
    `alone` keeps a simulated board to this process: nothing of it is shared or left behind.
    """

    seed: int = 0
    noise: float = 0.0
    default: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    wall_time: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """A device that can be opened: its full name, what it is, and a remark ("uncalibrated").

    `source` is where its readings come from: what is measured is really here. One that is
    `asleep` is woken by opening it.
    """

    spec: str
    title: str
    remark: str = ""
    source: Source = Source.MEASURED
    asleep: bool = False


class Backend(Protocol):
    """What a kind of device registers: what is there, and how it is opened."""

    def available(self) -> tuple[Available, ...]:
        """Return the devices that can be opened now, waking none of them."""
        ...

    def open(self, argument: str, options: OpenOptions) -> Device:
        """Open the device called `argument` (the part after the colon)."""
        ...


def backends() -> dict[str, Backend]:
    """Return all registered backends by name."""
    return {point.name: cast(Backend, point.load()()) for point in entry_points(group=GROUP)}


def open_device(spec: str, options: OpenOptions | None = None) -> Device:
    """Open the device that `spec` names, "BACKEND:ARGUMENT".

    Raises `UnknownNameError` for an unknown backend or argument and what the backend raises.
    """
    name, colon, argument = spec.partition(":")
    if not colon or not argument:
        raise InvalidValueError(
            f"{spec!r} does not name a device", cure="write it like sim:a100 or replay:runs.csv"
        )
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise UnknownNameError.among("kind of device", name, points)
    backend = cast(Backend, points[name].load()())
    return backend.open(argument, options or OpenOptions())
