"""When a stream of samples has become steady, and how well its mean is then known.

Pure: it is told samples and neither reads nor waits. Warm-up is cut off where the standard error
of what remains is least (White, Simulation 69(6), 1997); what remains is summed into a few batches,
whose spread includes whatever correlation is within them (batch means; Law & Kelton, Operations
Research 32(6), 1984). A trend that the batches show beyond their noise widens the interval: a
board that still warms up is not yet where it will be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError

Floats = NDArray[np.float64]

_BATCHES = 10
_FEWEST = 6  # of which three at least are kept: a trend takes two of their freedoms
_GROWTH = 1.25
_CONFIRMED = 2  # a spread seen small once may be luck: it stops a window only when seen again
_MOST_KEPT = 256
# By simulation (tests/test_profiling_steady.py): a trend below 0.4 of its own standard error is
# taken for noise, and a board that warms up has about twice the rest still ahead of it.
_TREND_IN_NOISE = 0.4
_TREND_AHEAD = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Work done in a stretch of time, with its energy.

    `counter_j` is the standard deviation that the ticks of the counter give the energy; what one
    sample has too much its neighbour has too little.
    """

    work: float
    time_s: float
    energy_j: float
    counter_j: float = 0.0

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            work=self.work + other.work,
            time_s=self.time_s + other.time_s,
            energy_j=self.energy_j + other.energy_j,
            counter_j=max(self.counter_j, other.counter_j),
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
    """The mean of one unit of work, half of its interval, and its trend over the window.

    `trend` is relative to the mean, and includes nothing of what lies ahead.
    """

    value: float
    half: float
    trend: float
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
        counter_j2 = float(np.mean(columns.counter_j[first:] ** 2))
        return Estimate(
            time=_mean(columns.time_s[first:], columns.work[first:], 0.0, confidence),
            energy=_mean(columns.energy_j[first:], columns.work[first:], counter_j2, confidence),
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

    @classmethod
    def of(cls, samples: list[Sample]) -> _Columns:
        rows = np.array([(s.work, s.time_s, s.energy_j, s.counter_j) for s in samples])
        return cls(*rows.T)

    def warm_from(self) -> tuple[int, bool]:
        """Return the first sample to keep, and whether the cut lies well inside what was told."""
        latest = len(self.work) // 2
        first = max(_cut(self.time_s / self.work), _cut(self.energy_j / self.work))
        return first, first < latest


def _cut(values: Floats) -> int:
    """Return how many of `values` to leave out at the start, at most half of them.

    The squared standard error of the rest, taken as if its values were independent, is least
    there: a start that differs costs more than the values that go with it would give.
    """
    left = len(values) - np.arange(len(values))
    centred = values - values.mean()
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    error = (squares / left - (sums / left) ** 2) / left
    return int(np.argmin(error[: len(values) // 2 + 1]))


def _mean(values: Floats, work: Floats, counter_j2: float, confidence: float) -> Mean:
    """Return the mean of `values` a unit of `work`, by batches of neighbours.

    `counter_j2` is the variance that a counter's ticks give each sum: it does not grow with the
    sum, since neighbours share an edge.
    """
    count = min(len(values), _BATCHES)
    size = len(values) // count
    skipped = len(values) - count * size
    sums = values[skipped:].reshape(count, size).sum(axis=1)
    works = work[skipped:].reshape(count, size).sum(axis=1)
    value = float(values.sum() / work.sum())
    if value <= 0:
        return Mean(value=value, half=math.inf, trend=0.0, confidence=confidence)
    off = sums - sums.sum() / works.sum() * works
    variance = count * max(float(off @ off) / (count - 1) - counter_j2, 0.0) + counter_j2
    error = math.sqrt(variance) / float(sums.sum())
    place = np.arange(count) - (count - 1) / 2.0
    slope = float(place @ off / (place @ place))
    rest = off - slope * place
    to_trend = count / float(sums.mean())
    trend = slope * to_trend
    noise = math.sqrt(float(rest @ rest) / (count - 2) / float(place @ place)) * to_trend
    by_ticks = math.sqrt(counter_j2 * _edges(count)) / float(place @ place) * to_trend
    ahead = _TREND_AHEAD * max(0.0, abs(trend) - max(_TREND_IN_NOISE * noise, by_ticks))
    half = student(0.5 + confidence / 2.0, count - 1) * error + ahead
    return Mean(value=value, half=half * value, trend=trend, confidence=confidence)


def _edges(count: int) -> float:
    """Return the variance of the sum of places times values, for edges that neighbours share.

    In units of the variance of one value: an edge inside counts once, the outermost by its place.
    """
    return (count - 1 + (count - 1) ** 2 / 2.0) / 2.0


def student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution (Cornish-Fisher, to 1 % from 3 on)."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))
