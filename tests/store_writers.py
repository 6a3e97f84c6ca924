"""Processes that write a store, run as a script by the tests of it.

`store_writers.py share PATH JOURNAL` lets several processes write one store at once, `kill PATH
JOURNAL SEED ROUNDS` kills such writers, `create FOLDER JOURNAL` kills the makers of new stores. All
print a line "KEY KEY ..." for each `add` that was acknowledged.
"""

from __future__ import annotations

import os
import random
import resource
import select
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable

import sqlalchemy as sa

from lowjoule.store import Record, Store, engine
from store_records import record

WRITERS = 4
BATCHES = 15
BATCH = 3


def batch(writer: int, number: int) -> list[Record]:
    """Return records of one `add`, all or none of which may be seen."""
    some = [record(float(place), device_uuid=f"{writer}/{number}") for place in range(BATCH)]
    return [*some, record(float(number))] if writer < WRITERS else some  # one that all share


def acknowledge(some: list[Record]) -> None:
    os.write(1, (" ".join(one.key for one in some) + "\n").encode())


def write(path: str, writer: int, batches: int) -> None:
    for number in range(batches):
        with Store.open(path) as store:
            store.add(batch(writer, number))
            acknowledge(batch(writer, number))
            seen = {one.key for one in store.records()}
            assert seen.issuperset(one.key for one in batch(writer, number))


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001  # a child must not go on as its parent
        traceback.print_exc()
        os._exit(1)


def share(path: str) -> int:
    children = [
        forked(lambda writer=writer: write(path, writer, BATCHES))  # type: ignore[misc]
        for writer in range(WRITERS)
    ]
    return sum(os.waitpid(child, 0)[1] for child in children)


def kill_at_any_moment(path: str, writer: int, chance: random.Random) -> int:
    """Kill a writer some time after its first acknowledgement, and pass on what it said."""
    reading, writing = os.pipe()

    def work() -> None:
        os.dup2(writing, 1)
        write(path, writer, 10_000)

    child = forked(work)
    os.close(writing)
    said = os.read(reading, 1 << 16)
    delay_s = chance.uniform(0.0, 0.03)
    while delay_s > 0 and select.select([reading], [], [], delay_s)[0]:
        said += os.read(reading, 1 << 16)
        delay_s -= 0.002
    os.kill(child, signal.SIGKILL)
    while more := os.read(reading, 1 << 16):
        said += more
    os.close(reading)
    os.write(1, said)
    return failed(child, signal.SIGKILL)


def kill_at_a_step(path: str, writer: int, steps: int) -> int:
    """Kill a writer after so many steps of SQLite's machine, opening included."""

    def work() -> None:
        left = [steps]

        def step() -> int:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        def watch(connection: sqlite3.Connection, _: object) -> None:
            connection.set_progress_handler(step, 1)

        sa.event.listen(sa.Engine, "connect", watch)
        write(path, writer, 1)

    return failed(forked(work), signal.SIGKILL)


def kill_at_a_byte(path: str, writer: int, length: int) -> int:
    """Kill a writer in the middle of a write, where a file would pass `length`."""

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (length, length))
        write(path, writer, 1)

    return failed(forked(work), signal.SIGXFSZ)


def failed(child: int, expected: signal.Signals) -> int:
    """Wait for `child` and return 0 if it ended well or by the `expected` signal, else 1."""
    status = os.waitpid(child, 0)[1]
    return int(status != 0 and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == expected))


def kill(path: str, seed: int, rounds: int) -> int:
    chance = random.Random(seed)
    wrong = 0
    for number in range(rounds):
        wrong += kill_at_any_moment(path, 1000 + number, chance)
        wrong += kill_at_a_step(path, 2000 + number, chance.randint(1, 450))
        wrong += kill_at_a_byte(path, 3000 + number, chance.randint(0, os.path.getsize(path)))
    return wrong


def create(folder: str) -> int:
    wrong = 0
    for number in range(20):
        wrong += kill_at_a_step(f"{folder}/step{number}.sqlite", WRITERS, 1 + 33 * number)
        wrong += kill_at_a_byte(f"{folder}/byte{number}.sqlite", WRITERS, 2200 * number + 7)
    return wrong


def main() -> int:
    job, path, journal, *rest = sys.argv[1:]
    if journal == "delete":
        vars(engine)["is_network"] = lambda path: True
    if job == "create":
        return create(path)
    return share(path) if job == "share" else kill(path, int(rest[0]), int(rest[1]))


if __name__ == "__main__":
    sys.exit(bool(main()))
