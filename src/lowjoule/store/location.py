"""Where the store is: its default place, and what kind of file system that is."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LOWJOULE_STORE"

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "gpfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs", "virtiofs"}
)


def default_location() -> str:
    """Return $LOWJOULE_STORE (a path or a URL), or a file under the user's data folder (XDG)."""
    if named := os.environ.get(VARIABLE):
        return named
    data = os.environ.get("XDG_DATA_HOME") or os.path.join("~", ".local", "share")
    return os.path.join(data, "lowjoule", "store.sqlite")


def is_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Return whether `path` is on a network file system, as far as the system says.

    SQLite's write-ahead log needs memory shared by all who write, which machines do not have,
    though each of them alone finds that it works.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    place = path.resolve()
    best, kind = -1, ""
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        # a later mount on the same point hides the earlier one
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind in _NETWORK
