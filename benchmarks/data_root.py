"""Where the public measurements lie that benchmarks and tests read."""

from __future__ import annotations

import os
from pathlib import Path


def data_root() -> Path | None:
    """Return `LOWJOULE_DATA`, or `../shared/data` beside the repository; None where absent."""
    named = os.environ.get("LOWJOULE_DATA")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return root if root.is_dir() else None


def needed_root() -> Path:
    """Return `data_root()`; ends the process with a word where there is none."""
    root = data_root()
    if root is None:
        raise SystemExit("no measurements here: set LOWJOULE_DATA to their folder")
    return root
