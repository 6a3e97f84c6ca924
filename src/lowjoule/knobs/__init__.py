"""Knobs, settings and spaces: what can be turned, one value for each, all allowed combinations."""

from lowjoule.knobs.knob import Knob, Privilege, Scope, Value
from lowjoule.knobs.path import path
from lowjoule.knobs.setting import Applied, Setting
from lowjoule.knobs.space import AtMost, Divides, Rule, Space
from lowjoule.knobs.standard import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    standard_knob,
)

__all__ = [
    "BATCH_SIZE",
    "MEMORY_CLOCK",
    "MICRO_BATCH",
    "POWER_LIMIT",
    "PRECISION",
    "SM_CLOCK",
    "Applied",
    "AtMost",
    "Divides",
    "Knob",
    "Privilege",
    "Rule",
    "Scope",
    "Setting",
    "Space",
    "Value",
    "path",
    "standard_knob",
]
