"""The entry point: find the command, run it, turn what goes wrong into a sentence and a code."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import IO

import click

from lowjoule.cli.console import one_line
from lowjoule.errors import LowjouleError

FAULT = 1
USAGE = 2
INTERRUPTED = 130
CLOSED_PIPE = 141

EPILOG = f"""\b
Exit codes:
  0    done
  {FAULT}    a fault of lowjoule itself, with a traceback; from doctor: something fails here
  {USAGE}    bad input or a device that refused: one sentence says what and the cure
  {INTERRUPTED}  interrupted (Ctrl-C); the device is left as it was found
  {CLOSED_PIPE}  whoever read the output went away
  143  ended by SIGTERM (129 by SIGHUP); the device is left as it was found
  measure ends as its command does: 128 and its signal, 127 not found, 126 not executable
"""

REPORT_TO = "this is a fault of lowjoule: please report it with the lines above"


class LazyGroup(click.Group):
    """A group whose commands are imported when they run: `--help` needs none of them."""

    commands_at: dict[str, tuple[str, str]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are shown."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, None where there is none of that name."""
        if cmd_name not in self.commands_at:
            return None
        module = import_module(self.commands_at[cmd_name][0])
        name = cmd_name if hasattr(module, cmd_name) else f"{cmd_name}_command"
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their one-line helps, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_at.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which known ones are nearest."""
        name = args[0]
        if name not in self.commands_at and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.commands_at, n=3, cutoff=0.5)
            cure = (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"known are {', '.join(self.commands_at)}"
            )
            raise click.UsageError(f"unknown command {name!r}; {cure}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="lowjoule", message="%(prog)s %(version)s")
def cli() -> None:
    """Find the settings at which machine-learning work takes the least energy.

    Start with: lowjoule tune --device sim:a100 --workload resnet50 --objective eds
    """


cli.commands_at = {
    "tune": ("lowjoule.cli.tune", "Find the best setting of a workload on a device."),
    "frontier": ("lowjoule.cli.frontier", "Show the trade of time against energy."),
    "predict": ("lowjoule.cli.predict", "Predict a workload on a board that need not be here."),
    "evaluate": ("lowjoule.cli.evaluate", "Tell how good predictions and searches are on tables."),
    "study": ("lowjoule.cli.study", "Show what each knob does, alone."),
    "benchmark": ("lowjoule.cli.benchmark", "Measure known work over a device's settings."),
    "measure": ("lowjoule.cli.measure", "Tell the energy that a command takes."),
    "devices": ("lowjoule.cli.devices", "List what is here: what it measures and controls."),
    "doctor": ("lowjoule.cli.doctor", "Find what keeps this machine from measuring."),
    "restore": ("lowjoule.cli.restore", "Put back what processes that are gone left turned."),
    "workloads": ("lowjoule.cli.workloads", "List workloads, or tell all about one."),
    "import": ("lowjoule.cli.importing", "Put a table of measurements into the store."),
    "export": ("lowjoule.cli.exporting", "Write the store's points to a file."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (see `EPILOG`)."""
    _prepare_streams()
    if "_LOWJOULE_COMPLETE" in os.environ:
        cli.main(prog_name="lowjoule")
    with _ended_by_signals():
        code = _guarded(list(sys.argv[1:] if arguments is None else arguments))
    return _flushed(code)


class Ended(BaseException):
    """A signal asks the process to end: what is held is put back on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does; only the command line does this."""

    def end(number: int, _: object) -> None:
        raise Ended(number)

    names = ("SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    # one that is ignored (nohup) stays so, for us and for what we start
    numbers = [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_all(text: str, error: BaseException, code: int) -> int:
    """Print a sentence, then what was noted on the way out, one line each."""
    for line in (text, *getattr(error, "__notes__", ())):
        _say(line, code)
    return code


def _guarded(arguments: list[str]) -> int:
    """Run the command; every ending becomes a code."""
    try:
        with cli.make_context("lowjoule", arguments) as context:
            cli.invoke(context)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        return _say(_usage(error), USAGE)
    except LowjouleError as error:
        return _say_all(str(error), error, error.exit_code)
    except Ended as ending:
        return _say_all(
            f"ended by {signal.Signals(ending.number).name}", ending, 128 + ending.number
        )
    except (KeyboardInterrupt, click.Abort) as error:
        return _say_all("interrupted", error, INTERRUPTED)
    except BrokenPipeError:
        return _silence()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _fault()
        return _say(f"nothing more can be written ({error.strerror}); make room", USAGE)
    except Exception:  # noqa: BLE001 - the one place where a fault becomes a code
        return _fault()
    return 0


def _usage(error: click.ClickException) -> str:
    """Return click's complaint as a sentence with where to read more."""
    text = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "lowjoule"
    if text.endswith("?") or ";" in text:
        return text
    return f"{text}; see {path} --help"


def _say(text: str, code: int) -> int:
    """Print one sentence on standard error and return `code`."""
    try:
        click.echo(f"lowjoule: {one_line(text)}", err=True)
    except BrokenPipeError:
        return _silence()
    return code


def _fault() -> int:
    import traceback

    try:
        traceback.print_exc()
    except BrokenPipeError:
        return _silence()
    return _say(REPORT_TO, FAULT)


def _prepare_streams() -> None:
    """Make sure that no name or sign ends a command because the terminal cannot show it."""
    for name in ("stdout", "stderr"):
        stream: IO[str] | None = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _flushed(code: int) -> int:
    """Write out what is still buffered, so that a failure is not met at interpreter exit."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return _silence()
    except OSError as error:
        _silence()
        return _say(f"the output cannot be written ({error.strerror}); make room", USAGE)
    return code


def _silence() -> int:
    """Point the closed streams at nothing and return the code for it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return CLOSED_PIPE


if __name__ == "__main__":
    sys.exit(main())
