"""One device under watch: all windows on it share the looks, and the thread that takes them.

In real time a thread looks while a window is open, and is joined when the last one is closed.
In virtual time no thread can: there the clock is moved, before a window to the next tick of
the counter and after it to the two that follow, so that both edges lie near a known tick.
"""

from __future__ import annotations

import atexit
import os
import statistics
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from lowjoule.clock import WallClock
from lowjoule.devices.interface import Device, FastSampled, Identity, Reading
from lowjoule.errors import LostDeviceError
from lowjoule.knobs import POWER_LIMIT
from lowjoule.metering.pace import Sampling, interval_s
from lowjoule.metering.trace import Habits, Trace
from lowjoule.metering.view import View, view_of
from lowjoule.source import Source

_BURST = 12
_FULL_READ_S = 0.25
_TRIES = 3
_TICK_LIMIT_S = 0.3
_FIRST_STEP_S = 1e-3
_FINE_STEP_S = 5e-5
_AFTER = 2
_LEARN_EVERY = 32


@dataclass(slots=True, eq=False, weakref_slot=True)
class Stay:
    """A window's time on one device; `end_s` is None while it lasts.

    `until_s` is how far later looks belong to it; `lost` and `problem` say what went wrong.
    """

    trace: Trace
    begin_s: float | None
    end_s: float | None = None
    until_s: float | None = None
    lost: bool = False
    problem: str = ""

    def view(self) -> View | None:
        """Return the window as arrays, None where the device never answered."""
        if self.begin_s is None or self.end_s is None or self.until_s is None:
            return None
        return view_of(self.trace, self.begin_s, self.end_s, self.until_s)


class Watch:
    """The looks at one device; thread-safe."""

    def __init__(self, device: Device) -> None:
        self.identity: Identity = device.identity
        self.exact = self.identity.source is Source.REPLAYED
        self.most_power_w = _most_power_w(device)
        self.real_time = isinstance(device.clock, WallClock)
        self.habits = Habits()
        self.problem = ""
        self.lost = False
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._trace = Trace(self.habits)
        # who forgets a window without ending it lets its looks end all the same
        self._stays: list[weakref.ref[Stay]] = []
        self._ended: weakref.WeakSet[Settled] = weakref.WeakSet()
        self._looks = self._begun = 0
        self._failures = 0
        self._full_s = -_FULL_READ_S
        self._silent = False
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._fast = isinstance(device, FastSampled)
        self._clock = device.clock
        self._full: Callable[[], Reading] = _closed
        self._quick: Callable[[], Reading] = _closed
        self._edge: Callable[[], Reading] = _closed

    # ---------------------------------------------------------------- windows

    def open(self, device: Device, sampling: Sampling) -> Stay:
        """Begin a window on `device`, now."""
        with self._lock:
            if not self._open_stays():
                self._begin_session(device)
            if sampling is Sampling.AUTO:
                sampling = Sampling.THREAD if self.real_time else Sampling.EDGES
            if sampling is Sampling.THREAD and self._thread is None:
                self._start_thread()
            elif sampling is Sampling.EDGES:
                self._to_tick(1)
            stay = Stay(self._trace, None)
            self._stays.append(weakref.ref(stay))
            stay.begin_s = self._look(self._edge)
            self._begun = self._looks
            return stay

    def close(self, stay: Stay, sampling: Sampling) -> None:
        """End a window, now; joins the thread when it was the last one."""
        thread = None
        with self._lock:
            end_s = self._look(self._edge)
            if end_s is None:
                end_s = self._trace.samples[-1][0] if self._trace.samples else None
                stay.lost = True
            stay.end_s = stay.until_s = end_s
            stay.lost = stay.lost or self.lost
            stay.problem = self.problem
            self._stays = [one for one in self._stays if one() is not stay]
            edges = sampling is Sampling.EDGES or (sampling is Sampling.AUTO and not self.real_time)
            if edges and not stay.lost:
                self._to_tick(_AFTER)
                stay.until_s = self._trace.samples[-1][0]
            if not self._open_stays():
                thread = self._end_session()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def settle(self, one: Settled) -> None:
        """Let `one` be asked for its figures before looks that it needs are dropped."""
        self._ended.add(one)

    def poll(self) -> None:
        """Look at the device now; for virtual time, where no thread can."""
        with self._lock:
            self._sample()

    @property
    def due_s(self) -> float:
        """When the next look is due, on the device's clock."""
        with self._lock:
            last_s = self._trace.samples[-1][0] if self._trace.samples else self._clock.now_s()
            return last_s + self._interval_s()

    # ---------------------------------------------------------------- sessions

    def _open_stays(self) -> list[Stay]:
        return [stay for one in self._stays if (stay := one()) is not None]

    def _begin_session(self, device: Device) -> None:
        self._clock, self._full = device.clock, device.read
        self._quick = cast(FastSampled, device).sample if self._fast else self._full
        # in virtual time nobody may look in between, so that the edges have to tell all
        self._edge = self._quick if self.real_time else self._full
        self._trace = Trace(self.habits)
        self.lost, self.problem, self._failures = False, "", 0
        if self.real_time and self.habits.read_s == 0.0:
            self._burst()

    def _end_session(self) -> threading.Thread | None:
        thread, self._thread = self._thread, None
        self._stop.set()
        self._trace.learn()
        # nothing of the device is held between windows
        self._full = self._quick = self._edge = _closed
        self._stays = []
        return thread if self._pid == os.getpid() else None

    def _burst(self) -> None:
        """Learn what a look costs, and whether the counter moves at each of them."""
        costs_s = []
        for _ in range(_BURST):
            before_s = self._clock.now_s()
            if self._look(self._quick) is None:
                return
            costs_s.append(self._clock.now_s() - before_s)
            if sum(costs_s) > 0.03:
                break
        # the first ones load what the driver has not used yet
        self.habits.read_s = statistics.median(costs_s[_BURST // 3 :] or costs_s)
        seen = [sample[2] for sample in self._trace.samples]
        if len(seen) == _BURST and all(a < b for a, b in pairwise(seen)):
            self.habits.tick_s = 0.0

    # ---------------------------------------------------------------- looks

    def _look(self, read: Callable[[], Reading]) -> float | None:
        """Take a reading into the trace; None where the device does not answer."""
        for _ in range(_TRIES):
            try:
                reading = read()
            except LostDeviceError as error:
                self.lost, self.problem = True, str(error)
                return None
            except Exception as error:  # noqa: BLE001  # whatever a driver does, the work goes on
                self.problem = str(error) or type(error).__name__
                continue
            self._failures = 0
            self._looks += 1
            if self._looks % _LEARN_EVERY == 0:
                self._trace.learn()
            return self._trace.add(reading)
        self._failures += 1
        self.lost = self.lost or self._failures >= _TRIES
        return None

    def _interval_s(self) -> float:
        begin_s = max((one.begin_s or 0.0 for one in self._open_stays()), default=0.0)
        age_s = self._trace.samples[-1][0] - begin_s if self._trace.samples else 0.0
        inside = self._looks - self._begun
        return interval_s(self.habits, age_s, self._looks, inside=inside, real_time=self.real_time)

    def _to_tick(self, count: int) -> None:
        """Let virtual time pass until the counter has moved `count` times."""
        habits = self.habits
        if self.exact or self.lost or habits.tick_s == 0.0 or self._silent:
            return
        start_s = self._clock.now_s()
        step_s = _FIRST_STEP_S if habits.tick_s is None else habits.tick_s / 50
        limit_s = max(_TICK_LIMIT_S, (count + 2) * (habits.tick_s or 0.0))
        wanted = count if habits.tick_s is not None else max(count, 3)
        moved = run = 0
        while moved < wanted and self._clock.now_s() - start_s < limit_s:
            before_s = self._trace.moved_s
            if self._look(self._full) is None:
                return
            if not self._trace.samples or self._trace.samples[-1][2] != self._trace.samples[-1][2]:
                return
            changed = self._trace.moved_s not in {before_s, None}
            moved += changed
            run = run + 1 if changed else 0
            if habits.tick_s is None and run >= 2 and step_s > _FINE_STEP_S:
                step_s, moved, run = _FINE_STEP_S, 0, 0
            if moved < wanted:
                self._clock.sleep(step_s)
        self._silent = moved == 0
        if habits.tick_s is None and step_s == _FINE_STEP_S and run >= 3:
            habits.tick_s = 0.0
        self._trace.learn()

    # ---------------------------------------------------------------- thread

    def _start_thread(self) -> None:
        self._stop = stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(stop,), name="lowjoule-watch", daemon=True
        )
        _running.add(self)
        self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._next_s()):
            with self._lock:
                if stop.is_set():
                    return
                if not self._open_stays():
                    self._end_session()
                    return
                self._sample()

    def _next_s(self) -> float:
        return self._interval_s() * (10 if self.lost else 1)

    def _sample(self) -> None:
        before_s = self._clock.now_s()
        full = before_s - self._full_s >= _FULL_READ_S
        if self._look(self._full if full else self._quick) is None:
            return
        if full:
            self._full_s = before_s
        else:
            cost_s = self._clock.now_s() - before_s
            # a busy machine makes a look seem long: what it costs is rather the least
            known_s = self.habits.read_s
            weight = 1 / 4 if cost_s < known_s else 1 / 128
            self.habits.read_s += (min(cost_s, 4 * known_s) - known_s) * weight
        if self._trace.is_full():
            for one in list(self._ended):
                one.settle()
            self._trace.thin([one.begin_s for one in self._open_stays() if one.begin_s is not None])

    def stop(self) -> None:
        """End the thread, before the interpreter does."""
        with self._lock:
            thread = self._end_session() if self._thread is not None else None
        if thread is not None:
            thread.join(timeout=5.0)


def _closed() -> Reading:
    raise LostDeviceError("no window is open", cure="look while one is")


class Settled:
    """Something that computes its figures from looks, at the latest when asked to."""

    def settle(self) -> None:
        """Compute them now."""


def _most_power_w(device: Device) -> float | None:
    try:
        if POWER_LIMIT in device.space.names:
            return max(float(value) for value in device.space.knob(POWER_LIMIT).values)
    except Exception:  # noqa: BLE001  # a bound is not worth a failure
        return None
    return None


_running: weakref.WeakSet[Watch] = weakref.WeakSet()
_watches: dict[int, tuple[weakref.ref[Device] | None, Watch]] = {}
_guard = threading.Lock()


def watch_of(device: Device) -> Watch:
    """Return the watch of `device`, the same for all windows on it as long as it lives."""
    key = id(device)
    found = _watches.get(key)
    if found is not None and (found[0] is None or found[0]() is device):
        return found[1]
    made = Watch(device)
    with _guard:
        found = _watches.get(key)
        if found is not None and (found[0] is None or found[0]() is device):
            return found[1]
        try:
            held = weakref.ref(device, lambda _: _watches.pop(key, None))
        except TypeError:
            held = None
        if held is not None:
            _watches[key] = (held, made)
        return made


def _end_all() -> None:
    for one in list(_running):
        one.stop()


def _start_over() -> None:
    # threads and locks of the parent are of no use in a child
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()
    _watches.clear()
    for one in list(_running):
        one._lock = threading.RLock()
        one._thread = None
    _running.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
