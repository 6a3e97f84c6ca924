"""The narrow waist: what software needs to know of a device, and no more.

A device reads and writes; it decides nothing. What it cannot tell is None, never 0. Only
`lowjoule.control` calls `Device.apply`; everything else asks for a claim there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from lowjoule.clock import Clock
from lowjoule.knobs import Applied, Setting, Space, Value
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads.figures import DeviceFigures
from lowjoule.workloads.work import Work
from lowjoule.workloads.workload import Workload


class Coverage(StrEnum):
    """What the energy and power of a device include."""

    GPU = "gpu"
    MODULE = "module"
    MIG_PARENT = "mig_parent"
    PACKAGE = "package"
    DRAM = "dram"
    BOARD = "board"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which device this is. `uuid` identifies the board, `model` what it shares with its kind.

    `shared` says whether other processes see the same board and its knobs; `scope` what its
    energy and power include; `pci_bus_id` where it sits, where it has such a place; `spec` what
    opens this very board again in any process (see `registry.open_device`), None where nothing
    does; `calibrated` whether a model's figures come from a fit to measurements, None for a device
    that is no model.
    """

    uuid: str
    model: str
    vendor: str
    backend: str
    driver: str
    source: Source
    shared: bool = True
    scope: Coverage = Coverage.GPU
    pci_bus_id: str | None = None
    spec: str | None = None
    calibrated: bool | None = None

    @property
    def title(self) -> str:
        """The model, and that its figures are not calibrated where they are not."""
        return f"{self.model} (uncalibrated)" if self.calibrated is False else self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """One thing that a device can or cannot do, found by trying it.

    `name` is a reading ("energy counter", "instant power") or a knob; `detail` how well it works
    ("moves every 100 ms, a read takes 2.4 ms") or why it does not work; `cure` what makes it work,
    or what to use in its place. What does not work has both. `forbidden` says that it is there and
    only this process may not.
    """

    name: str
    works: bool
    detail: str = ""
    cure: str | None = None
    forbidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a device says now, in SI units; None is "does not say".

    `energy_j` is cumulative from an arbitrary start; `power_w` the device's usual power figure,
    averaged over `power_window_s` (0 is instant); `average_power_w` its slow average where it has
    one beside; `time_s` is of the device's clock.
    """

    time_s: float
    energy_j: float | None = None
    power_w: float | None = None
    power_window_s: float | None = None
    average_power_w: float | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    utilisation: float | None = None
    throttle_reasons: frozenset[str] = frozenset()


@runtime_checkable
class Device(Protocol):
    """A device: identity, what can be turned, readings, and writing a setting."""

    @property
    def identity(self) -> Identity:
        """Which device this is."""
        ...

    @property
    def clock(self) -> Clock:
        """The time that this device lives in: real, or virtual."""
        ...

    @property
    def space(self) -> Space:
        """The device's own knobs (limits and clocks; not a workload's batch size)."""
        ...

    def read(self) -> Reading:
        """Return what the device says now; raises `DeviceError` when it is lost."""
        ...

    def current(self) -> Setting:
        """Return the setting in force, one value for each knob of `space`."""
        ...

    def apply(self, setting: Setting) -> Applied:
        """Write `setting` (some or all knobs of `space`) and return what was read back.

        Raises `InvalidValueError` for a value outside the domain, `DeviceError` when refused.
        """
        ...


@runtime_checkable
class Probed(Protocol):
    """A device that can say what works on it."""

    def abilities(self) -> tuple[Ability, ...]:
        """Return what was tried when it was opened, writing nothing."""
        ...


@runtime_checkable
class Reminded(Protocol):
    """A device that does not tell all that is in force on it, and so can be told."""

    @property
    def unread(self) -> frozenset[str]:
        """The knobs whose value in force is what this object was told or wrote last."""
        ...

    def assume(self, setting: Setting) -> None:
        """Take the values as found on the device earlier; nothing is written.

        Each becomes one of its knob's values, and the one in force where the knob is `unread`.
        Knobs that the device has not are passed over.
        """
        ...


@runtime_checkable
class Advising(Protocol):
    """A device that knows what an administrator would type."""

    def command(self, name: str, value: Value) -> str:
        """Return the command with which an administrator turns the knob `name` to `value`."""
        ...


@runtime_checkable
class Ruled(Protocol):
    """A device whose knobs the kernel can turn at every start, by a rule of udev."""

    def rule(self, name: str, value: Value) -> str:
        """Return the line of a file in /etc/udev/rules.d that turns the knob `name` to `value`."""
        ...


@runtime_checkable
class FastSampled(Protocol):
    """A device that can be read faster for energy and power than for all that it says."""

    def sample(self) -> Reading:
        """Return a reading of time, energy and power alone; `DeviceError` when it is lost."""
        ...


@runtime_checkable
class Figured(Protocol):
    """A device that can tell figures of its kind of board."""

    def figures(self) -> DeviceFigures:
        """Return what the board tells of itself, without a rate of operations; None is unsaid."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a device that runs work knows of it beside time and energy; None is "not known".

    `time_sd_s` and `energy_sd_j` are standard deviations of the figures of this work.
    """

    time_sd_s: float | None = None
    energy_sd_j: float | None = None
    peak_power_w: float | None = None
    memory_bytes: float | None = None
    latency_s: float | None = None


class Execution(Protocol):
    """Work under way on a device that runs work itself."""

    @property
    def told(self) -> Told:
        """What the device knows of this work beside what its sensors say."""
        ...

    def wait(self) -> None:
        """Return when the device is done; virtual time moves, real time passes."""
        ...


@runtime_checkable
class WorkDevice(Device, Protocol):
    """A device that runs work itself: a simulated or a replayed one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the device assumed or could not do so far, a sentence's worth each."""
        ...

    def workload_names(self) -> tuple[str, ...]:
        """Return the names of the workloads that this device can run."""
        ...

    def workload(self, name: str | None = None) -> Workload:
        """Return the workload called `name`, or the only one there is; `UnknownNameError`."""
        ...

    def workload_space(self, workload: Workload) -> Space:
        """Return the knobs of `workload` that this device can run (batch size, precision)."""
        ...

    def joint_space(self, workload: Workload) -> Space:
        """Return the device's knobs and the workload's together, in that order.

        Its default is the setting in force when nobody turns a knob; where not every combination
        can be run (a table measured only some), `listed` or `rules` say which can.
        """
        ...

    def submit(self, workload: Workload, work: Work, setting: Setting) -> Execution:
        """Start `work` of `workload` with the workload's own knobs at `setting`.

        Raises `OutOfMemoryError` where it does not fit and `NotMeasuredError` where a table has
        no such setting.
        """
        ...

    def survey(self, workload: Workload, space: Space | None = None) -> Profile:
        """Return what the device knows of `workload` without running it.

        Of every setting, or of those of `space`, a part of the joint space, at least. For
        pictures and reports; a search never sees it.
        """
        ...
