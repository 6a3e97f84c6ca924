"""Boosted trees by XGBoost, from the extra `predict`; nothing else here imports it.

Trees learn what the baseline leaves, so that they return nothing where they know nothing. A
monotone constraint holds for what they return, and so for the prediction only where there is no
baseline below them; with one, `monotone.monotone` makes the sum keep to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError, MissingExtraError

Floats = NDArray[np.float64]

GAIN = (
    "XGBoost is not installed: physics and the Gaussian process stand alone; "
    "pip install 'lowjoule[predict]' adds boosted trees where those are clearly better"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How trees are grown: usual values for some hundreds of rows, or chosen over models."""

    depth: int = 3
    rounds: int = 80
    rate: float = 0.08
    least_rows: float = 8.0
    ridge: float = 2.0


# Shallower and longer, as it is usual, deeper and shorter: chosen from over models.
GROWTHS = (Growth(), Growth(depth=2, rounds=120), Growth(depth=5, rounds=60))


def available() -> bool:
    """Return whether some XGBoost is installed."""
    return find_spec("xgboost") is not None


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError.of("xgboost", "predict", "boosted trees") from None
    return xgboost


class Trees:
    """A grown ensemble of one figure."""

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @classmethod
    def grow(
        cls,
        features: Floats,
        targets: Floats,
        weights: Floats,
        growth: Growth,
        monotone: tuple[int, ...] | None = None,
    ) -> Trees:
        """Return trees for `targets` (n,) by `features` (n, k), NaN where not known.

        `monotone` is 1, 0 or -1 for each feature. Raises `MissingExtraError`.
        """
        xgboost = _xgboost()
        options: dict[str, Any] = {
            "max_depth": growth.depth,
            "eta": growth.rate,
            "min_child_weight": growth.least_rows * float(np.mean(weights)),
            "lambda": growth.ridge,
            "subsample": 0.8,
            "colsample_bytree": 0.7,
            "base_score": 0.0,
            "tree_method": "hist",
            "max_bin": 64,
            "nthread": 1,
            "seed": 0,
            "verbosity": 0,
        }
        if monotone is not None:
            options["monotone_constraints"] = "(" + ",".join(map(str, monotone)) + ")"
        table = xgboost.DMatrix(features, label=targets, weight=weights, nthread=1)
        return cls(xgboost.train(options, table, num_boost_round=growth.rounds))

    def __call__(self, features: Floats) -> Floats:
        """Return the trees' sum at `features` (n, k), shape (n,)."""
        found = self._booster.inplace_predict(np.asarray(features, dtype=np.float32))
        return np.asarray(found, dtype=np.float64)

    def text(self) -> str:
        """Return the ensemble as XGBoost's own JSON."""
        return bytes(self._booster.save_raw(raw_format="json")).decode("utf-8")

    @classmethod
    def read(cls, text: str) -> Trees:
        """Return the ensemble of `text`. Raises `InvalidValueError`, `MissingExtraError`."""
        xgboost = _xgboost()
        booster = xgboost.Booster({"nthread": 1})
        try:
            booster.load_model(bytearray(text.encode("utf-8")))
        except xgboost.core.XGBoostError as error:
            raise InvalidValueError(
                "the trees of a saved predictor cannot be read", cure="fit and save it again"
            ) from error
        return cls(booster)
