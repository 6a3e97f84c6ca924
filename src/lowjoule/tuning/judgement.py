"""What a search holds of settings: their merit, how sure that is, and what a trial is worth.

The worth of a trial is the knowledge gradient (Frazier, Powell & Dayanik, INFORMS Journal on
Computing 21(4), 2009): what it is expected to take off the objective of the setting that would
be chosen afterwards. It values repeats of a close call and new settings on one scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.knobs import Setting
from lowjoule.normal import normal_cdf
from lowjoule.objectives.objective import Constraint, Floats, Outcome
from lowjoule.tuning.ledger import (
    EXACT,
    SURE,
    Entry,
    Ledger,
    chance_kept,
    excess_of,
    excess_over,
    row_of,
    values_of,
)

_NODES = np.arange(-4.0, 4.01, 0.25)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.sum(np.exp(-0.5 * _NODES**2))
_STEP = 1e-4
_SAMPLES = 2000
_ROUNDING = 1e-12
_LEAST_EXCESS = -0.999
_SURE_SD = 1.2816  # the standard normal variable is below it with probability SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """Logarithms of columns at settings, of which the first were tried: a normal belief.

    `means[a]` has shape (n,), `covariances[a, b]` (told, n) of column a of the tried rows with b
    of all, `variances[a, b]` (n,) within a row; pairs that are left out are independent.
    `noise_vars[a]` is the variance of one trial.
    """

    means: Mapping[str, Floats]
    covariances: Mapping[tuple[str, str], Floats]
    variances: Mapping[tuple[str, str], Floats]
    noise_vars: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The merit of settings, lower is better; the first `told` rows were tried.

    `merit` is the objective on a relative scale (a difference of 0.01 is one per cent), or the
    excess over the constraints while nothing tried meets them; its uncertainty is given by
    `covariance` (tried rows with all rows), `variance`, and `noise_var` of one more trial.
    `kept` is the probability that a row keeps the constraints, `feasible` which tried rows do so
    with `SURE` at least, `chance` how likely one more trial leaves a row feasible; `best` is the
    row to choose now.
    """

    settings: Sequence[Setting]
    told: int
    merit: Floats
    covariance: Floats
    variance: Floats
    noise_var: Floats
    feasible: NDArray[np.bool_]
    kept: Floats
    chance: Floats
    excess: Floats
    best: int

    def gains(self) -> Floats:
        """Return what one more trial of each row is expected to take off the chosen merit."""
        spread = np.sqrt(self.variance + self.noise_var)
        usable = self.feasible if self.feasible.any() else np.ones(self.told, dtype=np.bool_)
        slopes = self.covariance[usable] / spread
        others = self.merit[: self.told][usable, None, None] + slopes[:, :, None] * _NODES
        least = others.min(axis=0)
        own = self.merit[:, None] + (self.variance / spread)[:, None] * _NODES
        chance = self.chance[:, None] if self.feasible.any() else 1.0
        after = chance * np.minimum(least, own) + (1.0 - chance) * least
        return np.asarray(self.merit[self.best] - after @ _WEIGHTS)

    def ranked(self) -> list[int]:
        """Return the tried rows from the best on, those that break a constraint last."""
        broken = ~self.feasible
        order = np.lexsort((self.merit[: self.told], broken)).tolist()
        return [self.best, *(row for row in order if row != self.best)]

    def forbidden(self) -> int | None:
        """Return the row that would be best without constraints, None where it is feasible.

        What is best within the bounds is often a line away from what is best beyond them.
        """
        row = int(np.argmin(self.merit[: self.told]))
        return row if self.feasible.any() and not self.feasible[row] else None

    def likeliest(self) -> int | None:
        """Return the row to recommend: the best, else what likeliest keeps the constraints.

        None where no tried row keeps them even by estimate.
        """
        if self.feasible.any():
            return self.best
        kept = np.where(self.excess[: self.told] <= 0.0, self.kept[: self.told], -1.0)
        row = int(np.argmax(kept))
        return row if kept[row] >= 0.0 else None

    def clearly_worse(self, deviations: float) -> NDArray[np.bool_]:
        """Return, of shape (told, told), where the column's row is worse than the row's own.

        By more than `deviations` standard deviations of their difference.
        """
        told = self.told
        own, merit = self.variance[:told], self.merit[:told]
        both = own[:, None] + own - 2.0 * self.covariance[:, :told]
        lag = merit - merit[:, None]
        return np.asarray(lag > deviations * np.sqrt(np.maximum(both, _ROUNDING)))

    def confidence(self) -> float | None:
        """Return the probability that no other tried, feasible row is better than the best.

        None where no row is feasible.
        """
        rows = np.flatnonzero(self.feasible)
        if len(rows) < 2:
            return 1.0 if len(rows) else None
        cut = self.covariance[np.ix_(rows, rows)]
        values, vectors = np.linalg.eigh((cut + cut.T) / 2.0)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = np.random.default_rng(0).standard_normal((_SAMPLES, len(rows)))
        drawn = self.merit[rows] + normal @ root.T
        mine = drawn[:, int(np.flatnonzero(rows == self.best)[0])]
        return float(np.mean(mine <= drawn.min(axis=1)))


class Judge:
    """Turns what is believed of columns into judgements of told settings and candidates."""

    def __init__(self, ledger: Ledger, entries: list[Entry]) -> None:
        self._problem = ledger.problem
        self._entries = entries
        self._base = ledger.base_row(entries)
        measured = ledger.outcome(entries)
        self._breach = excess_of(self._problem, measured, row_of(measured, self._base))

    def judge(self, candidates: Sequence[Setting], believed: Believed) -> Judgement:
        """Return the judgement of the told settings and `candidates`, given what is believed."""
        told = len(self._entries)
        means = believed.means
        baseline = row_of(_outcome(means), self._base)
        excess = excess_of(self._problem, _outcome(means), baseline)
        kept, chance = self._chances(believed)
        if any(entry.settled for entry in self._entries):  # trials repeat exactly: no doubt left
            kept[:told] = self._breach <= 0.0
        # a setting is chosen only where the surface and its own trials both keep the constraints
        excess[:told] = np.maximum(excess[:told], self._breach)
        feasible = (kept[:told] >= SURE) & (self._breach <= 0.0)
        if feasible.any():
            merit, slopes = self._objective(means, baseline)
        else:
            merit = np.log1p(np.maximum(excess, _LEAST_EXCESS))
            slopes = self._breach_slopes(means, baseline)
        choices = np.where(feasible, merit[:told], np.inf) if feasible.any() else merit[:told]
        covariance = [
            slopes[a][:told, None] * slopes[b] * one for (a, b), one in believed.covariances.items()
        ]
        return Judgement(
            settings=[*(entry.setting for entry in self._entries), *candidates],
            told=told,
            merit=merit,
            covariance=np.sum(covariance, axis=0),
            variance=np.sum(
                [slopes[a] * slopes[b] * one for (a, b), one in believed.variances.items()], axis=0
            ),
            noise_var=np.sum([s**2 * believed.noise_vars[n] for n, s in slopes.items()], axis=0),
            feasible=feasible,
            kept=kept,
            chance=chance,
            excess=excess,
            best=int(np.argmin(choices)),
        )

    def _objective(
        self, means: Mapping[str, Floats], baseline: Outcome
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return the objective on a relative scale and its slopes against each column's log.

        The scale is logarithmic where all values have one sign, else in units of the largest.
        """
        value = values_of(self._problem, _outcome(means), baseline)
        one_sign = bool(np.all(value > 0) or np.all(value < 0))
        scale = float(np.abs(value[: len(self._entries)]).max()) or 1.0

        def relative(found: Floats) -> Floats:
            return np.sign(found) * np.log(np.abs(found)) if one_sign else found / scale

        merit = relative(value)
        slopes = {}
        for name in means:
            shifted = values_of(self._problem, _outcome(means, name), baseline)
            slopes[name] = (relative(shifted) - merit) / _STEP
        return merit, slopes

    def _breach_slopes(self, means: Mapping[str, Floats], baseline: Outcome) -> dict[str, Floats]:
        """Return the slopes of the logarithm of the figure over its bound, the worst one's."""
        here = excess_of(self._problem, _outcome(means), baseline)
        scale = _STEP * (1.0 + np.maximum(here, _LEAST_EXCESS))
        return {
            n: (excess_of(self._problem, _outcome(means, n), baseline) - here) / scale
            for n in means
        }

    def _chances(self, believed: Believed) -> tuple[Floats, Floats]:
        """Return how likely each row keeps the constraints, and is sure to after one more trial.

        The baseline's own uncertainty counts, less what a row shares with it. After a trial with
        noise n an excess of variance v has variance v n/(v + n), and its mean has moved by a
        normal variable of variance v^2/(v + n).
        """
        count = len(next(iter(believed.means.values())))
        kept, after = np.ones(count), np.ones(count)
        for one in self._problem.constraints:
            excess, variance, noise = self._spread(one, believed)
            kept = np.minimum(kept, chance_kept(excess, variance))
            exact = variance <= EXACT
            left = np.sqrt(variance * noise / (variance + noise + _ROUNDING))
            moved = variance / np.sqrt(variance + noise + _ROUNDING)
            room = -excess - _SURE_SD * left
            sure = normal_cdf(room / np.where(exact, 1.0, moved))
            after = np.minimum(after, np.where(exact, excess <= 0.0, sure))
        return kept, after

    def _spread(self, one: Constraint, believed: Believed) -> tuple[Floats, Floats, Floats]:
        """Return the excess over `one`, its variance, and the part that a trial's noise makes."""
        means = believed.means
        rows = _outcome(means)
        baseline = row_of(rows, self._base)
        excess = excess_over(one, rows, baseline)
        own, base = {}, {}
        for name in means:
            own[name] = (excess_over(one, _outcome(means, name), baseline) - excess) / _STEP
            moved = row_of(_outcome(means, name), self._base)
            base[name] = (excess_over(one, rows, moved) - excess) / _STEP
        variance, noise = np.zeros(len(excess)), np.zeros(len(excess))
        for (a, b), each in believed.variances.items():
            variance += own[a] * own[b] * each + base[a] * base[b] * each[self._base]
        for (a, b), both in believed.covariances.items():
            variance += 2.0 * base[a] * own[b] * both[self._base]
        for name, slope in own.items():
            noise += slope**2 * believed.noise_vars[name]
        return excess, np.maximum(variance, 0.0), noise


def _outcome(logs: Mapping[str, Floats], shifted: str | None = None) -> Outcome:
    return Outcome(**{name: np.exp(one + _STEP * (name == shifted)) for name, one in logs.items()})
