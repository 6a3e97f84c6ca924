"""How long importing lowjoule and `lowjoule --help` take, beside importing NumPy."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from report import Report

ROUNDS = 21
CASES = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import lowjoule": [sys.executable, "-c", "import lowjoule"],
    "import lowjoule and its search": [
        sys.executable,
        "-c",
        "import lowjoule; lowjoule.LinearSearch",
    ],
    "lowjoule --help": [str(Path(sys.executable).with_name("lowjoule")), "--help"],
    "lowjoule tune --help": [str(Path(sys.executable).with_name("lowjoule")), "tune", "--help"],
}


def main() -> None:
    """Print, and with --write keep, the medians; rounds of all cases are interleaved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    report = Report("startup", "Start-up")
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, command in CASES.items():
            start_s = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - start_s)
    middle = {name: statistics.median(column) for name, column in seconds.items()}
    rows = [
        [name, f"{1e3 * value:.0f} ms", f"{value / middle['import numpy']:.2f}"]
        for name, value in middle.items()
    ]
    report.table(["whole process", "median", "x import numpy"], rows)
    report.say(
        f"Medians of {ROUNDS} interleaved processes, start of the interpreter included. "
        "Goals: import lowjoule at most 1.5 x import numpy; lowjoule --help at most 0.4 s."
    )
    if options.write:
        print(report.write())


if __name__ == "__main__":
    main()
