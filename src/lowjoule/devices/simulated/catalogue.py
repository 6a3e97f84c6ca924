"""The simulated GPUs that there are: their public figures, read from `gpus.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lowjoule.devices.simulated.physics import Chip
from lowjoule.errors import UnknownNameError

MOST_CLOCKS = 128  # more bins than this are thinned, so that a space stays small


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A kind of GPU, in SI units.

    `tensor` and `vector` are dense peak rates (operations per second) by precision at the top
    clock. `clocks_hz` and `memory_clocks_hz` ascend. `tick_s` is the energy counter's period,
    `sensor_s` the power sensor's, `power_window_s` what power is averaged over (0 is instant).
    `calibrated` says whether the power and voltage figures of `chip` come from a fit to
    published measurements of this board or follow from its power limit alone.
    """

    name: str
    title: str
    vendor: str
    tensor: dict[str, float]
    vector: dict[str, float]
    bandwidth_bytes_s: float
    memory_bytes: float
    clocks_hz: tuple[float, ...]
    memory_clocks_hz: tuple[float, ...]
    limits_w: tuple[float, ...]
    default_limit_w: float
    tick_s: float
    sensor_s: float
    power_window_s: float
    limit_latency_s: float
    clock_latency_s: float
    chip: Chip
    calibrated: bool
    sources: tuple[str, ...]

    @property
    def precisions(self) -> tuple[str, ...]:
        """The number formats that the board computes in."""
        return tuple(dict.fromkeys((*self.tensor, *self.vector)))


def gpu_names() -> tuple[str, ...]:
    """Return the names of all simulated GPUs, without the aliases."""
    return tuple(_tables()["gpu"])


def gpu(name: str) -> GpuModel:
    """Return the GPU called `name` (case does not matter); raises `UnknownNameError`."""
    tables = _tables()
    wanted = name.strip().lower()
    aliases: dict[str, str] = tables["alias"]
    wanted = aliases.get(wanted, wanted)
    if wanted not in tables["gpu"]:
        raise UnknownNameError.among("simulated GPU", name, (*tables["gpu"], *aliases))
    return _model(wanted, tables["gpu"][wanted])


def published(model: str) -> GpuModel | None:
    """Return what is published of the board that its driver calls `model`, None where nothing is.

    The titles of simulated GPUs count too, so that a store of either finds the same figures.
    """
    tables = _tables()
    by_name = {entry["title"]: name for name, entry in tables["gpu"].items()}
    by_name |= tables["driver_name"]
    return gpu(by_name[model]) if model in by_name else None


def chip_of(limit_w: float, **given: float) -> Chip:
    """Return the electrical and thermal figures, by default from the board's power limit.

    The parts are of a board at whose limit a dense matrix product just cannot hold the top clock;
    the cooler is such that the limit heats it by 45 K.
    """
    figures = {
        "idle_w": 0.09 * limit_w,
        "leakage_w": 0.06 * limit_w,
        "dynamic_w": 0.95 * limit_w,
        "memory_w": 0.18 * limit_w,
        "memory_idle_w": 0.05 * limit_w,
        "resistance_c_per_w": 45.0 / limit_w,
    }
    return Chip(**{**figures, **given})


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("gpus.toml").read_text(encoding="utf-8"))


def _model(name: str, entry: dict[str, Any]) -> GpuModel:
    low_w, default_w, high_w = entry["power_limit_w"]
    return GpuModel(
        name=name,
        title=entry["title"],
        vendor=entry["vendor"],
        tensor={key: rate * 1e12 for key, rate in entry.get("tensor_tflops", {}).items()},
        vector={key: rate * 1e12 for key, rate in entry["vector_tflops"].items()},
        bandwidth_bytes_s=entry["bandwidth_gb_s"] * 1e9,
        memory_bytes=entry["memory_gb"] * 1e9,
        clocks_hz=_clocks_hz(*entry["sm_clock_mhz"]),
        memory_clocks_hz=tuple(one * 1e6 for one in sorted(entry["memory_clocks_mhz"])),
        limits_w=_limits_w(low_w, default_w, high_w),
        default_limit_w=float(default_w),
        tick_s=entry.get("tick_ms", 100) / 1e3,
        sensor_s=entry.get("sensor_ms", 100) / 1e3,
        power_window_s=float(entry.get("power_window_s", 0.0)),
        limit_latency_s=entry.get("limit_latency_ms", 150) / 1e3,
        clock_latency_s=entry.get("clock_latency_ms", 50) / 1e3,
        chip=chip_of(float(default_w), **entry.get("chip", {})),
        calibrated=bool(entry["calibrated"]),
        sources=tuple(entry["sources"]),
    )


def _clocks_hz(low: int, high: int, step: int) -> tuple[float, ...]:
    """Return the clocks downward from the top, the lowest included; in wider steps where many."""
    stride = step * -(-((high - low) // step + 1) // MOST_CLOCKS)
    values = {*range(high, low - 1, -stride), low}
    return tuple(one * 1e6 for one in sorted(values))


def _limits_w(low: float, default: float, high: float) -> tuple[float, ...]:
    """Return the limits in steps of 5 W, with the ends and the default."""
    steps = {float(one) for one in range(int(-(-low // 5) * 5), int(high) + 1, 5)}
    return tuple(sorted(steps | {float(low), float(default), float(high)}))
