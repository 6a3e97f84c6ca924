"""Where claims and the journal are kept: a folder of this host, the same for every process."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from pathlib import Path

JOURNAL = "LOWJOULE_JOURNAL"
CLAIMS = "LOWJOULE_CLAIMS"
# the first outlives a reboot, so that what a reboot has undone can be said
_SYSTEM = (Path("/var/lib/lowjoule"), Path("/run/lowjoule"))


def journal_folder() -> Path:
    """Return $LOWJOULE_JOURNAL, or the folder of the journal of this host."""
    return _folder(JOURNAL, "journal")


def claims_folder() -> Path:
    """Return $LOWJOULE_CLAIMS, or the folder of the claims of this host."""
    return _folder(CLAIMS, "claims")


def _folder(variable: str, name: str) -> Path:
    if named := os.environ.get(variable):
        return Path(named).absolute()
    return _host_folder() / name


def _host_folder() -> Path:
    """Return the machine's folder for root where it can be written, else one of the user.

    No folder among the temporary files as long as there is another: those are cleaned.
    """
    if _user() == 0:
        for folder in _SYSTEM:
            if _usable(folder):
                return folder
    state = os.environ.get("XDG_STATE_HOME") or os.path.join("~", ".local", "state")
    # a home may be shared by many machines, a journal must not be
    host = re.sub(r"[^\w.-]", "_", platform.node()) or "unknown"
    folder = Path(state).expanduser().absolute() / "lowjoule" / "hosts" / host
    if _usable(folder):
        return folder
    return Path(tempfile.gettempdir()) / f"lowjoule-{_user()}"


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _usable(folder: Path) -> bool:
    """Whether `folder` can be written, or made; nothing is made to find out."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
