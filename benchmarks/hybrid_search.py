"""The offline-online hybrid on models that its predictor has not seen, beside other searches.

Run `python benchmarks/hybrid_search.py [--seeds N] [--write]`; needs the extras `bench` and
`predict`. The objective is the energy-delay sum with weight 0.5, from the default. Zeus traces are
replayed measurements, the four knobs are simulated. Anchors and repeats count as draws.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from constraint_search import bound_of
from data_root import data_root
from gaussian_search import GaussianSearch
from hill_climb import HillClimb
from hybrid_cases import (
    Case,
    Make,
    OfflineChoice,
    designed,
    hybrid,
    limit_alone,
    simulated,
    untaught,
    warm,
)
from lowjoule.errors import InfeasibleError
from lowjoule.objectives import EDS
from lowjoule.prediction import MeasuredTask, Predictor, Recipe, prior
from lowjoule.prediction.evaluation import Split, by_both, by_device, by_model
from lowjoule.tuning import (
    ExhaustiveSearch,
    HybridSearch,
    Knowledge,
    LinearSearch,
    Problem,
    RandomSearch,
    Search,
)
from lowjoule.tuning import hybrid as hybrid_module
from lowjoule.tuning import linear as linear_module
from lowjoule.tuning.belief import Scatter
from prediction_tasks import zeus
from recorded_tables import Table, run_search, smoothed, zeus_tables
from report import Report

NOISE = 0.015
OBJECTIVE = EDS(0.5)
HEADER = ["mean regret", "95th percentile", "worst", "draws", "at most"]


def peers(*, slow: bool = True) -> dict[str, Make]:
    """Return every search by its label; `slow` off leaves out the textbook Gaussian process."""
    found: dict[str, Make] = {
        "climb, two past a worse point": lambda p, _, __: HillClimb(p),
        "the same from 0.6 of the largest limit": lambda p, _, __: HillClimb(
            replace(p, start=warm(p.space))
        ),
        "linear": lambda p, _, __: LinearSearch(p),
        "random, 14 draws": lambda p, _, seed: RandomSearch(p, draws=14, seed=seed),
        "exhaustive, once": lambda p, _, __: ExhaustiveSearch(p),
        "offline choice, four anchors, verified": lambda p, case, _: OfflineChoice(p, case),
        "the same, then the linear search": lambda p, case, _: OfflineChoice(p, case, onwards=True),
        "hybrid, nothing learned": lambda p, case, _: untaught(p, case),
        "hybrid": lambda p, case, _: hybrid(p, case),
    }
    if slow:
        found["Gaussian process, expected improvement"] = lambda p, _, seed: GaussianSearch(
            p, draws=14, seed=seed
        )
    return found


def play(cases: Sequence[Case], make: Make, *, noise: float, seeds: int) -> np.ndarray:
    """Return regret, draws, and energy, time and EDS over the default's: (cases, seeds, 5)."""
    rows = []
    for case in cases:
        truth = case.table.objective(OBJECTIVE)
        best = min(truth.values())
        home = case.table.figures[case.table.space.default]
        for seed in range(seeds):
            search_of = partial(_made, make, case, seed)
            run = run_search(case.table, OBJECTIVE, search_of, noise=noise, seed=seed)
            time_s, energy_j = case.table.figures[run.chosen]
            value = truth[run.chosen]
            ratios = (energy_j / home[1], time_s / home[0], value)
            rows.append([value / best - 1.0, run.draws, *ratios])
    return np.array(rows).reshape(len(cases), seeds, 5)


def _made(make: Make, case: Case, seed: int, problem: Problem) -> Search:
    return make(problem, case, seed)


def cells(found: np.ndarray) -> list[str]:
    regret, draws = 100.0 * found[..., 0], found[..., 1]
    return [
        f"{regret.mean():.2f} %",
        f"{np.percentile(regret, 95):.2f} %",
        f"{regret.max():.2f} %",
        f"{draws.mean():.1f}",
        f"{draws.max():.0f}",
    ]


def cases_of(
    splits: Sequence[Split], tables: dict[str, Table], recipe: Recipe | None = None
) -> list[Case]:
    """Return a case for each tried task, its predictor fitted to the known ones."""
    found = []
    for split in splits:
        predictor = Predictor.fit(split.known, recipe)
        found += [Case(tables[one.name], one, predictor) for one in split.tried]
    return found


def on(cases: Sequence[Case], change: Callable[[Table], Table]) -> list[Case]:
    return [replace(one, table=change(one.table)) for one in cases]


def compared(
    report: Report, cases: list[Case], *, noise: float, seeds: int, slow: bool = True
) -> None:
    rows = [
        [label, *cells(play(cases, make, noise=noise, seeds=seeds))]
        for label, make in peers(slow=slow).items()
    ]
    report.table(["search", *HEADER], rows)


def each_table(report: Report, raw: list[Case], clean: list[Case], seeds: int) -> None:
    make = peers()["hybrid"]
    one, many = play(raw, make, noise=0.0, seeds=1), play(clean, make, noise=NOISE, seeds=seeds)
    rows = []
    for case, told, drawn in zip(raw, one, many, strict=True):
        mean = [f"{100 * drawn[:, 0].mean():.2f} %", f"{100 * drawn[:, 0].max():.2f} %"]
        cell = [f"{100 * told[0, 0]:.2f} %", f"{told[0, 1]:.0f}", *mean]
        rows.append([case.table.name, *cell, f"{drawn[:, 1].mean():.1f}"])
    report.table(["table", "regret as it is", "draws", "with noise: mean", "worst", "draws"], rows)


def figures(report: Report, groups: dict[str, list[Case]]) -> None:
    report.say("## (d) Energy, time and energy-delay sum against the default; tables as they are")
    report.say()
    chosen = ("offline choice, four anchors, verified", "linear", "hybrid", "exhaustive, once")
    for name, cases in groups.items():
        rows, gains = [], {}
        for label in chosen:
            found = play(cases, peers()[label], noise=0.0, seeds=1)
            ratios = 100.0 * (found[..., 2:].mean(axis=(0, 1)) - 1.0)
            gains[label] = ratios[2]
            rows.append([label, *(f"{one:+.2f} %" for one in ratios)])
        best = gains["exhaustive, once"]
        for row in rows:
            row.append(f"{100.0 * gains[row[0]] / best:.1f} %")
        report.say(f"{name}:")
        report.say()
        report.table(["search", "energy", "time", "EDS", "share of the best EDS gain"], rows)


def left_out(report: Report, groups: dict[str, list[Case]], seeds: int, change: Any) -> None:
    report.say("## (e) What the predictor has not seen")
    report.say()
    rows = []
    for name, cases in groups.items():
        for label in ("offline choice, four anchors, verified", "hybrid"):
            make = peers()[label]
            clean = play(on(cases, change), make, noise=NOISE, seeds=seeds)
            alone = play(on(cases, limit_alone), make, noise=0.0, seeds=1)
            raw = play(cases, make, noise=0.0, seeds=1)
            rows.append([f"{name}: {label}", *cells(raw), *cells(clean)[:4], *cells(alone)[:4]])
    cases = groups["a model"]
    make = peers()["hybrid, nothing learned"]
    clean = play(on(cases, change), make, noise=NOISE, seeds=seeds)
    alone = play(on(cases, limit_alone), make, noise=0.0, seeds=1)
    raw = play(cases, make, noise=0.0, seeds=1)
    rows.append(["everything: hybrid", *cells(raw), *cells(clean)[:4], *cells(alone)[:4]])
    short = ["mean", "95th", "worst", "draws"]
    head = [*HEADER, *(f"noise: {one}" for one in short), *(f"limit: {one}" for one in short)]
    report.table(["left out", *head], rows)


RECIPES = {
    "physics + Gaussian process": Recipe(members=("physics", "gaussian")),
    "physics + neighbours (KNN)": Recipe(members=("neighbours",)),
    "physics + XGBoost": Recipe(members=("boosted",), neighbour_feature=False),
    "physics + KNN-XGBoost": Recipe(members=("boosted",)),
    "no physics: Gaussian process": Recipe(members=("gaussian",), baseline=False),
    "no physics: KNN": Recipe(members=("neighbours",), baseline=False),
    "no physics: XGBoost": Recipe(members=("boosted",), baseline=False, neighbour_feature=False),
    "no physics: KNN-XGBoost": Recipe(members=("boosted",), baseline=False),
}


def ablation(report: Report, splits: list[Split], tables: dict[str, Table], seeds: int) -> None:
    report.say(f"## (f) What each part is worth (model left out, smooth, noise, {seeds} seeds)")
    report.say()
    rows = []
    for label, recipe in RECIPES.items():
        cases = cases_of(splits, tables, recipe)
        for onwards in (False, True):
            found = play(
                cases,
                lambda p, case, _, o=onwards: OfflineChoice(p, case, onwards=o),  # type: ignore[misc]
                noise=NOISE,
                seeds=seeds,
            )
            stage = "and then the linear search" if onwards else "offline alone"
            rows.append([label, stage, *cells(found)])
    cases = cases_of(splits, tables, Recipe(trees=False))
    parts: dict[str, Make] = {
        "hybrid: learned belief alone": lambda p, case, _: _alone(p, case, 1),
        "hybrid: generic belief alone": lambda p, case, _: untaught(p, case),
        "hybrid: both": lambda p, case, _: hybrid(p, case),
    }
    for label, make in parts.items():
        rows.append([label, "online", *cells(play(cases, make, noise=NOISE, seeds=seeds))])
    report.table(["part", "stage", *HEADER], rows)
    report.say(
        "The offline choice is that of four anchors, measured before it is believed. The hybrid "
        "conditions physics and Gaussian process on every draw; trees and neighbours take no part."
    )
    report.say()


def _alone(problem: Problem, case: Case, place: int) -> Search:
    class Alone(Knowledge):
        def priors(self, space: Any) -> Any:
            return super().priors(space)[place:]

    return HybridSearch(problem, Alone(device=case.task.device, predictor=case.predictor))


@contextmanager
def changed(owner: Any, name: str, value: object) -> Iterator[None]:
    """Change a constant of a module for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def sensitivity(report: Report, clean: list[Case], raw: list[Case], seeds: int) -> None:
    report.say(f"## (g) Half and one and a half times each constant ({seeds} seeds)")
    report.say()
    alone = on(raw, limit_alone)

    def row(label: str, value: str, **options: object) -> None:
        make: Make = lambda p, case, _: hybrid(p, case, **options)  # noqa: E731
        found = [play(clean, make, noise=NOISE, seeds=seeds)]
        found += [play(some, make, noise=0.0, seeds=1) for some in (raw, alone)]
        rows.append([label, value, *cells(found[0]), *cells(found[1])[:4], *cells(found[2])[:4]])

    rows: list[list[str]] = []
    row("as it is", "")
    for factor in (0.5, 1.5):
        row("smallest_gain", f"{0.001 * factor:g}", smallest_gain=0.001 * factor)
        value = Scatter().noise_sd * factor
        row("noise_sd", f"{value:.3g}", scatter=Scatter(noise_sd=value))
        value = 1.0 + (Scatter().doubt - 1.0) * factor
        row("doubt", f"{value:.3g}", scatter=Scatter(doubt=value))
        with changed(prior, "LEFT", prior.LEFT * factor):
            row("LEFT", f"{prior.LEFT:.3g}")
        value = 1.0 + (linear_module.CLOSE_WORTH - 1.0) * factor
        with changed(hybrid_module, "CLOSE_WORTH", value):
            row("CLOSE_WORTH", f"{value:.3g}")
        row("draws at most", f"{round(14 * factor)}", max_draws=round(14 * factor))
    short = ["mean", "95th", "worst", "draws"]
    head = [*HEADER, *(f"as it is: {one}" for one in short), *(f"limit: {one}" for one in short)]
    report.table(["constant", "value", *head], rows)


def four_knobs(report: Report) -> None:
    report.say("## (h) Limit, SM clock, memory clock and batch size together (simulated)")
    report.say()
    pairs = [(table, task) for table, task in simulated() if len(table.space) >= 2000]
    tables = {table.name: table for table, _ in pairs}
    tasks = [task for _, task in pairs]
    small = {one.name: one for one in designed(tasks)}
    splits = [
        Split(tuple(small[one.name] for one in split.known), split.tried)
        for split in by_model(tasks)
    ]
    cases = cases_of(splits, tables, Recipe(trees=False))
    rows, by_work = [], {}
    makes: dict[str, Make] = {
        "linear, at most 12 draws": lambda p, _, __: LinearSearch(p, max_draws=12),
        "linear": lambda p, _, __: LinearSearch(p),
        "hybrid, nothing learned, at most 12": lambda p, case, _: HybridSearch(
            p, Knowledge(device=case.task.device), max_draws=12
        ),
        "hybrid, at most 12": lambda p, case, _: hybrid(p, case, max_draws=12),
    }
    for label, make in makes.items():
        found = play(cases, make, noise=NOISE, seeds=1)
        rows.append([label, *cells(found)])
        by_work[label] = found
    sizes = [len(table.space) for table in tables.values()]
    report.say(
        f"{len(cases)} tables ({len(splits)} workloads, each left out; 6 GPUs) of "
        f"{min(sizes):,} to {max(sizes):,} settings, 1.5 % noise; "
        "200 settings of each known task are learned from. "
        "The simulation follows physics of the same form as the baseline, which flatters it."
    )
    report.say()
    report.table(["search", *HEADER], rows)


def constraints(report: Report, clean: list[Case], seeds: int) -> None:
    report.say(f"## (j) Constraints (smooth, noise, {seeds} seeds)")
    report.say()
    rows = []
    for kind in ("slowdown 0", "slowdown 2", "slowdown 5", "slowdown 10", "power 60"):
        for label in ("linear", "hybrid"):
            found = [one for case in clean for one in _bounded(case, peers()[label], kind, seeds)]
            table = np.array(found)
            broken = table[:, 0] > 0
            by = table[broken, 0].mean() if broken.any() else 0.0
            cell = [f"{100 * broken.mean():.1f} %", f"{100 * by:.2f} %"]
            cell += [f"{100 * table[:, 1].mean():.2f} %", f"{100 * table[:, 1].max():.2f} %"]
            rows.append([f"{kind} %", label, *cell, f"{np.nanmean(table[:, 2]):.1f}"])
    report.table(["bound", "search", "broken", "mean by", "mean regret", "worst", "draws"], rows)


def _bounded(case: Case, make: Make, kind: str, seeds: int) -> list[tuple[float, float, float]]:
    bound = bound_of(kind, case.table)
    excess = bound.excess(case.table.outcome, case.table.baseline).tolist()
    kept = dict(zip(case.table.space.settings, excess, strict=True))
    values = case.table.objective(OBJECTIVE)
    feasible = [values[one] for one, by in kept.items() if by <= 0]
    rows = []
    for seed in range(seeds if feasible else 0):
        search_of = partial(_made, make, case, seed)
        try:
            run = run_search(
                case.table, OBJECTIVE, search_of, constraints=(bound,), noise=NOISE, seed=seed
            )
        except InfeasibleError:
            rows.append((0.0, 0.0, np.nan))
            continue
        by = max(0.0, kept[run.chosen])
        regret = 0.0 if by > 0 else values[run.chosen] / min(feasible) - 1.0
        rows.append((by, regret, float(run.draws)))
    return rows


def speed(report: Report, raw: list[Case]) -> None:
    report.say("## (i) CPU time of conditioning on everything told and choosing what is next")
    report.say()
    small = max(raw, key=lambda one: len(one.table.space))
    pairs = simulated()
    table, task = max(pairs, key=lambda one: len(one[0].space))
    large = Case(table, task, small.predictor)
    for case in (small, large):
        spent: list[float] = []
        run_search(case.table, OBJECTIVE, partial(_timed, case, spent), noise=NOISE)
        report.say(
            f"- {len(case.table.space):,} settings: {1000 * np.mean(spent):.0f} ms on average, "
            f"{1000 * max(spent):.0f} ms at most, over {len(spent)} draws"
        )
    report.say()


def _timed(case: Case, spent: list[float], problem: Problem) -> Search:
    class Timed(HybridSearch):
        def ask(self) -> Any:
            start = time.process_time()
            try:
                return super().ask()
            finally:
                spent.append(time.process_time() - start)

    return Timed(problem, Knowledge(device=case.task.device, predictor=case.predictor))


def zeus_parts(report: Report, root: Path, seeds: int) -> None:
    tasks: list[MeasuredTask] = zeus(root)
    tables = {one.name: one for one in zeus_tables(root)}
    clean_of = {one.name: one for one in smoothed(list(tables.values()))}

    def smooth(table: Table) -> Table:
        return clean_of[table.name]

    splits = by_model(tasks)
    raw = cases_of(splits, tables)
    clean, few = on(raw, smooth), max(1, seeds // 4)
    report.say("## (a) The 18 tables as they are (limit x batch size), a model left out")
    report.say()
    compared(report, raw, noise=0.0, seeds=1)
    report.say(f"## (b) Smooth surfaces, 1.5 % noise on each draw, {seeds} seeds")
    report.say()
    compared(report, clean, noise=NOISE, seeds=seeds, slow=False)
    textbook = {"Gaussian process, expected improvement": peers()}
    found = [
        [label, *cells(play(clean, made[label], noise=NOISE, seeds=few))]
        for label, made in textbook.items()
    ]
    report.table([f"search, {few} seeds", *HEADER], found)
    each_table(report, raw, clean, seeds)
    report.say("## (c) The limit alone, at the default batch, as it is")
    report.say()
    compared(report, on(raw, limit_alone), noise=0.0, seeds=1)
    report.say(f"The same, smooth and with noise, {seeds} seeds:")
    report.say()
    compared(report, on(clean, limit_alone), noise=NOISE, seeds=seeds, slow=False)
    figures(report, {"Limit and batch size": raw, "Limit alone": on(raw, limit_alone)})
    groups = {
        "a model": raw,
        "a GPU": cases_of(by_device(tasks), tables),
        "a model and a GPU": cases_of(by_both(tasks), tables),
    }
    left_out(report, groups, few, smooth)
    ablation(report, splits, clean_of, few)
    sensitivity(report, clean, raw, few)
    constraints(report, clean, few)
    speed(report, raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="keep the result")
    options = parser.parse_args()
    root = data_root()
    if root is None:
        raise SystemExit("no measurements here: set LOWJOULE_DATA to their folder")
    report = Report("hybrid_search", "The offline-online hybrid (replayed and simulated)")
    zeus_parts(report, root, options.seeds)
    four_knobs(report)
    if options.write:
        print(f"written to {report.write()}")


if __name__ == "__main__":
    main()
