"""The log of writes."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.testing.nvml.layout import FUNCTIONS, MAX_WRITES, LoggedWrite, SharedState


@dataclass(frozen=True, slots=True)
class Write:
    """One call of a setter, whatever became of it."""

    function: str
    uuid: str | None
    """The board's; None where the handle was none of ours."""

    arguments: tuple[int, int]
    """As given: mW, MHz, a mode or the first words of a mask; 0 where there is no such argument."""

    pid: int
    time_s: float
    code: int


def writes_in(state: SharedState) -> list[Write]:
    """Return the log, oldest first: the last `MAX_WRITES`."""
    last = state.writes
    numbers = range(max(0, last - MAX_WRITES), last)
    return [_write(state, state.write[number % MAX_WRITES]) for number in numbers]


def _write(state: SharedState, logged: LoggedWrite) -> Write:
    return Write(
        function=FUNCTIONS[logged.function],
        uuid=state.boards[logged.board].uuid.decode() if logged.board >= 0 else None,
        arguments=(logged.first, logged.second),
        pid=logged.pid,
        time_s=logged.time_s,
        code=logged.code,
    )
