"""Tokens of served models: what counts, what probes do, what no split may share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowjoule.errors import InvalidValueError
from lowjoule.prediction.inference import Deployment, InferencePredictor, Served
from lowjoule.workloads import DeviceFigures

BOARD = DeviceFigures(
    model="board", operations_per_s=1e15, bandwidth_bytes_per_s=3e12, memory_bytes=80e9
)
BATCH = np.array([8.0, 16.0, 32.0, 64.0, 128.0])


def deployed(
    billions: float, *, precision: str = "bf16", gpus: int = 1, share: float = 1.0
) -> Deployment:
    return Deployment(
        model=f"m{billions:g}",
        use="chat",
        device=BOARD,
        parameters=billions * 1e9,
        active_parameters=share * billions * 1e9,
        architecture="dense" if share == 1.0 else "moe",
        precision=precision,
        gpus=gpus,
    )


def served(one: Deployment, depart: float = 0.0, noise: float = 0.01, seed: int = 0) -> Served:
    """Memory-bound steps with a fixed part; the model departs by a level of its own."""
    random = np.random.default_rng(seed)
    figures = np.exp(one.figures(BATCH)[:, 1]) + 2e-4 / BATCH
    time_s = figures * np.exp(depart + noise * random.standard_normal(len(BATCH)))
    return Served(one, BATCH, time_s, time_s * 400.0 * one.gpus)


def family(depart: float = 0.2) -> list[Served]:
    found = []
    for place, size in enumerate((4.0, 8.0, 12.0, 20.0, 30.0)):
        level = depart * np.random.default_rng(place).standard_normal()
        for precision, gpus in (("bf16", 1), ("fp8", 1), ("bf16", 2)):
            one = deployed(size, precision=precision, gpus=gpus)
            found.append(served(one, level, seed=place))
    return found


@pytest.fixture(scope="module")
def predictor() -> InferencePredictor:
    return InferencePredictor.fit(family())


def test_a_model_never_seen_is_foretold_and_a_probe_helps(predictor: InferencePredictor) -> None:
    truth = served(deployed(16.0), 0.4, noise=0.0)
    blind = predictor.predict(truth.deployment, BATCH)
    probed = predictor.predict(truth.deployment, BATCH, [truth.only(np.array([2]))])
    errors = [np.abs(one.energy_j / truth.energy_j - 1.0).mean() for one in (blind, probed)]
    assert errors[0] < 0.6
    assert errors[1] < errors[0] / 2
    widths = [
        np.log(o.energy_interval_j[1] / o.energy_interval_j[0]).mean() for o in (blind, probed)
    ]
    assert widths[1] < widths[0]
    assert blind.groups == 5
    assert blind.most == pytest.approx(5 / 6)


def test_a_probe_of_another_precision_of_the_model_helps_too(predictor: InferencePredictor) -> None:
    truth = served(deployed(16.0), 0.5, noise=0.0)
    other = served(deployed(16.0, precision="fp8"), 0.5, noise=0.0)
    blind = predictor.predict(truth.deployment, BATCH)
    told = predictor.predict(truth.deployment, BATCH, [other])
    errors = [np.abs(one.time_s / truth.time_s - 1.0).mean() for one in (blind, told)]
    assert errors[1] < errors[0]


def test_fewer_bytes_and_more_gpus_take_less_time(predictor: InferencePredictor) -> None:
    plain = predictor.predict(deployed(20.0), BATCH).time_s
    assert (predictor.predict(deployed(20.0, precision="fp8"), BATCH).time_s < plain).all()
    assert (predictor.predict(deployed(20.0, gpus=2), BATCH).time_s < plain).all()


def test_a_batch_touches_more_experts() -> None:
    sparse, dense = deployed(40.0, share=0.1), deployed(40.0)
    read = [np.exp(one.figures(BATCH)[:, 1]) * BATCH for one in (sparse, dense)]
    assert (np.diff(read[0]) > 0).all()
    assert (read[0] < read[1]).all()
    np.testing.assert_allclose(read[1], read[1][0])


def test_intervals_hold_models_out_whole() -> None:
    two = [one for one in family() if one.deployment.model in ("m4", "m8")]
    assert InferencePredictor.fit(two).calibration.groups == 2
    alone = [one for one in family() if one.deployment.model == "m4"]
    with pytest.raises(InvalidValueError, match="one model"):
        InferencePredictor.fit(alone)


def test_what_is_not_known_of_a_deployment_is_said() -> None:
    with pytest.raises(InvalidValueError, match="precision of 'odd'"):
        deployed(1.0, precision="odd")
    with pytest.raises(InvalidValueError, match="lacks"):
        replace(deployed(1.0), device=DeviceFigures(model="board"))
