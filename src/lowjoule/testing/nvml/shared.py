"""The state file: made, mapped, locked; and its time."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lowjoule.errors import InvalidValueError
from lowjoule.testing.nvml.board import NO_LIMIT_MW
from lowjoule.testing.nvml.layout import (
    MAGIC,
    MAX_EPOCHS,
    VERSION,
    Epoch,
    SharedBoard,
    SharedState,
)


class StateFile:
    """The shared state of one fake, to be used with its lock held."""

    def __init__(self, path: Path, *, virtual: bool) -> None:
        self._path = path
        self._virtual = virtual
        self._threads = threading.RLock()
        self._depth = 0
        size = ctypes.sizeof(SharedState)
        with path.open("wb") as file:
            file.truncate(size)
        self._open()
        self._map = mmap.mmap(self._file, size)
        self._state: SharedState | None = SharedState.from_buffer(self._map)
        self._state.magic, self._state.version, self._state.size = MAGIC, VERSION, size
        self._state.is_virtual = virtual

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._pid = os.getpid()

    @contextmanager
    def locked(self) -> Iterator[SharedState]:
        """Hold the lock; give the state."""
        with self._threads:
            if self._state is None:
                raise InvalidValueError("the fake NVML is closed", cure="use it inside its block")
            if self._pid != os.getpid():
                self._open()  # a lock that came through fork would be the parent's as well
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield self._state
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def now_s(self) -> float:
        """Return the time of the boards."""
        if not self._virtual:
            return time.monotonic()
        with self.locked() as state:
            return float(state.now_s)

    def sleep(self, duration_s: float) -> None:
        """Let time pass: for real, or by moving the boards' clock."""
        if duration_s <= 0:
            return
        if not self._virtual:
            time.sleep(duration_s)
            return
        with self.locked() as state:
            state.now_s += duration_s

    def close(self) -> None:
        """Unmap and close; the file stays."""
        with self._threads:
            if self._state is None:
                return
            self._state = None
            with suppress(BufferError):  # a caller holds a part of it: it goes with that
                self._map.close()
            os.close(self._file)


def epoch_at(board: SharedBoard, time_s: float) -> int:
    """Return the number of the last epoch that has begun at `time_s`, or of the first."""
    begun = [i for i in range(board.epochs) if board.epoch[i].begin_s <= time_s]
    return begun[-1] if begun else 0


def epochs_from(board: SharedBoard, time_s: float) -> Iterator[Epoch]:
    """Begin an epoch at `time_s`; yield it and all later ones, for what holds from then on."""
    if board.epochs == MAX_EPOCHS:
        raise InvalidValueError("too many changes of one board", cure="make a new fake")
    index = epoch_at(board, time_s)
    if board.epoch[index].begin_s < time_s:
        for later in range(board.epochs, index + 1, -1):
            board.epoch[later] = board.epoch[later - 1]
        board.epoch[index + 1] = board.epoch[index]
        index += 1
        board.epoch[index].begin_s = time_s
        board.epochs += 1
    board.epochs_known = min(board.epochs_known, max(index, 1))
    for number in range(index, board.epochs):
        yield board.epoch[number]


def revert(board: SharedBoard, time_s: float) -> None:
    """Do what a reload of the driver does: default settings, counter at 0."""
    board.limit_requested_mw = board.limit_default_mw
    board.module_limit_requested_mw = board.module_limit_default_mw
    board.profiles_requested[:] = [0] * 8
    for epoch in epochs_from(board, time_s):
        epoch.limit_mw = board.limit_default_mw
        epoch.module_limit_mw = board.module_limit_default_mw
        epoch.sm_min_mhz = epoch.sm_max_mhz = 0
        epoch.memory_min_mhz = epoch.memory_max_mhz = 0
    board.reset_s, board.reset_known = time_s, False
    board.frozen_s = -1.0
    board.counter_step_j = 0.0


def unload_if_left(state: SharedState, now_s: float) -> None:
    """Tear the driver down if its last client has died, as the library does at its next start."""
    clients = [client for client in state.clients if client.pid]
    dead = [client for client in clients if not _lives(client.pid)]
    for client in dead:
        client.pid = client.references = 0
    if dead and len(dead) == len(clients) and state.unloads:
        for board in state.boards[: state.board_count]:
            if not board.persistence:
                revert(board, now_s)


def enforced_w(board: SharedBoard, epoch: Epoch) -> float:
    """Return the limit in force of the GPU, what its module's leaves it included."""
    limit_w = float(min(epoch.limit_mw, epoch.other_limit_mw, NO_LIMIT_MW)) / 1000
    if not board.module_limit_max_mw:
        return limit_w
    left_w = epoch.module_limit_mw / 1000 - max(0.0, board.module_w)
    return min(limit_w, max(0.0, float(left_w)))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True
