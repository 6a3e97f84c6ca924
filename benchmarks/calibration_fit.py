"""Fits the simulation's own physics to a few measured settings of each workload on one board.

The board's figures are shared by all of its workloads and fitted together with the workloads'
own, on the anchors alone; weak priors (the catalogue's rules) hold what the anchors leave open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.simulated.governor import steady
from lowjoule.devices.simulated.physics import Chip, Load

Floats = NDArray[np.float64]

# A finer grid than any board has, so that a bisection over it is nearly smooth.
_CLOCKS = np.linspace(0.08, 1.0, 1841)
_ERROR = 0.02  # of a measured time or power, as the fit takes it
_STEP = 2e-3

# Per workload, in logarithms: compute, memory and overhead time of the default setting, over its
# measured time, and the intensity; the mean and the spread of the prior.
WORKLOAD = {"compute": (0.7, 0.6), "memory": (0.5, 0.8), "overhead": (0.06, 1.2)}
WORKLOAD |= {"intensity": (0.8, 0.6), "half_batch": (0.01, 1.2)}
# Per board, in logarithms of these figures of `Chip`: the spread of the prior.
BOARD = {"idle_w": 0.4, "memory_w": 0.5, "voltage_floor": 0.12, "voltage_knee": 0.12}
BOARD |= {"memory_idle_w": 1.0, "waiting": 0.5}


@dataclass(frozen=True, slots=True)
class Case:
    """A workload's measured settings on one board, each array of shape (n,).

    `x` and `m` are clocks over their maxima, `batch` the batch size over the default one;
    `anchors` are the indices that a fit may see.
    """

    name: str
    x: Floats
    m: Floats
    limit_w: Floats
    batch: Floats
    time_s: Floats
    power_w: Floats
    anchors: tuple[int, ...]

    def only(self, rows: NDArray[np.intp]) -> Case:
        """Return the case at `rows`, none of them an anchor."""
        parts = (self.x, self.m, self.limit_w, self.batch, self.time_s, self.power_w)
        return Case(self.name, *(part[rows] for part in parts), anchors=())

    @property
    def unseen(self) -> NDArray[np.intp]:
        """The indices that a fit does not see."""
        return np.setdiff1d(np.arange(len(self.x)), self.anchors)


@dataclass(frozen=True, slots=True)
class Fit:
    """The board, and each case's compute, memory, overhead time (s) and intensity."""

    chip: Chip
    figures: Floats
    parameters: int
    points: int

    def predict(self, number: int, case: Case) -> tuple[Floats, Floats]:
        """Return the time and power of the settings of `case`, the `number`-th that was fitted."""
        return _predict(self.chip, self.figures[number], case)


def fit(chip: Chip, cases: list[Case], board: tuple[str, ...] = tuple(BOARD)) -> Fit:
    """Return the fit to the anchors of `cases` on a board that starts from `chip`."""
    from scipy.optimize import least_squares

    seen = [case.only(np.array(case.anchors)) for case in cases]
    scales = np.array([one.time_s[0] for one in seen])
    start = np.concatenate(
        [
            np.zeros(len(board)),
            np.tile(np.log([mean for mean, _ in WORKLOAD.values()]), len(cases)),
        ]
    )
    spreads = np.concatenate(
        [
            [BOARD[name] for name in board],
            np.tile([spread for _, spread in WORKLOAD.values()], len(cases)),
        ]
    )

    def unpack(theta: Floats) -> tuple[Chip, Floats]:
        return _chip(chip, board, theta), _figures(theta[len(board) :], scales)

    def residuals(theta: Floats) -> Floats:
        now, figures = unpack(theta)
        errors = []
        for one, row in zip(seen, figures, strict=True):
            time_s, power_w = _predict(now, row, one)
            errors += [np.log(time_s / one.time_s), np.log(power_w / one.power_w)]
        return np.concatenate([np.concatenate(errors) / _ERROR, (theta - start) / spreads])

    found = least_squares(residuals, start, diff_step=_STEP, x_scale=spreads, max_nfev=60)
    final, figures = unpack(found.x)
    points = 2 * sum(len(case.anchors) for case in cases)
    return Fit(final, figures, len(start), points)


def _chip(chip: Chip, board: tuple[str, ...], theta: Floats) -> Chip:
    values = {n: getattr(chip, n) * float(np.exp(t)) for n, t in zip(board, theta, strict=False)}
    for name, most in (("voltage_floor", 0.97), ("voltage_knee", 0.97)):
        if name in values:
            values[name] = min(values[name], most)
    return replace(chip, **values)


def _figures(theta: Floats, scales: Floats) -> Floats:
    figures = np.exp(theta.reshape(len(scales), len(WORKLOAD)))
    figures[:, :3] *= scales[:, None]
    return figures


def _predict(chip: Chip, figures: Floats, case: Case) -> tuple[Floats, Floats]:
    compute_s, memory_s, overhead_s, intensity, half_batch = figures
    empty = 1.0 + half_batch / case.batch
    load = Load(
        compute_s=compute_s * empty,
        memory_s=np.full(len(case.x), memory_s),
        overhead_s=overhead_s / case.batch,
        useful=1.0 / empty,
        intensity=intensity,
    )
    found = steady(chip, load, clocks=_CLOCKS, asked=case.x, limit_w=case.limit_w, m=case.m)
    return found.time_s, found.power_w
