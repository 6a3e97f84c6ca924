"""Files of windows: JSONL and CSV, one for each run and rank.

A record is one write to a file opened for appending, so that records of threads and processes
never mix and a process that is killed leaves whole lines. The columns of CSV are fixed and their
version is the first of them: what is missing is empty, and never shifts the others.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lowjoule.errors import InvalidValueError

COLUMNS = (
    *("schema", "name", "begin_unix_s", "device", "model", "scope", "source", "method", "time_s"),
    *("energy_j", "uncertainty_j", "calibration_j", "power_w", "peak_power_w", "counter_j"),
    *("integral_j", "idle_energy_j", "work", "work_unit", "energy_per_unit_j", "flags", "notes"),
)
"""The columns of a CSV file: a row for each device, and one for all of them, "total"."""

TOTAL = "total"
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_RUNS = ("LOWJOULE_RUN", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
_guard = threading.Lock()


def log_path(folder: str | Path, *, suffix: str = ".jsonl") -> Path:
    """Return a file in `folder` of this run and rank, as launchers tell them, and process.

    A job array, ranks and runs one after the other each have their own.
    """
    run = next((os.environ[name] for name in _RUNS if os.environ.get(name)), "run")
    array = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
    parts = [run, *([array] if array else []), f"rank{rank}", f"pid{os.getpid()}"]
    safe = ["".join(c if c.isalnum() or c in "._" else "_" for c in part) for part in parts]
    return Path(folder) / ("-".join(safe) + suffix)


def append(path: str | Path, record: Mapping[str, Any]) -> None:
    """Append the record of a window (`Window.to_dict`) to a .jsonl or .csv file.

    Raises `InvalidValueError` for another kind of file and `OSError`.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        _write(path, json.dumps(_finite(record), allow_nan=False) + "\n", header="")
    elif path.suffix == ".csv":
        _write(path, _rows(record), header=",".join(COLUMNS) + "\n")
    else:
        raise InvalidValueError(
            f"{path.name} is no log of windows", cure="give it the suffix .jsonl or .csv"
        )


def _write(path: Path, text: str, *, header: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _guard:
        if header:
            _begin(path, header)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if header and os.fstat(file).st_size == 0:
                text = header + text
            os.write(file, text.encode())
        finally:
            os.close(file)


def _begin(path: Path, header: str) -> None:
    """Make the file with its header in one step: of several writers one makes it."""
    if path.exists():
        return
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.write_text(header, encoding="utf-8")
    try:
        os.link(made, path)
    except FileExistsError:
        pass
    except OSError as error:
        # file systems without hard links: the header goes with the first record
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
            raise
    finally:
        made.unlink(missing_ok=True)


def _rows(record: Mapping[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in _records(record):
        values = [row.get(column) for column in COLUMNS]
        writer.writerow(["" if value is None else _cell(value) for value in values])
    return out.getvalue()


def _records(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    shared = {name: record[name] for name in ("schema", "name", "begin_unix_s")}
    for device in record["devices"]:
        yield {**device, **shared}
    yield {**record, "device": TOTAL}


def _cell(value: object) -> object:
    if isinstance(value, list):
        return "; ".join(str(one) for one in value)
    if isinstance(value, str):
        return value.replace("\n", " ").replace("\r", " ")
    return value


def _finite(value: Any) -> Any:
    """Return `value` with None for what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value
