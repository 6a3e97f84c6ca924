"""Searches under constraints on the 18 (GPU, workload) tables of the Zeus traces.

Run `python benchmarks/constraint_search.py [--seeds N] [--write]`. Scored on the true table: how
often the chosen setting breaks the bound, by how much, and its regret against the best setting
that keeps it (0 where it is broken). Every figure is of replayed measurements.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from data_root import needed_root
from lowjoule.errors import InfeasibleError
from lowjoule.knobs import POWER_LIMIT
from lowjoule.objectives import EDS, Energy, Power, Slowdown
from lowjoule.objectives.objective import Constraint, Objective
from lowjoule.tuning.exhaustive import ExhaustiveSearch
from lowjoule.tuning.linear import LinearSearch
from lowjoule.tuning.search import Problem, Search
from recorded_tables import Table, run_search, smoothed, zeus_tables
from report import Report

NOISE = 0.015
SEARCHES = {"linear": LinearSearch, "exhaustive once": ExhaustiveSearch}
Row = tuple[float, float, float, float]


def search_of(name: str, problem: Problem) -> Search:
    made: Search = SEARCHES[name](problem)
    return made


def bound_of(kind: str, table: Table) -> Constraint:
    """Return the constraint: a slowdown in per cent, or a share of the largest limit."""
    name, ratio = kind.split()
    if name == "slowdown":
        return Slowdown(float(ratio) / 100.0)
    return Power(float(ratio) / 100.0 * float(table.space.knob(POWER_LIMIT).values[-1]))


def score(
    table: Table, *, name: str, objective: Objective, kind: str, noise: float, seeds: int
) -> list[Row]:
    """Return (broken by, regret, draws, refused) of each seed."""
    bound = bound_of(kind, table)
    excess = bound.excess(table.outcome, table.baseline)
    values = table.objective(objective)
    kept = dict(zip(table.space.settings, excess.tolist(), strict=True))
    feasible = [values[one] for one, by in kept.items() if by <= 0]
    rows: list[Row] = []
    for seed in range(seeds if feasible else 0):
        try:
            run = run_search(
                table,
                objective,
                partial(search_of, name),
                constraints=(bound,),
                noise=noise,
                seed=seed,
            )
        except InfeasibleError:
            rows.append((0.0, 0.0, np.nan, 1.0))
            continue
        by = max(0.0, kept[run.chosen])
        regret = 0.0 if by > 0 else values[run.chosen] / min(feasible) - 1.0
        rows.append((by, regret, float(run.draws), 0.0))
    return rows


def part(
    report: Report,
    pool: ProcessPoolExecutor,
    tables: list[Table],
    *,
    objectives: list[Objective],
    noise: float,
    seeds: int,
) -> None:
    table = []
    for objective in objectives:
        for kind in ("slowdown 0", "slowdown 2", "slowdown 5", "slowdown 10", "power 60"):
            for name in SEARCHES:
                one = partial(
                    score, name=name, objective=objective, kind=kind, noise=noise, seeds=seeds
                )
                rows = np.array([row for rows in pool.map(one, tables) for row in rows])
                broken = rows[:, 0] > 0
                cells = [
                    f"{100 * broken.mean():.1f} %",
                    f"{100 * rows[broken, 0].mean() if broken.any() else 0:.2f} %",
                    f"{100 * rows[:, 0].max():.2f} %",
                    f"{100 * rows[:, 1].mean():.2f} %",
                    f"{100 * rows[:, 1].max():.2f} %",
                    f"{np.nanmean(rows[:, 2]):.1f}",
                    f"{int(rows[:, 3].sum())} of {len(rows)}",
                ]
                table.append([objective.name, kind + " %", name, *cells])
    head = ["objective", "bound", "search", "broken", "mean by", "worst by"]
    report.table([*head, "mean regret", "worst", "draws", "refused"], table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="keep the result")
    options = parser.parse_args()
    root = needed_root()
    report = Report("constraint_search", "Searches under constraints on the Zeus traces (replayed)")
    tables = zeus_tables(root)
    objectives: list[Objective] = [EDS(0.5), Energy()]
    with ProcessPoolExecutor(2) as pool:
        report.say("## The tables as they are")
        report.say()
        part(report, pool, tables, objectives=objectives, noise=0.0, seeds=1)
        report.say(f"## Smoothed, {100 * NOISE:g} % noise on every draw, {options.seeds} seeds")
        report.say()
        clean = smoothed(tables)
        part(report, pool, clean, objectives=objectives, noise=NOISE, seeds=options.seeds)
    if options.write:
        print(f"written to {report.write()}")


if __name__ == "__main__":
    main()
