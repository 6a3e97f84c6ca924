"""How well predictions and searches do on models never seen: tables, pictures, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.prediction.evaluation import Scored
from lowjoule.prediction.intervals import FIGURES
from lowjoule.profile.provenance import weakest
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.listing import Listing
from lowjoule.reports.page import Page
from lowjoule.source import Source
from lowjoule.tuning.evaluation import DEFAULT, Contest, Evaluation, summary
from lowjoule.tuning.rehearsal import Rehearsal

Floats = NDArray[np.float64]

ERRORS = ("throughput", "power")
_GAINS = ("gain", "net_gain", "net_energy", "net_time")
_STEPS = 60  # points of a drawn distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """An evaluation with what it was made under; `left_out` is what no predictor had seen."""

    found: Evaluation
    contest: Contest
    left_out: str
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """What all figures must be called by."""
        return weakest(one.task.profile.source for one in self.found.scores)

    @property
    def title(self) -> str:
        """What was evaluated."""
        return f"{len(self.found.scores)} tasks, {self.left_out} left out"

    @property
    def most(self) -> float:
        """The coverage that the models behind the intervals can promise at most."""
        return self.found.groups / (self.found.groups + 1.0)

    def by_model(self) -> dict[str, list[Scored]]:
        """Return the scores of each model."""
        found: dict[str, list[Scored]] = {}
        for one in self.found.scores:
            found.setdefault(one.task.model, []).append(one)
        return dict(sorted(found.items()))

    def errors(self) -> dict[str, dict[str, float]]:
        """Return the error of throughput and power, relative: mean, median, p90, worst.

        The mean is of the tasks' means, so that a task with many settings does not count for them.
        """
        found = {}
        for place, name in enumerate(ERRORS):
            each = [np.abs(one.errors["prediction"][:, place]) for one in self.found.scores]
            found[name] = summary(np.concatenate(each).tolist())
            found[name]["mean"] = float(np.mean([one.mean() for one in each]))
        return found

    def coverage(self) -> dict[str, dict[str, object]]:
        """Return the share of settings inside each interval, the worst model's, and the half-width.

        Shares are means over tasks; the half-width is relative, the median over settings.
        """
        models = self.by_model()
        found: dict[str, dict[str, object]] = {}
        for place, name in enumerate(FIGURES):
            shares = {m: _share(own, place) for m, own in models.items()}
            worst = min(shares, key=lambda one: shares[one])
            width = np.concatenate([one.width[:, place] for one in self.found.scores])
            found[name] = {
                "mean": _share(self.found.scores, place),
                "worst": shares[worst],
                "worst_model": worst,
                "half_width": float(np.expm1(np.median(width))),
            }
        return found

    def ways(self) -> dict[str, dict[str, object]]:
        """Return what each way to choose came to, over all tasks."""
        return {
            name: {"trials": way.trials, "regret": way.regret, **way.gains}
            for name, way in self._ways().items()
        }

    def _ways(self) -> dict[str, _Way]:
        return {name: _Way.of(results) for name, results in self.found.rehearsals.items()}

    def sentences(self) -> list[str]:
        """Return the report in words."""
        errors, inside = self.errors(), self.coverage()
        told = {len(one.anchors) for one in self.found.scores}
        anchors = f"{min(told)}" if len(told) == 1 else f"{min(told)} to {max(told)}"
        return [
            f"{len(self.found.scores)} tasks of {len(self.by_model())} models, "
            f"{self.left_out} left out; {anchors} anchors each, which are not scored.",
            f"Error of throughput {errors['throughput']['mean']:.1%} on average, of power "
            f"{errors['power']['mean']:.1%}.",
            f"Inside the {self.found.level:.0%} interval: "
            + ", ".join(f"{name} {one['mean']:.1%}" for name, one in inside.items())
            + f"; at least {self.found.groups} models are behind it, which can promise "
            f"{self.most:.0%} at most.",
            f"Searches had {self.contest.trials} trials at most"
            + (f" ({', '.join(sorted(self.contest.whole))}: all)" if self.contest.whole else "")
            + f"; a job is {self.contest.job_trials:g} trials' work.",
            *(f"Note: {one}." for one in self.notes),
        ]

    def accuracy(self) -> Listing:
        """Return the errors and the coverage of predictions, a row a figure."""
        rows = [
            (name, *(f"{one[key]:.1%}" for key in ("mean", "median", "p90", "worst")))
            for name, one in self.errors().items()
        ]
        return Listing(
            title=f"{self.source.value.upper()}: error of predictions, {self.title}",
            columns=("error of", "mean", "median", "90th percentile", "worst"),
            rows=tuple(rows),
            numbers=frozenset(("mean", "median", "90th percentile", "worst")),
        )

    def intervals(self) -> Listing:
        """Return how the intervals did, a row a figure."""
        columns = ("interval of", "inside", "worst model", "of it inside", "half-width")
        rows = [
            (
                name,
                f"{one['mean']:.1%}",
                str(one["worst_model"]),
                f"{one['worst']:.1%}",
                f"{one['half_width']:.1%}",
            )
            for name, one in self.coverage().items()
        ]
        return Listing(
            title=f"{self.source.value.upper()}: {self.found.level:.0%} intervals",
            columns=columns,
            rows=tuple(rows),
            numbers=frozenset((columns[1], *columns[3:])),
        )

    def searches(self) -> Listing:
        """Return what each way to choose came to, a row a way."""
        columns = ("way", "trials", "regret", "90th", "worst", "gain", "net", "energy", "time")
        rows = [
            (
                name,
                f"{way.trials:.1f}",
                *(f"{way.regret[key]:.2%}" for key in ("mean", "p90", "worst")),
                *(f"{value:.1%}" for value in way.gains.values()),
            )
            for name, way in self._ways().items()
        ]
        return Listing(
            title=f"{self.source.value.upper()}: {self.contest.objective.name} at equal trials; "
            "gain against the default, net of the trials; energy and time saved, net",
            columns=columns,
            rows=tuple(rows),
            numbers=frozenset(columns[1:]),
        )

    def models(self) -> Listing:
        """Return every model: errors, coverage and mean regret of each way."""
        ways = [name for name in self.found.ways() if name != DEFAULT]
        columns = ("model", "tasks", "throughput", "power", "inside", *ways)
        places = {id(one): place for place, one in enumerate(self.found.scores)}
        rows = []
        for model, own in self.by_model().items():
            means = np.mean([np.abs(o.errors["prediction"]).mean(axis=0) for o in own], axis=0)
            inside = np.mean([o.inside.mean() for o in own])
            regrets = [
                np.mean([self.found.rehearsals[way][places[id(o)]].regret for o in own])
                for way in ways
            ]
            rows.append(
                (
                    model,
                    str(len(own)),
                    *(f"{mean:.1%}" for mean in means),
                    f"{inside:.0%}",
                    *(f"{regret:.2%}" for regret in regrets),
                )
            )
        return Listing(
            title="Model by model: error, share inside the intervals, regret",
            columns=columns,
            rows=tuple(rows),
            numbers=frozenset(columns[1:]),
        )

    def tasks(self) -> Listing:
        """Return every task: its errors, its coverage and the regret of each way."""
        ways = [name for name in self.found.ways() if name != DEFAULT]
        columns = ("task", "model", "settings", "throughput", "power", "inside", *ways)
        rows = []
        for place, one in enumerate(self.found.scores):
            means = np.abs(one.errors["prediction"]).mean(axis=0)
            rows.append(
                (
                    one.task.name,
                    one.task.model,
                    str(len(one.task.profile)),
                    *(f"{mean:.1%}" for mean in means),
                    f"{one.inside.mean():.0%}",
                    *(f"{self.found.rehearsals[way][place].regret:.2%}" for way in ways),
                )
            )
        return Listing(
            title="Task by task: error, share inside the intervals, regret",
            columns=columns,
            rows=tuple(rows),
            numbers=frozenset(columns[2:]),
        )

    def figures(self) -> tuple[Figure, ...]:
        """Return the pictures: how large errors are, how often intervals held, regrets."""
        return (self._distribution(), self._held(), self._regrets())

    def _distribution(self) -> Figure:
        shares = np.linspace(0.0, 1.0, _STEPS + 1)
        series = []
        for place, role in ((0, Role.LINE), (1, Role.SECOND)):
            every = [np.abs(one.errors["prediction"][:, place]) for one in self.found.scores]
            values = np.quantile(np.concatenate(every), shares)
            series.append(Series(name=ERRORS[place], role=role, x=100 * values, y=100 * shares))
        return Figure(
            title=f"How large errors are: {self.title}",
            description="Share of settings never measured whose throughput and power were "
            "predicted with at most so much error.",
            source=self.source,
            x=Axis.over("error", np.concatenate([one.x for one in series]), "%"),
            y=Axis.over("share of settings", 100 * shares, "%"),
            series=tuple(series),
        )

    def _held(self) -> Figure:
        series = []
        for place, role in ((0, Role.CHOSEN), (1, Role.ANCHOR), (2, Role.POINTS)):
            models = self.by_model()
            width = [
                np.median([np.median(o.width[:, place]) for o in own]) for own in models.values()
            ]
            share = np.array([100 * _share(own, place) for own in models.values()])
            series.append(
                Series(
                    name=FIGURES[place],
                    role=role,
                    x=100 * np.expm1(np.array(width)),
                    y=share,
                    hovers=tuple(models),
                )
            )
        asked = np.array([100 * self.found.level] * 2)
        x = Axis.over("half-width of the interval", np.concatenate([s.x for s in series]), "%")
        line = Series(name="asked", role=Role.SECOND, x=np.array([x.low, x.high]), y=asked)
        return Figure(
            title=f"How often intervals held, model by model: {self.title}",
            description="Share of a model's settings inside their intervals over the intervals' "
            "half-width; the line is the share that was asked for.",
            source=self.source,
            x=x,
            y=Axis.over("inside", np.concatenate([s.y for s in (*series, line)]), "%"),
            series=(line, *series),
        )

    def _regrets(self) -> Figure:
        ways = [name for name in self.found.ways() if name != DEFAULT]
        every = {way: [100 * one.regret for one in self.found.rehearsals[way]] for way in ways}
        points = Series(
            name="a task",
            role=Role.POINTS,
            x=np.repeat(np.arange(len(ways), dtype=np.float64), len(self.found.scores)),
            y=np.concatenate([np.array(one) for one in every.values()]),
            hovers=tuple(one.task.name for _ in ways for one in self.found.scores),
        )
        means = Series(
            name="mean",
            role=Role.CHOSEN,
            x=np.arange(len(ways), dtype=np.float64),
            y=np.array([np.mean(one) for one in every.values()]),
        )
        return Figure(
            title=f"Regret by {self.contest.objective.name}: {self.title}",
            description="How far above the best measured setting each way to choose ended, task by "
            "task and on average.",
            source=self.source,
            x=Axis.named("way to choose", ways),
            y=Axis.over("regret", points.y, "%"),
            series=(points, means),
        )

    def page(self) -> Page:
        """Return the report as a page."""
        return Page(
            title=f"Evaluation of {self.title}",
            source=self.source,
            sentences=self.sentences(),
            figures=self.figures(),
            listings=(self.accuracy(), self.intervals(), self.searches(), self.tasks()),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, version 1; shares and relative figures as ratios."""
        return {
            "version": 1,
            "source": self.source.value,
            "left_out": self.left_out,
            "objective": self.contest.objective.name,
            "trials": self.contest.trials,
            "job_trials": self.contest.job_trials,
            "noise": self.contest.noise,
            "level": self.found.level,
            "groups": self.found.groups,
            "most": self.most,
            "errors": self.errors(),
            "coverage": self.coverage(),
            "ways": self.ways(),
            "tasks": [self._task(place) for place in range(len(self.found.scores))],
            "notes": list(self.notes),
        }

    def _task(self, place: int) -> dict[str, object]:
        one = self.found.scores[place]
        means = np.abs(one.errors["prediction"]).mean(axis=0)
        return {
            "name": one.task.name,
            "model": one.task.model,
            "device": one.task.device.model,
            "settings": len(one.task.profile),
            "anchors": [dict(setting) for setting in one.anchors],
            "errors": dict(zip(ERRORS, means.tolist(), strict=True)),
            "coverage": dict(zip(FIGURES, one.inside.mean(axis=0).tolist(), strict=True)),
            "ways": {
                name: {
                    "chosen": dict(results[place].chosen),
                    "trials": results[place].trials,
                    "regret": results[place].regret,
                    **{gain: getattr(results[place], gain) for gain in _GAINS},
                }
                for name, results in self.found.rehearsals.items()
            },
        }


def _share(scores: Sequence[Scored], figure: int) -> float:
    return float(np.mean([one.inside[:, figure].mean() for one in scores]))


@dataclass(frozen=True, slots=True)
class _Way:
    """What a way to choose came to over all tasks: means, and the summary of its regrets."""

    trials: float
    regret: dict[str, float]
    gains: dict[str, float]

    @classmethod
    def of(cls, results: Sequence[Rehearsal]) -> _Way:
        return cls(
            trials=float(np.mean([one.trials for one in results])),
            regret=summary([one.regret for one in results]),
            gains={n: float(np.mean([getattr(one, n) for one in results])) for n in _GAINS},
        )
