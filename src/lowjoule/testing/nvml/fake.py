"""A fake NVML: its boards, their time, and who may use it."""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lowjoule.clock import Clock
from lowjoule.errors import InvalidValueError
from lowjoule.testing.nvml.audit import Write, writes_in
from lowjoule.testing.nvml.board import Board, describe
from lowjoule.testing.nvml.build import compile_library
from lowjoule.testing.nvml.handle import FakeBoard
from lowjoule.testing.nvml.layout import FUNCTIONS, MAX_BOARDS
from lowjoule.testing.nvml.process import loaded
from lowjoule.testing.nvml.rules import heal_rules, rules_of
from lowjoule.testing.nvml.shared import StateFile, revert

VARIABLE = "LOWJOULE_FAKE_NVML"
_files = itertools.count()


class FakeNvml:
    """Boards behind a library with NVML's ABI; a context manager.

    On a virtual clock, time moves by `advance`, by the clock's `sleep` and by slow calls only.
    With `unloads`, boards whose persistence mode is off go back to their defaults when the last
    process shuts NVML down or dies. Without `fork_safe`, a forked child must initialise anew.
    """

    def __init__(
        self,
        boards: Sequence[Board],
        *,
        folder: Path,
        virtual: bool = True,
        unloads: bool = True,
        fork_safe: bool = False,
        driver_version: str = "570.86.10",
        cuda_version: int = 12080,
        library: Path | None = None,
    ) -> None:
        if len(boards) > MAX_BOARDS:
            raise InvalidValueError(f"{len(boards)} boards", cure=f"give {MAX_BOARDS} at most")
        self.library = library if library is not None else compile_library()
        self.path = folder / f"nvml-{os.getpid()}-{next(_files)}.state"
        self._file = StateFile(self.path, virtual=virtual)
        self.clock: Clock = _BoardsClock(self._file, time.time())
        now_s = self._file.now_s()
        with self._file.locked() as state:
            state.unloads, state.fork_safe = unloads, fork_safe
            state.driver_version = driver_version.encode()
            state.nvml_version = f"{cuda_version // 1000}.{driver_version}".encode()
            state.cuda_version = cuda_version
            state.board_count = len(boards)
            state.order[: len(boards)] = range(len(boards))
            for number, board in enumerate(boards):
                describe(board, number, state.boards[number], now_s)
        self._boards = [FakeBoard(self._file, i, board) for i, board in enumerate(boards)]

    def __enter__(self) -> FakeNvml:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the state and remove its file."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __getitem__(self, number: int) -> FakeBoard:
        return self._boards[number]

    def __len__(self) -> int:
        return len(self._boards)

    def __iter__(self) -> Iterator[FakeBoard]:
        return iter(self._boards)

    def environment(self) -> dict[str, str]:
        """Return the variables with which another process finds these boards."""
        paths = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        joined = os.pathsep.join(path for path in paths if path)
        return {VARIABLE: str(self.path), "LD_LIBRARY_PATH": joined}

    @contextmanager
    def loaded(self) -> Iterator[ctypes.CDLL]:
        """Be this process's NVML; at the end it is shut down and taken out.

        Join threads that use it first. pynvml gets back the library that it had.
        """
        with loaded(self.library, self.environment()) as library:
            yield library

    def now_s(self) -> float:
        """Return the boards' time."""
        return self._file.now_s()

    def advance(self, duration_s: float) -> None:
        """Let `duration_s` pass, for real on a wall clock."""
        self._file.sleep(duration_s)

    def shuffle(self, order: Sequence[int]) -> None:
        """Enumerate the boards in this order of their numbers here."""
        if sorted(order) != list(range(len(self))):
            raise InvalidValueError(f"order {order!r}", cure="name each board once")
        with self._file.locked() as state:
            state.order[: len(order)] = list(order)

    def reload_driver(self) -> None:
        """Reload the driver: default settings, counters at 0, persistence mode off."""
        now_s = self.now_s()
        with self._file.locked() as state:
            for board in state.boards[: state.board_count]:
                revert(board, now_s)
                board.persistence = 0

    def fail(self, functions: str | Iterable[str], code: int, times: int | None = None) -> None:
        """Let functions that belong to no board fail, such as `nvmlInitWithFlags`."""
        with self._file.locked() as state:
            for rule in rules_of(state.rules, functions):
                rule.code, rule.left = code, -1 if times is None else times

    def heal(self, functions: str | Iterable[str] = FUNCTIONS) -> None:
        """End all faults of these functions, of those that belong to no board."""
        with self._file.locked() as state:
            heal_rules(state.rules, functions)

    def writes(self) -> list[Write]:
        """Return the calls of setters so far, oldest first, whatever became of them."""
        with self._file.locked() as state:
            return writes_in(state)

    def calls(self, function: str) -> int:
        """Return how often `function` was called, on any board, by any process."""
        with self._file.locked() as state:
            groups = [state.rules, *(board.rules for board in state.boards[: len(self)])]
            return sum(rule.calls for group in groups for rule in rules_of(group, function))


class _BoardsClock:
    """The boards' time as a `Clock`."""

    def __init__(self, file: StateFile, now_unix_s: float) -> None:
        self._file = file
        self._start_unix_s = now_unix_s - file.now_s()

    def now_s(self) -> float:
        """Return the boards' time."""
        return self._file.now_s()

    def unix_s(self) -> float:
        """Return the time of day."""
        return self._start_unix_s + self._file.now_s()

    def sleep(self, duration_s: float) -> None:
        """Let the boards' time pass."""
        self._file.sleep(duration_s)
