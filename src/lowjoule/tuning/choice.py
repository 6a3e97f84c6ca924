"""The figures of a choice as they were measured, and the choice of searches without a model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from lowjoule.knobs import Setting
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.profile.choice import probability_of_best
from lowjoule.tuning.ledger import (
    COLUMNS,
    SURE,
    Entry,
    Ledger,
    chance_kept,
    excess_of,
    excess_over,
    row_of,
    values_of,
)
from lowjoule.tuning.search import Problem, Recommendation

_MEDIAN_OF_ABSOLUTE = 0.6745  # of a standard normal variable
_SECOND_DIFFERENCE = 1.5  # variance of y[i] - (y[i-1] + y[i+1]) / 2 for independent y
_ENOUGH = 3  # degrees of freedom below which a spread says nothing
_STEP = 1e-4


def objective_sd(
    problem: Problem, outcome: Outcome, row: int, base: int | None, variances: Mapping[str, Floats]
) -> float:
    """Return the standard deviation of the objective of `row`, by first-order propagation.

    `variances` are those of the logarithms of the columns, row by row; `base` is the row of the
    baseline, whose own uncertainty counts too (None: taken as exact). The rows are independent.
    """
    reference = row if base is None else base
    one, baseline = row_of(outcome, row), row_of(outcome, reference)
    value = float(values_of(problem, one, baseline))
    total = 0.0
    for name, variance in variances.items():
        own = float(values_of(problem, _scaled(one, name), baseline)) - value
        other = float(values_of(problem, one, _scaled(baseline, name))) - value
        if base == row:
            total += ((own + other) / _STEP) ** 2 * float(variance[row])
            continue
        total += (own / _STEP) ** 2 * float(variance[row])
        if base is not None:
            total += (other / _STEP) ** 2 * float(variance[base])
    return math.sqrt(total)


def choose(ledger: Ledger) -> Recommendation:
    """Return the told, feasible setting with the least objective, by means of its trials.

    Constraints are to be kept with probability `SURE`, where noise is known and such a setting
    was told. `uncertainty` follows from `noise_of`; it is None where nothing is known of noise.
    Raises `InfeasibleError` when nothing told is feasible.
    """
    entries = ledger.measured
    if not entries:
        raise ledger.nothing_feasible([], np.empty(0))
    problem = ledger.problem
    base = ledger.base_row(entries)
    outcome = ledger.outcome(entries)
    excess = excess_of(problem, outcome, row_of(outcome, base))
    feasible = np.flatnonzero(excess <= 0.0)
    if not len(feasible):
        raise ledger.nothing_feasible(entries, excess)
    values = values_of(problem, outcome, row_of(outcome, base))
    variances = _variances(ledger, entries)
    kept = _kept(problem, outcome, base, variances)
    sure = feasible[kept[feasible] >= SURE] if not np.isnan(kept).any() else feasible
    if not len(sure):
        sure = feasible[[int(np.argmax(kept[feasible]))]]
    order = sure[np.argsort(values[sure], kind="stable")]
    best = int(order[0])
    sds = [objective_sd(problem, outcome, int(row), None, variances) for row in order]
    spread = objective_sd(problem, outcome, best, base, variances)
    return Recommendation(
        setting=entries[best].setting,
        time_s=float(outcome.time_s[best]),
        energy_j=float(outcome.energy_j[best]),
        objective=float(values[best]),
        uncertainty=None if math.isnan(spread) else spread,
        confidence=_confidence(values[order], np.array(sds)),
        kept=None if not problem.constraints or math.isnan(kept[best]) else float(kept[best]),
    )


def _kept(problem: Problem, outcome: Outcome, base: int, variances: Mapping[str, Floats]) -> Floats:
    """Return the probability that each row keeps all constraints; nan where noise is unknown."""
    kept = np.ones(len(outcome.time_s))
    baseline = row_of(outcome, base)
    rows = np.arange(len(kept))
    for one in problem.constraints:
        excess = excess_over(one, outcome, baseline)
        variance = np.zeros(len(kept))
        for name, each in variances.items():
            own = (excess_over(one, _scaled(outcome, name), baseline) - excess) / _STEP
            other = (excess_over(one, outcome, _scaled(baseline, name)) - excess) / _STEP
            apart = own**2 * each + other**2 * each[base]
            variance += np.where(rows == base, (own + other) ** 2 * each, apart)
        kept = np.minimum(kept, chance_kept(excess, variance))
    return kept


def noise_of(ledger: Ledger, entries: list[Entry], column: str, *, bends: bool = True) -> float:
    """Return the relative standard deviation of one trial's `column`; nan where unknown.

    From repeats where there are enough, else, with `bends`, from how far points are off the
    mean of their two neighbours along a knob (a bend counts as noise: the figure is then too
    large), else from the standard deviations told.
    """
    repeated = [logs for e in entries if len(logs := np.log(np.array(e.values(column)))) > 1]
    freedom = sum(len(logs) - 1 for logs in repeated)
    if freedom >= _ENOUGH:
        squares = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in repeated)
        return math.sqrt(squares / freedom)
    departures = _departures(ledger, entries, column) if bends else []
    if len(departures) >= _ENOUGH:
        spread = float(np.median(np.abs(departures))) / _MEDIAN_OF_ABSOLUTE
        return spread / math.sqrt(_SECOND_DIFFERENCE)
    told = [sd for entry in entries if (sd := entry.relative_sd(column)) is not None]
    return float(np.median(told)) if told else math.nan


def _variances(ledger: Ledger, entries: list[Entry]) -> dict[str, Floats]:
    """Return the variance of the logarithm of each entry's mean, as it was told or repeats tell."""
    counts = np.array([float(len(entry.observations)) for entry in entries])
    found = {}
    for name in ("time_s", "energy_j"):
        usual = noise_of(ledger, entries, name, bends=False)
        own = [entry.relative_sd(name) for entry in entries]
        sds = np.array([usual if sd is None else sd for sd in own])
        found[name] = sds**2 / counts
    return found


def _departures(ledger: Ledger, entries: list[Entry], column: str) -> list[float]:
    """Return how far the logarithm of each point is off the mean of its neighbours on a line."""
    found = []
    for knob in ledger.problem.space.knobs:
        if isinstance(knob.values[0], str):
            continue
        rest = [name for name in ledger.problem.space.names if name != knob.name]
        lines: dict[Setting, list[tuple[float, float]]] = defaultdict(list)
        for entry in entries:
            mean = entry.mean(column)
            if mean is not None:
                place = entry.setting.number(knob.name)
                lines[entry.setting.only(rest)].append((place, math.log(mean)))
        for one in lines.values():
            row = [value for _, value in sorted(one)]
            triples = zip(row, row[1:], row[2:], strict=False)
            found += [y - (x + z) / 2.0 for x, y, z in triples]
    return found


def _scaled(outcome: Outcome, column: str) -> Outcome:
    columns = {n: getattr(outcome, n) for n in COLUMNS if getattr(outcome, n) is not None}
    columns[column] = columns[column] * (1.0 + _STEP)
    return Outcome(**columns)


def _confidence(values: Floats, sds: Floats) -> float | None:
    """Return the probability that the first of `values` is the least, None when unknown."""
    if len(values) == 1:
        return 1.0
    if not np.all(np.isfinite(sds)):
        return None
    return probability_of_best(values, sds, 0, np.arange(1, len(values)))
