"""Constraints on predictions, and what anchors lack."""

from __future__ import annotations

import numpy as np
import pytest

from lowjoule.knobs import Setting
from lowjoule.objectives import Slowdown
from lowjoule.objectives.constraints import Deadline, Power
from lowjoule.prediction import Prediction, Predictor, Recipe, anchor_settings
from lowjoule.prediction.anchoring import anchors_for, at_settings, lacking
from lowjoule.prediction.boards import recognised, same_board
from lowjoule.prediction.feasibility import feasibility, measured
from prediction_made import BOARD, limit_and_batch, made, several


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    predictor = Predictor.fit(several(4), Recipe(trees=False))
    task = made(limit_and_batch(), 77)
    anchors = at_settings(task.profile, anchor_settings(limit_and_batch()))
    return predictor.predict(limit_and_batch(), anchors, BOARD)


def test_what_is_sure_is_likely_and_what_is_likely_is_possible(prediction: Prediction) -> None:
    for one in (Slowdown(0.1), Power(200.0), Deadline(float(np.median(prediction.profile.time_s)))):
        kept = feasibility(prediction, [one])
        assert (kept.likely | ~kept.surely).all()
        assert (kept.perhaps | ~kept.likely).all()
        assert kept.surely.sum() < kept.perhaps.sum()


def test_bounds_look_at_the_ends_of_their_own_figure(prediction: Prediction) -> None:
    low, high = prediction.power_interval_w
    row = int(np.flatnonzero(~measured(prediction.profile))[0])
    between = float(np.sqrt(prediction.power_w[row] * high[row]))
    kept = feasibility(prediction, [Power(between)])
    assert kept.likely[row]
    assert not kept.surely[row]
    assert feasibility(prediction, [Power(float(high[row]) * 1.5)]).surely[row]
    assert not feasibility(prediction, [Power(float(low[row]) * 0.5)]).perhaps[row]


def test_measured_settings_and_the_default_have_no_doubt(prediction: Prediction) -> None:
    kept = feasibility(prediction, [Slowdown(0.0)])
    known = measured(prediction.profile)
    assert known.sum() == 4
    assert (kept.surely[known] == kept.likely[known]).all()
    home = prediction.profile.default
    rows = [r for r in range(len(prediction.profile)) if prediction.profile.setting(r) == home]
    assert kept.surely[rows].all()


def test_taking_settings_keeps_the_columns_together(prediction: Prediction) -> None:
    keep = np.zeros(len(prediction.profile), dtype=np.bool_)
    keep[3:9] = True
    part = prediction.take(keep)
    assert len(part.profile) == len(part.outside) == len(part.members["physics"]) == 6
    np.testing.assert_array_equal(part.interval("time")[0], prediction.interval("time")[0][3:9])


def test_anchors_get_what_they_do_not_name() -> None:
    task = made(limit_and_batch(), 5)
    space = limit_and_batch()
    some = task.profile.take(slice(0, 6))
    bare = some.take(some.settings["power_limit"] == some.settings["power_limit"][0])
    del bare.settings["power_limit"]
    told = anchors_for(bare, space)
    assert set(told.settings["power_limit"]) == {300.0}


def test_what_is_worth_measuring_is_named() -> None:
    space = limit_and_batch()
    assert lacking(space, None) == anchor_settings(space)
    task = made(space, 5)
    told = at_settings(task.profile, [space.default])
    missing = lacking(space, told)
    assert space.default not in missing
    assert Setting({"power_limit": 180.0, "batch_size": 128}) in missing


@pytest.mark.parametrize(
    ("name", "board"),
    [
        ("NVIDIA A40", "a40"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("Tesla V100-PCIE-32GB", "v100"),
        ("h100", "h100-sxm"),
        ("NVIDIA GTX TITAN X", None),
        ("", None),
    ],
)
def test_boards_are_known_by_several_names(name: str, board: str | None) -> None:
    found = recognised(name)
    assert (None if found is None else found.name) == board


def test_one_board_by_two_names() -> None:
    assert same_board("NVIDIA A40", "NVIDIA A40 48 GB")
    assert not same_board("NVIDIA A40", "NVIDIA A100")
    assert not same_board("this", "that")
