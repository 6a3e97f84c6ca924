"""The predictor as a whole: splits, intervals, saving, and what it says of its limits."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lowjoule.errors import InvalidValueError, MissingExtraError
from lowjoule.knobs import Space, standard_knob
from lowjoule.prediction import (
    DeviceFigures,
    MeasuredTask,
    Prediction,
    Predictor,
    Recipe,
    load,
    save,
)
from lowjoule.prediction.boosted import GROWTHS, Growth, Trees, available
from lowjoule.prediction.evaluation import by_both, by_device, by_member, by_model, coverage, score
from lowjoule.prediction.intervals import calibrate
from lowjoule.prediction.neighbours import COUNTS
from lowjoule.prediction.saving import read, text_of
from lowjoule.prediction.tasks import prepare, space_of
from lowjoule.prediction.training import folds
from lowjoule.profile import Profile
from lowjoule.source import Source
from prediction_made import BOARD, clocks, limit_and_batch, made, several, trainings

NO_TREES = Recipe(trees=False)
needs_xgboost = pytest.mark.skipif(
    not available(), reason="boosted trees need XGBoost: pip install 'lowjoule[predict]'"
)


@pytest.fixture(scope="module")
def tasks() -> list[MeasuredTask]:
    return several(12)


@pytest.fixture(scope="module")
def predictor(tasks: list[MeasuredTask]) -> Predictor:
    return Predictor.fit(tasks, NO_TREES)


def predict(predictor: Predictor, task: MeasuredTask, anchors: int = 4) -> Prediction:
    known = prepare(task)
    told = task.profile.take(known.anchors[:anchors])
    return predictor.predict(space_of(task.profile), told, task.device)


def test_a_new_task_is_foretold_with_provenance(predictor: Predictor) -> None:
    task = made(limit_and_batch(), 50, depart=0.05, noise=0.01)
    found = predict(predictor, task)
    known = prepare(task)
    assert len(found.profile) == len(task.profile)
    sources = found.profile.sources
    assert sources is not None
    assert (sources[known.anchors] == Source.MEASURED.value).all()
    assert (sources[known.unseen] == Source.PREDICTED.value).all()
    assert len(found.profile.predicted()) == len(known.unseen)
    np.testing.assert_array_equal(
        found.profile.time_s[known.anchors], task.profile.time_s[known.anchors]
    )
    error = np.abs(np.log(found.profile.time_s / task.profile.time_s))
    assert error.mean() < 0.12
    for figure in ("time", "power", "energy"):
        low, high = found.interval(figure)
        assert (low < high).all()
    assert found.groups == 12
    assert found.most == pytest.approx(12 / 13)


def test_no_split_shares_a_model() -> None:
    models = ["bert", "bert", "resnet", "ncf", "bert", "ncf", "vit", "gpt", "unet", "rnn"]
    for count in (2, 3, 6, 20):
        split = folds(models, count)
        assert sorted(np.concatenate(split).tolist()) == list(range(len(models)))
        owners = [{models[task] for task in fold} for fold in split]
        for number, own in enumerate(owners):
            assert not own & set().union(*owners[:number], *owners[number + 1 :])
    with pytest.raises(InvalidValueError, match="one model"):
        folds(["bert", "bert"])


def test_no_evaluation_learns_from_what_it_tries(tasks: list[MeasuredTask]) -> None:
    other = DeviceFigures(model="other", power_limit_w=300.0)
    both = [*tasks[:3], *(made(limit_and_batch(), n, device=other) for n in range(3))]
    for split in (*by_model(both), *by_both(both)):
        assert not {one.model for one in split.known} & {one.model for one in split.tried}
    for split in (*by_device(both), *by_both(both)):
        boards = {one.device.model for one in split.known}
        assert not boards & {one.device.model for one in split.tried}


def test_published_trainings_have_one_model_for_bert_on_two_data_sets(data: Path) -> None:
    models = [one.model for one in trainings(data)]
    assert models.count("bert_base_uncased") == 6


def test_intervals_cover_models_never_seen() -> None:
    own = several(30, depart=0.08)
    scores = []
    predictor = Predictor.fit(own[:15], NO_TREES)
    for task in own[15:]:
        found = predict(predictor, task)
        unseen = prepare(task).unseen
        low, high = found.time_interval_s
        true = task.profile.time_s
        scores.append(((low <= true) & (true <= high))[unseen].mean())
    assert 0.8 <= np.mean(scores) <= 1.0


def test_a_quantile_over_few_models_is_their_largest() -> None:
    rng = np.random.default_rng(0)
    models = [f"m{n}" for n in range(4) for _ in range(50)]
    tasks = np.repeat(np.arange(4), 50)
    scores = {name: np.abs(rng.normal(size=200)) for name in ("time", "power", "energy")}
    found = calibrate(scores, models, tasks, 0.9)
    assert found.groups == 4
    assert found.most == 0.8
    assert found.factor("time") == found.quantiles[0].max()
    many = calibrate(scores, [f"m{n}" for n in range(200)], np.arange(200), 0.9)
    assert many.factor("time") == pytest.approx(np.quantile(scores["time"], 0.9), rel=0.1)


def test_what_lies_outside_is_wider_and_said(predictor: Predictor) -> None:
    task = made(limit_and_batch(), 58)
    inside = predict(predictor, task)
    assert not inside.outside.any()
    batches = [8, 16, 32, 64, 128, 256, 4096]
    wide = Space((limit_and_batch().knobs[0], standard_knob("batch_size", batches, 128)))
    told = task.profile.take(prepare(task).anchors)
    found = predictor.predict(wide, told, BOARD)
    assert any("batch_size goes beyond" in note for note in found.notes)
    batch = found.profile.settings["batch_size"]
    assert found.outside[batch == 4096].all()
    assert not found.outside[batch < 4096].any()
    low, high = found.time_interval_s
    width = np.log(high / low)
    assert width[batch == 4096].min() > 1.5 * np.median(width[batch < 4096])


def test_fewer_anchors_widen_the_intervals(predictor: Predictor) -> None:
    task = made(limit_and_batch(), 52)
    widths = []
    for anchors in (4, 1):
        found = predict(predictor, task, anchors)
        low, high = found.time_interval_s
        widths.append(np.log(high / low).mean())
    assert widths[1] > 1.3 * widths[0]
    assert any("no anchor turns" in note for note in found.notes)


def test_a_task_of_other_knobs_and_board_is_answered_by_physics(predictor: Predictor) -> None:
    task = made(clocks(), 53, device=DeviceFigures(model="new", power_limit_w=300.0))
    found = predict(predictor, task)
    assert any("no task with the knobs sm_clock" in note for note in found.notes)
    assert np.abs(np.log(found.profile.time_s / task.profile.time_s)).mean() < 0.15


def test_predictions_are_monotone_along_limits_and_clocks(predictor: Predictor) -> None:
    found = predict(predictor, made(limit_and_batch(), 54, noise=0.0))
    free = np.setdiff1d(np.arange(36), prepare(made(limit_and_batch(), 54)).anchors)
    keep = np.full(36, np.nan)
    keep[free] = found.profile.time_s[free]
    for line in keep.reshape(6, 6).T:
        assert (np.diff(line[np.isfinite(line)]) <= 1e-12).all()


def test_an_anchor_without_a_knob_is_refused(predictor: Predictor) -> None:
    told = made(clocks(), 1).profile
    with pytest.raises(InvalidValueError, match="power_limit"):
        predictor.predict(limit_and_batch(), told, BOARD)


def test_a_knob_that_cannot_be_predicted_is_refused(predictor: Predictor) -> None:
    batch = standard_knob("batch_size", [32, 64], 64)
    space = Space((batch, standard_knob("precision", ["bf16", "fp32"], "bf16")))
    task = made(limit_and_batch(), 1)
    settings = {"batch_size": np.array([64.0]), "precision": np.array(["bf16"])}
    told = Profile(work=task.profile.work, time_s=1.0, energy_j=100.0, settings=settings)
    with pytest.raises(InvalidValueError, match="the effect of precision"):
        predictor.predict(space, told, BOARD)
    held = space.free(["batch_size"])
    found = predictor.predict(held, told, BOARD)
    assert len(found.profile) == 2


def test_saved_and_loaded_predicts_the_same(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "predictor.json"
    save(predictor, path)
    again = load(path)
    task = made(limit_and_batch(), 55)
    before, after = predict(predictor, task), predict(again, task)
    np.testing.assert_array_equal(before.profile.energy_j, after.profile.energy_j)
    np.testing.assert_array_equal(before.time_interval_s[1], after.time_interval_s[1])
    assert before.notes == after.notes
    assert text_of(again) == text_of(predictor)


def test_other_versions_and_damage_are_refused(predictor: Predictor) -> None:
    content = json.loads(text_of(predictor))
    with pytest.raises(InvalidValueError, match="version 99"):
        read(json.dumps(content | {"version": 99}))
    with pytest.raises(InvalidValueError, match="not a saved predictor"):
        read("[]")
    with pytest.raises(InvalidValueError, match="not a saved predictor"):
        read("no json")
    del content["joint"]
    with pytest.raises(InvalidValueError, match="damaged"):
        read(json.dumps(content))


def test_without_the_extra_physics_stands_and_says_so(
    tasks: list[MeasuredTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    monkeypatch.setattr("lowjoule.prediction.boosted.find_spec", lambda _: None)
    found = predict(Predictor.fit(tasks), made(limit_and_batch(), 56))
    assert any("lowjoule[predict]" in note for note in found.notes)
    with pytest.raises(MissingExtraError, match=r"lowjoule\[predict\]"):
        Predictor.fit(tasks, Recipe(members=("boosted",)))


@needs_xgboost
def test_trees_keep_to_their_constraints_and_travel_as_json() -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(size=(400, 2))
    target = -table[:, 0] + 0.3 * rng.normal(size=400)
    trees = Trees.grow(table, target, np.ones(400), Growth(), (-1, 0))
    line = np.column_stack([np.linspace(0, 1, 50), np.full(50, 0.5)])
    assert (np.diff(trees(line)) <= 1e-9).all()
    again = Trees.read(trees.text())
    np.testing.assert_array_equal(again(table), trees(table))
    with pytest.raises(InvalidValueError, match="cannot be read"):
        Trees.read("{}")


@needs_xgboost
def test_a_predictor_with_trees_travels_as_json(tasks: list[MeasuredTask]) -> None:
    predictor = Predictor.fit(tasks, Recipe(members=("physics", "boosted")))
    again = read(text_of(predictor))
    task = made(limit_and_batch(), 57)
    np.testing.assert_array_equal(
        predict(predictor, task).profile.time_s, predict(again, task).profile.time_s
    )


def test_scores_are_of_rows_that_are_not_anchors(tasks: list[MeasuredTask]) -> None:
    scores = score(by_model(tasks)[:2], NO_TREES)
    assert [len(one.inside) for one in scores] == [32, 32]
    assert by_member(scores).shape == (2, 2)
    assert by_member(scores, "physics").mean() < 0.2
    assert all(0.0 <= share.min() <= share.max() <= 1.0 for share in coverage(scores).values())


def test_published_trainings_are_foretold(data: Path) -> None:
    scores = score(by_model(trainings(data)), NO_TREES)
    throughput, power = by_member(scores).mean(axis=0)
    assert throughput < 0.09
    assert power < 0.06


def test_a_default_that_draws_more_than_any_known_is_said(predictor: Predictor) -> None:
    found = predict(predictor, made(limit_and_batch(), 51))
    assert found.outside.all()
    assert any("power_of_the_default goes beyond" in note for note in found.notes)


def test_hyper_parameters_are_chosen_and_travel(tasks: list[MeasuredTask]) -> None:
    predictor = Predictor.fit(tasks, Recipe(trees=available()))
    assert predictor.recipe.neighbours in COUNTS
    assert predictor.recipe.growth in (GROWTHS if available() else (None,))
    again = read(text_of(predictor))
    assert again.recipe == predictor.recipe
    assert again.state.neighbours[0].count == predictor.recipe.neighbours
    fixed = Predictor.fit(tasks, Recipe(trees=False, neighbours=1))
    assert fixed.state.neighbours[0].count == 1


def test_a_split_that_shares_a_model_is_a_fault(
    tasks: list[MeasuredTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_row(models: list[str]) -> list[np.ndarray]:
        return [np.arange(1), np.arange(1, len(models))]

    twice = [*tasks, replace(tasks[0], name="again")]
    assert Predictor.fit(twice, NO_TREES)
    monkeypatch.setattr("lowjoule.prediction.training.folds", by_row)
    with pytest.raises(ValueError, match="is learned from and tried"):
        Predictor.fit(twice, NO_TREES)
