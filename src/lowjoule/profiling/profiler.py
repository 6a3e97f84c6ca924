"""One setting becomes one point: apply, settle, measure until it is known well enough."""

from __future__ import annotations

import math
from dataclasses import replace

from lowjoule.control import Claim
from lowjoule.devices.interface import WorkDevice
from lowjoule.errors import (
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

_WARM_UP = 12.0
_LONGEST_S = 86_400.0


class Profiler:
    """Measures settings of one workload on a device that runs work itself.

    A trial begins when the setting was read back and its latency is over; what shows as warm-up
    is cut off, and the window ends when time and energy are known to `precision`, after `window_s`
    at the latest. A replayed table was measured in steady state and answers for its own amount of
    work: there a trial is one unit of it, drawn once.
    """

    def __init__(
        self,
        claim: Claim,
        device: WorkDevice,
        workload: Workload,
        *,
        window_s: float = 10.0,
        precision: float = 0.01,
    ) -> None:
        if not 0 < window_s <= _LONGEST_S:
            raise InvalidValueError(
                f"a window of {window_s:g} s", cure="use a positive window of at most a day"
            )
        self._claim = claim
        self._device = device
        self._workload = workload
        self._meter = Meter(device)
        self._meter.tick_s  # noqa: B018 - observed now, while the device idles
        self._precision = Precision(relative=precision, most_s=window_s)
        self.replayed = device.identity.source is Source.REPLAYED

    def measure(self, setting: Setting) -> Trial:
        """Try `setting` once; a setting that does not run gives a trial with its `failure`."""
        return self._try(setting, self._precision)

    def warm_up(self, setting: Setting) -> Trial:
        """Run at `setting` until it is known where its figures end: a board that is cold gets warm.

        The trial is of the warming board, and good for its price alone. It takes as long as it
        takes for time and energy of the steady state to be known to twice the precision asked for,
        and at most twelve windows.
        """
        asked = self._precision
        longer = replace(
            asked, relative=min(0.5, 2.0 * asked.relative), most_s=_WARM_UP * asked.most_s
        )
        return self._try(setting, longer)

    def _try(self, setting: Setting, precision: Precision) -> Trial:
        begin = self._meter.edge()
        own = setting.only(self._device.space.names)
        rest = Setting({k: v for k, v in setting.items() if k not in own})
        achieved = setting
        try:
            applied = self._claim.apply(own)
            achieved = Setting({**rest, **applied.achieved})
            self._settle(applied)
            if self.replayed:
                return self._drawn(setting, achieved, rest, begin)
            return self._recorded(setting, achieved, rest, begin, precision)
        except (OutOfMemoryError, NotMeasuredError, UnsupportedError) as error:
            return self._failed(setting, achieved, begin, error.problem)

    def _drawn(self, asked: Setting, achieved: Setting, rest: Setting, begin: Edge) -> Trial:
        """Return the trial of one unit of a table's work."""
        overhead = self._spent(begin)
        work = Work(1.0, self._workload.unit)
        begin = self._meter.edge()
        execution = self._device.submit(self._workload, work, rest)
        execution.wait()
        return Trial(
            asked=asked,
            achieved=achieved,
            work=work,
            measurement=self._meter.since(begin),
            overhead_s=overhead[0],
            overhead_j=overhead[1],
            told=execution.told,
        )

    def _failed(self, asked: Setting, achieved: Setting, begin: Edge, reason: str) -> Trial:
        overhead_s, overhead_j = self._spent(begin)
        return Trial(
            asked=asked,
            achieved=achieved,
            work=None,
            measurement=None,
            overhead_s=overhead_s,
            overhead_j=overhead_j,
            failure=reason,
        )

    def _recorded(
        self, asked: Setting, achieved: Setting, rest: Setting, begin: Edge, precision: Precision
    ) -> Trial:
        """Return the trial of a window that is as long as it must be."""
        steadily = Steadily(
            device=self._device,
            workload=self._workload,
            meter=self._meter,
            precision=precision,
            steps=lambda quantity: self._steps(rest, quantity),
        )
        recording, told = steadily.record(rest, begin)
        unit, source = self._workload.unit, self._device.identity.source
        return recording.trial(asked, achieved, unit=unit, source=source, told=told)

    def _settle(self, applied: Applied) -> None:
        """Wait as long as the slowest knob that was written needs to show."""
        latencies = [self._device.space.knob(name).latency_s for name in applied.asked]
        if not self.replayed and latencies:
            self._device.clock.sleep(max(latencies))

    def _steps(self, rest: Setting, quantity: float) -> Work:
        """Return at least `quantity` units of work in whole steps of the batch size."""
        batch = rest.number(BATCH_SIZE) if BATCH_SIZE in rest else 1.0
        return Work(max(1.0, math.ceil(quantity / batch)) * batch, self._workload.unit)

    def _spent(self, begin: Edge) -> tuple[float, float]:
        now = self._meter.edge()
        return now.time_s - begin.time_s, max(0.0, now.energy_j - begin.energy_j)
