"""The restore matrix: knobs, ways to end, with and without a write of somebody else in between."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from control_process import end, victim, within
from lowjoule.devices.nvml.backend import NvmlBackend
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.devices.nvml.driver import DRIVER
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Setting, Value
from lowjoule.testing.nvml import Board, FakeNvml
from nvml_machines import CLOCKS, A

PERSISTENCE = "persistence"
ENDINGS = (
    "normal",
    "exception",
    "SIGINT",
    "SIGTERM",
    "SIGKILL",
    "forked",
    "os._exit",
    "segfault",
    "parent",
    "with watchdog",
    "reboot",
)
NEXT_START = ("with watchdog", "reboot")
LIMIT_S = 1.0
PATIENCE_S = 10.0  # beyond the limit it is late, and still told

NEXT = """
import sys
from lowjoule.control import Claim
from lowjoule.devices.registry import open_device
with Claim(open_device(sys.argv[1]), "the next start") as claim:
    print(*claim.notes, sep="; ")
"""


@dataclass(frozen=True, kw_only=True)
class Values:
    """What a knob is found at, set to by us in turn, by somebody else, and by the driver."""

    prior: Value
    ours: tuple[Value, ...]
    foreign: Value
    default: Value
    blind: bool = False
    """Whether nobody can read it, so that a foreign write is not seen."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A board on which knobs are turned: its name, its knobs, what is really on it."""

    spec: str
    knobs: dict[str, Values]
    environment: dict[str, str]
    journal: Path
    put: Callable[[str, Value], None]
    now: Callable[[str], Value]
    reboot: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What became of one case; `time_s` is None where it was at the next start."""

    expected: Value
    found: Value
    time_s: float | None

    @property
    def good(self) -> bool:
        """Whether the right value is there in time."""
        return self.found == self.expected and (self.time_s is None or self.time_s <= LIMIT_S)


def run(bench: Bench, knob: str, ending: str, foreign: bool) -> Cell:
    """Let a process turn `knob` and end so, and look what is in force afterwards."""
    values = bench.knobs[knob]
    for name, one in bench.knobs.items():
        bench.put(name, one.prior)
    arguments = [bench.spec, knob, values.prior, list(values.ours), ending, None]
    parent = ending == "parent"
    with victim(arguments, bench.environment, parent=parent) as (process, pid):
        assert bench.now(knob) == values.ours[-1], f"{knob} is at {bench.now(knob)}"
        if foreign:
            bench.put(knob, values.foreign)
        kept = foreign and not values.blind
        expected = values.foreign if kept else values.prior
        end(process, pid, ending, bench.journal)
        if ending in NEXT_START:
            return _next(bench, knob, ending, foreign=foreign)
        clean = within(
            PATIENCE_S, lambda: bench.now(knob) == expected and not _entries(bench.journal)
        )
        time_s = PATIENCE_S if clean is None else clean
        return Cell(expected=expected, found=bench.now(knob), time_s=time_s)


def _next(bench: Bench, knob: str, ending: str, *, foreign: bool) -> Cell:
    values = bench.knobs[knob]
    environment = {**os.environ, **bench.environment}
    expected = values.foreign if foreign and not values.blind else values.prior
    if ending == "reboot":
        environment["LOWJOULE_BOOT_ID"] = "another"
        bench.reboot()
        if bench.spec.startswith("nvml:"):
            # the driver came up at its defaults; what others then wrote is theirs
            expected = values.foreign if foreign else values.default
            if foreign:
                bench.put(knob, values.foreign)
    command = [sys.executable, "-c", NEXT, bench.spec]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert not _entries(bench.journal)
    return Cell(expected=expected, found=bench.now(knob), time_s=None)


def _entries(journal: Path) -> list[Path]:
    return list(journal.glob("*.json"))


def _environment(folder: Path) -> dict[str, str]:
    return {
        "LOWJOULE_CLAIMS": str(folder / "claims"),
        "LOWJOULE_JOURNAL": str(folder / "journal"),
        "LOWJOULE_SIMULATED": str(folder / "simulated"),
        "LOWJOULE_WATCHDOG": "on",
    }


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[Bench]:
    """A simulated board; it keeps what it was set to over a reboot."""
    environment = _environment(folder)
    with _variables(environment):
        device = open_device("sim:rtx4090")
        knobs = {knob.name: _picked(knob.values) for knob in device.space.knobs}
        yield Bench(
            spec="sim:rtx4090",
            knobs=knobs,
            environment=environment,
            journal=folder / "journal",
            put=lambda name, value: _put(device.apply, name, value),
            now=lambda name: device.current()[name],
            reboot=lambda: None,
        )


def _put(apply: Callable[[Setting], object], name: str, value: Value) -> None:
    apply(Setting({name: value}))


def _picked(values: tuple[Value, ...]) -> Values:
    """A value each, of three at least; what is found is not the default, which is the last."""
    several = len(values) > 3
    return Values(
        prior=values[-2],
        ours=values[:2] if several else values[:1],
        foreign=values[2] if several else values[-1],
        default=values[-1],
    )


@contextlib.contextmanager
def nvml(folder: Path) -> Iterator[Bench]:
    """A board behind the fake NVML, through the real device."""
    board = Board(uuid=A, pci_bus_id="00000000:3B:00.0", clocks_hz=_clocks())
    environment = _environment(folder)
    with (
        _variables(environment),
        FakeNvml([board], folder=folder, virtual=False) as fake,
        fake.loaded(),
    ):
        other = NvmlBackend().open(A, OpenOptions())
        try:
            yield Bench(
                spec=f"nvml:{A}",
                knobs=_nvml_knobs(),
                environment={**environment, **fake.environment()},
                journal=folder / "journal",
                put=lambda name, value: _force(other, name, value),
                now=lambda name: _really(fake, name),
                reboot=fake.reload_driver,
            )
        finally:
            DRIVER.close()


def _clocks() -> dict[float, tuple[float, ...]]:
    return {**CLOCKS, 1215e6: (1980e6, 210e6), 810e6: (1980e6, 210e6)}


def _nvml_knobs() -> dict[str, Values]:
    return {
        # a prior limit that is no whole watt is no value of a device that is opened later
        POWER_LIMIT: Values(prior=450.5, ours=(300.0, 350.0), foreign=500.0, default=700.0),
        SM_CLOCK: Values(
            prior=1500e6, ours=(210e6, 900e6), foreign=1980e6, default=1980e6, blind=True
        ),
        MEMORY_CLOCK: Values(
            prior=1593e6, ours=(810e6, 1215e6), foreign=2619e6, default=2619e6, blind=True
        ),
        PERSISTENCE: Values(prior="on", ours=("off",), foreign="on", default="off"),
    }


def _force(device: NvmlDevice, name: str, value: Value) -> None:
    """Write as somebody else's tool would: always, and with no regard to what is known."""
    device.assume(Setting({name: value}))
    device.apply(Setting({name: value}))


def _really(fake: FakeNvml, name: str) -> Value:
    state = fake[0].state()
    if name == POWER_LIMIT:
        return state.requested_limit_w
    if name == PERSISTENCE:
        return "on" if state.persistence else "off"
    lock = state.sm_clock_lock_hz if name == SM_CLOCK else state.memory_clock_lock_hz
    free = 1980e6 if name == SM_CLOCK else 2619e6
    return free if lock is None else lock[1]


@contextlib.contextmanager
def _variables(environment: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
