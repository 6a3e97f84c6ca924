"""`measure`: a stretch of a program, and the energy that devices took in it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.interface import Coverage
from lowjoule.errors import InvalidValueError
from lowjoule.metering.flags import Flag
from lowjoule.metering.logs import append
from lowjoule.metering.pace import Sampling
from lowjoule.metering.result import (
    SCHEMA,
    DeviceEnergy,
    Pending,
    total_j,
    total_uncertainty_j,
)
from lowjoule.metering.selection import Devices, select
from lowjoule.metering.sync import Sync, synchronise
from lowjoule.metering.watch import Stay, Watch, watch_of
from lowjoule.workloads.work import Work, parse_work

_P = ParamSpec("_P")
_R = TypeVar("_R")
_log = logging.getLogger("lowjoule")
_WALL = WallClock()

PerDevice = float | Mapping[str, float] | None
"""One figure for all devices, or one for each UUID."""


@dataclass(slots=True, kw_only=True)
class Options:
    """How a window measures; see `measure`."""

    devices: Devices = None
    work: Work | str | None = None
    sync: Sync = "auto"
    calibration: PerDevice = None
    idle_w: PerDevice = None
    log: str | Path | None = None
    on_result: Callable[[Window], object] | None = None
    sampling: Sampling = Sampling.AUTO


class Window:
    """A stretch of a program: a context manager, a decorator, or between `start` and `stop`.

    Figures are None until the window has ended, and where nothing is known. Windows may nest and
    overlap, in one thread or several. Nothing that goes wrong in measuring raises: `flags` and
    `notes` say it.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.begin_unix_s: float | None = None
        self._notes: list[str] = []
        self._work = options.work
        self._clock: Clock = _WALL
        self._begin_s: float | None = None
        self._end_s: float | None = None
        self._open: list[tuple[Watch, Stay]] = []
        self._pending: list[Pending] = []

    # ---------------------------------------------------------------- begin and end

    def start(self) -> Window:
        """Begin, after the devices have done what was queued before; returns the window."""
        try:
            self._start()
        except Exception as error:  # noqa: BLE001  # measuring never ends the user's work
            self._note(f"the window {self.name!r} is not measured: {error}")
        return self

    def _start(self) -> None:
        if self._open:
            self.stop()
        devices, notes = select(self.options.devices)
        self._notes = list(notes)
        self._pending, self._end_s = [], None
        self._clock = devices[0].clock if devices else _WALL
        watches = [(watch_of(device), device) for device in devices]
        self._note(_unlike(watch for watch, _ in watches))
        self._note(synchronise(self.options.sync))
        self.begin_unix_s = self._clock.unix_s()
        sampling = self.options.sampling
        self._open = [(watch, watch.open(device, sampling)) for watch, device in watches]
        self._begin_s = self._clock.now_s()

    def stop(self) -> Window:
        """End, when the devices are done, and write the log; returns the window."""
        try:
            self._stop()
        except Exception as error:  # noqa: BLE001  # as in start
            self._note(f"the window {self.name!r} has no figures: {error}")
        return self

    def _stop(self) -> None:
        if self._begin_s is None or self._end_s is not None:
            return
        self._note(synchronise(self.options.sync))
        self._end_s = self._clock.now_s()
        options, opened = self.options, self._open
        self._open = []
        for watch, stay in opened:
            watch.close(stay, options.sampling)
            uuid = watch.identity.uuid
            pending = Pending(
                watch,
                stay,
                calibration_sd=_of(options.calibration, uuid) or 0.0,
                idle_w=_of(options.idle_w, uuid),
            )
            watch.settle(pending)
            self._pending.append(pending)
        if options.log is not None:
            append(options.log, self.to_dict())
        if options.on_result is not None:
            options.on_result(self)

    def __enter__(self) -> Window:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function` measured: each call is a window of its own, given to `on_result`."""

        @functools.wraps(function)
        def measured(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            window = Window(self.name, self.options)
            with window:
                return function(*args, **kwargs)

        return measured

    def poll(self) -> None:
        """Look at all devices now: where `sampling` is "manual", in virtual time."""
        for watch, _ in self._open:
            watch.poll()

    @property
    def due_s(self) -> float | None:
        """When the next `poll` is due, on the devices' clock; None where there is none."""
        return min((watch.due_s for watch, _ in self._open), default=None)

    # ---------------------------------------------------------------- figures

    @property
    def devices(self) -> Mapping[str, DeviceEnergy]:
        """The figures of each device by its UUID; empty until the window has ended."""
        return {one.watch.identity.uuid: one.result() for one in self._pending}

    def _results(self) -> list[DeviceEnergy]:
        return [one.result() for one in self._pending]

    @property
    def time_s(self) -> float | None:
        """How long the window took, on the first device's clock."""
        if len(self._pending) == 1 and (time_s := self._pending[0].result().time_s) is not None:
            return time_s
        if self._begin_s is None or self._end_s is None:
            return None
        return self._end_s - self._begin_s

    @property
    def energy_j(self) -> float | None:
        """Energy of all devices that told theirs; None where none did."""
        return total_j(self._results())

    @property
    def uncertainty_j(self) -> float | None:
        """Half the width of the 95 % interval of `energy_j`."""
        return total_uncertainty_j(self._results())

    @property
    def interval_j(self) -> tuple[float, float] | None:
        """The 95 % interval of `energy_j`, never below 0."""
        energy_j, half_j = self.energy_j, self.uncertainty_j
        if energy_j is None or half_j is None:
            return None
        return max(0.0, energy_j - half_j), energy_j + half_j

    @property
    def power_w(self) -> float | None:
        """Mean power of all devices that told it."""
        known = [one.power_w for one in self._results() if one.power_w is not None]
        return sum(known) if known else None

    @property
    def peak_power_w(self) -> float | None:
        """Sum of the devices' peaks, which need not have been at one time."""
        known = [one.peak_power_w for one in self._results() if one.peak_power_w is not None]
        return sum(known) if known else None

    @property
    def idle_energy_j(self) -> float | None:
        """What the devices would have taken idle; not subtracted from `energy_j`."""
        known = [one.idle_energy_j for one in self._results() if one.idle_energy_j is not None]
        return sum(known) if known else None

    @property
    def flags(self) -> frozenset[Flag]:
        """What is wrong with any of the devices' figures."""
        return frozenset().union(*(one.flags for one in self._results()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the window, a sentence each."""
        said = [f"{one.identity.uuid}: {note}" for one in self._results() for note in one.notes]
        return (*self._notes, *said)

    @property
    def work(self) -> Work | None:
        """The work done in the window; may be set before it ends or after."""
        if isinstance(self._work, str):
            try:
                self._work = parse_work(self._work)
            except Exception as error:  # noqa: BLE001  # as in start
                self._note(str(error))
                self._work = None
        return self._work

    @work.setter
    def work(self, work: Work | str | None) -> None:
        self._work = work

    @property
    def energy_per_unit_j(self) -> float | None:
        """Joules a unit of work (a sample, a token), None where work or energy is not known."""
        energy_j, work = self.energy_j, self.work
        return None if energy_j is None or work is None else energy_j / work.quantity

    @property
    def rate_per_s(self) -> float | None:
        """Units of work a second."""
        time_s, work = self.time_s, self.work
        return None if not time_s or work is None else work.quantity / time_s

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with a version; missing ones are None."""
        work = self.work
        return {
            "schema": SCHEMA,
            "name": self.name,
            "begin_unix_s": self.begin_unix_s,
            "time_s": self.time_s,
            "energy_j": self.energy_j,
            "uncertainty_j": self.uncertainty_j,
            "power_w": self.power_w,
            "peak_power_w": self.peak_power_w,
            "idle_energy_j": self.idle_energy_j,
            "work": None if work is None else work.quantity,
            "work_unit": None if work is None else work.unit.value,
            "energy_per_unit_j": self.energy_per_unit_j,
            "flags": sorted(flag.value for flag in self.flags),
            "notes": list(self.notes),
            "devices": [one.to_dict() for one in self._results()],
        }

    def _note(self, note: str) -> None:
        if note:
            self._notes.append(note)
            _log.warning("%s", note)

    def __repr__(self) -> str:
        if self._end_s is None:
            return f"<window {self.name!r}, {'open' if self._open else 'not begun'}>"
        energy_j, half_j, time_s = self.energy_j, self.uncertainty_j, self.time_s or 0.0
        if energy_j is None:
            return f"<window {self.name!r}, {time_s:.4g} s, energy not known>"
        return f"<window {self.name!r}, {time_s:.4g} s, {energy_j:.6g} J ± {half_j:.2g} J>"


def measure(
    name: str = "window",
    *,
    devices: Devices = None,
    work: Work | str | None = None,
    sync: Sync = "auto",
    calibration: PerDevice = None,
    idle_w: PerDevice = None,
    log: str | Path | None = None,
    on_result: Callable[[Window], object] | None = None,
    sampling: Sampling | str = Sampling.AUTO,
) -> Window:
    """Return a window that measures the energy of devices: `with measure("epoch") as m:`.

    `devices` are names ("nvml:0"), devices, or a list of both; an empty list is none, None the
    visible NVIDIA GPUs and the CPU packages that can be read. `work` is what is done inside, a
    `Work` or like "512 samples". `sync` is called at both edges; "auto" waits for the frameworks
    that are in use, None for nothing. `calibration` is the relative standard deviation of a
    device's gain (0.05), to be added to totals; leave it away to compare runs on one board.
    `idle_w` is what a device draws idle, for `idle_energy_j`. `log` is a .jsonl or .csv file that
    the result is appended to. `sampling` says who looks in between (`Sampling`).
    """
    for figure in calibration.values() if isinstance(calibration, Mapping) else (calibration,):
        if figure is not None and not (isinstance(figure, int | float) and 0 <= figure < 1):
            raise InvalidValueError(
                f"a calibration of {figure!r}", cure="give a relative standard deviation like 0.05"
            )
    options = Options(
        devices=devices,
        work=work,
        sync=sync,
        calibration=calibration,
        idle_w=idle_w,
        log=log,
        on_result=on_result,
        sampling=sampling if isinstance(sampling, Sampling) else Sampling(sampling),
    )
    return Window(name, options)


def measure_idle(devices: Devices = None, *, duration_s: float = 2.0) -> dict[str, float]:
    """Return what each device draws in W by UUID, over `duration_s` in which nothing shall run.

    It is given to `measure` as `idle_w`. Devices that do not tell are not in it.
    """
    window = measure("idle", devices=devices, sync=None)
    window.start()
    clock = window._clock
    clock.sleep(duration_s)
    window.stop()
    found = {uuid: one.power_w for uuid, one in window.devices.items()}
    return {uuid: power_w for uuid, power_w in found.items() if power_w is not None}


def _unlike(watches: Iterable[Watch]) -> str:
    """Return why the devices' energies are not to be added, "" where they may be."""
    every = list(watches)
    scopes = {watch.identity.scope for watch in every}
    if len({watch.identity.source for watch in every}) > 1:
        return "some devices are simulated and others are not: there is no sum of them"
    if Coverage.MODULE not in scopes or len(scopes) == 1:
        return ""
    return "the energy of a module includes its GPU and its processor: do not add those to it"


def _of(figure: PerDevice, uuid: str) -> float | None:
    if isinstance(figure, Mapping):
        return figure.get(uuid)
    return figure
