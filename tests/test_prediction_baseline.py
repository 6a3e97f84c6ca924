"""The baseline of physics, its fits, and the parts that add to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Space, standard_knob
from lowjoule.prediction import gaussian
from lowjoule.prediction.baseline import NAMES, POWER, TIME, generic, logs
from lowjoule.prediction.features import (
    MeasuredTask,
    Places,
    Scale,
    anchor_settings,
    anchored_signature,
    places,
    static_signature,
)
from lowjoule.prediction.learning import Prior, batch, expand, fit, learn
from lowjoule.prediction.monotone import monotone
from lowjoule.prediction.neighbours import Neighbours
from lowjoule.prediction.tasks import prepare
from lowjoule.profile import Profile
from lowjoule.workloads import Activity, DeviceFigures, Work, Workload, WorkUnit
from prediction_made import clocks, figures_of, limit_and_batch, made, several


def places_of(**columns: np.ndarray) -> Places:
    count = max(len(np.atleast_1d(one)) for one in columns.values())
    full = {name: np.broadcast_to(1.0, count) for name in Places.__slots__}
    full |= {"limit_w": np.full(count, 300.0), "largest_w": np.full(count, 300.0)}
    return Places(**(full | {n: np.broadcast_to(c, count) for n, c in columns.items()}))


@given(st.integers(0, 10_000))
def test_time_falls_and_power_rises_with_limit_and_clocks(seed: int) -> None:
    figures = figures_of(seed, spread=1.0)
    steps = np.linspace(0.3, 1.0, 40)
    for at in (
        places_of(limit_w=300.0 * steps),
        places_of(sm_clock=steps),
        places_of(memory_clock=steps).unlimited(),
    ):
        told = logs(figures, at)
        assert np.isfinite(told).all()
        assert (np.diff(told[:, 0]) <= 1e-12).all()
        assert (np.diff(told[:, 1]) >= -1e-12).all()


def test_power_keeps_to_the_limit_until_the_lowest_clock() -> None:
    figures = figures_of(3)
    at = places_of(limit_w=np.array([30.0, 120.0, 200.0, 300.0]))
    power_w = 300.0 * np.exp(logs(figures, at)[:, 1])
    cut = math.exp(figures[NAMES.index("cut")])
    assert (power_w[1:] <= at.limit_w[1:] * cut + 1e-9).all()
    assert power_w[0] > 30.0  # no clock is low enough


def test_step_time_is_a_fixed_part_and_one_per_sample() -> None:
    figures = generic()[0]
    figures[NAMES.index("rise")] = 0.0
    figures[NAMES.index("power")] = -3.0  # far from the limit
    told = np.exp(logs(figures, places_of(batch=np.array([0.25, 0.5, 1.0, 2.0])))[:, 0])
    step = told * np.array([0.25, 0.5, 1.0, 2.0])
    slope = np.diff(step) / np.array([0.25, 0.5, 1.0])
    np.testing.assert_allclose(slope, slope[0], rtol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_recovers_a_table_of_its_own_physics(seed: int) -> None:
    task = made(limit_and_batch(), seed)
    rows = prepare(task).rows
    parts = batch([(rows.at, np.exp(rows.logs[:, 0]), np.exp(rows.logs[:, 1]))])
    told = logs(fit(parts, Prior.generic()).figures[0], rows.at) + parts.units[0]
    error = np.abs(told - rows.logs)
    assert error.mean() < 0.01
    assert error.max() < 0.05


def test_four_anchors_foretell_a_table_of_physics() -> None:
    errors = []
    for seed in range(6):
        known = prepare(made(limit_and_batch(), seed))
        rows = known.rows.only(known.anchors)
        parts = batch([(rows.at, np.exp(rows.logs[:, 0]), np.exp(rows.logs[:, 1]))])
        figures = fit(parts, Prior.generic()).figures[0]
        told = logs(figures, known.rows.at) + parts.units[0]
        errors.append(np.abs(told - known.rows.logs)[known.unseen].mean(axis=0))
    time, power = np.mean(errors, axis=0)
    assert time < 0.06
    assert power < 0.04


def test_one_anchor_is_enough_for_a_fit() -> None:
    known = prepare(made(clocks(), 1))
    rows = known.rows.only(known.anchors[:1])
    parts = batch([(rows.at, np.exp(rows.logs[:, 0]), np.exp(rows.logs[:, 1]))])
    fitted = fit(parts, Prior.generic())
    told = logs(fitted.figures[0], rows.at) + parts.units[0]
    np.testing.assert_allclose(told, rows.logs, atol=0.02)
    assert np.isfinite(fitted.covariance).all()


def test_tasks_narrow_the_prior_and_never_widen_it() -> None:
    known = [prepare(one) for one in several(8)]
    parts = [(k.rows.at, np.exp(k.rows.logs[:, 0]), np.exp(k.rows.logs[:, 1])) for k in known]
    joint = learn(expand(batch(parts)), np.stack([k.static for k in known]))
    learned = joint.given(known[0].static)
    before = np.diag(generic()[1])
    after = np.diag(learned.covariance)
    assert (after <= before * (1 + 1e-9)).all()
    assert after[POWER] < before[POWER]
    assert after[TIME] == before[TIME]


def test_what_is_not_known_is_nan_and_never_zero() -> None:
    assert np.isnan(static_signature(DeviceFigures(model="x"), None, None)).all()
    told = static_signature(
        DeviceFigures(model="x", operations_per_s=1e12, bandwidth_bytes_per_s=1e11),
        Workload(name="w", operations=100.0, memory_traffic_bytes=10.0),
        Activity(memory=0.0),
    )
    np.testing.assert_allclose(told[:2], math.log(10.0))
    assert np.isnan(told[[2, 3, 4, 6]]).all()
    assert told[5] == 0.0  # a counted zero


def test_a_signature_holds_the_slopes_that_the_anchors_show() -> None:
    coordinates = np.array([[0.0, 0, 0, 0], [-1.0, 0, 0, 0], [-3.0, 0, 0, 0], [0, -0.5, 0, 0]])
    figures = np.array([[0.0, 0.0], [0.2, -0.1], [1.5, -0.6], [0.1, -0.4]])
    told = anchored_signature(coordinates, figures, -0.1)
    np.testing.assert_allclose(told[:4], [-0.1, -0.5, -0.2, -0.2])
    np.testing.assert_allclose(told[6:9], [0.2, 0.1, 0.8])
    assert np.isnan(told[[4, 5, 9, 10]]).all()


def test_anchors_are_the_nearest_that_the_space_has() -> None:
    told = [dict(one) for one in anchor_settings(limit_and_batch())]
    assert told == [
        {"batch_size": 128, "power_limit": 300.0},
        {"batch_size": 128, "power_limit": 180.0},
        {"batch_size": 8, "power_limit": 300.0},
        {"batch_size": 32, "power_limit": 300.0},
    ]
    assert len(anchor_settings(clocks(), 0)) == 1
    assert len(anchor_settings(clocks(), 2)) == 3
    alone = Space((standard_knob("sm_clock", [1e9], 1e9),))
    assert len(anchor_settings(alone)) == 1


def test_impossible_knobs_and_tasks_are_refused() -> None:
    task = made(clocks(), 1)
    profile = task.profile
    bare = Profile(
        work=Work(1.0, WorkUnit.EPOCH),
        time_s=profile.time_s,
        energy_j=profile.energy_j,
        settings=profile.settings,
    )
    with pytest.raises(InvalidValueError, match="names no default"):
        MeasuredTask(name="x", model="x", device=task.device, profile=bare)
    with pytest.raises(InvalidValueError, match="not positive"):
        places({"batch_size": np.array([0.0])}, Scale(1.0, 1.0, 1.0, 1.0), 1)
    two = Space((standard_knob("batch_size", [8, 128], 128),))
    with pytest.raises(InvalidValueError, match="are anchors"):
        prepare(made(two, 1))


def test_monotone_changes_nothing_that_is_so_already() -> None:
    space = limit_and_batch()
    columns = space.columns()
    figures = np.log(np.stack([made(space, 2).profile.time_s, np.ones(len(space))]))
    time, power = figures[0].copy(), figures[1].copy()
    assert monotone(columns, time, power)
    np.testing.assert_allclose(time, figures[0])
    rng = np.random.default_rng(0)
    time += rng.normal(0, 0.2, len(time))
    power += rng.normal(0, 0.2, len(time))
    assert monotone(columns, time, power)
    grid = time.reshape(6, 6), power.reshape(6, 6)
    assert (np.diff(grid[0], axis=0) <= 1e-12).all()
    assert (np.diff(grid[1], axis=0) >= -1e-12).all()


def test_a_process_learns_what_tasks_share_and_what_is_a_tasks_own() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.uniform(-1, 0, (40, 2)) for _ in range(12)]
    basis = gaussian.Basis.of(np.concatenate(rows))
    parts = [
        (basis.rows(x), 0.3 * x[:, 0] + 0.1 * rng.normal() * x[:, 1] + rng.normal(0, 0.01, 40))
        for x in rows
    ]
    mixed = gaussian.learn(parts)
    assert mixed.noise_var == pytest.approx(1e-4, rel=0.5)
    new = np.column_stack([np.linspace(-1, 0, 9), np.full(9, -1.0)])
    nothing = np.zeros((0, basis.knots.shape[0]))
    phi = basis.rows(new)
    blank = np.zeros((phi.shape[1],) * 2)
    mean, before = gaussian.moments(mixed.given(nothing, np.zeros(0)), phi, extra=blank)
    assert np.abs(mean - 0.3 * new[:, 0]).max() < 0.08
    told = mixed.given(phi[::4], 0.3 * new[::4, 0] + 0.1)
    mean, after = gaussian.moments(told, phi, extra=blank)
    assert np.abs(mean - 0.3 * new[:, 0] - 0.1).max() < 0.03
    assert (after < before).all()


def test_neighbours_leave_out_what_is_not_known_and_their_own_model() -> None:
    signatures = np.array([[0.0, np.nan], [1.0, 5.0], [10.0, 5.0]])
    near = Neighbours(signatures, np.array([[1.0], [2.0], [3.0]]), ["a", "b", "c"])
    weights, far = near.estimate(np.array([0.0, np.nan]))
    assert far == 0.0
    assert weights[0] == pytest.approx(1.0, abs=0.02)
    other, far = near.estimate(np.array([0.0, np.nan]), without="a")
    assert far > 0
    assert other[0] > 1.9
    nothing, far = near.estimate(np.array([np.nan, np.nan]))
    assert nothing[0] == 0.0
    assert far == math.inf
