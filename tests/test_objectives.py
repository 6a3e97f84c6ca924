from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import IncomparableError, InvalidValueError, LowjouleError, UnknownNameError
from lowjoule.objectives import (
    CONSTRAINTS,
    ED2P,
    EDP,
    EDS,
    OBJECTIVES,
    Carbon,
    Deadline,
    Efficiency,
    Energy,
    EnergyBudget,
    LatencyPercentile,
    Memory,
    Money,
    Outcome,
    PeakPower,
    Power,
    Slowdown,
    Throughput,
    Time,
    ZeusCost,
    parse_constraint,
    parse_objective,
)

OUTCOME = Outcome(
    time_s=np.array([2.0, 4.0]),
    energy_j=np.array([600.0, 800.0]),
    peak_power_w=np.array([350.0, 250.0]),
    memory_bytes=np.array([1e9, 3e9]),
    latency_s=np.array([0.1, 0.3]),
)
BASE = Outcome(time_s=np.asarray(2.0), energy_j=np.asarray(800.0))

# Worked out by hand for 2 s, 600 J and 4 s, 800 J against 2 s, 800 J.
VALUES = [
    ("energy", Energy(), [600.0, 800.0]),
    ("time", Time(), [2.0, 4.0]),
    ("throughput", Throughput(), [-0.5, -0.25]),
    ("efficiency", Efficiency(), [-1 / 600, -1 / 800]),
    ("eds", EDS(), [0.5 * 0.75 + 0.5, 0.5 + 1.0]),
    ("eds:0.2", EDS(0.2), [0.2 * 0.75 + 0.8, 0.2 + 1.6]),
    ("eds:20%", EDS(0.2), [0.2 * 0.75 + 0.8, 0.2 + 1.6]),
    ("edp", EDP(), [1200.0, 3200.0]),
    ("ed2p", ED2P(), [2400.0, 12800.0]),
    ("zeus:0.25@400W", ZeusCost(400.0, 0.25), [150.0 + 600.0, 200.0 + 1200.0]),
    ("money:0.36/kWh", Money(0.36), [6e-5, 8e-5]),
    ("money:0.36/kWh+1.8/h", Money(0.36, 1.8), [6e-5 + 1e-3, 8e-5 + 2e-3]),
    ("carbon:360g/kWh", Carbon(360.0), [0.06, 0.08]),
]

EXCESS = [
    ("slowdown<=25%", Slowdown(0.25), [2.0 / 2.5 - 1, 4.0 / 2.5 - 1]),
    ("deadline<=3s", Deadline(3.0), [2.0 / 3 - 1, 4.0 / 3 - 1]),
    ("power<=250W", Power(250.0), [0.2, -0.2]),
    ("peak_power<=0.25kW", PeakPower(250.0), [0.4, 0.0]),
    ("energy<=700J", EnergyBudget(700.0), [600 / 700 - 1, 800 / 700 - 1]),
    ("memory<=2GB", Memory(2e9), [-0.5, 0.5]),
    ("p99<=200ms", LatencyPercentile(0.2), [-0.5, 0.5]),
    ("p99.9<=200ms", LatencyPercentile(0.2, 99.9), [-0.5, 0.5]),
]


@pytest.mark.parametrize(("text", "objective", "expected"), VALUES)
def test_objectives_in_python_and_as_text(text, objective, expected) -> None:  # type: ignore[no-untyped-def]
    assert parse_objective(text) == objective
    assert objective.values(OUTCOME, BASE).tolist() == pytest.approx(expected)
    assert parse_objective(objective.name) == objective


@pytest.mark.parametrize(("text", "constraint", "expected"), EXCESS)
def test_constraints_in_python_and_as_text(text, constraint, expected) -> None:  # type: ignore[no-untyped-def]
    assert parse_constraint(text) == constraint
    assert constraint.excess(OUTCOME, BASE).tolist() == pytest.approx(expected)
    assert parse_constraint(constraint.text) == constraint


def test_every_form_is_tested() -> None:
    assert {text.partition(":")[0] for text, _, _ in VALUES} == set(OBJECTIVES)
    assert {text.partition("<=")[0] for text, _, _ in EXCESS} >= set(CONSTRAINTS)


@pytest.mark.parametrize("form", [form.example for form in OBJECTIVES.values()])
def test_examples_of_objectives_parse(form: str) -> None:
    parse_objective(form)


@pytest.mark.parametrize("form", [form.example for form in CONSTRAINTS.values()])
def test_examples_of_constraints_parse(form: str) -> None:
    parse_constraint(form)


def test_a_baseline_is_asked_for_where_it_is_needed() -> None:
    with pytest.raises(IncomparableError, match="baseline"):
        EDS().values(OUTCOME)
    with pytest.raises(IncomparableError, match="baseline"):
        Slowdown(0.1).excess(OUTCOME)


def test_a_missing_column_is_not_a_silent_zero() -> None:
    bare = Outcome(time_s=OUTCOME.time_s, energy_j=OUTCOME.energy_j)
    for constraint in (PeakPower(1.0), Memory(1.0), LatencyPercentile(1.0)):
        with pytest.raises(IncomparableError, match="not measured"):
            constraint.excess(bare)


@pytest.mark.parametrize(
    ("text", "known"), [("enrgy", "energy"), ("EDSS", "eds"), ("zues:0.5", "zeus")]
)
def test_unknown_objectives_are_answered_with_the_nearest(text: str, known: str) -> None:
    with pytest.raises(UnknownNameError, match=known):
        parse_objective(text)


def test_unknown_constraints_are_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="slowdown"):
        parse_constraint("slowdwn<=5%")


@pytest.mark.parametrize(
    "text",
    [
        "eds:2",
        "eds:-0.1",
        "energy:3",
        "zeus:0.5",
        "zeus:0.5@0W",
        "money:x",
        "carbon:-1g/kWh",
        "money:1.2.3/kWh",
    ],
)
def test_arguments_that_do_not_fit(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_objective(text)


@pytest.mark.parametrize(
    "text",
    [
        *("slowdown", "slowdown<=x", "deadline<=-1s", "power<=0W", "power<=6h", "p0<=1s"),
        *("slowdown>=1", "deadline<=nan", "memory<=inf"),
    ],
)
def test_bounds_that_do_not_fit(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_constraint(text)


@given(st.text(max_size=20))
def test_arbitrary_text_only_raises_our_errors(text: str) -> None:
    for parse in (parse_objective, parse_constraint):
        for prefix in ("", "eds:", "zeus:", "money:", "power<=", "p99<="):
            with contextlib.suppress(LowjouleError):
                parse(prefix + text)


def test_an_energy_delay_sum_needs_a_positive_baseline() -> None:
    free = Outcome(time_s=np.asarray(1.0), energy_j=np.asarray(-20.0))
    with pytest.raises(IncomparableError, match="not positive"):
        EDS().values(OUTCOME, free)
