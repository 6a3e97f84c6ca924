"""Predictors kept as versioned JSON: our arrays as lists, trees as XGBoost's own JSON.

Nothing is unpickled: a file from elsewhere can hold wrong numbers but runs no code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowjoule.errors import InvalidValueError
from lowjoule.prediction.baseline import NAMES
from lowjoule.prediction.boosted import Growth, Trees
from lowjoule.prediction.features import ANCHORED, STATIC
from lowjoule.prediction.gaussian import Basis, Mixed, Weights
from lowjoule.prediction.intervals import Calibration, Hull
from lowjoule.prediction.learning import Joint
from lowjoule.prediction.members import FEATURES, Pair, Recipe, State
from lowjoule.prediction.neighbours import Neighbours
from lowjoule.prediction.predictor import Predictor
from lowjoule.sink import Sink

FORMAT = "lowjoule predictor"
VERSION = 2

# What the arrays' places mean; a file made with others is refused.
_LAYOUT = {
    "figures": list(NAMES),
    "features": list(FEATURES),
    "signature": [*ANCHORED, *STATIC],
}


def save(predictor: Predictor, path: Path) -> None:
    """Write `predictor` to `path`, all of it or nothing.

    Raises `InvalidValueError` where it cannot be written.
    """
    Sink(path).write(text_of(predictor))


def load(path: Path) -> Predictor:
    """Return the predictor at `path`.

    Raises `InvalidValueError` where it is no predictor or one of another version,
    `MissingExtraError` where it has trees and XGBoost is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidValueError(
            f"{path} cannot be read ({reason})", cure="name a file that save wrote"
        ) from None
    return read(text, str(path))


def text_of(predictor: Predictor) -> str:
    """Return `predictor` as JSON."""
    state = predictor.state
    content = {
        "format": FORMAT,
        "version": VERSION,
        "layout": _LAYOUT,
        "recipe": asdict(predictor.recipe),
        "chosen": {kind: [list(one) for one in pair] for kind, pair in predictor.chosen.items()},
        "devices": {kind: list(names) for kind, names in state.devices.items()},
        "calibration": {
            "level": predictor.calibration.level,
            "quantiles": [_list(one) for one in predictor.calibration.quantiles],
        },
        "joint": _fields(state.joint),
        "basis": _fields(state.basis),
        "mixed": [_mixed(one) for one in state.mixed],
        "neighbours": [
            {
                "signatures": _list(n.signatures),
                "weights": _list(n.weights),
                "models": n.models,
                "count": n.count,
            }
            for n in state.neighbours
        ],
        "trees": [json.loads(one.text()) for one in state.trees],
        "hull": {
            "names": list(state.hull.names),
            "low": _list(state.hull.low),
            "high": _list(state.hull.high),
        },
        "farthest": state.farthest if math.isfinite(state.farthest) else None,
        "turned": state.turned.tolist(),
    }
    return json.dumps(content, allow_nan=False)


def read(text: str, name: str = "the text") -> Predictor:
    """Return the predictor of `text`, called `name` in errors; raises as `load` does."""
    try:
        content = json.loads(text)
        known = isinstance(content, dict) and content.get("format") == FORMAT
    except ValueError:
        known = False
    if not known:
        raise InvalidValueError(f"{name} is not a saved predictor", cure="name one made by save")
    if content.get("version") != VERSION or content.get("layout") != _LAYOUT:
        raise InvalidValueError(
            f"{name} is a predictor of version {content.get('version')}, this reads {VERSION}",
            cure="fit and save it again with this version of lowjoule",
        )
    try:
        return _predictor(content)
    except (KeyError, TypeError, IndexError) as error:
        raise InvalidValueError(
            f"{name} is a damaged predictor: {error}", cure="fit and save it again"
        ) from error


def _predictor(content: Mapping[str, Any]) -> Predictor:
    hull = content["hull"]
    mixed = [_read_mixed(one) for one in content["mixed"]]
    near = [
        Neighbours(_array(n["signatures"]), _array(n["weights"]), list(n["models"]), n["count"])
        for n in content["neighbours"]
    ]
    farthest = content["farthest"]
    state = State(
        joint=Joint(**{name: _array(value) for name, value in content["joint"].items()}),
        basis=Basis(**{name: _array(value) for name, value in content["basis"].items()}),
        mixed=(mixed[0], mixed[1]),
        neighbours=(near[0], near[1]),
        trees=tuple(Trees.read(json.dumps(one)) for one in content["trees"]),
        hull=Hull(tuple(hull["names"]), _array(hull["low"]), _array(hull["high"])),
        farthest=math.inf if farthest is None else farthest,
        turned=np.array(content["turned"], dtype=np.bool_),
        devices={kind: tuple(names) for kind, names in content["devices"].items()},
    )
    told = dict(content["recipe"])
    members = told.pop("members")
    recipe = Recipe(
        **{**told, "growth": None if told["growth"] is None else Growth(**told["growth"])},
        members=None if members is None else tuple(members),
    )
    chosen: dict[str, Pair] = {
        kind: (tuple(pair[0]), tuple(pair[1])) for kind, pair in content["chosen"].items()
    }
    told = content["calibration"]
    quantiles = tuple(_array(one) for one in told["quantiles"])
    return Predictor(state, chosen, Calibration(told["level"], quantiles), recipe)


def _mixed(mixed: Mixed) -> dict[str, Any]:
    return {
        "mean": _list(mixed.shared.mean),
        "covariance": _list(mixed.shared.covariance),
        "variances": [mixed.shared_var, mixed.own_var, mixed.noise_var],
        "tasks": _list(mixed.tasks),
    }


def _read_mixed(told: Mapping[str, Any]) -> Mixed:
    shared = Weights(_array(told["mean"]), _array(told["covariance"]))
    shared_var, own_var, noise_var = map(float, told["variances"])
    return Mixed(shared, shared_var, own_var, noise_var, _array(told["tasks"]))


def _fields(part: Joint | Basis) -> dict[str, Any]:
    return {name: _list(getattr(part, name)) for name in type(part).__slots__}


def _list(array: NDArray[np.float64]) -> list[Any]:
    """Return nested lists, None for what is not known (NaN)."""
    cells = array.astype(object)
    cells[np.isnan(array)] = None
    return list(cells.tolist())


def _array(values: list[Any]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)
