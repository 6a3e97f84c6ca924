"""Searches tried on measured tasks: what they know, what they pay, what they are compared by."""

from __future__ import annotations

import numpy as np
import pytest

from lowjoule.errors import InvalidValueError
from lowjoule.knobs import Setting
from lowjoule.objectives import EDS, parse_objective
from lowjoule.prediction import Recipe
from lowjoule.prediction.evaluation import by_model
from lowjoule.reports.evaluation import EvaluationReport
from lowjoule.tuning import ExhaustiveSearch, JustInTime, LinearSearch, Observation
from lowjoule.tuning.evaluation import DEFAULT, OFFLINE, Contest, evaluate, summary
from lowjoule.tuning.rehearsal import Stage
from lowjoule.tuning.search import Problem, Recommendation
from prediction_made import limit_and_batch, made, several


@pytest.fixture(scope="module")
def stage() -> Stage:
    return Stage.of(made(limit_and_batch(), 3), EDS(0.5))


def test_the_default_saves_nothing_and_its_regret_is_the_distance_to_the_best(stage: Stage) -> None:
    found = stage.judge(stage.space.default, [stage.space.default])
    assert found.gain == 0.0
    assert found.net_energy == pytest.approx(0.0)
    best = stage.figures[:, 2].min()
    assert found.regret == pytest.approx(stage.figures[stage.home, 2] / best - 1.0)


def test_every_setting_tried_is_paid_for(stage: Stage) -> None:
    best = stage.settings[int(np.argmin(stage.figures[:, 2]))]
    worst = stage.settings[int(np.argmax(stage.figures[:, 2]))]
    cheap, dear = stage.judge(best, [best]), stage.judge(best, [best, worst, worst])
    assert cheap.regret == dear.regret == 0.0
    assert dear.net_gain < cheap.net_gain <= cheap.gain + 1e-12
    row = stage.settings.index(worst)
    share = stage.figures[stage.home, 0] / stage.figures[row, 0]
    base, chosen = stage.figures[stage.home, 1], stage.figures[stage.settings.index(best), 1]
    first = stage.figures[stage.home, 0] / stage.figures[stage.settings.index(best), 0]
    spent = first * chosen + 2 * share * stage.figures[row, 1]
    left = stage.job_trials - first - 2 * share
    assert dear.net_energy == pytest.approx(1 - (spent + left * chosen) / (stage.job_trials * base))


def test_an_exhaustive_search_regrets_nothing(stage: Stage) -> None:
    found = stage.rehearse(ExhaustiveSearch)
    assert found.trials == len(stage.settings)
    assert found.regret == pytest.approx(0.0)
    assert found.net_gain < found.gain


def test_a_search_has_so_many_trials_and_no_more(stage: Stage) -> None:
    assert stage.rehearse(ExhaustiveSearch, trials=5).trials == 5
    assert stage.rehearse(LinearSearch, trials=3).trials == 3


class Watching:
    """A search that keeps what it was told."""

    def __init__(self, problem: Problem) -> None:
        self.told: list[Observation] = []
        self._left = [s for s in problem.space.settings if s != problem.default][:4]
        self._home = problem.default

    def ask(self) -> Setting | None:
        return self._left.pop() if self._left else None

    def tell(self, observation: Observation) -> None:
        self.told.append(observation)

    def recommend(self) -> Recommendation:
        return Recommendation(
            setting=self._home, time_s=1.0, energy_j=1.0, objective=1.0, uncertainty=None
        )


def test_a_search_is_told_the_table_with_noise_where_asked(stage: Stage) -> None:
    watching: list[Watching] = []

    def make(problem: Problem) -> Watching:
        watching.append(Watching(problem))
        return watching[-1]

    for noise in (0.0, 0.02):
        stage.rehearse(make, noise=noise, seed=1)
    plain, noisy = (one.told for one in watching)
    assert [one.asked for one in plain] == [one.asked for one in noisy]
    rows = [stage.settings.index(one.asked) for one in plain]
    times = [np.array([one.time_s for one in told], dtype=np.float64) for told in (plain, noisy)]
    np.testing.assert_allclose(times[0], stage.figures[rows, 0])
    off = times[1] / stage.figures[rows, 0] - 1.0
    assert 0.0 < np.abs(off).max() < 0.1


def test_a_maximised_objective_has_a_regret_of_at_least_nothing() -> None:
    stage = Stage.of(made(limit_and_batch(), 3), parse_objective("throughput"))
    found = [stage.judge(one, [one]).regret for one in stage.settings]
    assert min(found) == 0.0
    assert max(found) > 0.0


def test_a_job_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="job of 0 trials"):
        Stage.of(made(limit_and_batch(), 3), EDS(0.5), 0.0)


def test_an_evaluation_covers_every_task_and_every_way() -> None:
    tasks = several(4)
    contest = Contest(
        objective=EDS(0.5),
        searches={
            "linear": lambda problem, predictor, task: LinearSearch(problem),
            "refusing": lambda problem, predictor, task: JustInTime(problem),
        },
        trials=6,
    )
    seen = []
    found = evaluate(
        by_model(tasks),
        contest,
        recipe=Recipe(trees=False),
        on_split=lambda place, split: seen.append((place, len(split.tried))),
    )
    assert seen == [(place, 1) for place in range(4)]
    assert found.ways() == (DEFAULT, OFFLINE, "linear")
    assert "refusing" in found.refused
    assert all(len(results) == len(found.scores) == 4 for results in found.rehearsals.values())
    assert max(one.trials for one in found.rehearsals["linear"]) <= 6
    assert found.groups == 3
    report = EvaluationReport(found=found, contest=contest, left_out="a model")
    told = report.to_dict()
    assert report.most == 0.75
    means = [one.errors["prediction"] for one in found.scores]
    expected = np.mean([np.abs(one).mean(axis=0) for one in means], axis=0)
    assert told["errors"]["throughput"]["mean"] == pytest.approx(expected[0])  # type: ignore[index]
    page = report.page().html()
    assert page.count("<svg") == 3
    assert "linear" in page


def test_a_summary_is_of_all_values() -> None:
    assert summary([1.0, 2.0, 3.0, 10.0]) == {
        "mean": 4.0,
        "median": 2.5,
        "p90": pytest.approx(7.9),
        "worst": 10.0,
    }
