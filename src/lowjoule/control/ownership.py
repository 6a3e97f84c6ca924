"""Who holds which knob of which device, on this machine.

A device that other processes see is held by locks on files, which die with their process; a
device of this process alone by its object.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from lowjoule.devices.interface import Device
from lowjoule.errors import BusyError

VARIABLE = "LOWJOULE_CLAIMS"
_OWNERS: dict[tuple[str, str], str] = {}
_GUARD = threading.Lock()


def claims_folder() -> Path:
    """Return $LOWJOULE_CLAIMS, or the user's folder of claims among the temporary files."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"lowjoule-claims-{user}"


@contextlib.contextmanager
def holding(device: Device, knobs: Iterable[str], owner: str) -> Iterator[None]:
    """Hold `knobs` of `device` for `owner`; raises `BusyError` where somebody else holds one."""
    identity = device.identity
    board = identity.uuid if identity.shared else f"{identity.uuid} {id(device)}"
    with contextlib.ExitStack() as held:
        for knob in sorted(knobs):
            held.enter_context(_in_process(board, knob, owner, identity.model))
            if identity.shared:
                held.enter_context(_on_machine(board, knob, owner, identity.model))
        yield


@contextlib.contextmanager
def _in_process(board: str, knob: str, owner: str, model: str) -> Iterator[None]:
    with _GUARD:
        holder = _OWNERS.get((board, knob))
        if holder is not None:
            raise _busy(model, knob, holder)
        _OWNERS[board, knob] = owner
    try:
        yield
    finally:
        with _GUARD:
            del _OWNERS[board, knob]


@contextlib.contextmanager
def _on_machine(board: str, knob: str, owner: str, model: str) -> Iterator[None]:
    """Hold a lock file; where there are no such locks the claim holds within this process."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on POSIX
        yield
        return
    path = claims_folder() / (re.sub(r"[^\w.-]", "_", f"{board}.{knob}") + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise BusyError(
            f"the claim on {knob} of {model} cannot be kept at {path} ({error.strerror})",
            cure=f"make the folder writable, or name another in ${VARIABLE}",
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise _busy(model, knob, file.read(200).strip() or "another process") from None
        file.truncate(0)
        file.write(f"{owner} (process {os.getpid()})")
        file.flush()
        yield


def _busy(model: str, knob: str, holder: str) -> BusyError:
    return BusyError(f"{knob} of {model} is held by {holder}", cure="wait until it is released")
