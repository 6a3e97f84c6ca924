"""What was found on a board is back, however the process that turned it ends: the whole matrix."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from report import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from control_matrix import ENDINGS, LIMIT_S, Bench, Cell, nvml, run, simulated

Maker = Callable[[Path], contextlib.AbstractContextManager[Bench]]
DEVICES: dict[str, Maker] = {"fake NVML": nvml, "simulated board": simulated}
KNOBS = {
    "fake NVML": ("power_limit", "sm_clock", "memory_clock", "persistence"),
    "simulated board": ("power_limit", "sm_clock", "memory_clock"),
}


def main() -> None:
    """Print, and with --write keep, every cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    report = Report("restore_matrix", "The restore matrix")
    cells: list[Cell] = []
    for device, maker in DEVICES.items():
        for foreign in (False, True):
            between = "somebody else writes in between" if foreign else "nobody writes in between"
            report.say(f"## {device}, {between}")
            report.say()
            rows = []
            for ending in ENDINGS:
                row = [ending]
                for knob in KNOBS[device]:
                    with _bench(maker) as bench:
                        cell = run(bench, knob, ending, foreign)
                    cells.append(cell)
                    row.append(_text(cell))
                rows.append(row)
            report.table(["ends by", *KNOBS[device]], rows)
    _summary(report, cells)
    if options.write:
        print(report.write())


@contextlib.contextmanager
def _bench(maker: Maker) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder, maker(Path(folder)) as bench:
        yield bench


def _text(cell: Cell) -> str:
    if not cell.good:
        return f"**{cell.found} instead of {cell.expected}**"
    return "next start" if cell.time_s is None else f"{1e3 * cell.time_s:.0f} ms"


def _summary(report: Report, cells: list[Cell]) -> None:
    good = sum(cell.good for cell in cells)
    times = [cell.time_s for cell in cells if cell.time_s is not None]
    report.say(
        f"{good} of {len(cells)} cells end with the right value, in time: within {LIMIT_S:g} s "
        f"where a process can run (slowest {1e3 * max(times):.0f} ms), at the next start "
        "elsewhere. A cell starts from a value that is not the default, and ends when the value is "
        "right and the journal empty. Where somebody else has written, theirs is right; of clocks, "
        "which NVML does not tell, what was found is. After a reboot a board of the fake is at its "
        "driver's defaults, a simulated one at what it was set to. 'forked' is SIGKILL with two "
        "living children; 'parent' kills the parent first; 'with watchdog' kills both together."
    )


if __name__ == "__main__":
    main()
