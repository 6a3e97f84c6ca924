"""Records for tests of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from lowjoule.knobs import BATCH_SIZE, POWER_LIMIT, Setting, Value
from lowjoule.source import Source
from lowjoule.store import Record
from lowjoule.workloads import Work, WorkUnit

PLAIN: dict[str, Any] = {
    "device_model": "NVIDIA A100",
    "device_uuid": "GPU-1",
    "backend": "nvml",
    "driver": "550.54",
    "source": Source.MEASURED,
    "workload": "resnet50",
    "signature": "abc",
    "work": Work(64.0, WorkUnit.SAMPLE),
    "time_s": 2.0,
    "energy_j": 400.0,
}


def record(power_limit: Value = 250.0, batch_size: Value = 64, **changes: Any) -> Record:
    setting = Setting({POWER_LIMIT: power_limit, BATCH_SIZE: batch_size})
    return Record(**{**PLAIN, "asked": setting, "achieved": setting, **changes})


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = TEXT.filter(bool)
POSITIVE = st.floats(1e-300, 1e300)
NOT_NEGATIVE = st.none() | st.floats(0, 1e300)
VALUES = (
    st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["64", "1e3", "nan", '"64"', " x ", "", "-inf", "bf16", "a,b", "\r"])
)
SETTINGS = st.dictionaries(NAMES, VALUES, max_size=3).map(Setting)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> Record:
    asked = draw(SETTINGS)
    more = draw(SETTINGS) if asked else Setting()
    achieved = Setting({**more, **{name: draw(VALUES) for name in asked}})
    fields: Mapping[str, Any] = {
        **{k: draw(NAMES) for k in ("device_model", "device_uuid", "backend", "workload")},
        "signature": draw(NAMES),
        **{k: draw(TEXT) for k in ("driver", "lowjoule_version", "python_version")},
        "source": draw(st.sampled_from(Source)),
        "work": Work(draw(POSITIVE), draw(st.sampled_from(WorkUnit))),
        **{k: draw(POSITIVE) for k in ("time_s", "energy_j")},
        **{k: draw(NOT_NEGATIVE) for k in ("time_sd_s", "energy_sd_j", "peak_power_w")},
        **{k: draw(NOT_NEGATIVE) for k in ("wait_power_w", "memory_bytes", "latency_s")},
        "when_unix_s": draw(st.none() | st.floats(-1e10, 1e10)),
        "windows": draw(st.integers(1, 1000)),
        "provenance": draw(st.dictionaries(st.text(max_size=3), JSON, max_size=3)),
    }
    return Record(asked=asked, achieved=achieved, **fields)


def typed(one: Record) -> tuple[object, ...]:
    """A record with the types of its settings' values, which `==` does not see."""
    kinds = [{k: type(v) for k, v in s.items()} for s in (one.asked, one.achieved)]
    return (one, *kinds)
