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
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.tuning.ledger import Entry, Ledger, excess_of, row_of, values_of
from lowjoule.tuning.surface import Fit

_NODES = np.arange(-4.0, 4.01, 0.25)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.sum(np.exp(-0.5 * _NODES**2))
_STEP = 1e-4
_SAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The merit of settings, lower is better; the first `told` rows were tried.

    `merit` is the objective on a relative scale (a difference of 0.01 is one per cent), or the
    excess over the constraints while nothing tried meets them; its uncertainty is given by
    `covariance` (tried rows with all rows), `variance`, and `noise_var` of one more trial.
    `feasible` says which tried rows keep the constraints by estimate, `chance` how likely a row
    does; `best` is the row to choose now.
    """

    settings: Sequence[Setting]
    told: int
    merit: Floats
    covariance: Floats
    variance: Floats
    noise_var: Floats
    feasible: NDArray[np.bool_]
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

    def clearly_worse(self, deviations: float) -> NDArray[np.bool_]:
        """Return, of shape (told, told), where the column's row is worse than the row's own.

        By more than `deviations` standard deviations of their difference.
        """
        told = self.told
        own, merit = self.variance[:told], self.merit[:told]
        both = own[:, None] + own - 2.0 * self.covariance[:, :told]
        lag = merit - merit[:, None]
        return np.asarray(lag > deviations * np.sqrt(np.maximum(both, 1e-12)))

    def confidence(self) -> float:
        """Return the probability that no other tried, feasible row is better than the best."""
        rows = np.flatnonzero(self.feasible)
        if len(rows) < 2:
            return 1.0
        cut = self.covariance[np.ix_(rows, rows)]
        values, vectors = np.linalg.eigh((cut + cut.T) / 2.0)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = np.random.default_rng(0).standard_normal((_SAMPLES, len(rows)))
        drawn = self.merit[rows] + normal @ root.T
        mine = drawn[:, int(np.flatnonzero(rows == self.best)[0])]
        return float(np.mean(mine <= drawn.min(axis=1)))


class Judge:
    """Turns fitted columns into judgements of told settings and candidates."""

    def __init__(self, ledger: Ledger, entries: list[Entry], fits: Mapping[str, Fit]) -> None:
        self._problem = ledger.problem
        self._entries = entries
        self._fits = fits
        self._base = ledger.base_row(entries)
        measured = ledger.outcome(entries)
        self._breach = excess_of(self._problem, measured, row_of(measured, self._base))

    def judge(self, candidates: list[Setting], rows: Floats) -> Judgement:
        """Return the judgement of the told settings and `candidates`, at coordinates `rows`."""
        believed = {name: fit.at(rows) for name, fit in self._fits.items()}
        means = {name: one[0] for name, one in believed.items()}
        outcome = _outcome(means)
        baseline = row_of(outcome, self._base)
        excess = excess_of(self._problem, outcome, baseline)
        # a setting is chosen only where the surface and its own trials both keep the constraints
        excess[: len(self._entries)] = np.maximum(excess[: len(self._entries)], self._breach)
        value = values_of(self._problem, outcome, baseline)
        told = len(self._entries)
        feasible = excess[:told] <= 0.0
        scale = float(np.abs(value[:told]).max()) or 1.0
        one_sign = bool(np.all(value > 0) or np.all(value < 0))

        def objective(shifted: Outcome) -> Floats:
            found = values_of(self._problem, shifted, baseline)
            return np.sign(found) * np.log(np.abs(found)) if one_sign else found / scale

        def breach(shifted: Outcome) -> Floats:
            return excess_of(self._problem, shifted, baseline)

        of = objective if feasible.any() else breach
        merit = of(outcome)
        slopes = {n: (of(_outcome(means, n)) - merit) / _STEP for n in means}
        chance = np.ones(len(rows))
        if self._problem.constraints:
            believed_excess = breach(outcome)
            steep = {n: (breach(_outcome(means, n)) - believed_excess) / _STEP for n in means}
            sd = np.sqrt(sum(steep[n] ** 2 * believed[n][2] for n in means) + 1e-12)
            chance = _normal_cdf(-excess / sd)
        choices = np.where(feasible, merit[:told], np.inf) if feasible.any() else merit[:told]
        return Judgement(
            settings=[*(entry.setting for entry in self._entries), *candidates],
            told=told,
            merit=merit,
            covariance=np.sum(
                [s[:told, None] * s * believed[n][1] for n, s in slopes.items()], axis=0
            ),
            variance=np.sum([s**2 * believed[n][2] for n, s in slopes.items()], axis=0),
            noise_var=np.sum([s**2 * self._fits[n].noise_var for n, s in slopes.items()], axis=0),
            feasible=feasible,
            chance=chance,
            excess=excess,
            best=int(np.argmin(choices)),
        )


def _outcome(logs: Mapping[str, Floats], shifted: str | None = None) -> Outcome:
    return Outcome(**{name: np.exp(one + _STEP * (name == shifted)) for name, one in logs.items()})


def _normal_cdf(z: Floats) -> Floats:
    """Return the normal distribution's probability below `z`, to 1e-4 (logistic, Bowling 2009)."""
    z = np.clip(z, -8.0, 8.0)
    return np.asarray(1.0 / (1.0 + np.exp(-0.07056 * z**3 - 1.5976 * z)))
