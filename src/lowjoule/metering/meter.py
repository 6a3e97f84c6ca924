"""Energy, time and power between two moments, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lowjoule.devices.interface import Device, FastSampled, Reading
from lowjoule.errors import DeviceError
from lowjoule.source import Source

_POLL_S = 0.001
_POLL_LIMIT_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a window saw. `uncertainty_j` is the standard deviation that the counter's ticks give.

    `peak_power_w` is the largest of the mean power and the power read at the end; None where the
    device reads no power.
    """

    time_s: float
    energy_j: float
    uncertainty_j: float
    peak_power_w: float | None
    source: Source

    @property
    def power_w(self) -> float:
        """Mean power."""
        return self.energy_j / self.time_s


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a window: the device's time and energy so far, and its power where it reads one.

    `variance_j2` is what integration has left open so far; 0 of a counter.
    """

    time_s: float
    energy_j: float
    power_w: float | None
    variance_j2: float = 0.0


class Meter:
    """Measures windows on one device by the difference of its energy counter, or of an integral.

    The counter of real and simulated cards moves in ticks: each end of a window is late by a
    time uniform in [0, tick), so the difference has a standard deviation of tick * power /
    sqrt(6). The tick is observed once, by polling for at most 0.3 s. Where the device has no
    counter, power is integrated between the edges that are asked for, so that these have to be
    many; what a change between two of them leaves open is at most half of it over their distance.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        # an edge needs time, energy and power alone, and may be asked for within a training step
        self._read = device.sample if isinstance(device, FastSampled) else device.read
        self._tick_s: float | None = None
        self._integral: Edge | None = None
        self._counts: bool | None = None

    @property
    def tick_s(self) -> float:
        """The time between two moves of the counter; 0 where it moves continuously."""
        if self._tick_s is None:
            self._tick_s = self._observe_tick_s()
        return self._tick_s

    def edge(self) -> Edge:
        """Return the end of a window, now; raises `DeviceError` where it tells no energy."""
        reading = self._read()
        if self._counts is None:
            self._counts = reading.energy_j is not None
        if not self._counts:
            return self._integrated(reading)
        if reading.energy_j is None:
            raise DeviceError(
                f"the energy counter of {self.device.identity.model} does not answer",
                cure="try again, and see lowjoule doctor",
            )
        return Edge(time_s=reading.time_s, energy_j=reading.energy_j, power_w=reading.power_w)

    def _integrated(self, reading: Reading) -> Edge:
        if reading.power_w is None:
            raise DeviceError(
                f"{self.device.identity.model} tells neither energy nor power",
                cure="use a device that does (lowjoule devices)",
            )
        before = self._integral or Edge(reading.time_s, 0.0, reading.power_w)
        before_w = reading.power_w if before.power_w is None else before.power_w
        gap_s = reading.time_s - before.time_s
        self._integral = Edge(
            time_s=reading.time_s,
            energy_j=before.energy_j + gap_s * (before_w + reading.power_w) / 2.0,
            power_w=reading.power_w,
            variance_j2=before.variance_j2 + (gap_s * (reading.power_w - before_w) / 2.0) ** 2,
        )
        return self._integral

    def since(self, begin: Edge) -> Measurement:
        """Return what happened since `begin`; raises `DeviceError` where nothing is known."""
        end = self.edge()
        time_s = end.time_s - begin.time_s
        energy_j = end.energy_j - begin.energy_j
        if time_s <= 0 or energy_j < 0:
            raise DeviceError(
                f"the window on {self.device.identity.model} has {time_s} s and {energy_j} J",
                cure="the counter was reset or the work is too short: measure more work",
            )
        mean_w = energy_j / time_s
        peak_w = None if end.power_w is None else max(mean_w, end.power_w)
        return Measurement(
            time_s=time_s,
            energy_j=energy_j,
            uncertainty_j=math.sqrt(
                (self.tick_s * mean_w) ** 2 / 6.0 + end.variance_j2 - begin.variance_j2
            ),
            peak_power_w=peak_w,
            source=self.device.identity.source,
        )

    def _observe_tick_s(self) -> float:
        """Return the time between two moves of the counter, 0 when it does not move in ticks."""
        clock = self.device.clock
        start_s = clock.now_s()
        moves: list[float] = []
        last = self.edge().energy_j
        if not self._counts:
            return 0.0
        while len(moves) < 2 and clock.now_s() - start_s < _POLL_LIMIT_S:
            clock.sleep(_POLL_S)
            value = self.edge().energy_j
            if value != last:
                moves.append(clock.now_s())
                last = value
        if len(moves) < 2 or moves[1] - moves[0] <= 1.5 * _POLL_S:
            return 0.0
        return moves[1] - moves[0]
