"""What a loop tells: work done, when, in which phase, by which rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

_GAP_S = 1.0
_GAP_STEPS = 20.0
_FEW_STEPS = 8
_REMEMBERED = 32


class Phase(StrEnum):
    """What the loop does: steps count, and what is between a pause and the next step does not."""

    STEP = "step"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`work` units were done by `time_s` of the device's clock; the rank is that on this node."""

    work: float
    time_s: float
    phase: Phase = Phase.STEP
    rank: int = 0


def samples_in(batch: object) -> float | None:
    """Return how many samples a batch holds, None where that cannot be seen.

    A pair of inputs and labels, or a dict of fields, holds as many as its first member.
    """
    if isinstance(batch, Mapping):
        return samples_in(next(iter(batch.values()))) if batch else None
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return float(shape[0]) if len(shape) else None
    if isinstance(batch, str | bytes) or not isinstance(batch, Sequence):
        return None
    first = batch[0] if len(batch) else None
    nested = isinstance(first, Mapping | Sequence) and not isinstance(first, str | bytes)
    if nested or getattr(first, "shape", None):
        return samples_in(first)
    return float(len(batch)) or None


class Gaps:
    """Tells a pause that nobody declared from a slow step: far longer than steps usually are."""

    def __init__(self) -> None:
        self._steps_s: list[float] = []
        self._last_s: float | None = None

    def forget(self) -> None:
        """Do not judge the next step: what was before it is no step."""
        self._last_s = None

    def length_s(self, now_s: float) -> float | None:
        """Return how long the gap before the step that ends now was, None where it was none."""
        last_s, self._last_s = self._last_s, now_s
        if last_s is None:
            return None
        took_s = now_s - last_s
        known = sorted(self._steps_s)
        if len(known) >= _FEW_STEPS:
            usual_s = known[len(known) // 2]
            if took_s > max(_GAP_S, _GAP_STEPS * usual_s):
                return took_s
        self._steps_s.append(took_s)
        del self._steps_s[:-_REMEMBERED]
        return None
