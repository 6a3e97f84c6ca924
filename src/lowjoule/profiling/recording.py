"""One trial as it happens: all that it takes, and the window inside it that becomes a point.

Pure: whoever drives it reads the device and tells it edges and work. A stretch between two edges
is a segment; segments are joined into samples, across pauses too, so that an epoch shorter than
a sample loses nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lowjoule.devices.interface import Told
from lowjoule.knobs import Setting
from lowjoule.metering import Edge, Measurement
from lowjoule.profiling.steady import Estimate, Precision, Sample, SteadyState, Verdict
from lowjoule.profiling.trial import Trial
from lowjoule.source import Source
from lowjoule.workloads import Work, WorkUnit

MOST_REPEATS = 2
COOL_DOWN_S = 10.0
_TICKS = 5.0
_LONGEST_S = 0.5
_NOTHING = Sample(work=0.0, time_s=0.0, energy_j=0.0)


def sample_length_s(precision: Precision, tick_s: float) -> float:
    """Return how long a sample is: several ticks of the counter, and many to a window.

    A longer bound makes no longer samples: a window that is precise early ends early.
    """
    shortest_s = precision.most_s / (2.0 * precision.least_samples)
    return max(_TICKS * tick_s, min(_LONGEST_S, shortest_s))


def is_throttled(reasons: frozenset[str]) -> bool:
    """Return whether a board runs slower than its setting says, for heat.

    A power limit that holds the clocks down is what the setting asks for, and no such thing.
    """
    return any("thermal" in reason for reason in reasons)


class Recording:
    """Counts all work, time and energy of a trial, and samples from when its window is opened.

    A throttled sample is marked: the window starts anew after a cool-down, twice at most; after
    that it is measured as it is, and the trial says so. What is between `drop` and the next edge
    is nobody's.
    """

    def __init__(
        self,
        precision: Precision,
        *,
        sample_s: float,
        tick_s: float = 0.0,
        cool_down_s: float = COOL_DOWN_S,
    ) -> None:
        self.sample_s = sample_s
        self.dropped = 0
        self.repeats = 0
        self._precision = precision
        self._tick_s = tick_s
        self._cool_down_s = cool_down_s
        self._steady = SteadyState(precision)
        self._spent = _NOTHING
        self._part = _NOTHING
        self._edge: Edge | None = None
        self._work = self._last_s = 0.0
        self._paused = False
        self._open = False
        self._cool_until_s = -math.inf
        self._peak_w: float | None = None
        self._throttled = False

    @property
    def total(self) -> Sample:
        """Everything between edges so far."""
        return self._spent

    def due(self, now_s: float) -> bool:
        """Return whether the device is to be read, for `cut`."""
        if self._paused:
            return False
        if self._edge is None:
            return True
        return self._part.time_s + now_s - self._edge.time_s >= self.sample_s

    def add(self, work: float) -> None:
        """Count `work` that was done since the last edge; what is done in a pause is not."""
        if not self._paused:
            self._work += work

    def open(self, edge: Edge | None) -> None:
        """Begin the window: the setting is in force and has had its time to show."""
        if edge is not None:
            self.cut(edge)
        self._open = True

    def follow(self, last: Recording) -> None:
        """Go on where `last` ended, so that nothing between two trials is lost."""
        self._edge, self._work, self._paused = last._edge, last._work, last._paused

    def cut(
        self, edge: Edge, *, throttled: bool = False, temperature_c: float | None = None
    ) -> Verdict:
        """End a segment at `edge` and begin the next; return whether the window is long enough."""
        segment = self._segment(edge, temperature_c)
        self._edge, self._work, self._last_s = edge, 0.0, edge.time_s
        if segment is None:
            return Verdict.MORE
        self._spent += replace(segment, counter_j=0.0)
        if not self._open or edge.time_s <= self._cool_until_s:
            return Verdict.MORE
        if throttled and self.repeats < MOST_REPEATS:
            self._start_anew(edge.time_s + self._cool_down_s)
            return Verdict.MORE
        self._throttled |= throttled
        if edge.power_w is not None:
            self._peak_w = max(edge.power_w, self._peak_w or 0.0)
        self._part = _joined(self._part, segment)
        if self._part.time_s < self.sample_s * (1.0 - 1e-9) or not self._part.work:
            return Verdict.MORE
        sample, self._part = self._part, _NOTHING
        return self._steady.add(sample)

    def pause(self, edge: Edge | None) -> Verdict:
        """Leave out what follows, until `resume`; without an edge the segment is lost too."""
        verdict = Verdict.MORE
        if edge is None:
            self.drop()
        elif self._edge is not None:
            verdict = self.cut(edge)
        self._edge, self._paused = None, True
        return verdict

    def resume(self, edge: Edge | None) -> None:
        """Go on after a pause."""
        self._edge, self._work, self._paused = edge, 0.0, False

    def drop(self) -> None:
        """Forget what happened since the last edge: it is not of this work, or was not seen."""
        self.dropped += self._edge is not None
        self._edge, self._work = None, 0.0

    def estimate(self) -> Estimate | None:
        """Return what the window tells so far; None while that is nothing."""
        return self._steady.estimate()

    def trial(
        self,
        asked: Setting,
        achieved: Setting,
        *,
        unit: WorkUnit,
        source: Source,
        told: Told | None = None,
        failure: str | None = None,
    ) -> Trial:
        """Return the trial, failed with a reason where there is no estimate or `failure` is one."""
        found = self.estimate() if failure is None else None
        if found is not None and found.energy.value <= 0:
            found, failure = None, "the energy counter did not move"
        if found is None:
            reason = failure or "there was too little work for a window"
            return self._failed(asked, achieved, reason)
        kept = found.kept
        peak_w = None if self._peak_w is None else max(self._peak_w, kept.energy_j / kept.time_s)
        return Trial(
            asked=asked,
            achieved=achieved,
            work=Work(kept.work, unit),
            measurement=Measurement(
                time_s=kept.time_s,
                energy_j=kept.energy_j,
                uncertainty_j=found.energy.sd * kept.work,
                peak_power_w=peak_w,
                source=source,
            ),
            warmup_work=max(0.0, self._spent.work - kept.work),
            overhead_s=max(0.0, self._spent.time_s - kept.time_s),
            overhead_j=max(0.0, self._spent.energy_j - kept.energy_j),
            told=replace(
                told or Told(),
                time_sd_s=found.time.spread * kept.work,
                energy_sd_j=found.energy.spread * kept.work,
            ),
            relative_half=max(found.time.relative, found.energy.relative),
            throttled=self._throttled,
            at_s=self._last_s - kept.time_s / 2.0,
        )

    def _failed(self, asked: Setting, achieved: Setting, reason: str) -> Trial:
        return Trial(
            asked=asked,
            achieved=achieved,
            work=None,
            measurement=None,
            warmup_work=self._spent.work,
            overhead_s=self._spent.time_s,
            overhead_j=self._spent.energy_j,
            failure=reason,
        )

    def _segment(self, edge: Edge, temperature_c: float | None) -> Sample | None:
        begin = self._edge
        if begin is None or self._paused:
            return None
        time_s, energy_j = edge.time_s - begin.time_s, edge.energy_j - begin.energy_j
        if time_s <= 0 or energy_j < 0:  # a counter that was reset begins anew
            self.dropped += 1
            return None
        counter_j = self._tick_s * energy_j / time_s / math.sqrt(6.0)
        return Sample(
            work=self._work,
            time_s=time_s,
            energy_j=energy_j,
            counter_j=counter_j,
            temperature_c=temperature_c,
        )

    def _start_anew(self, after_s: float) -> None:
        self.repeats += 1
        self._cool_until_s = after_s
        self._steady = SteadyState(self._precision)
        self._part = _NOTHING


def _joined(part: Sample, segment: Sample) -> Sample:
    """Return a sample of segments with a pause between: their edges are not shared."""
    both_j = math.hypot(part.counter_j, segment.counter_j)
    return replace(part + segment, counter_j=both_j)
