"""A choice: the best point under an objective and constraints, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowjoule.errors import InfeasibleError
from lowjoule.knobs import show_values
from lowjoule.normal import FAR_SD, normal_cdf
from lowjoule.objectives.objective import Constraint, Objective, Outcome
from lowjoule.profile.plan import Plan
from lowjoule.profile.point import Point
from lowjoule.profile.profile import Floats, Profile
from lowjoule.profile.pruning import Indices
from lowjoule.profile.spread import energy_error_j, time_error_s
from lowjoule.quantities import Unit, show

_STEP = 1e-5
_CLOSE_SD = 2.0
_MOST_RIVALS = 20
_MOST_WEIGHED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen point, the objective's value there, and how sure the choice is.

    `uncertainty` is the standard deviation of `value` from the points' statistical spread,
    without the board's gain, which is common to all of them, and with the baseline taken as
    exact; `confidence` the probability that no other point allowed is better, spreads taken as
    independent and normal; `rivals` the points too close to tell apart (within two standard
    deviations of the difference; the 20 best), which are worth measuring again. A point that
    is dominated in its means can be a rival. The former two are None where no spread was
    measured.
    """

    point: Point
    plan: Plan
    value: float
    uncertainty: float | None
    confidence: float | None
    rivals: tuple[Point, ...]


def choose(
    profile: Profile, rows: Indices, objective: Objective, constraints: Sequence[Constraint]
) -> Choice:
    """Return the best row of `profile`: among `rows`, or among all where there are constraints.

    Of equal values the faster point is chosen, then the one of less energy. Raises
    `InfeasibleError` where no point keeps to the constraints or there is none.
    """
    allowed = feasible_rows(profile, constraints) if constraints else np.arange(len(profile))
    candidates = allowed if constraints else rows
    if len(candidates) == 0:
        raise InfeasibleError("the profile has no point", cure="measure one, or relax a constraint")
    values = _values(profile, objective, candidates)
    ties = candidates[values == values.min()]
    row = int(ties[np.lexsort((profile.effective_j[ties], profile.time_s[ties]))[0]])
    spread = _spread(profile, objective, allowed)
    confidence, rivals = None, np.empty(0, dtype=np.intp)
    if spread is not None:
        best = int(np.searchsorted(allowed, row))
        confidence, rivals = _doubts(_values(profile, objective, allowed), spread, best)
    return Choice(
        point=profile.point(row),
        plan=profile.plan(row),
        value=float(values.min()),
        uncertainty=None if spread is None else float(spread[best]),
        confidence=confidence,
        rivals=tuple(profile.point(int(allowed[one])) for one in rivals),
    )


def feasible_rows(profile: Profile, constraints: Sequence[Constraint]) -> Indices:
    """Return the rows that keep to every constraint; `InfeasibleError` names the closest."""
    if len(profile) == 0:
        raise InfeasibleError("the profile has no point", cure="measure one, or relax a constraint")
    excess = np.stack(
        [
            constraint.excess(
                profile.outcome(), profile.baseline() if constraint.needs_baseline else None
            )
            for constraint in constraints
        ]
    )
    worst = excess.max(axis=0)
    rows = np.flatnonzero(worst <= 0.0)
    if len(rows) == 0:
        closest = int(np.argmin(worst))
        broken = constraints[int(np.argmax(excess[:, closest]))]
        point = profile.point(closest)
        raise InfeasibleError(
            f"no point keeps to {', '.join(one.text for one in constraints)}",
            cure=f"the closest is {show_values(point.setting)} with "
            f"{show(point.time_s, Unit.SECOND)}, {show(point.energy_j, Unit.JOULE)} and "
            f"{show(point.power_w, Unit.WATT)}, {worst[closest]:.2%} beyond {broken.text}: "
            "relax it",
        )
    return rows


def _outcome(profile: Profile, rows: Indices, time: float = 1.0, energy: float = 1.0) -> Outcome:
    price = profile.price_w if isinstance(profile.price_w, float) else profile.price_w[rows]
    time_s = profile.time_s[rows] * time
    energy_j = profile.energy_j[rows] * energy
    return Outcome(time_s=time_s, energy_j=np.asarray(energy_j - price * time_s))


def _values(
    profile: Profile, objective: Objective, rows: Indices, time: float = 1.0, energy: float = 1.0
) -> Floats:
    base = profile.baseline(effective=True) if objective.needs_baseline else None
    return np.asarray(objective.values(_outcome(profile, rows, time, energy), base))


def _spread(profile: Profile, objective: Objective, rows: Indices) -> Floats | None:
    """Return the standard deviation of each row's value to first order in both figures' spread."""
    time_s, spread_j = time_error_s(profile), energy_error_j(profile)
    if time_s is None or spread_j is None:
        return None
    here = _values(profile, objective, rows)
    by_time = (_values(profile, objective, rows, time=1.0 + _STEP) - here) / _STEP
    by_energy = (_values(profile, objective, rows, energy=1.0 + _STEP) - here) / _STEP
    energy_j = np.where(profile.energy_j[rows] > 0, profile.energy_j[rows], np.inf)
    return np.hypot(
        by_time * time_s[rows] / profile.time_s[rows],
        by_energy * spread_j[rows] / energy_j,
    )


def _doubts(values: Floats, spread: Floats, best: int) -> tuple[float, Indices]:
    others = np.delete(np.arange(len(values)), best)
    gap = values[others] - values[best]
    doubt = np.hypot(spread[others], spread[best])
    certain = np.where(gap > 0, np.inf, 0.0)
    sigmas = np.divide(gap, doubt, out=certain, where=doubt > 0)
    weighed = others[sigmas < FAR_SD]
    if len(weighed) > _MOST_WEIGHED:
        nearest = np.argpartition(sigmas[sigmas < FAR_SD], _MOST_WEIGHED)[:_MOST_WEIGHED]
        weighed = weighed[nearest]
    close = others[sigmas < _CLOSE_SD]
    ordered = close[np.argsort(values[close], kind="stable")[:_MOST_RIVALS]]
    return probability_of_best(values, spread, best, weighed), ordered


def probability_of_best(values: Floats, spread: Floats, best: int, rivals: Indices) -> float:
    """Return P(best < every rival): the integral over the best's value of the others' tails.

    `spread` are standard deviations of the independent, normal `values`, both of shape (n,).
    """
    nodes = np.linspace(-FAR_SD, FAR_SD, 801)
    weights = np.exp(-0.5 * nodes**2)
    gap = values[rivals] - (values[best] + spread[best] * nodes[:, None])
    sd = spread[rivals]
    surely = np.where(gap > 0, np.inf, np.where(gap < 0, -np.inf, 0.0))
    sigmas = np.divide(gap, sd, out=surely, where=sd > 0)
    beaten = normal_cdf(sigmas).prod(axis=1)
    return min(1.0, float(beaten @ weights / weights.sum()))
