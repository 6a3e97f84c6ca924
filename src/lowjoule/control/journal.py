"""The journal: what was found on each knob that is turned, so that any process can put it back.

One file a knob, written before the knob and removed once it is back:

    found 300 W │ journal: prior 300, written [200] │ write 200 │ ... │ write 300 │ remove

A process that dies anywhere on this way leaves the file; its watchdog, `lowjoule restore` or
the next claim on the device then compares and puts back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lowjoule.clock import WallClock
from lowjoule.control.locks import FileLock, LockedError
from lowjoule.control.places import journal_folder
from lowjoule.control.process import Owner
from lowjoule.errors import BusyError, DeviceError

VERSION = 1
_SUFFIX = ".json"
_ASIDE = ".aside-"
_LOCK_S = 5.0
_LOG_BYTES = 64_000
_log = logging.getLogger("lowjoule")
_THREADS = threading.RLock()  # record locks are the whole process's

Value = float | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One knob that somebody turns: what was found, and what was written since, last one last.

    `spec` opens the device again, where anything does; `expires_s` is how long the owner may be
    without progress, and `expired` what was done when it was.
    """

    uuid: str
    model: str
    spec: str | None
    knob: str
    prior: Value
    written: tuple[Value, ...]
    owner: Owner
    time_unix_s: float
    expires_s: float | None = None
    expired: str | None = None

    def with_written(self, value: Value) -> Entry:
        """Return the entry with `value` as the last one written."""
        others = tuple(one for one in self.written if one != value)
        return replace(self, written=(*others, value))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file of the journal that is damaged, or that a newer lowjoule wrote."""

    path: Path
    why: str


class Journal:
    """The journal in `folder`, by default this host's."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = journal_folder() if folder is None else folder

    def path(self, uuid: str, knob: str) -> Path:
        """Return where the entry of a knob is kept."""
        return self.folder / (re.sub(r"[^\w.-]", "_", f"{uuid}.{knob}") + _SUFFIX)

    @contextlib.contextmanager
    def locked(self, uuid: str, knob: str, wait_s: float = _LOCK_S) -> Iterator[None]:
        """Keep other processes from the entry of a knob and from writing it; raises `BusyError`."""
        path = self.path(uuid, knob).with_suffix(".lock")
        with _THREADS, contextlib.ExitStack() as stack:
            try:
                stack.enter_context(FileLock(path, wait_s=wait_s))
            except LockedError:
                raise BusyError(
                    f"{knob} of {uuid} is being written by another process", cure="try again"
                ) from None
            except OSError as error:
                raise self._unkept(error) from None
            yield

    def find(self, uuid: str, knob: str) -> Entry | Unreadable | None:
        """Return what the journal has of a knob."""
        return _read(self.path(uuid, knob))

    def entries(self) -> list[Entry | Unreadable]:
        """Return all that the journal has, in the order of names."""
        paths, wrong = self._listed(lambda name: name.endswith(_SUFFIX))
        found = (self._entry(path) for path in paths)
        return [*wrong, *(one for one in found if one is not None)]

    def asides(self) -> list[Unreadable]:
        """Return the files that were moved out of the way and that nobody has deleted yet."""
        paths, _ = self._listed(lambda name: _ASIDE in name)
        said = "was damaged and set aside: see what it says of the device, then delete it"
        return [Unreadable(path, said) for path in paths]

    def _listed(self, wanted: Callable[[str], bool]) -> tuple[list[Path], list[Unreadable]]:
        # not glob: it takes a folder that may not be read for an empty one
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [Unreadable(self.folder, f"cannot be read ({error.strerror})")]
        return [self.folder / one for one in names if wanted(one) and one[0] != "."], []

    def _entry(self, path: Path) -> Entry | Unreadable | None:
        found = _read(path)
        if isinstance(found, Entry) and self.path(found.uuid, found.knob) != path:
            return Unreadable(path, "is of another knob than its name says")
        return found

    def write(self, entry: Entry) -> None:
        """Keep `entry`, whole or not at all, beyond a crash of the machine; `DeviceError`."""
        path = self.path(entry.uuid, entry.knob)
        text = json.dumps({"version": VERSION, **asdict(entry)}, indent=1)
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            self._sync()
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise self._unkept(error) from None

    def remove(self, uuid: str, knob: str) -> None:
        """Forget what the journal has of a knob; `DeviceError`."""
        try:
            self.path(uuid, knob).unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise self._unkept(error) from None

    def set_aside(self, found: Unreadable) -> Path:
        """Move a file out of the way, for people to look at; log it and return where it is."""
        for number in range(1000):
            aside = found.path.with_suffix(f"{_ASIDE}{number}")
            if not aside.exists():
                break
        try:
            os.replace(found.path, aside)
        except OSError as error:
            raise self._unkept(error) from None
        when = datetime.fromtimestamp(WallClock().unix_s(), UTC).isoformat(timespec="seconds")
        self.log(f"{when} {found.path.name} {found.why}: kept aside as {aside.name}")
        _log.warning("%s %s: kept aside as %s", found.path, found.why, aside.name)
        return aside

    def log(self, text: str) -> None:
        """Keep a line of what was done with nobody to tell; the older half goes when it is long."""
        path = self.folder / "log"
        with contextlib.suppress(OSError), _THREADS:
            if path.exists() and path.stat().st_size > _LOG_BYTES:
                lines = path.read_text("utf-8", "replace").splitlines(keepends=True)
                path.write_text("".join(lines[len(lines) // 2 :]), encoding="utf-8")
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def history(self, most: int) -> list[str]:
        """Return the last lines of what was done with nobody to tell."""
        try:
            return (self.folder / "log").read_text("utf-8", "replace").splitlines()[-most:]
        except OSError:
            return []

    def _sync(self) -> None:
        if os.name != "posix":  # pragma: no cover - folders cannot be opened there
            return
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unkept(self, error: OSError) -> DeviceError:
        return DeviceError(
            f"the journal cannot be kept in {self.folder} ({error.strerror}): nothing is written",
            cure="make the folder writable, or name another in $LOWJOULE_JOURNAL",
        )


def _read(path: Path) -> Entry | Unreadable | None:
    try:
        if path.exists() and not path.is_file():
            return Unreadable(path, "is no file")
        return _parsed(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unreadable(path, f"cannot be read ({error.strerror})")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        said = str(error) if isinstance(error, _NewerError) else f"is damaged ({error!r})"
        return Unreadable(path, said)


class _NewerError(ValueError):
    pass


def _parsed(data: Any) -> Entry:
    if data["version"] != VERSION:
        if isinstance(data["version"], int) and data["version"] > VERSION:
            raise _NewerError(f"is of a newer lowjoule (version {data['version']})")
        raise ValueError(f"version {data['version']!r}")
    owner = data["owner"]
    return Entry(
        uuid=_text(data["uuid"]),
        model=_text(data["model"]),
        spec=None if data["spec"] is None else _text(data["spec"]),
        knob=_text(data["knob"]),
        prior=_value(data["prior"]),
        written=tuple(_value(one) for one in data["written"]),
        owner=Owner(
            pid=int(owner["pid"]),
            start=owner["start"],
            namespace=owner["namespace"],
            boot_id=owner["boot_id"],
            name=_text(owner["name"]),
        ),
        time_unix_s=float(data["time_unix_s"]),
        expires_s=None if data["expires_s"] is None else float(data["expires_s"]),
        expired=data["expired"],
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _value(value: Any) -> Value:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{value!r} is no value of a knob")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite")
    return value


def _forget() -> None:
    global _THREADS  # noqa: PLW0603 - another thread of the parent may have had it
    _THREADS = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
