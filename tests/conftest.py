from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from lowjoule.testing.nvml import FakeNvml, compiler

# No deadline: machines are shared. Derandomised: a failure is repeatable.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def data_root() -> Path | None:
    """Return `LOWJOULE_DATA`, or `../shared/data` beside the repository; None where absent."""
    named = os.environ.get("LOWJOULE_DATA")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return root if root.is_dir() else None


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public measurements; tests that need it skip where it is absent."""
    root = data_root()
    if root is None:
        pytest.skip("no public measurements here: set LOWJOULE_DATA to their folder")
    return root


@pytest.fixture(autouse=True)
def _nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep simulated boards and the store of each test to itself."""
    monkeypatch.setenv("LOWJOULE_SIMULATED", str(tmp_path / "simulated"))
    monkeypatch.setenv("LOWJOULE_CLAIMS", str(tmp_path / "claims"))
    monkeypatch.setenv("LOWJOULE_JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("LOWJOULE_WATCHDOG", "off")
    monkeypatch.setenv("LOWJOULE_STORE", str(tmp_path / "store.sqlite"))


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Iterator[Callable[..., FakeNvml]]:
    """Make fakes of NVML in the test's folder; skip where they cannot be compiled."""
    if compiler() is None:
        pytest.skip("the fake NVML needs a C compiler: install gcc")
    with ExitStack() as stack:
        yield lambda boards, **options: stack.enter_context(
            FakeNvml(boards, folder=tmp_path, **options)
        )
