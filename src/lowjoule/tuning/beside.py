"""A simulated GPU beside a loop: it takes the card's place, and its time."""

from __future__ import annotations

from lowjoule.devices.interface import Execution, Told, WorkDevice
from lowjoule.knobs import Setting
from lowjoule.workloads import Work, Workload


class Beside:
    """Runs the declared workload step by step while the loop does its own.

    As on a card, a step is launched and the loop goes on to the next while it runs; it waits
    where one is launched before the last is done. So the loop takes the longer of the two times.
    """

    def __init__(self, device: WorkDevice, workload: Workload, held: Setting) -> None:
        self.told = Told()
        self._device = device
        self._workload = workload
        self._held = held
        self._running: Execution | None = None

    def step(self, quantity: float, turned: Setting) -> None:
        """Launch a step of `quantity` units with the workload's knobs at `turned`.

        Raises what the device raises where it does not fit; nothing runs then.
        """
        work = Work(quantity, self._workload.unit)
        launched = self._device.submit(self._workload, work, Setting({**self._held, **turned}))
        self.drain()
        self._running, self.told = launched, launched.told

    def drain(self) -> None:
        """Wait for what was launched."""
        running, self._running = self._running, None
        if running is not None:
            running.wait()
