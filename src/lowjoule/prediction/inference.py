"""Time and energy of a token that a served model generates, by batch, precision and GPUs.

A Gaussian process over logarithms of what is known before anything runs: how many parameters there
are and how many of them a token uses, their width, the bytes that a step must read for each token
(the weights that a batch touches, Williams, Waterman & Patterson 2009), its operations, the
memory left for each sequence, GPUs and how the model is split over them. On top, each model, each
service (a model for one use on one kind of GPU) and each deployment of it departs by a level and
an elasticity with the batch of its own, which a probe of it tells (a linear mixed model, Laird &
Ware 1982). Amplitudes are the likeliest ones given the models learned from (Rasmussen & Williams
2006, eq. 5.8), from round starting values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.prediction.intervals import Calibration, calibrate
from lowjoule.workloads import DeviceFigures
from lowjoule.workloads.precision import WIDTH_BYTES

Floats = NDArray[np.float64]

# Bytes a weight; MXFP4 shares an 8-bit scale among 32 values of 4 bits (OCP MX specification).
WEIGHT_BYTES = {
    **{name: WIDTH_BYTES[name] for name in ("fp32", "bf16", "fp16", "fp8", "int8")},
    "mxfp4": 4.25 / 8,
}
_FIGURES = ("time", "energy")
_LEVELS = 3  # of departures: model, service, deployment
# Starting amplitudes (variances of logarithms): constant, linear, smooth, its length, then level
# and elasticity of each departure, noise. Round ones: the likelihood moves them.
_START = (1.0, 0.1, 0.3, 1.0, *(0.03, 0.01) * _LEVELS, 0.01)
_FACTORS = (3.0, 1.7)
_ROUNDS = 2
_LEAST_FREE = 0.02  # of the memory that is left for sequences where weights nearly fill it


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A model served for one use on some GPUs; `device` is of one of them.

    `parameters` count all weights, `active_parameters` those that a token uses; `architecture` is
    "dense", "moe" or "hybrid". `gpus` is how many there are, `tensor_parallel`, `expert_parallel`
    and `data_parallel` over how many each of these is split (1 is not).

    Raises `InvalidValueError` for a precision of unknown width, or board figures that are missing.
    """

    model: str
    use: str
    device: DeviceFigures
    parameters: float
    active_parameters: float
    architecture: str
    precision: str
    gpus: int = 1
    tensor_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1

    def __post_init__(self) -> None:
        if self.precision not in WEIGHT_BYTES:
            raise InvalidValueError(
                f"a precision of {self.precision!r}", cure=f"use one of {', '.join(WEIGHT_BYTES)}"
            )
        board = self.device
        known = (board.bandwidth_bytes_per_s, board.operations_per_s, board.memory_bytes)
        if None in known:
            raise InvalidValueError(
                f"{board.model} lacks a bandwidth, a peak rate or a memory",
                cure="give DeviceFigures with all three",
            )

    @property
    def keys(self) -> tuple[object, object, object]:
        """What tells models, services and deployments apart."""
        service = (self.model, self.use, self.device.model)
        split = (self.gpus, self.tensor_parallel, self.expert_parallel, self.data_parallel)
        return self.model, service, (*service, self.precision, *split)

    def figures(self, batch: Floats) -> Floats:
        """Return what is known of steps of `batch` sequences (n,), shape (n, k), in logarithms."""
        board = self.device
        bandwidth = (board.bandwidth_bytes_per_s or 1.0) * self.gpus
        rate = (board.operations_per_s or 1.0) * self.gpus
        width = WEIGHT_BYTES[self.precision]
        active = self.active_parameters / self.parameters
        # independent tokens each use their share of the weights
        touched = self.active_parameters + (self.parameters - self.active_parameters) * (
            1.0 - (1.0 - active) ** batch
        )
        memory = (board.memory_bytes or 1.0) * self.gpus
        free = max(memory - self.parameters * width, _LEAST_FREE * memory)
        same = np.ones_like(batch)
        return np.column_stack(
            [
                np.log(batch),
                np.log(touched * width / batch / bandwidth),
                np.log(free / batch),
                same * math.log(2.0 * self.active_parameters / rate),
                same * math.log(self.active_parameters),
                same * math.log(1.0 / active),
                same * math.log(width),
                same * math.log(self.gpus),
                same * math.log(board.bandwidth_bytes_per_s or 1.0),
                same * (self.architecture == "moe"),
                same * (self.architecture == "hybrid"),
                same * (self.tensor_parallel > 1),
                same * (self.expert_parallel > 1),
                same * (self.data_parallel > 1),
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What was measured of a deployment: seconds and joules a token at each batch, shape (n,)."""

    deployment: Deployment
    batch: Floats
    time_s: Floats
    energy_j: Floats

    def only(self, rows: NDArray[np.intp]) -> Served:
        """Return some of the measurements."""
        return Served(self.deployment, self.batch[rows], self.time_s[rows], self.energy_j[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Foretold:
    """Predicted seconds and joules a token, with intervals, each of shape (n,).

    `level`, `groups` and `most` are as in `Prediction`.
    """

    time_s: Floats
    energy_j: Floats
    time_interval_s: tuple[Floats, Floats]
    energy_interval_j: tuple[Floats, Floats]
    level: float
    groups: int
    most: float


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of many deployments: scaled figures, codes of uses, and of the three keys."""

    figures: Floats
    keys: list[tuple[object, object, object]]
    targets: Floats  # log time and log energy, (n, 2)


class InferencePredictor:
    """Predicts a token's time and energy in deployments never measured, or probed a few times.

    Made by `fit`; it does not change afterwards.
    """

    def __init__(self, served: Sequence[Served], level: float) -> None:
        self._uses = sorted({one.deployment.use for one in served})
        raw = np.concatenate([self._figures(o.deployment, o.batch) for o in served])
        spread = raw.std(axis=0)
        self._centre, self._spread = raw.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
        self._rows = self._of(served)
        self._amplitudes = [_likeliest(self._rows, f) for f in range(2)]
        self.calibration = self._calibrated([one.deployment for one in served], served, level)

    @classmethod
    def fit(cls, served: Sequence[Served], level: float = 0.9) -> InferencePredictor:
        """Return the predictor that `served`, of at least two models, teach.

        Raises `InvalidValueError` where all are of one model.
        """
        if len({one.deployment.model for one in served}) < 2:
            raise InvalidValueError(
                "all deployments are of one model", cure="measure another model too"
            )
        return cls(served, level)

    def predict(
        self, deployment: Deployment, batch: Floats, probes: Sequence[Served] = ()
    ) -> Foretold:
        """Return what a token takes at each of `batch` (n,), most sequences at once.

        `probes` are measurements of the same deployment, or of others of the same model.
        """
        rows = self._rows if not probes else _joined(self._rows, self._of(probes))
        empty = np.zeros(len(batch))
        asked = self._of([Served(deployment, np.asarray(batch, float), empty + 1, empty + 1)])
        told = [_posterior(rows, asked, self._amplitudes[f], f) for f in range(2)]
        figures, ends = [], []
        for name, (mean, variance) in zip(_FIGURES, told, strict=True):
            half = self.calibration.factor(name) * np.sqrt(variance)
            figures.append(np.exp(mean))
            ends.append((np.exp(mean - half), np.exp(mean + half)))
        calibration = self.calibration
        return Foretold(
            figures[0],
            figures[1],
            ends[0],
            ends[1],
            calibration.level,
            calibration.groups,
            calibration.most,
        )

    def _figures(self, deployment: Deployment, batch: Floats) -> Floats:
        use = [np.full(len(batch), float(deployment.use == one)) for one in self._uses]
        return np.column_stack([deployment.figures(batch), *use])

    def _of(self, served: Sequence[Served]) -> _Rows:
        raw = np.concatenate([self._figures(o.deployment, o.batch) for o in served])
        keys = [one.deployment.keys for one in served for _ in one.batch]
        targets = [np.log(np.stack([o.time_s, o.energy_j], axis=1)) for o in served]
        return _Rows((raw - self._centre) / self._spread, keys, np.concatenate(targets))

    def _calibrated(
        self, deployments: Sequence[Deployment], served: Sequence[Served], level: float
    ) -> Calibration:
        """Return intervals by errors on each model, without it."""
        models = np.array([str(key[0]) for key in self._rows.keys])
        tasks = np.repeat(np.arange(len(deployments)), [len(one.batch) for one in served])
        scores = np.empty((len(models), 2))
        for model in np.unique(models):
            held, kept = models == model, models != model
            for f in range(2):
                known, asked = _taken(self._rows, kept), _taken(self._rows, held)
                mean, variance = _posterior(known, asked, self._amplitudes[f], f)
                scores[held, f] = np.abs(mean - asked.targets[:, f]) / np.sqrt(variance)
        named = {"time": scores[:, 0], "energy": scores[:, 1]}
        # power is not calibrated here; the place keeps the figures' order
        return calibrate({**named, "power": scores[:, 0]}, models.tolist(), tasks, level)


def _joined(one: _Rows, other: _Rows) -> _Rows:
    return _Rows(
        np.concatenate([one.figures, other.figures]),
        [*one.keys, *other.keys],
        np.concatenate([one.targets, other.targets]),
    )


def _taken(rows: _Rows, keep: NDArray[np.bool_]) -> _Rows:
    keys = [key for key, kept in zip(rows.keys, keep, strict=True) if kept]
    return _Rows(rows.figures[keep], keys, rows.targets[keep])


def _parts(one: _Rows, other: _Rows) -> tuple[Floats, Floats, list[tuple[Floats, Floats]]]:
    """Return inner products, squared distances, and for each level who is the same, and with b."""
    inner = one.figures @ other.figures.T
    lengths = np.sum(one.figures**2, axis=1)[:, None] + np.sum(other.figures**2, axis=1)
    far = np.maximum(lengths - 2.0 * inner, 0.0) / one.figures.shape[1]
    batches = np.outer(one.figures[:, 0], other.figures[:, 0])
    levels = []
    for level in range(_LEVELS):
        code: dict[object, int] = {}
        codes = [
            np.array([code.setdefault(key[level], len(code)) for key in rows.keys])
            for rows in (one, other)
        ]
        same = (codes[0][:, None] == codes[1]).astype(np.float64)
        levels.append((same, same * batches))
    return inner, far, levels


def _covariance(
    parts: tuple[Floats, Floats, list[tuple[Floats, Floats]]], amplitudes: Floats
) -> Floats:
    inner, far, levels = parts
    constant, linear, smooth, length = amplitudes[:4]
    found = constant + linear * inner + smooth * np.exp(-far / (2.0 * length**2))
    for place, (same, turned) in enumerate(levels):
        found = found + amplitudes[4 + 2 * place] * same + amplitudes[5 + 2 * place] * turned
    return np.asarray(found)


def _likeliest(rows: _Rows, figure: int) -> Floats:
    """Return the amplitudes of the greatest marginal likelihood, one after the other."""
    parts = _parts(rows, rows)
    target = rows.targets[:, figure] - rows.targets[:, figure].mean()

    count = len(target)
    whole = np.empty((count + 1, count + 1))

    def cost(amplitudes: Floats) -> float:
        # the target as a last row: its part of the factor is the solution that is wanted
        whole[:-1, :-1] = _covariance(parts, amplitudes) + amplitudes[-1] * np.eye(count)
        whole[-1, :-1] = whole[:-1, -1] = target
        whole[-1, -1] = 1.0 + target @ target / amplitudes[-1]
        try:
            factor = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return math.inf
        half = factor[-1, :-1]
        return float(0.5 * half @ half + np.log(np.diag(factor)[:-1]).sum())

    best = np.array(_START)
    least = cost(best)
    for factor in _FACTORS:
        for _ in range(_ROUNDS):
            for place in range(len(best)):
                for move in (factor, 1.0 / factor):
                    tried = best.copy()
                    tried[place] *= move
                    value = cost(tried)
                    if value < least:
                        best, least = tried, value
    return best


def _posterior(
    known: _Rows, asked: _Rows, amplitudes: Floats, figure: int
) -> tuple[Floats, Floats]:
    """Return mean and variance of a new measurement at `asked`, shape (n,) each."""
    centre = known.targets[:, figure].mean()
    whole = _covariance(_parts(known, known), amplitudes)
    whole += amplitudes[-1] * np.eye(len(known.keys))
    cross = _covariance(_parts(asked, known), amplitudes)
    gain = np.linalg.solve(whole, cross.T).T
    mean = centre + gain @ (known.targets[:, figure] - centre)
    own = np.diag(_covariance(_parts(asked, asked), amplitudes)) + amplitudes[-1]
    return mean, np.maximum(own - np.sum(gain * cross, axis=1), 1e-8)
