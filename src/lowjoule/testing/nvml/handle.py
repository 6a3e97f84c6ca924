"""A board in a running fake: its load, its truth, and its faults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowjoule.errors import InvalidValueError
from lowjoule.testing.nvml.board import Board, megahertz, milliwatts
from lowjoule.testing.nvml.layout import (
    FUNCTIONS,
    MAX_PIDS,
    MAX_POINTS,
    Epoch,
    Rule,
    SharedBoard,
    SharedState,
)
from lowjoule.testing.nvml.rules import heal_rules, rules_of
from lowjoule.testing.nvml.shared import (
    StateFile,
    enforced_w,
    epoch_at,
    epochs_from,
    unload_if_left,
)
from lowjoule.testing.nvml.truth import Cap, Load, drawn_w, true_energy_j

_GPU_IS_LOST = 15


@dataclass(frozen=True, slots=True)
class BoardState:
    """What is in force on a board, read from the state and not through the library."""

    requested_limit_w: float
    """What `nvmlDeviceGetPowerManagementLimit` says."""

    limit_w: float
    """The host's limit that has taken effect."""

    enforced_limit_w: float
    """The lowest one of it, another authority's, and what the module's leaves the GPU."""

    module_limit_w: float | None
    """The limit of the module that was requested; None where it has none."""

    sm_clock_lock_hz: tuple[float, float] | None
    memory_clock_lock_hz: tuple[float, float] | None
    persistence: bool
    profiles: tuple[int, ...]
    """The workload power profiles requested."""


class FakeBoard:
    """One board of a fake; everything can be changed at any time, from now on."""

    def __init__(self, file: StateFile, number: int, board: Board) -> None:
        self._file = file
        self._number = number
        self.board = board
        self._loads = [Load(file.now_s(), ())]
        self._written: dict[tuple[tuple[float, float], ...], int] = {}

    @property
    def uuid(self) -> str:
        """The board's UUID."""
        return self.board.uuid

    def _shared(self, state: SharedState) -> SharedBoard:
        board: SharedBoard = state.boards[self._number]
        return board

    # ---------------------------------------------------------------- load and truth

    def load(self, points: Sequence[tuple[float, float]], period_s: float | None = None) -> None:
        """Draw from now on what `points` say: (seconds from now, W), each until the next.

        Idle before the first one; the last one stays, or all repeat with `period_s`.
        """
        steps = tuple((float(time_s), float(power_w)) for time_s, power_w in points)
        _check_load(steps, period_s)
        with self._file.locked() as state:
            board = self._shared(state)
            now_s = self._file.now_s()
            first = self._place(board, steps)
            for epoch in epochs_from(board, now_s):
                epoch.load_begin_s, epoch.load_period_s = now_s, period_s or 0.0
                epoch.load_first, epoch.load_count = first, len(steps)
            if self._loads[-1].begin_s == now_s:
                self._loads.pop()
            self._loads.append(Load(now_s, steps, period_s))

    def _place(self, board: SharedBoard, steps: tuple[tuple[float, float], ...]) -> int:
        if steps not in self._written:
            if board.points + len(steps) > MAX_POINTS:
                raise InvalidValueError("the loads have too many points", cure="use a period")
            self._written[steps] = board.points
            for number, step in enumerate(steps, start=board.points):
                board.point[number] = step
            board.points += len(steps)
        return self._written[steps]

    def true_energy_j(self, begin_s: float, end_s: float, *, module: bool = False) -> float:
        """Return what the GPU took between two times of the clock, or what its module took."""
        with self._file.locked() as state:
            board = self._shared(state)
            epochs = [board.epoch[i] for i in range(board.epochs)]
            if board.epochs_dropped and begin_s < epochs[0].begin_s:
                raise InvalidValueError("that is long ago", cure="ask for a later time")
            caps = [self._cap(board, epoch) for epoch in epochs]
        extra_w = (self.board.module_w or 0.0) if module else 0.0
        true_j = true_energy_j(self._loads, caps, self.board.idle_w, begin_s, end_s)
        return true_j + extra_w * (end_s - begin_s)

    def true_power_w(self) -> float:
        """Return what the GPU draws now."""
        now_s = self._file.now_s()
        with self._file.locked() as state:
            board = self._shared(state)
            cap = self._cap(board, board.epoch[epoch_at(board, now_s)])
        load = self._loads[-1]
        into_s = now_s - load.begin_s
        if load.period_s:
            into_s = math.fmod(into_s, load.period_s)
        asked = [power_w for time_s, power_w in load.points if time_s <= into_s]
        return drawn_w(asked[-1] if asked else self.board.idle_w, cap, self.board.idle_w)

    def _cap(self, board: SharedBoard, epoch: Epoch) -> Cap:
        share = 1.0
        if self.board.clock_scales_power and epoch.sm_max_mhz and self.board.clocks_hz:
            clocks = self.board.clocks_hz[max(self.board.clocks_hz)]
            allowed = [hz for hz in clocks if megahertz(hz) <= epoch.sm_max_mhz]
            share = max(allowed, default=min(clocks)) / max(clocks)
        return Cap(epoch.begin_s, enforced_w(board, epoch), share)

    def state(self) -> BoardState:
        """Return what is in force now."""
        with self._file.locked() as state:
            now_s = self._file.now_s()
            unload_if_left(state, now_s)
            board = self._shared(state)
            epoch = board.epoch[epoch_at(board, now_s)]
            bits = list(board.profiles_requested)
            return BoardState(
                requested_limit_w=board.limit_requested_mw / 1000,
                limit_w=epoch.limit_mw / 1000,
                enforced_limit_w=enforced_w(board, epoch),
                module_limit_w=board.module_limit_requested_mw / 1000 or None,
                sm_clock_lock_hz=_lock(epoch.sm_min_mhz, epoch.sm_max_mhz),
                memory_clock_lock_hz=_lock(epoch.memory_min_mhz, epoch.memory_max_mhz),
                persistence=bool(board.persistence),
                profiles=tuple(i for i in range(256) if bits[i // 32] >> (i % 32) & 1),
            )

    # ---------------------------------------------------------------- what others do to it

    def put(
        self,
        *,
        limit_w: float | None = None,
        sm_clock_lock_hz: tuple[float, float] | None = None,
        persistence: bool | None = None,
    ) -> None:
        """Set what is given, as someone else's tool would; it is not in the log of writes."""
        with self._file.locked() as state:
            board = self._shared(state)
            for epoch in epochs_from(board, self._file.now_s()):
                if limit_w is not None:
                    epoch.limit_mw = board.limit_requested_mw = milliwatts(limit_w)
                if sm_clock_lock_hz is not None:
                    epoch.sm_min_mhz, epoch.sm_max_mhz = map(megahertz, sm_clock_lock_hz)
            if persistence is not None:
                board.persistence = persistence

    def limit_elsewhere(self, limit_w: float | None) -> None:
        """Let another authority limit the board; the lower limit holds. None: it does not."""
        with self._file.locked() as state:
            for epoch in epochs_from(self._shared(state), self._file.now_s()):
                epoch.other_limit_mw = milliwatts(limit_w)

    def set(
        self,
        *,
        temperature_c: int | None = None,
        utilisation: float | None = None,
        throttle_reasons: int | None = None,
        processes: Sequence[int] | None = None,
        memory_used_bytes: int | None = None,
        instances: int | None = None,
    ) -> None:
        """Set what is given; reasons come beside those of the load, processes are pids."""
        with self._file.locked() as state:
            board = self._shared(state)
            for name, value in (
                ("temperature_c", temperature_c),
                ("utilisation_percent", None if utilisation is None else round(100 * utilisation)),
                ("throttle_reasons", throttle_reasons),
                ("memory_used_bytes", memory_used_bytes),
                ("instances", instances),
            ):
                if value is not None:
                    setattr(board, name, value)
            if processes is not None:
                board.process_count = len(processes[:MAX_PIDS])
                board.processes[: board.process_count] = processes[:MAX_PIDS]

    # ---------------------------------------------------------------- faults

    def fail(self, functions: str | Iterable[str], code: int, times: int | None = None) -> None:
        """Let `functions` return `code`, the next `times` calls of each or always."""
        with self._file.locked() as state:
            for rule in self._rules(state, functions):
                rule.code, rule.left = code, -1 if times is None else times

    def lose(self) -> None:
        """Let everything say that the GPU is lost."""
        self.fail([name for name in FUNCTIONS if name.startswith("nvmlDevice")], _GPU_IS_LOST)

    def lie(self, functions: str | Iterable[str]) -> None:
        """Let these setters succeed and do nothing."""
        with self._file.locked() as state:
            for rule in self._rules(state, functions):
                rule.lies = True

    def clamp(self, function: str, low: float, high: float) -> None:
        """Let this setter force its argument, in its own unit (mW, MHz), between two bounds."""
        with self._file.locked() as state:
            for rule in self._rules(state, function):
                rule.clamps, rule.clamp_low, rule.clamp_high = True, low, high

    def late(self, functions: str | Iterable[str], latency_s: float) -> None:
        """Let these setters of limits and clocks take effect `latency_s` after the call.

        The requested limit is read back at once, as with a driver.
        """
        with self._file.locked() as state:
            for rule in self._rules(state, functions):
                rule.latency_s = latency_s

    def slow(self, functions: str | Iterable[str], delay_s: float) -> None:
        """Let these calls take `delay_s`; what they return is of their end."""
        with self._file.locked() as state:
            for rule in self._rules(state, functions):
                rule.delay_s = delay_s

    def heal(self, functions: str | Iterable[str] = FUNCTIONS) -> None:
        """End all faults of these functions, by default of all; fields and readings stay."""
        with self._file.locked() as state:
            heal_rules(self._shared(state).rules, functions)

    def _rules(self, state: SharedState, functions: str | Iterable[str]) -> list[Rule]:
        return rules_of(self._shared(state).rules, functions)

    def field(
        self, field: int, *, code: int = 0, scope: int | None = None, value_type: int | None = None
    ) -> None:
        """Let a field value return `code`, or have another type; without both: as usual."""
        place = (field, -1 if scope is None else scope)
        with self._file.locked() as state:
            rules = self._shared(state).field_rules
            for rule in rules:
                if (rule.field, rule.scope) == place:
                    rule.field = 0
            if code or value_type is not None:
                free = next(rule for rule in rules if rule.field == 0)
                free.field, free.scope, free.code = *place, code
                free.value_type = -1 if value_type is None else value_type

    def show_power(self, power_w: float | None) -> None:
        """Let every power reading say `power_w`, whatever is true; None: the truth again."""
        with self._file.locked() as state:
            self._shared(state).power_reading_w = -1.0 if power_w is None else power_w

    def freeze_counter(self, frozen: bool = True) -> None:
        """Let the energy counter stand still, or go on at what it would be."""
        with self._file.locked() as state:
            self._shared(state).frozen_s = self._file.now_s() if frozen else -1.0

    def step_counter(self, energy_j: float) -> None:
        """Let the energy counter step by `energy_j`, back where that is negative."""
        with self._file.locked() as state:
            self._shared(state).counter_step_j += energy_j


def _check_load(steps: Sequence[tuple[float, float]], period_s: float | None) -> None:
    times_s = [time_s for time_s, _ in steps]
    if any(not (math.isfinite(t) and math.isfinite(p) and t >= 0 and p >= 0) for t, p in steps):
        raise InvalidValueError("a load of negative or infinite numbers", cure="give (s, W)")
    if times_s != sorted(set(times_s)):
        raise InvalidValueError("a load whose times do not rise", cure="sort its points")
    if period_s is not None and not period_s > (times_s[-1] if times_s else 0.0):
        raise InvalidValueError("a load longer than its period", cure="give a longer period")


def _lock(low_mhz: int, high_mhz: int) -> tuple[float, float] | None:
    return (low_mhz * 1e6, high_mhz * 1e6) if high_mhz else None
