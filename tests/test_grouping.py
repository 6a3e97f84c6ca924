"""Which tasks are one model, and splits that share none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowjoule.errors import InvalidValueError
from lowjoule.prediction import MeasuredTask
from lowjoule.prediction.evaluation import by_both, by_model
from lowjoule.prediction.grouping import grouped, matched, models, parts_of
from lowjoule.prediction.selection import usable
from lowjoule.workloads import Workload
from prediction_made import limit_and_batch, made


def named(name: str, seed: int = 0, model: str | None = None) -> MeasuredTask:
    task = made(limit_and_batch(), seed)
    return replace(task, name=name, workload=Workload(name=name, model=model))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["squad/bert_base", "sst2/BERT-base", "cifar/resnet"], ["bert-base"] * 2 + ["resnet"]),
        (["sort#2", "sort", "scan"], ["sort", "sort", "scan"]),
        (["stage0/forward", "stage0/backward", "stage1/forward"], ["forward"] * 3),
        # a chain of shared parts is one model: too many together, never one apart
        (["a/b", "b/c", "c/d", "e"], ["c", "c", "c", "e"]),
    ],
)
def test_names_that_share_a_part_are_one_model(names: list[str], expected: list[str]) -> None:
    found = models([parts_of(name) for name in names])
    same = [[one == other for other in found] for one in found]
    assert same == [[one == other for other in expected] for one in expected]


def test_a_pattern_says_it_exactly() -> None:
    tasks = [named("imagenet/vit"), named("imagenet/resnet"), named("cifar/resnet")]
    assert [one.model for one in grouped(tasks, r"/(\w+)$")] == ["vit", "resnet", "resnet"]
    assert len({one.model for one in grouped(tasks)}) == 1
    with pytest.raises(InvalidValueError, match="finds no model"):
        matched("plain", r"/(\w+)$")
    with pytest.raises(InvalidValueError, match="no regular expression"):
        matched("plain", "(")


def test_a_workload_that_says_its_model_is_believed() -> None:
    tasks = [named("imagenet/vit", model="vit"), named("imagenet/resnet", model="resnet")]
    assert [one.model for one in grouped(tasks)] == ["vit", "resnet"]


def test_no_split_shares_a_model() -> None:
    names = ["squad/bert", "sst2/bert", "cifar/resnet", "imagenet/resnet", "ml/ncf"]
    tasks = grouped([named(name, seed) for seed, name in enumerate(names)])
    splits = [*by_model(tasks), *by_both(tasks)]
    assert len(by_model(tasks)) == 3
    for split in splits:
        known = {one.model for one in split.known}
        assert not known & {one.model for one in split.tried}
        parts = {p for one in split.known for p in parts_of(str(one.name))}
        assert not parts & {p for one in split.tried for p in parts_of(str(one.name))}


def test_other_knobs_are_held_at_the_default_and_the_rest_is_said() -> None:
    task = made(limit_and_batch(), 0)
    few = replace(task, name="few", profile=task.profile.take(slice(0, 2)))
    found, reasons = usable([task, few])
    assert [one.name for one in found] == [task.name]
    assert "few is left out" in reasons[0]
