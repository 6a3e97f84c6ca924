"""One setting becomes one point: apply, warm up, measure a window of work."""

from __future__ import annotations

import math

from lowjoule.clock import WallClock
from lowjoule.control import Claim
from lowjoule.devices.interface import WorkDevice
from lowjoule.errors import (
    DeviceError,
    InvalidValueError,
    NotMeasuredError,
    OutOfMemoryError,
    UnsupportedError,
)
from lowjoule.knobs import BATCH_SIZE, Applied, Setting
from lowjoule.metering import Edge, Meter
from lowjoule.profiling.steadily import Steadily
from lowjoule.profiling.steady import Precision
from lowjoule.profiling.trial import Trial
from lowjoule.source import Source
from lowjoule.workloads import Work, Workload

_GROWTH = 16.0
_LONGEST_S = 86_400.0


class Profiler:
    """Measures settings of one workload on a device that runs work itself.

    A trial runs for `warmup_s` at the new setting and then measures about `window_s` of whole
    steps. A replayed table was measured in steady state and answers for its own amount of work:
    there a trial is one unit of it, drawn once, without warm-up. In real time the warm-up is what
    shows as such, and the window ends when time and energy are known to `precision`, after
    `window_s` at the latest.
    """

    def __init__(
        self,
        claim: Claim,
        device: WorkDevice,
        workload: Workload,
        *,
        window_s: float = 10.0,
        warmup_s: float = 2.0,
        precision: float = 0.01,
    ) -> None:
        if not (0 < window_s <= _LONGEST_S and 0 <= warmup_s <= _LONGEST_S):
            raise InvalidValueError(
                f"a window of {window_s:g} s after {warmup_s:g} s of warm-up",
                cure="use a positive window of at most a day, like 10s",
            )
        self._claim = claim
        self._device = device
        self._workload = workload
        self._meter = Meter(device)
        self._tick_s = self._meter.tick_s  # observed now, while the device idles
        self._window_s = window_s
        self._warmup_s = warmup_s
        self._replayed = device.identity.source is Source.REPLAYED
        self._precision = Precision(relative=precision, most_s=window_s)
        self._steadily = isinstance(device.clock, WallClock) and not self._replayed

    def measure(self, setting: Setting) -> Trial:
        """Try `setting` once; a setting that does not run gives a trial with its `failure`."""
        begin = self._meter.edge()
        own = setting.only(self._device.space.names)
        rest = Setting({k: v for k, v in setting.items() if k not in own})
        work: Work | None = None
        warmup_work = 0.0
        achieved = setting
        try:
            applied = self._claim.apply(own)
            achieved = Setting({**rest, **applied.achieved})
            self._settle(applied)
            if self._steadily:
                return self._recorded(setting, achieved, rest, begin)
            if not self._replayed:
                warmup_work, per_unit_s = self._warm_up(rest)
                work = self._steps(rest, self._window_s / per_unit_s)
            else:
                work = Work(1.0, self._workload.unit)
            overhead = self._spent(begin)
            begin = self._meter.edge()
            execution = self._device.submit(self._workload, work, rest)
            execution.wait()
            measured = self._meter.since(begin)
        except (OutOfMemoryError, NotMeasuredError, UnsupportedError) as error:
            spent = self._spent(begin)
            return Trial(
                asked=setting,
                achieved=achieved,
                work=None,
                measurement=None,
                overhead_s=spent[0],
                overhead_j=spent[1],
                failure=error.problem,
            )
        return Trial(
            asked=setting,
            achieved=achieved,
            work=work,
            measurement=measured,
            warmup_work=warmup_work,
            overhead_s=overhead[0],
            overhead_j=overhead[1],
            told=execution.told,
        )

    def _recorded(self, asked: Setting, achieved: Setting, rest: Setting, begin: Edge) -> Trial:
        """Return the trial of a window that is as long as it must be."""
        steadily = Steadily(
            device=self._device,
            workload=self._workload,
            meter=self._meter,
            precision=self._precision,
            steps=lambda quantity: self._steps(rest, quantity),
        )
        recording, told = steadily.record(rest, begin)
        unit, source = self._workload.unit, self._device.identity.source
        return recording.trial(asked, achieved, unit=unit, source=source, told=told)

    def _settle(self, applied: Applied) -> None:
        """Wait as long as the slowest knob that was written needs to show."""
        latencies = [self._device.space.knob(name).latency_s for name in applied.asked]
        if not self._replayed and latencies:
            self._device.clock.sleep(max(latencies))

    def _warm_up(self, rest: Setting) -> tuple[float, float]:
        """Run for at least the warm-up time; return units of work done and seconds a unit."""
        clock = self._device.clock
        start_s = clock.now_s()
        done = 0.0
        work = self._steps(rest, 1.0)
        while True:
            before_s = clock.now_s()
            self._device.submit(self._workload, work, rest).wait()
            done += work.quantity
            per_unit_s = (clock.now_s() - before_s) / work.quantity
            if per_unit_s <= 0:
                raise DeviceError(
                    f"{self._workload.name} took no time on {self._device.identity.model}",
                    cure="check the device's clock",
                )
            left_s = self._warmup_s - (clock.now_s() - start_s)
            if left_s <= 0:
                return done, per_unit_s
            work = self._steps(rest, min(left_s / per_unit_s, work.quantity * _GROWTH))

    def _steps(self, rest: Setting, quantity: float) -> Work:
        """Return at least `quantity` units of work in whole steps of the batch size."""
        batch = rest.number(BATCH_SIZE) if BATCH_SIZE in rest else 1.0
        return Work(max(1.0, math.ceil(quantity / batch)) * batch, self._workload.unit)

    def _spent(self, begin: Edge) -> tuple[float, float]:
        now = self._meter.edge()
        return now.time_s - begin.time_s, max(0.0, now.energy_j - begin.energy_j)
