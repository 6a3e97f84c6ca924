"""NVML's field values: many figures of a board in one call, each with its own return code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowjoule.devices.nvml.codes import LOST, board_error
from lowjoule.devices.nvml.driver import Answer, Driver

Field = tuple[int, int]
"""A field's number and the scope that it is asked for."""

GPU, MODULE = 0, 1

ENERGY = 83
AVERAGE_POWER = 185
INSTANT_POWER = 186
LEAST_LIMIT = 187
MOST_LIMIT = 188
DEFAULT_LIMIT = 189
ENFORCED_LIMIT = 190
REQUESTED_LIMIT = 192
SMOOTHING = 251

# which member of the union holds the value; drivers differ in the type that they answer with
_MEMBER = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_FUNCTION = "nvmlDeviceGetFieldValues"


def field_values(driver: Driver, uuid: str, fields: Sequence[Field]) -> Mapping[Field, Answer]:
    """Return what the board `uuid` answers for each of `fields`, all asked in one call.

    Raises `LostDeviceError`. A driver that does not know the call answers so for each field.
    """
    if not fields:
        return {}
    answer = driver.attempt(uuid, _FUNCTION, list(fields))
    if not answer.works:
        return dict.fromkeys(fields, answer)
    return {field: _decoded(raw, uuid) for field, raw in zip(fields, answer.value, strict=True)}


def _decoded(raw: Any, uuid: str) -> Answer:
    code = int(raw.nvmlReturn)
    if code in LOST:
        raise board_error(code, _FUNCTION, uuid)
    if code or not 0 <= raw.valueType < len(_MEMBER):
        return Answer(None, code or 3)
    return Answer(getattr(raw.value, _MEMBER[raw.valueType]))
