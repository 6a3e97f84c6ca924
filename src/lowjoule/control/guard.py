"""Starting the watchdog of this process: another one, which outlives it and puts things back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lowjoule.control.locks import is_locked
from lowjoule.control.process import start_of

VARIABLE = "LOWJOULE_WATCHDOG"
_START_S = 10.0
# a board is found by what it is, wherever the client sees it
HIDING = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_CODE = (
    "import sys; sys.path.append(sys.argv[4]); "
    "from lowjoule.control.watchdog import main; main(sys.argv[1:4])"
)


def lock_path(folder: Path, pid: int, start: str | None) -> Path:
    """Return the lock that the watchdog of a process holds while it watches over `folder`."""
    return folder / f"watchdog-{pid}-{start or 0}.lock"


def ensure_watchdog(folder: Path) -> str | None:
    """Have a watchdog for this process over the journal in `folder`; return why there is none.

    With LOWJOULE_WATCHDOG=off none is started, and nothing said.
    """
    if os.environ.get(VARIABLE, "").casefold() in {"off", "0", "no", "false"}:
        return None
    pid = os.getpid()
    start = start_of(pid)
    try:
        if is_locked(lock_path(folder, pid, start)):
            return None
    except OSError as error:
        return f"no watchdog: {error}"
    return _started(folder, pid, start)


def _started(folder: Path, pid: int, start: str | None) -> str | None:
    package = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-P", "-c", _CODE]
    command += [str(pid), start or "", str(folder), str(package)]
    if not sys.executable or not hasattr(os, "fork"):
        return "there is no watchdog on this system: after a kill, run lowjoule restore"
    try:
        # the command forks and ends, so that the client never has a child to wait for; exec, no
        # descriptors and a session of its own: neither a terminal nor the client's group ends it
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=True,
            start_new_session=True,
            env={k: v for k, v in os.environ.items() if k not in HIDING},
            timeout=_START_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"no watchdog could be started ({error}): after a kill, run lowjoule restore"
    return None
