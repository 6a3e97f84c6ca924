"""Who holds which knob of which device, on this machine.

A device that other processes see is held by locks on files, which die with their process; a
device of this process alone by its object.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lowjoule.control.locks import FileLock, LockedError, is_locked
from lowjoule.control.places import claims_folder
from lowjoule.errors import BusyError

if TYPE_CHECKING:
    from lowjoule.devices.interface import Device

RESTORE = "a restore"
"""The owner that puts back what dead processes have left."""
_RESTORE_S = 5.0
_OWNERS: dict[tuple[str, str], str] = {}
_GUARD = threading.Lock()


def board_of(device: Device) -> str:
    """Return the name under which the knobs of `device` are held."""
    identity = device.identity
    return identity.uuid if identity.shared else f"{identity.uuid} {id(device)}"


@contextlib.contextmanager
def holding(device: Device, knobs: Iterable[str], owner: str) -> Iterator[None]:
    """Hold `knobs` of `device` for `owner`; raises `BusyError` where somebody else holds one."""
    identity = device.identity
    with contextlib.ExitStack() as held:
        for knob in sorted(knobs):
            held.enter_context(
                holding_knob(
                    board_of(device), knob, owner, model=identity.model, shared=identity.shared
                )
            )
        yield


@contextlib.contextmanager
def holding_knob(
    board: str, knob: str, owner: str, *, model: str, shared: bool = True
) -> Iterator[None]:
    """Hold one knob of a board, in this process and, where it is `shared`, on the machine."""
    with contextlib.ExitStack() as held:
        held.enter_context(_in_process(board, knob, owner, model))
        if shared:
            held.enter_context(_on_machine(board, knob, owner, model))
        yield


def is_held_elsewhere(board: str, knob: str) -> bool:
    """Whether another process holds a knob; one that this process holds is not held elsewhere."""
    with _GUARD:
        if (board, knob) in _OWNERS:
            return False
    return is_locked(_path(board, knob))


@contextlib.contextmanager
def _in_process(board: str, knob: str, owner: str, model: str) -> Iterator[None]:
    with _GUARD:
        holder = _OWNERS.get((board, knob))
        if holder is not None:
            raise _busy(model, knob, holder)
        _OWNERS[board, knob] = owner
    pid = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == pid:
            with _GUARD:
                del _OWNERS[board, knob]


@contextlib.contextmanager
def _on_machine(board: str, knob: str, owner: str, model: str) -> Iterator[None]:
    """Hold a lock file; where there are no such locks the claim holds within this process."""
    path = _path(board, knob)
    lock = FileLock(path, f"{owner} (process {os.getpid()})")
    with contextlib.ExitStack() as held:
        try:
            try:
                held.enter_context(lock)
            except LockedError as error:
                if not error.holder.startswith(f"{RESTORE} ") or owner == RESTORE:
                    raise
                # somebody puts back what a dead process has left, and is done in a moment
                held.enter_context(FileLock(lock.path, lock.holder, wait_s=_RESTORE_S))
        except LockedError as error:
            raise _busy(model, knob, error.holder or "another process") from None
        except OSError as error:
            raise BusyError(
                f"the claim on {knob} of {model} cannot be kept at {path} ({error.strerror})",
                cure="make the folder writable, or name another in $LOWJOULE_CLAIMS",
            ) from None
        yield


def _path(board: str, knob: str) -> Path:
    return claims_folder() / (re.sub(r"[^\w.-]", "_", f"{board}.{knob}") + ".lock")


def _busy(model: str, knob: str, holder: str) -> BusyError:
    return BusyError(f"{knob} of {model} is held by {holder}", cure="wait until it is released")


def _forget() -> None:
    # what the parent holds is not the child's; the locks on files say so by themselves
    global _GUARD  # noqa: PLW0603 - another thread of the parent may have had it
    _GUARD = threading.Lock()
    _OWNERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
