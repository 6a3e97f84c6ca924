"""Knobs, settings and spaces: what can be turned, one value for each, all allowed combinations."""

from lowjoule.knobs.change import Change, change_between
from lowjoule.knobs.knob import Knob, Privilege, Scope, Value
from lowjoule.knobs.path import path
from lowjoule.knobs.rules import AtMost, Divides, Rule
from lowjoule.knobs.setting import Applied, Setting
from lowjoule.knobs.space import Space
from lowjoule.knobs.standard import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    MODULE_POWER_LIMIT,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    micro_batch_knob,
    standard_knob,
)
from lowjoule.knobs.text import parse_setting, show_setting, show_values
from lowjoule.knobs.turning import turnable

__all__ = [
    "BATCH_SIZE",
    "MEMORY_CLOCK",
    "MICRO_BATCH",
    "MODULE_POWER_LIMIT",
    "POWER_LIMIT",
    "PRECISION",
    "SM_CLOCK",
    "Applied",
    "AtMost",
    "Change",
    "Divides",
    "Knob",
    "Privilege",
    "Rule",
    "Scope",
    "Setting",
    "Space",
    "Value",
    "change_between",
    "micro_batch_knob",
    "parse_setting",
    "path",
    "show_setting",
    "show_values",
    "standard_knob",
    "turnable",
]
