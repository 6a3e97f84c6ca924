"""A command as our child: the terminal's and everybody's signals reach it once.

The child stays in our process group, so that the terminal treats both as one job: its Ctrl-C,
Ctrl-\\ and Ctrl-Z reach the child without us. What is sent to us alone is passed on. All of
them are blocked here and waited for, which tells who sent them and makes no handler run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowjoule.errors import LowjouleError, UnsupportedError

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_KILLED = 128
_SI_KERNEL = 0x80
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGCONT")
_OF_TERMINAL = ("SIGINT", "SIGQUIT", "SIGTSTP")
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


def _numbers(names: Sequence[str]) -> set[int]:
    return {int(getattr(signal, name)) for name in names if hasattr(signal, name)}


PASSED_ON = _numbers(_NAMES)
"""The signals that are passed on to the child."""


class CommandError(LowjouleError):
    """The command cannot be started; `exit_code` is what a shell would end with."""

    def __init__(self, problem: str, *, cure: str, exit_code: int = NOT_FOUND) -> None:
        super().__init__(problem, cure=cure)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Ending:
    """How the child ended: its exit code, or the signal that ended it."""

    exit_code: int
    signal: str | None = None


@contextlib.contextmanager
def held_signals() -> Iterator[set[int]]:
    """Hold back all signals that are passed on, for `Child`; gives the mask that was in force.

    To be entered before any thread is started: a thread that does not hold them would take them.
    What comes before the child starts is acted on at `let_through`.
    """
    if not hasattr(os, "posix_spawnp"):
        raise UnsupportedError(
            "a command cannot be watched on this system", cure="use Linux or another POSIX system"
        )
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the kernel forgets the exit code
    blocked = PASSED_ON | {int(signal.SIGCHLD)}
    before = {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, blocked)}
    try:
        yield before
    finally:
        # what came after the child's end has nobody left to reach
        while waiting := {int(one) for one in signal.sigpending()} & (blocked - before):
            signal.sigwait(waiting)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through(before: set[int]) -> None:
    """Let the signals that asked us to end before the child was there do so, by their handlers."""
    if {int(one) for one in signal.sigpending()} & _numbers(_ENDING):
        mask = signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Child:
    """A running command; to be made and waited for under `held_signals`.

    It has our standard streams and environment; `mask` is its signal mask. Raises
    `CommandError` where it cannot be started.
    """

    def __init__(self, command: Sequence[str], mask: set[int]) -> None:
        try:
            self.pid = os.posix_spawnp(
                command[0],
                list(command),
                os.environ,
                setsigmask=mask,
                setsigdef=_numbers(_IGNORED_BY_PYTHON),
            )
        except (OSError, ValueError) as error:
            raise _not_started(command[0], error) from None
        self._ending: Ending | None = None
        self._stopped = self._asked_to_stop = False

    def wait(self) -> Ending:
        """Return when the child has ended, passing on what comes for it."""
        signals = PASSED_ON | {int(signal.SIGCHLD)}
        self._look()
        while self._ending is None:
            number, of_terminal, sender = _received(signals)
            if number == signal.SIGCHLD:
                self._look()
            else:
                self._pass_on(number, of_terminal, sender)
            if self._stopped and self._asked_to_stop and self._ending is None:
                # the shell takes the terminal back when it sees us stop
                self._stopped = self._asked_to_stop = False
                os.kill(os.getpid(), signal.SIGSTOP)
        return self._ending

    def _look(self) -> None:
        """Take note of what became of the child."""
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        while self._ending is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._stopped = True
            elif os.WIFCONTINUED(status):
                self._stopped = False
            elif os.WIFSIGNALED(status):
                number = os.WTERMSIG(status)
                self._ending = Ending(_KILLED + number, _name(number))
            else:
                self._ending = Ending(os.WEXITSTATUS(status))

    def _pass_on(self, number: int, of_terminal: bool, sender: int | None) -> None:
        self._asked_to_stop = number == signal.SIGTSTP
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # the terminal sends to the whole group, and so does a child that sends to its own
            has_it = of_terminal and os.getpgid(self.pid) == os.getpgrp()
            if not has_it and sender != self.pid:
                os.kill(self.pid, number)


def _received(signals: set[int]) -> tuple[int, bool, int | None]:
    """Wait; return the signal, whether the terminal sent it, and else the sender, where known."""
    if hasattr(signal, "sigwaitinfo"):
        info = signal.sigwaitinfo(signals)
        # what the kernel sends by itself is the terminal's
        return info.si_signo, info.si_code == _SI_KERNEL, info.si_pid
    number = int(signal.sigwait(signals))
    return number, number in _numbers(_OF_TERMINAL) and _in_foreground(), None


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _not_started(name: str, error: OSError | ValueError) -> CommandError:
    if isinstance(error, ValueError):
        return CommandError(f"{name!r} cannot be run ({error})", cure="leave NUL out of it")
    missing = shutil.which(name) is None and not Path(name).exists()
    if isinstance(error, FileNotFoundError) and missing:
        return CommandError(
            f"the command {name} is not found", cure="check its name and PATH, or give its path"
        )
    if isinstance(error, FileNotFoundError):
        cure = "correct its first line (#!), which names a program that is not there"
    elif error.errno == errno.ENOEXEC:
        cure = f"run it by a shell (sh {name}), or give it a first line like #!/bin/sh"
    elif isinstance(error, PermissionError):
        cure = f"make it executable (chmod +x {name})"
    else:
        cure = "see whether a shell can run it"
    return CommandError(
        f"the command {name} cannot be run ({error.strerror})",
        cure=cure,
        exit_code=NOT_EXECUTABLE,
    )
