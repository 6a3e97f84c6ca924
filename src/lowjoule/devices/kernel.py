"""What every backend needs that reads the kernel's files: the tree, the machine, the time."""

from __future__ import annotations

from pathlib import Path

from lowjoule.clock import Clock
from lowjoule.devices.host import Host
from lowjoule.devices.sysfs import SYS, Sysfs


class KernelBackend:
    """A backend on the tree at `root`.

    `sysfs` replaces the reading and writing of files, `host` what tells the machine apart, `clock`
    the time of the devices that are opened.
    """

    def __init__(
        self,
        root: Path = SYS,
        *,
        sysfs: Sysfs | None = None,
        host: Host | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._sysfs = Sysfs(root) if sysfs is None else sysfs
        self._host = Host() if host is None else host
        self._clock = clock
