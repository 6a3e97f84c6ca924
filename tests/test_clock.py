from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowjoule
from lowjoule.clock import Clock, VirtualClock, WallClock


@given(st.lists(st.floats(0.0, 1e6), max_size=20))
def test_a_virtual_clock_moves_by_what_was_slept(naps: list[float]) -> None:
    clock = VirtualClock(start_unix_s=1e9)
    seen = [clock.now_s()]
    for nap in naps:
        clock.sleep(nap)
        seen.append(clock.now_s())
    assert seen == sorted(seen)
    assert clock.now_s() == pytest.approx(sum(naps))
    assert clock.unix_s() == pytest.approx(1e9 + sum(naps))


@pytest.mark.parametrize("nap", [0.0, -1.0, float("nan"), float("-inf")])
def test_no_time_passes_in_a_sleep_that_is_not_positive(nap: float) -> None:
    virtual = VirtualClock()
    virtual.sleep(nap)
    assert virtual.now_s() == 0.0
    WallClock().sleep(nap)  # time.sleep would raise


def test_the_wall_clock_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 12.0)
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    clock: Clock = WallClock()
    clock.sleep(0.5)
    assert (clock.now_s(), clock.unix_s(), slept) == (12.0, 1.7e9, [0.5])


def test_nothing_else_in_the_package_sleeps_or_reads_a_clock() -> None:
    root = Path(lowjoule.__file__).parent
    offenders = []
    for file in sorted(root.rglob("*.py")):
        aside = "testing" in file.relative_to(root).parts  # fakes of drivers keep real time
        if file.name == "clock.py" or aside:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if "time" in names or module == "time":
                offenders.append(str(file.relative_to(root)))
    assert offenders == []
