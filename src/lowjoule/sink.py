"""Where a result goes: a file that is replaced at once, or a stream, pipe or device written to.

out.json                    written beside, then put in its place: all of it or nothing
-, /dev/stdout, /dev/fd/3   what is open already: written to where it stands
a pipe, /dev/null           opened and written to, never replaced
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowjoule.errors import InvalidValueError

_STREAMS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"(?:/dev/fd|/proc/self/fd)/(\d+)")
_CURE = "give a file in a folder that is writable, or - for standard output"


class Sink:
    """One place to write to, named as on a command line."""

    def __init__(self, place: str | Path) -> None:
        self.place = str(place)

    def check(self) -> None:
        """Raise `InvalidValueError` where nothing could be written; what is there stays."""
        try:
            fits = self._fits()
        except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL
            fits = False
        if not fits:
            raise InvalidValueError(f"nothing can be written to {self.place}", cure=_CURE)

    def _fits(self) -> bool:
        number = _open_already(self.place)
        if number is not None:
            return not stat.S_ISDIR(os.fstat(number).st_mode)
        path = Path(self.place).resolve()
        if not self.place or path.is_dir():  # an empty name would be this folder
            return False
        if path.exists() and not path.is_file():
            return os.access(path, os.W_OK)
        with _beside(path):  # permissions alone do not tell of a read-only file system
            return True

    def write(self, content: str | bytes) -> None:
        """Write `content`, whole or not at all where it is a file.

        Raises `InvalidValueError`, and `BrokenPipeError` where whoever read went away.
        """
        raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
        try:
            self._write(raw)
        except BrokenPipeError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            number = getattr(error, "errno", None)
            if number == errno.ENXIO:
                reason = "nobody reads from that pipe"
            raise InvalidValueError(
                f"{self.place} cannot be written ({reason})",
                cure="make room" if number == errno.ENOSPC else _CURE,
            ) from None

    def _write(self, raw: bytes) -> None:
        number = _open_already(self.place)
        if number is not None:
            _put(os.dup(number), raw)
            return
        if not self.place:
            raise ValueError("it has no name")
        path = Path(self.place).resolve()
        if path.exists() and not path.is_file():
            # a pipe without a reader would keep us for ever
            file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.set_blocking(file, True)
            _put(file, raw)
            return
        with _beside(path) as (file, name):
            _put(file, raw, sync=True)
            _as_usual(name, path)
            os.replace(name, path)


def _open_already(place: str) -> int | None:
    if place in _STREAMS:
        return _STREAMS[place]
    match = _DESCRIPTOR.fullmatch(place)
    return int(match[1]) if match else None


def _put(file: int, raw: bytes, *, sync: bool = False) -> None:
    with open(file, "wb") as stream:
        stream.write(raw)
        stream.flush()
        if sync:
            os.fsync(file)


@contextmanager
def _beside(path: Path) -> Iterator[tuple[int, str]]:
    """Make a file beside `path`, which is gone again unless it was put in its place."""
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        yield file, name
    finally:
        Path(name).unlink(missing_ok=True)


def _as_usual(name: str, path: Path) -> None:
    """Give a file made for us alone the permissions that it would have had."""
    mask = os.umask(0)
    os.umask(mask)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask
    os.chmod(name, mode)
