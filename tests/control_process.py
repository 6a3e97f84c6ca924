"""Processes that turn knobs and end in every way, and what is found on the board afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lowjoule.control.guard import lock_path
from lowjoule.control.locks import is_locked
from lowjoule.control.process import start_of

VICTIM = """
import ctypes, json, os, signal, sys, threading
spec, knob, prior, ours, ending, expires = json.loads(sys.argv[1])
from lowjoule.control import Claim
from lowjoule.devices.interface import Reminded
from lowjoule.devices.registry import open_device
from lowjoule.knobs import Setting

device = open_device(spec)
if isinstance(device, Reminded):
    device.assume(Setting({knob: prior}))
hang = threading.Event()


def work():
    with Claim(device, "a test", [knob], expires_s=expires) as claim:
        for value in ours:
            claim.apply(Setting({knob: value}))
        if ending == "forked":
            for _ in range(2):
                if os.fork() == 0:
                    signal.pause()
        print("ready", flush=True)
        sys.stdin.readline()
        if ending == "exception":
            raise RuntimeError("the work failed")
        if ending == "os._exit":
            os._exit(7)
        if ending == "segfault":
            ctypes.string_at(0)
        if ending != "normal":
            hang.wait(60)
        return claim


claim = work()
print(json.dumps(claim.notes), flush=True)
"""

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])
print(child.pid, flush=True)
child.wait()
"""


class Victim:
    """A process that has turned a knob, and is about to end as it is told."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            text=True,
            start_new_session=True,
        )
        self.output: list[str] = []

    def line(self) -> str:
        """The next line that the process says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.output.append(line)
        return line.strip()

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """End it and all that it has forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def victim(
    arguments: object, environment: Mapping[str, str], *, parent: bool = False
) -> Iterator[tuple[Victim, int]]:
    """A process that holds a turned knob, and its number; it dies with the block."""
    import json

    code = [VICTIM, json.dumps(arguments)]
    command = [sys.executable, "-c", *code]
    if parent:
        command = [sys.executable, "-c", PARENT, *code]
    one = Victim(command, environment)
    try:
        pid = int(one.line()) if parent else one.process.pid
        assert one.line() == "ready", one.output
        yield one, pid
    finally:
        one.close()


def end(one: Victim, pid: int, ending: str, folder: Path) -> float:
    """End a victim as `ending` says and return the moment after which it is dead or told to go."""
    signals = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
    if ending in {"with watchdog", "reboot"}:
        watchdog = watchdog_of(pid, folder)
        assert watchdog is not None
        os.kill(watchdog, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        os.kill(watchdog, signal.SIGKILL)
    elif ending in signals:
        os.kill(pid, signals[ending])
    elif ending in {"SIGKILL", "forked"}:
        os.kill(pid, signal.SIGKILL)
    elif ending == "parent":
        os.kill(one.process.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    else:
        one.tell()
    return time.monotonic()


def watchdog_of(pid: int, folder: Path) -> int | None:
    """The number of the watchdog of process `pid`, None where it has none."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"-P" in words and str(pid).encode() in words and str(folder).encode() in words:
                return int(entry.name)
    return None


def watched(pid: int, folder: Path) -> bool:
    """Whether process `pid` has a watchdog now."""
    return is_locked(lock_path(folder, pid, start_of(pid)))


def within(limit_s: float, test: Callable[[], bool]) -> float | None:
    """Return after how many seconds `test` held, None where it did not within the limit."""
    begin_s = time.monotonic()
    while not test():
        if time.monotonic() - begin_s > limit_s:
            return None
        time.sleep(0.005)
    return time.monotonic() - begin_s
