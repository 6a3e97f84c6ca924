"""A profile of one million points: construct and prune, against NumPy's sorts of its columns."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from lowjoule.profile import Profile
from lowjoule.profile.profile import Floats
from lowjoule.workloads import Work, WorkUnit
from report import Report

ROUNDS = 15
GOAL = 2.0


def shapes(count: int) -> dict[str, tuple[Floats, Floats]]:
    """Return time and energy columns of `count` points, easy and hard to prune."""
    random = np.random.default_rng(0)
    time_s = 1.0 + random.random(count)
    steps = random.integers(1, count // 2, count) / 10.0
    clocks = random.integers(1, 101, count).astype(np.float64)
    return {
        "random": (time_s, 1.0 + random.random(count)),
        "a trade-off with 5 % spread": (
            time_s,
            1.0 / time_s * random.lognormal(0.0, 0.05, count),
        ),
        "all on the front": (time_s, 1.0 / time_s),
        "all on the front, sorted": (np.sort(time_s), 1.0 / np.sort(time_s)),
        "all on the front, times repeated": (steps, 1.0 / steps),
        "all on the front but equal to one of 100": (clocks, 1.0 / clocks),
        "close to the front, none filtered": (
            time_s,
            1.0 / time_s + 1e-7 * random.random(count),
        ),
        "one point, a million times": (np.ones(count), np.ones(count)),
    }


def _seconds(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def main() -> None:
    """Print, and with --write keep, the ratios; rounds of all three are interleaved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    report = Report("profile_scale", f"Construct and prune {options.points:,} points")
    rows: list[list[str]] = []
    missed: list[str] = []
    for name, (time_s, energy_j) in shapes(options.points).items():
        settings = {"sm_clock": np.arange(options.points, dtype=np.float64)}

        def prune(time_s: Floats = time_s, energy_j: Floats = energy_j) -> int:
            profile = Profile(
                work=Work(1.0, WorkUnit.STEP),
                time_s=time_s,
                energy_j=energy_j,
                settings=settings,  # noqa: B023 (called within the round)
            )
            return len(profile.frontier())

        kept = prune()
        ours, one, both = [], [], []
        for _ in range(ROUNDS):
            ours.append(_seconds(prune))
            one.append(_seconds(lambda t=time_s: np.argsort(t)))  # type: ignore[misc]
            both.append(one[-1] + _seconds(lambda e=energy_j: np.argsort(e)))  # type: ignore[misc]
        middle = [statistics.median(column) for column in (ours, one, both)]
        if middle[0] > GOAL * middle[2]:
            missed.append(name)
        rows.append(
            [
                name,
                f"{kept:,}",
                f"{1e3 * middle[0]:.1f} ms",
                f"{middle[0] / middle[1]:.2f}",
                f"{middle[0] / middle[2]:.2f}",
            ]
        )
    report.table(
        ["points", "on the front", "construct and prune", "x argsort(time)", "x both argsorts"],
        rows,
    )
    report.say(
        f"Medians of {ROUNDS} interleaved rounds; goal: at most {GOAL:g} x the sorts of both "
        f"columns, missed by: {'; '.join(missed) or 'none'}."
    )
    report.say(
        "The sort of one column alone is shown too: columns that are already sorted or hold few "
        "distinct values are sorted by NumPy in a pass or two, less than it takes to check them."
    )
    if options.write:
        print(report.write())


if __name__ == "__main__":
    main()
