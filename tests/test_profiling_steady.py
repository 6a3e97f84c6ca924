from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError
from lowjoule.profiling.asymptote import Course, asymptote
from lowjoule.profiling.steady import Precision, Sample, SteadyState, Verdict
from lowjoule.testing.loops import Trace, plain, ramp, stalls

RUNS = 200


def covered(
    make: Callable[[np.random.Generator], Trace], tick_s: float = 0.0
) -> tuple[float, float]:
    """Return how often the interval of a sequentially stopped window holds the truth."""
    hits = np.zeros(2)
    for seed in range(RUNS):
        trace = make(np.random.default_rng([seed, 7]))
        steady = SteadyState(Precision(most_s=float(trace.time_s.sum()) * 0.98))
        for sample in trace.samples(tick_s=tick_s):
            if steady.add(sample) is not Verdict.MORE:
                break
        found = steady.estimate()
        assert found is not None
        hits[0] += abs(found.time.value - trace.true_time_s) <= found.time.half
        hits[1] += abs(found.energy.value - trace.true_energy_j) <= found.energy.half
    return float(hits[0]) / RUNS, float(hits[1]) / RUNS


def any_ramp(random: np.random.Generator) -> Trace:
    """Slow and quick, strong and weak; what a board may do."""
    constant_s = math.exp(random.uniform(math.log(5.0), math.log(120.0)))
    return ramp(random, constant_s, amplitude=random.uniform(0.01, 0.08), length_s=150.0)


@pytest.mark.parametrize(
    "make",
    [plain, ramp, partial(ramp, constant_s=60.0), any_ramp, stalls],
    ids=["plain", "ramp", "slow ramp", "any ramp", "stalls"],
)
def test_a_95_percent_interval_holds_the_truth_in_at_least_95_percent_of_runs(
    make: Callable[[np.random.Generator], Trace],
) -> None:
    for share in covered(make):
        assert share >= 0.95


def test_naive_intervals_would_not_hold_it_on_a_ramp() -> None:
    hits = 0
    for seed in range(50):
        trace = ramp(np.random.default_rng([seed, 7]))
        energy_j = trace.energy_j[:1500]
        half = 1.96 * energy_j.std() / math.sqrt(len(energy_j))
        hits += abs(energy_j.mean() - trace.true_energy_j) <= half
    assert hits == 0


def test_ticks_of_the_counter_are_not_taken_for_noise_of_the_work() -> None:
    share = covered(plain, tick_s=0.1)[1]
    assert share >= 0.95
    steady = SteadyState(Precision(relative=1e-9, most_s=math.inf))
    samples = plain(np.random.default_rng(1)).samples(tick_s=0.1)
    for sample in samples:
        steady.add(replace(sample, temperature_c=61.0))
    # each half second alone is known to 8 %, and neighbours make up for each other
    alone = np.std([one.energy_j / one.work for one in samples]) / math.sqrt(len(samples))
    found = steady.estimate()
    assert found is not None
    assert found.energy.spread < 0.5 * alone


def feed(steady: SteadyState, values: list[float], power_w: float = 100.0) -> list[Verdict]:
    return [steady.add(Sample(work=1.0, time_s=v, energy_j=power_w * v)) for v in values]


def test_warm_up_is_cut_by_what_it_shows_not_by_a_time() -> None:
    random = np.random.default_rng(0)
    cold = [2.0 - 0.1 * i for i in range(10)]
    warm = list(1.0 + 0.01 * random.standard_normal(60))
    steady = SteadyState(Precision(most_s=math.inf))
    feed(steady, cold + warm)
    found = steady.estimate()
    assert found is not None
    assert 9 <= found.cut.work <= 11
    assert found.time.value == pytest.approx(1.0, abs=0.01)
    steady = SteadyState(Precision(most_s=math.inf))
    feed(steady, warm)
    found = steady.estimate()
    assert found is not None
    assert found.cut.work < 30


def test_a_window_ends_when_it_is_precise_or_at_its_bound() -> None:
    random = np.random.default_rng(0)
    quiet = SteadyState(Precision(least_samples=8))
    assert feed(quiet, [1.0] * 11).count(Verdict.PRECISE) == 1
    loud = SteadyState(Precision(most_s=50.0))
    told = feed(loud, list(np.exp(random.standard_normal(50))))
    assert told[10] is Verdict.MORE
    assert Verdict.PRECISE not in told
    assert told[-1] is Verdict.BOUND
    worked = SteadyState(Precision(most_work=30.0))
    assert feed(worked, list(np.exp(random.standard_normal(30))))[-1] is Verdict.BOUND


def test_a_board_that_still_warms_up_is_not_settled() -> None:
    steady = SteadyState(Precision(most_s=math.inf))
    told = feed(steady, [1.0 + 0.05 * i for i in range(60)])
    assert set(told) == {Verdict.MORE}
    found = steady.estimate()
    assert found is not None
    assert not found.settled
    assert found.time.ahead > 0.01
    assert found.time.value + found.time.half > 1.0 + 0.05 * 59


def test_a_long_window_is_joined_and_loses_nothing() -> None:
    steady = SteadyState(Precision(relative=1e-9, most_s=math.inf))
    random = np.random.default_rng(0)
    values = list(1.0 + 0.1 * random.standard_normal(3000))
    feed(steady, values)
    found = steady.estimate()
    assert found is not None
    assert len(steady._samples) < 256
    assert found.kept.time_s + found.cut.time_s == pytest.approx(sum(values))
    assert found.time.value == pytest.approx(1.0, abs=3 * found.time.sd + 0.01)


@given(
    values=st.lists(st.floats(1e-3, 1e3), min_size=6, max_size=80),
    scale=st.floats(1e-3, 1e3),
    work=st.floats(1e-3, 1e6),
)
def test_estimates_follow_the_unit_and_hold_all_samples(
    values: list[float], scale: float, work: float
) -> None:
    one, other = SteadyState(), SteadyState()
    for value in values:
        one.add(Sample(work=1.0, time_s=value, energy_j=3.0 * value))
        other.add(Sample(work=work, time_s=value * scale, energy_j=3.0 * value * scale))
    here, there = one.estimate(), other.estimate()
    assert here is not None
    assert there is not None
    assert min(values) * (1 - 1e-9) <= here.time.value <= max(values) * (1 + 1e-9)
    assert here.energy.value == pytest.approx(3.0 * here.time.value)
    assert here.time.half >= 0
    assert here.kept.work + here.cut.work == pytest.approx(len(values))
    assert here.kept.work >= len(values) / 2
    if here.cut.work == there.cut.work / work:  # a tie may be cut on either side of it
        assert there.time.value == pytest.approx(here.time.value * scale / work)


def _course(seed: int, moved: float, temperature_c: np.ndarray | None, sd: float) -> Course:
    """Return a minute whose exponential has a constant of 40 s and is `moved` in all."""
    end_s = np.arange(6.0, 61.0, 6.0)
    noise = sd * np.random.default_rng(seed).standard_normal(10)
    values = 1.0 - moved * np.exp(-(end_s - 3.0) / 40.0) + noise
    return Course(
        values=values / values.mean(),
        begin_s=end_s - 6.0,
        end_s=end_s,
        temperature_c=temperature_c,
    )


def test_without_noise_the_end_of_an_exponential_is_seen() -> None:
    course = _course(0, 0.06, None, 1e-6)
    found = asymptote(course)
    truth = 1.0 / float(np.mean(1.0 - 0.06 * np.exp(-(course.end_s - 3.0) / 40.0)))
    assert found.mean == pytest.approx(truth, abs=0.004)
    assert abs(truth - 1.0) <= found.half(0.95)


def test_a_thermometer_that_stands_still_leaves_little_ahead() -> None:
    still, unknown = np.full(10, 61.0), None
    halves = [asymptote(_course(1, 0.0, one, 0.002)).half(0.95) for one in (still, unknown)]
    assert halves[0] < 0.5 * halves[1]


def test_a_thermometer_that_still_rises_says_how_much_is_ahead() -> None:
    end_s = np.arange(6.0, 61.0, 6.0)
    rising = np.round(70.0 - 40.0 * np.exp(-(end_s - 3.0) / 40.0))
    halves = [asymptote(_course(1, 0.06, one, 0.01)).half(0.95) for one in (rising, None)]
    truth = 1.0 / float(np.mean(1.0 - 0.06 * np.exp(-(end_s - 3.0) / 40.0)))
    assert abs(truth - 1.0) <= halves[0] < halves[1]


def test_a_start_that_differs_by_chance_stays() -> None:
    """What scatters most at the start is not chosen away: means would be too low with stalls."""
    left_out = 0
    for seed in range(40):
        steady = SteadyState(Precision(relative=1e-9, most_s=math.inf))
        for sample in stalls(np.random.default_rng([seed, 3])).samples():
            steady.add(sample)
        found = steady.estimate()
        assert found is not None
        left_out += found.cut.work > 0
    assert left_out <= 4


def test_what_is_no_sample_or_no_precision_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="work was done"):
        SteadyState().add(Sample(work=0.0, time_s=1.0, energy_j=1.0))
    assert SteadyState().estimate() is None
    with pytest.raises(InvalidValueError, match="ratios"):
        Precision(relative=0.0)
    with pytest.raises(InvalidValueError, match="bounds"):
        Precision(most_s=0.0)
