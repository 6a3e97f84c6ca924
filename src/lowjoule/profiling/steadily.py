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
        work = self.steps(1.0)
        running = self._launch(work, rest)
        recording.open(self.meter.edge())  # what is made ready in the first launch is no work
        last_s = self.device.clock.now_s()
        while True:
            following = self._launch(work, rest)
            running.wait()
            recording.add(work.quantity)
            now_s = self.device.clock.now_s()
            if now_s <= last_s:
                raise DeviceError(
                    f"{self.workload.name} took no time on {self.device.identity.model}",
                    cure="check the device's clock",
                )
            if recording.due(now_s) and self._cut(recording) is not Verdict.MORE:
                following.wait()
                return recording, running.told
            running, last_s = following, now_s

    def _launch(self, work: Work, rest: Setting) -> Execution:
        return self.device.submit(self.workload, work, rest)

    def _cut(self, recording: Recording) -> Verdict:
        throttled = is_throttled(self.device.read().throttle_reasons)
        return recording.cut(self.meter.edge(), throttled=throttled)
