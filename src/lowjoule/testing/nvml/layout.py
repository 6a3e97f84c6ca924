"""The shared state as ctypes structures; `c/state.h` declares the same."""

from __future__ import annotations

import ctypes as c
import re

from lowjoule.testing.nvml.build import SOURCE

MAGIC = 0x4C4A4E56
VERSION = 2
MAX_BOARDS = 16
MAX_INSTANCES = 7
MAX_FUNCTIONS = 96
MAX_EPOCHS = 4096
MAX_POINTS = 16384
MAX_WRITES = 4096
MAX_CLIENTS = 64
MAX_FIELD_RULES = 32
MAX_PIDS = 32
MAX_MEMORY_CLOCKS = 8
MAX_GRAPHICS_CLOCKS = 256

# the library's own list, so that the numbers of functions are the same on both sides
FUNCTIONS: tuple[str, ...] = tuple(
    re.findall(r"^    X\((nvml\w+)\)", (SOURCE / "functions.h").read_text("utf-8"), re.MULTILINE)
)
"""The functions of NVML that the library has, beside `nvmlErrorString`."""

SETTERS: tuple[str, ...] = tuple(
    name for name in FUNCTIONS if re.match(r"nvmlDevice(Set|Reset|\w+(Set|Clear)Requested)", name)
)
"""Those of them that write."""


class Point(c.Structure):
    """One step of a load."""

    _fields_ = [("time_s", c.c_double), ("power_w", c.c_double)]


class Epoch(c.Structure):
    """What holds from `begin_s` on."""

    _fields_ = [
        ("begin_s", c.c_double),
        ("energy_j", c.c_double),
        ("load_begin_s", c.c_double),
        ("load_period_s", c.c_double),
        ("load_first", c.c_int32),
        ("load_count", c.c_int32),
        ("limit_mw", c.c_uint32),
        ("other_limit_mw", c.c_uint32),
        ("sm_min_mhz", c.c_uint32),
        ("sm_max_mhz", c.c_uint32),
        ("memory_min_mhz", c.c_uint32),
        ("memory_max_mhz", c.c_uint32),
        ("module_limit_mw", c.c_uint32),
        ("padding", c.c_uint32),
    ]


class Rule(c.Structure):
    """How a function behaves."""

    _fields_ = [
        ("code", c.c_int32),
        ("left", c.c_int32),
        ("lies", c.c_int32),
        ("clamps", c.c_int32),
        ("delay_s", c.c_double),
        ("latency_s", c.c_double),
        ("clamp_low", c.c_double),
        ("clamp_high", c.c_double),
        ("calls", c.c_uint64),
    ]


class FieldRule(c.Structure):
    """How a field value behaves."""

    _fields_ = [
        ("field", c.c_uint32),
        ("scope", c.c_int32),
        ("code", c.c_int32),
        ("value_type", c.c_int32),
    ]


class LoggedWrite(c.Structure):
    """One call of a setter."""

    _fields_ = [
        ("time_s", c.c_double),
        ("first", c.c_int64),
        ("second", c.c_int64),
        ("function", c.c_int32),
        ("board", c.c_int32),
        ("pid", c.c_int32),
        ("code", c.c_int32),
    ]


class Client(c.Structure):
    """A process that has initialised NVML."""

    _fields_ = [("pid", c.c_int32), ("references", c.c_int32)]


class SharedBoard(c.Structure):
    """One board."""

    _fields_ = [
        ("uuid", c.c_char * 96),
        ("name", c.c_char * 96),
        ("pci_bus_id", c.c_char * 32),
        ("serial", c.c_char * 32),
        ("architecture", c.c_uint32),
        ("brand", c.c_uint32),
        ("capability_major", c.c_uint32),
        ("capability_minor", c.c_uint32),
        ("memory_bytes", c.c_uint64),
        ("memory_used_bytes", c.c_uint64),
        ("limit_min_mw", c.c_uint32),
        ("limit_max_mw", c.c_uint32),
        ("limit_default_mw", c.c_uint32),
        ("limit_requested_mw", c.c_uint32),
        ("module_limit_min_mw", c.c_uint32),
        ("module_limit_max_mw", c.c_uint32),
        ("module_limit_default_mw", c.c_uint32),
        ("module_limit_requested_mw", c.c_uint32),
        ("power_smoothing", c.c_int32),
        ("spare", c.c_int32),
        ("persistence", c.c_int32),
        ("instances", c.c_int32),
        ("temperature_c", c.c_int32),
        ("utilisation_percent", c.c_int32),
        ("throttle_reasons", c.c_uint64),
        *((name, c.c_double) for name in (
            "idle_w", "tick_period_s", "tick_phase_s", "tick_jitter_s",
            "sensor_period_s", "sensor_phase_s", "sensor_window_s", "average_window_s",
            "counter_gain", "power_gain", "module_w", "memory_w",
            "reset_s", "reset_j", "frozen_s", "counter_step_j", "power_reading_w",
        )),
        ("reset_known", c.c_int32),
        ("usage_is_average", c.c_int32),
        ("clock_scales_power", c.c_int32),
        ("process_count", c.c_int32),
        ("processes", c.c_int32 * MAX_PIDS),
        ("memory_clock_count", c.c_int32),
        ("memory_clocks_mhz", c.c_uint32 * MAX_MEMORY_CLOCKS),
        ("graphics_clock_count", c.c_int32 * MAX_MEMORY_CLOCKS),
        ("graphics_clocks_mhz", c.c_uint32 * MAX_GRAPHICS_CLOCKS * MAX_MEMORY_CLOCKS),
        ("profiles", c.c_uint32 * 8),
        ("profiles_requested", c.c_uint32 * 8),
        ("field_rules", FieldRule * MAX_FIELD_RULES),
        ("rules", Rule * MAX_FUNCTIONS),
        ("epochs", c.c_int32),
        ("epochs_known", c.c_int32),
        ("epochs_dropped", c.c_int32),
        ("points", c.c_int32),
        ("epoch", Epoch * MAX_EPOCHS),
        ("point", Point * MAX_POINTS),
    ]  # fmt: skip


class SharedState(c.Structure):
    """The whole file."""

    _fields_ = [
        ("magic", c.c_uint32),
        ("version", c.c_uint32),
        ("size", c.c_uint64),
        ("is_virtual", c.c_int32),
        ("unloads", c.c_int32),
        ("fork_safe", c.c_int32),
        ("board_count", c.c_int32),
        ("order", c.c_int32 * MAX_BOARDS),
        ("now_s", c.c_double),
        ("driver_version", c.c_char * 80),
        ("nvml_version", c.c_char * 80),
        ("cuda_version", c.c_int32),
        ("padding", c.c_int32),
        ("writes", c.c_uint64),
        ("write", LoggedWrite * MAX_WRITES),
        ("clients", Client * MAX_CLIENTS),
        ("rules", Rule * MAX_FUNCTIONS),
        ("boards", SharedBoard * MAX_BOARDS),
    ]


SHARED = (Point, Epoch, Rule, FieldRule, LoggedWrite, Client, SharedBoard, SharedState)
"""The structures, in the order in which the library's `lowjoule_fake_sizes` gives their sizes."""
