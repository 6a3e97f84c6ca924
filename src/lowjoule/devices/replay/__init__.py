"""Tables of measurements as devices."""

from lowjoule.devices.replay.device import ReplayDevice
from lowjoule.devices.replay.reading import parse_table, read_table
from lowjoule.devices.replay.table import Table, Task

__all__ = ["ReplayDevice", "Table", "Task", "parse_table", "read_table"]
