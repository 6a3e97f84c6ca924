"""The machine that a CPU device is of: its processor, a name of its own, how busy it is."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}
_BUSY = (1, 2, 3, 6, 7)  # user, nice, system, irq, softirq of a line of /proc/stat


@dataclass(frozen=True, slots=True)
class Host:
    """This machine by its files; `proc` and `machine_id` are where they lie."""

    proc: Path = Path("/proc")
    machine_id: Path = Path("/etc/machine-id")

    def cpu(self) -> tuple[str, str]:
        """Return the model and the vendor of the processor, "CPU" and "unknown" where unsaid."""
        text = _text(self.proc / "cpuinfo")
        model = re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)
        vendor = re.search(r"^vendor_id\s*:\s*(\S+)", text, re.MULTILINE)
        named = vendor[1] if vendor else "unknown"
        return model[1].strip() if model else "CPU", _VENDORS.get(named, named)

    def anonymous_id(self, part: str) -> str:
        """Return a stable name of `part` of this machine that does not tell the machine's id."""
        machine = _text(self.machine_id).strip() or platform.node() or "unknown"
        return hashlib.sha256(f"lowjoule {machine} {part}".encode()).hexdigest()[:16]

    def busy_s(self) -> float | None:
        """Return how long the average logical CPU has been busy, in s since the machine's start.

        None where `/proc/stat` does not say it.
        """
        lines = [line.split() for line in _text(self.proc / "stat").splitlines()]
        cores = sum(bool(re.fullmatch(r"cpu\d+", line[0])) for line in lines if line)
        total = next((line for line in lines if line and line[0] == "cpu"), None)
        if not cores or total is None:
            return None
        try:
            ticks = sum(int(total[i]) for i in _BUSY if i < len(total))
        except ValueError:
            return None
        return ticks / cores / os.sysconf("SC_CLK_TCK")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
