"""Files of the kernel: numbers and words under a root that tests can move elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

SYS = Path("/sys")
_LONGEST_BYTES = 65536


class Sysfs:
    """Reads and writes attribute files under `root`, by default `/sys`.

    What is not there, cannot be read or is no number is None; `text` and `write` raise the
    `OSError` of the kernel, for those who need to tell "not permitted" from "not there".
    """

    def __init__(self, root: Path = SYS) -> None:
        self.root = root

    def text(self, path: Path) -> str:
        """Return what `path` says, without its line end; raises `OSError`."""
        file = os.open(path, os.O_RDONLY)
        try:
            raw = os.read(file, _LONGEST_BYTES)
        finally:
            os.close(file)
        return raw.decode("utf-8", "replace").strip().strip("\0")

    def word(self, path: Path) -> str | None:
        """Return what `path` says, None where it says nothing or cannot be read."""
        try:
            return self.text(path) or None
        except OSError:
            return None

    def whole(self, path: Path) -> int | None:
        """Return the whole number in `path`, None where there is none or it cannot be read."""
        try:
            return int(self.text(path))
        except (OSError, ValueError):
            return None

    def children(self, folder: Path) -> tuple[str, ...]:
        """Return the sorted names in `folder`, none where it is absent or closed to us."""
        try:
            return tuple(sorted(os.listdir(folder)))
        except OSError:
            return ()

    def refusal(self, path: Path) -> OSError | None:
        """Return why `path` cannot be opened for writing, None where it can; writes nothing.

        It is opened and closed: permission bits alone do not show a tree mounted read-only.
        """
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            return error
        return None

    def write(self, path: Path, text: str) -> None:
        """Write `text` in one call, as the kernel wants it; raises `OSError`."""
        file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
