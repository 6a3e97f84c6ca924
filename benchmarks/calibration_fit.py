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
_MOST_SHARE = 0.97

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
        return Case(
            name=self.name,
            x=self.x[rows],
            m=self.m[rows],
            limit_w=self.limit_w[rows],
            batch=self.batch[rows],
            time_s=self.time_s[rows],
            power_w=self.power_w[rows],
            anchors=(),
        )

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


def fit(chip: Chip, cases: list[Case], own: tuple[str, ...], board: tuple[str, ...]) -> Fit:
    """Return the fit to the anchors of `cases`, of figures `own` a case and `board` of the board.

    What is not fitted stands at its prior's mean (the batch and overhead parts at nothing).
    """
    from scipy.optimize import least_squares

    seen = [case.only(np.array(case.anchors)) for case in cases]
    scales = np.array([one.time_s[0] for one in seen])
    means = np.log([WORKLOAD[name][0] for name in own])
    start = np.concatenate([np.zeros(len(board)), np.tile(means, len(cases))])
    spreads = np.concatenate(
        [
            [BOARD[name] for name in board],
            np.tile([WORKLOAD[name][1] for name in own], len(cases)),
        ]
    )

    def unpack(theta: Floats) -> tuple[Chip, Floats]:
        return _chip(chip, board, theta), _figures(theta[len(board) :], own, scales)

    def residuals(theta: Floats) -> Floats:
        now, figures = unpack(theta)
        errors = []
        for one, row in zip(seen, figures, strict=True):
            time_s, power_w = _predict(now, row, one)
            errors += [np.log(time_s / one.time_s), np.log(power_w / one.power_w)]
        return np.concatenate([np.concatenate(errors) / _ERROR, (theta - start) / spreads])

    found = least_squares(
        residuals,
        start,
        diff_step=_STEP,
        x_scale=spreads,
        max_nfev=80,
        jac_sparsity=_dependence(seen, len(own), len(board)),
    )
    final, figures = unpack(found.x)
    points = 2 * sum(len(case.anchors) for case in cases)
    return Fit(final, figures, len(start), points)


def _dependence(seen: list[Case], own: int, board: int) -> NDArray[np.int_]:
    """Return which residual depends on which parameter: all on the board's, else on the case's."""
    rows = [2 * len(one.x) for one in seen]
    count = board + own * len(seen)
    matrix = np.zeros((sum(rows) + count, count), dtype=int)
    matrix[: sum(rows), :board] = 1
    row = 0
    for number, length in enumerate(rows):
        start = board + own * number
        matrix[row : row + length, start : start + own] = 1
        row += length
    matrix[sum(rows) :] = np.eye(count, dtype=int)
    return matrix


def _chip(chip: Chip, board: tuple[str, ...], theta: Floats) -> Chip:
    values = {n: getattr(chip, n) * float(np.exp(t)) for n, t in zip(board, theta, strict=False)}
    for name in ("voltage_floor", "voltage_knee", "waiting"):
        if name in values:
            values[name] = min(values[name], _MOST_SHARE)
    return replace(chip, **values)


def _figures(theta: Floats, own: tuple[str, ...], scales: Floats) -> Floats:
    """Return all figures of all cases, shape (cases, 5); times in seconds."""
    values = np.exp(theta.reshape(len(scales), len(own)))
    figures = np.empty((len(scales), len(WORKLOAD)))
    for column, (name, (mean, _)) in enumerate(WORKLOAD.items()):
        fixed = 0.0 if name in ("overhead", "half_batch") else mean
        figures[:, column] = values[:, own.index(name)] if name in own else fixed
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
