"""A textbook Gaussian-process search, to compare with; needs scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from lowjoule.knobs import Setting
from lowjoule.objectives.objective import Outcome
from lowjoule.tuning.search import Observation, Problem, Recommendation


class GaussianSearch:
    """Expected improvement (Jones et al., 1998) over all settings, until `draws` are used up.

    The logarithm of the objective over logarithms of the knobs scaled to one range; a Matern 5/2
    kernel with a length for each knob and white noise, fitted anew by maximum likelihood before
    each trial. After the default come three random settings, as is usual. The choice is the told
    setting with the least mean of the process.
    """

    def __init__(self, problem: Problem, *, draws: int = 14, seed: int = 0) -> None:
        self._problem = problem
        self._draws = draws
        self._settings = list(problem.space.settings)
        columns = [np.array([s.number(n) for s in self._settings]) for n in problem.space.names]
        logs = [np.log(column) for column in columns]
        self._x = np.column_stack([(c - c.min()) / max(float(np.ptp(c)), 1e-9) for c in logs])
        order = np.random.default_rng(seed).permutation(len(self._settings)).tolist()
        self._first: list[Setting] = [self._settings[i] for i in order[:3]]
        self._told: list[tuple[int, float, float]] = []

    def tell(self, observation: Observation) -> None:
        """Take in what came of a trial."""
        assert observation.time_s is not None
        assert observation.energy_j is not None
        place = self._settings.index(observation.asked)
        self._told.append((place, observation.time_s, observation.energy_j))

    def ask(self) -> Setting | None:
        """Return the setting with the largest expected improvement."""
        if len(self._told) >= self._draws:
            return None
        if not self._told:
            return self._problem.default
        if self._first:
            return self._first.pop()
        mean, sd = self._posterior()
        best = float(mean[[place for place, _, _ in self._told]].min())
        z = (best - mean) / np.maximum(sd, 1e-9)
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        below = np.array([0.5 * math.erfc(-float(one) / math.sqrt(2.0)) for one in z])
        place: int = int(np.argmax(sd * (z * below + density)))
        return self._settings[place]

    def recommend(self) -> Recommendation:
        """Return the told setting with the least mean."""
        mean, sd = self._posterior()
        place, time_s, energy_j = min(self._told, key=lambda one: float(mean[one[0]]))
        value = math.exp(float(mean[place]))
        return Recommendation(
            setting=self._settings[place],
            time_s=time_s,
            energy_j=energy_j,
            objective=value,
            uncertainty=value * float(sd[place]),
        )

    def _posterior(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array([[t, e] for _, t, e in self._told])
        default = self._settings.index(self._problem.default)
        base = rows[[place == default for place, _, _ in self._told]].mean(axis=0)
        outcome = Outcome(time_s=rows[:, 0], energy_j=rows[:, 1])
        baseline = Outcome(time_s=np.asarray(base[0]), energy_j=np.asarray(base[1]))
        y = np.log(self._problem.objective.values(outcome, baseline))
        spread = float(y.std()) or 1.0
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(
            [0.5] * self._x.shape[1], (0.05, 5.0), nu=2.5
        ) + WhiteKernel(1e-3, (1e-6, 0.1))
        model = GaussianProcessRegressor(kernel, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self._x[[place for place, _, _ in self._told]], (y - y.mean()) / spread)
        mean, sd = model.predict(self._x, return_std=True)
        noise = model.kernel_.k2.noise_level
        sd = np.sqrt(np.maximum(sd**2 - noise, 0.0))
        return mean * spread + y.mean(), sd * spread
