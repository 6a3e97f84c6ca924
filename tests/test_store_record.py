from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError, LowjouleError
from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.store import Record
from lowjoule.store.cells import cell_of, value_of
from lowjoule.workloads import Work, WorkUnit
from store_records import record, records, typed


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("time_s", 0.0, "time_s is 0"),
        ("time_s", math.nan, "time_s is nan"),
        ("energy_j", -1.0, "energy_j is -1"),
        ("energy_j", True, "energy_j is True, not a number"),
        ("energy_j", "5", "energy_j is '5', not a number"),
        ("energy_sd_j", -0.1, "energy_sd_j is -0.1"),
        ("memory_bytes", math.inf, "memory_bytes is inf"),
        ("memory_bytes", 10**400, "memory_bytes is inf"),
        ("windows", 0, "windows is 0"),
        ("windows", 1.5, "windows is 1.5"),
        ("device_model", "", "device_model is empty"),
        ("device_uuid", None, "device_uuid is None, not text"),
        ("driver", "a\0", "driver holds a character"),
        ("workload", "\ud800", "workload holds a character"),
        ("workload", "x" * 501, "workload has 501 characters"),
        ("provenance", {"x": math.nan}, "provenance cannot be written as JSON"),
        ("provenance", {"x": {1, 2}}, "provenance cannot be written as JSON"),
        ("provenance", {"x": "y" * 70000}, "provenance takes 70009 characters"),
        ("provenance", [], "provenance cannot be written as JSON"),
        ("asked", Setting({"precision": "fp8"}), "achieved does not say what became of precision"),
        ("achieved", Setting({"power_limit": math.nan}), "achieved power_limit is nan"),
        ("achieved", Setting({"power_limit": 2**63}), "achieved power_limit is 9223"),
        ("achieved", Setting({"": 1}), "a knob of achieved is empty"),
        ("achieved", Setting({"power_limit": True}), "achieved power_limit is True"),
        ("achieved", 3, "achieved is 3, not a setting"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(field: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        record(**{field: value})
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_become_plain_ones() -> None:
    int_of_numpy: Any = np.int64(64)
    one = record(np.float64(250.0), int_of_numpy, time_s=np.float32(2.0), windows=np.int64(3))
    assert type(one.time_s) is float
    assert type(one.windows) is int
    assert [type(value) for value in one.asked.values()] == [int, float]


@given(records())
def test_a_record_is_its_flat_form(one: Record) -> None:
    assert typed(Record.from_flat(one.flat())) == typed(one)


@given(
    st.dictionaries(st.sampled_from(sorted(record().flat())), st.none() | st.text() | st.floats())
)
def test_a_wrong_flat_form_is_refused_in_our_words(changes: dict[str, object]) -> None:
    try:
        one = Record.from_flat({**record().flat(), **changes})
    except LowjouleError:
        return
    assert Record.from_flat(one.flat()) == one


def test_the_flat_form_needs_little() -> None:
    needed = {k: v for k, v in record().flat().items() if k not in ("driver", "achieved")}
    del needed["lowjoule_version"]
    one = Record.from_flat(needed)
    assert one.achieved == one.asked
    assert (one.driver, one.lowjoule_version) == ("", "")
    with pytest.raises(InvalidValueError, match=r"^work, energy_j is missing"):
        Record.from_flat({k: v for k, v in needed.items() if k not in ("work", "energy_j")})
    with pytest.raises(LowjouleError, match=r"unknown source 'measure'; did you mean 'measured'"):
        Record.from_flat({**needed, "source": "measure"})
    with pytest.raises(LowjouleError, match="unknown field 'energy'"):
        Record.from_flat({**needed, "energy": 1.0})


def test_the_key_tells_what_was_measured_not_how_it_came_here() -> None:
    one = record()
    same = record(250, 64.0, provenance={"from": "elsewhere"}, lowjoule_version="0.0.1")
    assert same.key == one.key
    changes: list[dict[str, Any]] = [
        {"device_uuid": "GPU-2"},
        {"source": Source.SIMULATED},
        {"work": Work(64.0, WorkUnit.TOKEN)},
        {"energy_j": math.nextafter(400.0, 500.0)},
        {"when_unix_s": 1.0},
        {"latency_s": 0.0},
        {"achieved": Setting([("power_limit", "250.0"), ("batch_size", 64)])},
    ]
    assert len({one.key, *(replace(one, **change).key for change in changes)}) == 8


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_a_cell_keeps_a_value_and_its_type(value: Any) -> None:
    if isinstance(value, int) and abs(value) >= 10**400:
        return
    again = value_of(cell_of(value))
    assert (again, type(again)) == (value, type(value))


@given(st.text())
def test_any_cell_reads_or_is_refused_in_our_words(cell: str) -> None:
    try:
        value = value_of(cell)
    except LowjouleError:
        return
    assert value is None or isinstance(value, int | float | str)
