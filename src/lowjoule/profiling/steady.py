"""When a stream of samples has become steady, and how well its mean is then known.

Pure: it is told samples and neither reads nor waits. Warm-up is cut off where the standard error
of what remains is least (White, Simulation 69(6), 1997); what remains is summed into a few batches,
whose spread includes whatever correlation is within them (batch means; Law & Kelton, Operations
Research 32(6), 1984). A board that still warms up is not yet where it will be: the interval is
of the steady state, and holds what may still be ahead (`lowjoule.profiling.asymptote`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.profiling.asymptote import Course, asymptote

Floats = NDArray[np.float64]

_BATCHES = 10
_FEWEST = 6  # of which three at least are kept: two of their freedoms go to what is ahead
_GROWTH = 1.25
_CONFIRMED = 2  # a spread seen small once may be luck: it stops a window only when seen again
_MOST_KEPT = 256
_TWO_SIDED = 1.96
_OTHERWISE_SD = 3.0
_EXACT = 1e-9  # a relative spread that is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Work done in a stretch of time, with its energy.

    `counter_j` is the standard deviation that the ticks of the counter give the energy; what one
    sample has too much its neighbour has too little. `temperature_c` is what the device had at
    its end, None where it does not say.
    """

    work: float
    time_s: float
    energy_j: float
    counter_j: float = 0.0
    temperature_c: float | None = None

    def __add__(self, other: Sample) -> Sample:
        last_c = self.temperature_c if other.temperature_c is None else other.temperature_c
        return Sample(
            work=self.work + other.work,
            time_s=self.time_s + other.time_s,
            energy_j=self.energy_j + other.energy_j,
            counter_j=max(self.counter_j, other.counter_j),
            temperature_c=last_c,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How well time and energy of one unit are to be known, and what that may take.

    The half-width of the interval of `confidence`, over the mean, is to be below `relative` for
    both; a window ends without it after `most_s` or `most_work`.
    """

    relative: float = 0.01
    confidence: float = 0.95
    most_s: float = 30.0
    most_work: float = math.inf
    least_samples: int = 20

    def __post_init__(self) -> None:
        if not (0 < self.relative < 1 and 0 < self.confidence < 1):
            raise InvalidValueError(
                f"a precision of {self.relative:g} with a confidence of {self.confidence:g}",
                cure="use ratios between 0 and 1, like 1% and 95%",
            )
        if not (self.most_s > 0 and self.most_work > 0 and self.least_samples >= _FEWEST):
            raise InvalidValueError(
                f"a window of at most {self.most_s:g} s, {self.most_work:g} units of work and at "
                f"least {self.least_samples} samples",
                cure=f"use positive bounds and at least {_FEWEST} samples",
            )


class Verdict(StrEnum):
    """Whether a window is long enough."""

    MORE = "more"
    PRECISE = "precise"
    BOUND = "bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean of one unit of work in a window, and how far it is from the steady state.

    `half` is half of the interval around it that holds the steady figure with `confidence`,
    `ahead` how far the steady figure is expected to lie above the mean, relative to it. `spread`
    is the standard deviation of the mean alone, if nothing moved: what two windows measured one
    beside the other differ by, whatever is ahead of both.
    """

    value: float
    half: float
    ahead: float
    spread: float
    confidence: float

    @property
    def relative(self) -> float:
        """Half of the interval over the mean."""
        return self.half / self.value if self.value > 0 else math.inf

    @property
    def sd(self) -> float:
        """The standard deviation of a normal variable with that interval."""
        return self.half / NormalDist().inv_cdf(0.5 + self.confidence / 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a window tells: `kept` is what was averaged, `cut` what was warm-up before it."""

    time: Mean
    energy: Mean
    kept: Sample
    cut: Sample
    settled: bool


class SteadyState:
    """Takes samples one by one and says when they tell enough.

    At most 256 are kept: beyond that neighbours are joined, so that a window of a day costs what
    one of a minute does.
    """

    def __init__(self, precision: Precision | None = None) -> None:
        self.precision = precision or Precision()
        self._samples: list[Sample] = []
        self._joined = 1
        self._part: list[Sample] = []
        self._total = _NOTHING
        self._check_at = self.precision.least_samples
        self._good = 0
        self._verdict = Verdict.MORE

    @property
    def total(self) -> Sample:
        """All that was told, warm-up included."""
        return self._total

    def add(self, sample: Sample) -> Verdict:
        """Take in `sample`, which must hold work, and return whether the window is long enough."""
        if not (sample.work > 0 and sample.time_s > 0 and sample.energy_j >= 0):
            raise InvalidValueError(
                f"a sample of {sample.work:g} units in {sample.time_s:g} s with "
                f"{sample.energy_j:g} J",
                cure="tell samples in which work was done",
            )
        self._total += sample
        self._part.append(sample)
        if len(self._part) == self._joined:
            self._samples.append(_sum(self._part))
            self._part = []
            self._thin()
        self._verdict = self._judged()
        return self._verdict

    def estimate(self) -> Estimate | None:
        """Return what is known so far; None before there are six samples."""
        samples = [*self._samples, *([_sum(self._part)] if self._part else [])]
        if len(samples) < _FEWEST:
            return None
        columns = _Columns.of(samples)
        first, settled = columns.warm_from()
        confidence = self.precision.confidence
        kept = columns.after(first)
        # a long start that differs is a ramp, and the more is seen of that the better it is known
        seen = kept if first < len(samples) // 4 else columns
        counter_j = math.sqrt(float(np.mean(kept.counter_j**2)))
        return Estimate(
            time=_mean(kept.time_per_unit, seen, seen.time_s, 0.0, confidence),
            energy=_mean(kept.energy_per_unit, seen, seen.energy_j, counter_j, confidence),
            kept=_sum(samples[first:]),
            cut=_sum(samples[:first]),
            settled=settled,
        )

    def _judged(self) -> Verdict:
        precision = self.precision
        if self._total.time_s >= precision.most_s or self._total.work >= precision.most_work:
            found = self.estimate() if len(self._samples) >= _FEWEST else None
            return Verdict.MORE if found is None else self._precise(found, Verdict.BOUND)
        if len(self._samples) < self._check_at:
            return Verdict.MORE
        self._check_at = int(_GROWTH * len(self._samples)) + 1
        found = self.estimate()
        if found is None or self._precise(found, Verdict.MORE) is Verdict.MORE:
            self._good = 0
            return Verdict.MORE
        self._good += 1
        return Verdict.PRECISE if self._good >= _CONFIRMED else Verdict.MORE

    def _precise(self, found: Estimate, otherwise: Verdict) -> Verdict:
        worst = max(found.time.relative, found.energy.relative)
        good = found.settled and worst <= self.precision.relative
        return Verdict.PRECISE if good else otherwise

    def _thin(self) -> None:
        if len(self._samples) < _MOST_KEPT:
            return
        kept = self._samples
        self._samples = [a + b for a, b in zip(kept[::2], kept[1::2], strict=True)]
        self._joined *= 2
        self._check_at = max(_FEWEST, self._check_at // 2)


_NOTHING = Sample(work=0.0, time_s=0.0, energy_j=0.0)


def _sum(samples: list[Sample]) -> Sample:
    total = _NOTHING
    for one in samples:
        total += one
    return replace(total)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Samples as arrays."""

    work: Floats
    time_s: Floats
    energy_j: Floats
    counter_j: Floats
    temperature_c: Floats

    @classmethod
    def of(cls, samples: list[Sample]) -> _Columns:
        rows = [
            (s.work, s.time_s, s.energy_j, s.counter_j, _or_nan(s.temperature_c)) for s in samples
        ]
        return cls(*np.array(rows, dtype=np.float64).T)

    @property
    def time_per_unit(self) -> float:
        """Mean time of a unit of work."""
        return float(self.time_s.sum() / self.work.sum())

    @property
    def energy_per_unit(self) -> float:
        """Mean energy of a unit of work."""
        return float(self.energy_j.sum() / self.work.sum())

    def warm_from(self) -> tuple[int, bool]:
        """Return the first sample to keep, and whether the cut lies well inside what was told."""
        latest = len(self.work) // 2
        first = max(_cut(self.time_s / self.work), _cut(self.energy_j / self.work))
        return first, first < latest

    def after(self, first: int) -> _Columns:
        """Return the rows from `first` on."""
        columns = (self.work, self.time_s, self.energy_j, self.counter_j, self.temperature_c)
        return _Columns(*(one[first:] for one in columns))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _cut(values: Floats) -> int:
    """Return how many of `values` to leave out at the start, at most half of them.

    The squared standard error of the rest, taken as if its values were independent, is least
    there: a start that differs costs more than the values that go with it would give. A start
    that differs by no more than chance stays: to leave out what scatters most is to choose.
    """
    left = len(values) - np.arange(len(values))
    centred = values - values.mean()
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    error = ((squares / left - (sums / left) ** 2) / left)[: len(values) // 2 + 1]
    first = int(np.argmax(error <= error.min() + _EXACT * error[0]))  # the least, but for rounding
    if not first:
        return 0
    start, rest = values[:first], values[first:]
    variance = max(float(np.var(start)), float(np.var(rest))) / first + float(error[first])
    apart = float(start.mean() - rest.mean())
    return first if apart**2 > _OTHERWISE_SD**2 * variance else 0


def _lean(values: Floats) -> float:
    """Return the longer side of the interval of the mean of skewed `values`, beyond the normal.

    Rare stalls with a long tail: where few were seen, mean and spread are both too small
    (Johnson, JASA 73, 1978; Hall, JRSS B 54, 1992, of 95 %).
    """
    off = values - values.mean()
    spread = math.sqrt(float(np.mean(off**2)))
    if spread <= _EXACT * float(values.mean()):
        return 0.0
    skewness = float(np.mean((off / spread) ** 3))
    return abs(skewness) / (6.0 * math.sqrt(len(values))) * (1.0 + 2.0 * _TWO_SIDED**2)


def _mean(
    value: float, seen: _Columns, values: Floats, counter_j: float, confidence: float
) -> Mean:
    """Return the mean `value` of a unit of work, and its distance from where `values` end.

    `counter_j` is the standard deviation that a counter's ticks give each sum: it does not grow
    with the sum, since neighbours share an edge.
    """
    if value <= 0:
        return Mean(value=value, half=math.inf, ahead=0.0, spread=math.inf, confidence=confidence)
    begins = np.linspace(0, len(values), min(len(values), _BATCHES), endpoint=False).astype(int)
    work, sums, end_s, kelvin = (
        np.add.reduceat(one, begins) for one in (seen.work, values, seen.time_s, seen.temperature_c)
    )
    end_s = np.cumsum(end_s)
    temperature_c = kelvin / np.diff(np.append(begins, len(values)))
    found = asymptote(
        Course(
            values=sums / work / value,
            begin_s=np.concatenate([[0.0], end_s[:-1]]),
            end_s=end_s,
            temperature_c=None if np.isnan(temperature_c).any() else temperature_c,
            counter=counter_j / (value * float(work.mean())),
        )
    )
    # half of what is allowed to lie outside is kept for where an assumption is a little off
    half = found.half((1.0 + confidence) / 2.0) + _lean(values / seen.work) * found.sd
    return Mean(
        value=value,
        half=half * value,
        ahead=found.mean - 1.0,
        spread=found.likely_sd * value,
        confidence=confidence,
    )
