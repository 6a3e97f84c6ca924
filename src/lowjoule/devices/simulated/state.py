"""The control state of a simulated board: a file, as a driver keeps it beyond any process.

Every process of the user that opens the board sees the same limit and clocks, and what a
killed process has set stays set, as on a real one. A board of one's own is a matter of another
folder, in the variable LOWJOULE_SIMULATED.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lowjoule.errors import DeviceError
from lowjoule.knobs import Setting, Space, Value

VARIABLE = "LOWJOULE_SIMULATED"


def state_folder() -> Path:
    """Return $LOWJOULE_SIMULATED, or the folder of simulated boards in the user's state (XDG)."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or os.path.join("~", ".local", "state")
    return Path(state).expanduser() / "lowjoule" / "simulated"


def board_number(folder: Path) -> str:
    """Return what tells the boards of `folder` from those of others; "0" for the user's own."""
    if folder == state_folder() and VARIABLE not in os.environ:
        return "0"
    return hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:8]


class ControlState:
    """The values of a board's knobs that were ever written, in a file of their own.

    A file that cannot be read, or holds what the board has not, counts as never written; where
    it cannot be written the state lives in this process alone. Either is said in `notes`. A
    `private` state has no file: a board as if it stood at other defaults is nobody else's.
    """

    def __init__(self, path: Path, space: Space, *, private: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []
        self._space = space
        self._stamp: tuple[int, int, int] | None = None
        self._values: dict[str, Value] = {}
        self.private = private
        self._kept = False  # whether the file was ever written from here

    def setting(self) -> Setting:
        """Return the setting in force, the default for knobs that were never written."""
        if not self.private:
            self._load()
        return Setting({**self._space.default, **self._values})

    def write(self, values: Mapping[str, Value]) -> None:
        """Keep `values`, in one step: another process sees all of them or none.

        A value back at the default counts as never written, so that what was put back leaves
        nothing behind.
        """
        if self.private:
            self._values = self._merged(values)
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path):
                self._load()
                merged = self._merged(values)
                new = self.path.with_name(self.path.name + ".new")
                new.write_text(json.dumps(merged), encoding="utf-8")
                os.replace(new, self.path)
        except OSError as error:
            said = f"{self.path} cannot be written ({error.strerror})"
            if self._kept:
                raise DeviceError(
                    said, cure="make it writable: it keeps an earlier value"
                ) from None
            self.private = True
            self._values = self._merged(values)
            self._note(f"{said}: nobody else sees it")
            return
        self._kept = True
        self._values = merged

    def _merged(self, values: Mapping[str, Value]) -> dict[str, Value]:
        default = self._space.default
        merged = {**self._values, **values}
        return {name: value for name, value in merged.items() if value != default[name]}

    def _load(self) -> None:
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stamp == self._stamp:
                return
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._stamp, self._values = None, {}
            return
        except (OSError, UnicodeDecodeError) as error:
            self._note(f"{self.path} cannot be read ({error}): the defaults are in force")
            self._values = {}
            return
        self._stamp = stamp
        self._values = self._parsed(text)

    def _parsed(self, text: str) -> dict[str, Value]:
        try:
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is not a JSON object")
            known = {name: self._space.knob(name).values for name in self._space.names}
            wrong = {k: v for k, v in values.items() if k not in known or v not in known[k]}
            if wrong:
                raise ValueError(f"the board has no {wrong}")
        except (ValueError, RecursionError) as error:
            self._note(f"{self.path} is damaged ({error}): the defaults are in force")
            return {}
        return values

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing `path` meanwhile, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on POSIX
        yield
        return
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
