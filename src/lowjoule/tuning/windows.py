"""The windows of a loop: its device read at their edges, and what is no work left out.

A step that is told may still be queued on the device. So an edge is put behind it as a mark, and
the device is read at the first step that finds the mark passed: work, time and energy are then of
the same steps, and the loop waits for nothing. Only where what was counted ends or begins (a pause,
a window) the device is waited for.
"""

from __future__ import annotations

import logging

from lowjoule.clock import Clock
from lowjoule.errors import LowjouleError
from lowjoule.metering import Edge, Meter
from lowjoule.metering.sync import Mark, Sync, mark, synchronise
from lowjoule.profiling import Precision, Recording, Verdict
from lowjoule.profiling.recording import is_throttled, sample_length_s
from lowjoule.tuning.progress import Gaps, Progress

log = logging.getLogger("lowjoule.tuning")

_MOST_MISSES = 3
_MOST_GAPS = 3


class Windows:
    """Records one window after the other; `lost` says why the device cannot be read any more."""

    def __init__(
        self, precision: Precision, meter: Meter, clock: Clock, *, sync: Sync = None
    ) -> None:
        self.lost = ""
        self._precision, self._meter, self._clock, self._sync = precision, meter, clock, sync
        self._tick_s = meter.tick_s
        self._sample_s = sample_length_s(precision, self._tick_s)
        self._gaps = Gaps()
        self._gaps_s: list[float] = []
        self._dropped = self._misses = 0
        self._retry_s = -1.0
        self._mark: Mark | None = None
        self._behind = 0.0
        self._problem = ""
        self.recording = self._new()
        self.recording.open(None)
        self.recording.pause(None)  # what is before the first step is nobody's

    @property
    def notes(self) -> list[str]:
        """What was left out, and what went wrong."""
        gaps_s = self._gaps_s
        said = [self._problem] if self._problem else []
        if not gaps_s:
            return said
        counted = f"{len(gaps_s)} gap{'s' if len(gaps_s) > 1 else ''} between steps"
        return [*said, f"{counted} ({max(gaps_s):.3g} s the longest) were left out as pauses"]

    def step(self, progress: Progress) -> None:
        """Count a step, unless what was before it was a pause that nobody declared."""
        gap_s = self._gaps.length_s(progress.time_s)
        if gap_s is not None and self._dropped < _MOST_GAPS:
            # several without a sample between: this loop does not pause, it is slow like this
            self._dropped += 1
            self._forget_mark()
            self.recording.drop()
            self._gaps_s.append(gap_s)
        elif self._mark is not None:
            self._behind += progress.work
        else:
            self.recording.add(progress.work)

    def pause(self) -> Verdict:
        """Leave out what follows, until `resume`."""
        self._add_behind()
        return self.recording.pause(self._edge(wait=True))

    def resume(self) -> None:
        """Go on after a pause."""
        self._gaps.forget()
        self._forget_mark()
        self.recording.resume(self._edge(wait=True))

    def open(self, now_s: float) -> bool:
        """Begin the window now; return whether it has begun."""
        if now_s < self._retry_s:
            return False
        self._add_behind()
        edge = self._edge(wait=True)
        if edge is not None:
            self.recording.open(edge)
        return edge is not None

    def cut(self, now_s: float) -> Verdict:
        """End a sample where one is due and the device has come to its end."""
        if now_s < self._retry_s:
            return Verdict.MORE
        if self._mark is None:
            if not self.recording.due(now_s):
                return Verdict.MORE
            self._mark = mark(self._sync)
        if self._mark is not None and not self._mark.done():
            return Verdict.MORE
        self._mark = None
        edge = self._edge()
        if edge is None:
            return Verdict.MORE
        before = self.recording.total.work
        throttled, temperature_c = self._seen()
        verdict = self.recording.cut(edge, throttled=throttled, temperature_c=temperature_c)
        self._add_behind()
        if self.recording.total.work > before and self._dropped < _MOST_GAPS:
            self._dropped = 0
        return verdict

    def begin(self) -> None:
        """Begin the next recording where the last ends, so that nothing between is lost."""
        last, self.recording = self.recording, self._new()
        self.recording.follow(last)

    def _new(self) -> Recording:
        return Recording(self._precision, sample_s=self._sample_s, tick_s=self._tick_s)

    def _add_behind(self) -> None:
        self.recording.add(self._behind)
        self._forget_mark()

    def _forget_mark(self) -> None:
        self._mark, self._behind = None, 0.0

    def _edge(self, *, wait: bool = False) -> Edge | None:
        """Read the device; None, counted, where it does not answer."""
        if wait and (problem := synchronise(self._sync)) and not self._problem:
            self._problem = problem
            log.warning("%s", problem)
        try:
            edge = self._meter.edge()
        except (LowjouleError, OSError) as error:
            self._misses += 1
            self._retry_s = self._clock.now_s() + self._sample_s
            self._forget_mark()
            self.recording.drop()
            if self._misses >= _MOST_MISSES:
                self.lost = f"the device could not be read: {error}"
            return None
        self._misses = 0
        return edge

    def _seen(self) -> tuple[bool, float | None]:
        """Return whether the board is throttled for heat, and its temperature."""
        try:
            seen = self._meter.device.read()
        except (LowjouleError, OSError):
            return False, None  # not said, and the next edge shows whether the device is gone
        return is_throttled(seen.throttle_reasons), seen.temperature_c
