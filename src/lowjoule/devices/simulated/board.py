"""A board in time: work under way, heat, energy, and what its sensors make of them."""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from lowjoule.devices.simulated.catalogue import GpuModel
from lowjoule.devices.simulated.physics import (
    Floats,
    Load,
    activity_power_w,
    busy_share,
    leakage_w,
    step_time_s,
    thermal_limit_w,
)

_SETTLED_C = 0.3  # closer than this to its final temperature a board counts as settled
_PARTS = 16  # of the time constant, while it is not
_MARGIN_C = 0.5
_PAST_S = 3.0  # how far back sensors look at most
_EPSILON_S = 1e-9


@dataclass(frozen=True, slots=True)
class Controls:
    """What is in force: the power limit, and the clocks over their maxima."""

    limit_w: float
    x: float
    m: float


@dataclass(frozen=True, slots=True)
class _Event:
    """One of the `Controls` that comes into force at a moment."""

    at_s: float
    control: str
    value: float


@dataclass(slots=True, eq=False)
class Job:
    """Work under way: the load of a step (scalars), how many steps are left, and its spread."""

    load: Load
    steps: float
    time_factor: float = 1.0
    power_factor: float = 1.0
    bins: dict[Controls, _Bins] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Bins:
    """Figures of a job at each clock up to the one asked: step time, power without leakage."""

    time_s: Floats
    power_w: Floats


@dataclass(frozen=True, slots=True)
class State:
    """What the board does at a moment."""

    power_w: float
    x: float
    utilisation: float
    reasons: frozenset[str]
    step_time_s: float = math.inf


@dataclass(frozen=True, slots=True)
class _Decision:
    """What the governor settled on, for which job and under which controls, and until when."""

    state: State
    job: Job | None
    controls: Controls
    end_s: float


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of constant power."""

    start_s: float
    energy_j: float
    power_w: float


class Board:
    """Integrates power, heat and progress over time, in pieces of constant power.

    While the temperature moves a piece is at most a sixteenth of the thermal time constant;
    after that the rest of the work is one piece, so that an hour costs what a minute does. What
    was decided for a piece holds to its end, so that looking in between changes nothing.
    """

    def __init__(self, model: GpuModel, controls: Controls, now_s: float, phase: float) -> None:
        self.model = model
        self.controls = controls
        self.now_s = now_s
        self.energy_j = 0.0
        self.temperature_c = model.chip.ambient_c + model.chip.resistance_c_per_w * self._idle_w(
            model.chip.ambient_c
        )
        self.jobs: deque[Job] = deque()
        self._x = np.array(model.clocks_hz) / model.clocks_hz[-1]
        self._events: deque[_Event] = deque()
        self._phase_s = phase * model.tick_s
        idle_w = self._idle_w(self.temperature_c)
        self.energy_j = idle_w * _PAST_S
        self._past = deque([_Piece(now_s - _PAST_S, 0.0, idle_w)])
        self._decision: _Decision | None = None

    def change(self, control: str, value: float, at_s: float) -> None:
        """Let one of the `Controls` come into force at `at_s`, in place of what it was to be."""
        kept = [one for one in self._events if one.control != control]
        kept.append(_Event(max(at_s, self.now_s), control, value))
        self._events = deque(sorted(kept, key=lambda one: one.at_s))

    def advance(self, until_s: float) -> None:
        """Let time pass until `until_s`."""
        while True:
            self._take_effect()
            left_s = until_s - self.now_s
            if left_s <= 0:
                return
            if self._events:
                left_s = min(left_s, self._events[0].at_s - self.now_s)
            self._piece(left_s)

    def _take_effect(self) -> None:
        while self._events and self._events[0].at_s <= self.now_s + _EPSILON_S:
            event = self._events.popleft()
            self.controls = replace(self.controls, **{event.control: event.value})

    def left_s(self, job: Job) -> float:
        """Return how long `job` still takes, all that is before it included."""
        if job not in self.jobs:
            return 0.0
        ahead = copy.copy(self)
        place = next(i for i, one in enumerate(self.jobs) if one is job)
        ahead.jobs = deque(replace(one) for one in self.jobs)
        ahead._events = deque(self._events)
        ahead._past = deque(self._past)
        if self._decision is not None and self._decision.job is self.jobs[0]:
            ahead._decision = replace(self._decision, job=ahead.jobs[0])
        after = len(self.jobs) - place - 1
        while len(ahead.jobs) > after:
            ahead._take_effect()
            ahead._piece(ahead._events[0].at_s - ahead.now_s if ahead._events else math.inf)
        return ahead.now_s - self.now_s

    def state(self) -> State:
        """Return what the board does now."""
        return self._decided().state

    def _decided(self) -> _Decision:
        """Return the decision in force, made anew where its time, job or controls are over."""
        job = self.jobs[0] if self.jobs else None
        last = self._decision
        if (
            last is None
            or last.job is not job
            or last.controls != self.controls
            or last.end_s <= self.now_s + _EPSILON_S
        ):
            state = self._governed()
            moving = abs(self._final_c(state) - self.temperature_c) > _SETTLED_C
            part_s = self.model.chip.time_constant_s / _PARTS
            last = _Decision(
                state, job, self.controls, self.now_s + (part_s if moving else math.inf)
            )
            self._decision = last
        return last

    def _final_c(self, state: State) -> float:
        chip = self.model.chip
        return chip.ambient_c + chip.resistance_c_per_w * state.power_w

    def _governed(self) -> State:
        """Return what the governor settles on at the present temperature."""
        leak_w = float(leakage_w(self.model.chip, self.temperature_c))
        if not self.jobs:
            idle_w = self._idle_w(self.temperature_c)
            return State(idle_w, float(self._x[0]), 0.0, frozenset())
        job = self.jobs[0]
        bins = self._bins(job)
        hot = self.temperature_c >= self.model.chip.throttle_c - _MARGIN_C
        cooler_w = thermal_limit_w(self.model.chip) if hot else math.inf
        allowed_w = min(self.controls.limit_w, cooler_w) - leak_w
        index = max(0, int(np.searchsorted(bins.power_w, allowed_w * (1 + 1e-9), "right")) - 1)
        reasons = set()
        if index < len(bins.power_w) - 1 or bins.power_w[index] > allowed_w * (1 + 1e-9):
            reasons.add("thermal" if cooler_w < self.controls.limit_w else "power")
        time_s = float(bins.time_s[index])
        return State(
            power_w=float(bins.power_w[index]) + leak_w,
            x=float(self._x[index]),
            utilisation=float(busy_share(job.load, time_s / job.time_factor)),
            reasons=frozenset(reasons),
            step_time_s=time_s,
        )

    def counter_j(self) -> float:
        """Return the energy counter: the energy at its last tick, in whole millijoules."""
        tick_s = self.model.tick_s
        ticks = math.floor((self.now_s - self._phase_s) / tick_s + 1e-9)
        energy_j = self._energy_at(min(self.now_s, ticks * tick_s + self._phase_s))
        return math.floor(energy_j * 1e3 + 1e-6) / 1e3

    def sensor_w(self) -> float:
        """Return the power that the board reports: instant or averaged, as of the last sample."""
        model = self.model
        sample_s = math.floor(self.now_s / model.sensor_s + 1e-9) * model.sensor_s
        sample_s = min(sample_s, self.now_s)
        if model.power_window_s == 0:
            return self._piece_at(sample_s).power_w
        before_j = self._energy_at(sample_s - model.power_window_s)
        return (self._energy_at(sample_s) - before_j) / model.power_window_s

    def _piece(self, most_s: float) -> None:
        """Let one piece of constant power pass, `most_s` long or shorter."""
        decision = self._decided()
        state, final_c = decision.state, self._final_c(decision.state)
        length_s = min(most_s, decision.end_s - self.now_s)
        if self.jobs:
            job = self.jobs[0]
            length_s = min(length_s, job.steps * state.step_time_s)
            job.steps -= length_s / state.step_time_s
            if job.steps * state.step_time_s <= max(_EPSILON_S, self.now_s * 1e-14):
                self.jobs.popleft()
        self._past.append(_Piece(self.now_s, self.energy_j, state.power_w))
        self.energy_j += state.power_w * length_s
        self.now_s += length_s
        decay = math.exp(-length_s / self.model.chip.time_constant_s)
        self.temperature_c = final_c + (self.temperature_c - final_c) * decay
        while len(self._past) > 1 and self._past[1].start_s < self.now_s - _PAST_S:
            self._past.popleft()

    def _bins(self, job: Job) -> _Bins:
        controls = self.controls
        if controls not in job.bins:
            chip = self.model.chip
            top = int(np.searchsorted(self._x, controls.x * (1 + 1e-9), "right"))
            x = self._x[: max(top, 1)]
            time_s = step_time_s(chip, job.load, x, controls.m)
            power_w = activity_power_w(chip, job.load, x, controls.m, time_s) * job.power_factor
            job.bins[controls] = _Bins(time_s * job.time_factor, power_w + chip.idle_w)
        return job.bins[controls]

    def _idle_w(self, temperature_c: float) -> float:
        chip = self.model.chip
        return chip.idle_w + float(leakage_w(chip, temperature_c))

    def _piece_at(self, time_s: float) -> _Piece:
        for piece in reversed(self._past):
            if piece.start_s <= time_s:
                return piece
        return self._past[0]

    def _energy_at(self, time_s: float) -> float:
        piece = self._piece_at(time_s)
        return piece.energy_j + piece.power_w * (time_s - piece.start_s)
