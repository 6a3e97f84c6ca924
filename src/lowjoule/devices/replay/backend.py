"""The backend "replay": a path to a CSV file opens it as a device."""

from __future__ import annotations

from lowjoule.devices.registry import Available, OpenOptions
from lowjoule.devices.replay.device import ReplayDevice
from lowjoule.devices.replay.reading import read_table


class ReplayBackend:
    """Opens tables of measurements: "replay:runs.csv"."""

    def available(self) -> tuple[Available, ...]:
        """Return nothing: a table is there when its path is given."""
        return ()

    def open(self, argument: str, options: OpenOptions) -> ReplayDevice:
        """Open the CSV file at path `argument`; raises `TableError`."""
        return ReplayDevice(read_table(argument, options.columns), options)
