"""A setting that a run has tried: what came of it, so that the run can go on after an end."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.knobs import Setting

ATTEMPT_TEXTS = ("run", "device_model", "device_uuid", "workload", "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One setting tried in a `run`, a text that names one configuration of one thing to do.

    `failure` is why there is no point of it (it does not fit the memory, it was refused); None
    where there is one. `signature` is that of the workload's definition.
    """

    run: str
    device_model: str
    device_uuid: str
    workload: str
    signature: str
    asked: Setting
    failure: str | None = None
