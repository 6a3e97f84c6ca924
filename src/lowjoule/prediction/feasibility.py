"""Which predicted settings keep to constraints: surely, in the middle, or perhaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowjoule.objectives.objective import Constraint, Outcome
from lowjoule.prediction.predictor import Prediction
from lowjoule.profile import Profile
from lowjoule.source import Source

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """Which settings keep to all constraints, each of shape (n,).

    `surely` over the whole interval, `likely` by the predicted figures themselves, `perhaps`
    somewhere in the interval. A setting that was measured is sure where it is likely. What else is
    likely and not sure needs measuring before it is believed.
    """

    surely: Mask
    likely: Mask
    perhaps: Mask


def feasibility(prediction: Prediction, constraints: Sequence[Constraint]) -> Feasibility:
    """Return which settings of `prediction` keep to `constraints`.

    The ends are those of time and energy together, and of power at the predicted time. Raises
    `IncomparableError` where a constraint is about a figure that is not predicted, or compares
    with a default that is not there.
    """
    profile = prediction.profile
    time_s, power_w = prediction.time_interval_s, prediction.power_interval_w
    energy_j = prediction.energy_interval_j

    def at(times: Floats, energies: Floats) -> Outcome:
        return Outcome(
            time_s=times,
            energy_j=energies,
            peak_power_w=profile.peak_power_w,
            memory_bytes=profile.memory_bytes,
            latency_s=profile.latency_s,
        )

    middle = at(profile.time_s, profile.energy_j)
    ends = [
        (at(time_s[end], energy_j[end]), at(profile.time_s, power_w[end] * profile.time_s))
        for end in (0, 1)
    ]
    kept = [np.ones(len(profile), dtype=np.bool_) for _ in range(3)]
    for one in constraints:
        base = profile.baseline() if one.needs_baseline else None
        low, high = (
            np.maximum(one.excess(pair[0], base), one.excess(pair[1], base)) for pair in ends
        )
        here = one.excess(middle, base)
        if one.needs_baseline:
            # the default has no interval against itself
            low, high = (np.where(profile.at_default(), here, end) for end in (low, high))
        worst = np.maximum(np.maximum(low, high), here)
        best = np.minimum(np.minimum(low, high), here)
        for mask, excess in zip(kept, (worst, here, best), strict=True):
            mask &= excess <= 0.0
    surely, likely, perhaps = kept
    known = measured(profile)
    return Feasibility(np.where(known, likely, surely), likely, np.where(known, likely, perhaps))


def measured(profile: Profile) -> Mask:
    """Return which rows of a predicted profile were measured (or replayed), shape (n,)."""
    own = (
        np.full(len(profile), profile.source.value) if profile.sources is None else profile.sources
    )
    return np.isin(own, [Source.MEASURED.value, Source.REPLAYED.value])
