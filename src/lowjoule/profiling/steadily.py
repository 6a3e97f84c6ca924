"""Work in a row on a device that runs it itself, until a window has told enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowjoule.devices.interface import Execution, Told, WorkDevice
from lowjoule.errors import DeviceError
from lowjoule.knobs import Setting
from lowjoule.metering import Edge, Meter
from lowjoule.profiling.recording import Recording, is_throttled, sample_length_s
from lowjoule.profiling.steady import Precision, Verdict
from lowjoule.workloads import Work, Workload

_SHARE = 0.5  # of a sample is launched at once, in whole steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadily:
    """Runs one workload as a training would: the next piece is launched before the last ends.

    `steps` rounds an amount of work up to whole steps.
    """

    device: WorkDevice
    workload: Workload
    meter: Meter
    precision: Precision
    steps: Callable[[float], Work]

    def record(self, rest: Setting, begin: Edge) -> tuple[Recording, Told]:
        """Return what the work at the setting in force took, from `begin` on.

        Raises what the device raises, and `DeviceError` for work that takes no time.
        """
        tick_s = self.meter.tick_s
        sample_s = sample_length_s(self.precision, tick_s)
        recording = Recording(self.precision, sample_s=sample_s, tick_s=tick_s)
        recording.resume(begin)
        work = following_work = self.steps(1.0)
        running = self._launch(work, rest)
        recording.open(self.meter.edge())  # what is made ready in the first launch is no work
        last_s = self.device.clock.now_s()
        verdict = Verdict.MORE
        while verdict is Verdict.MORE:
            following = self._launch(following_work, rest)
            running.wait()
            recording.add(work.quantity)
            now_s = self.device.clock.now_s()
            if now_s <= last_s:
                raise DeviceError(
                    f"{self.workload.name} took no time on {self.device.identity.model}",
                    cure="check the device's clock",
                )
            if recording.due(now_s):
                verdict = self._cut(recording)
            each_s = (now_s - last_s) / work.quantity
            running, work, last_s = following, following_work, now_s
            following_work = self.steps(_SHARE * sample_s / each_s)
        running.wait()  # it was launched already, and its price counts
        recording.add(work.quantity)
        self._cut(recording)
        return recording, running.told

    def _launch(self, work: Work, rest: Setting) -> Execution:
        return self.device.submit(self.workload, work, rest)

    def _cut(self, recording: Recording) -> Verdict:
        seen = self.device.read()
        return recording.cut(
            self.meter.edge(),
            throttled=is_throttled(seen.throttle_reasons),
            temperature_c=seen.temperature_c,
        )
