"""The options that commands share, and the device and workload that they choose."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lowjoule.devices.interface import WorkDevice
    from lowjoule.objectives.objective import Objective
    from lowjoule.workloads import Workload

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """Which device and workload the user named, and how they are opened.

    `noise` is a relative standard deviation; the others are as in `OpenOptions`.
    """

    spec: str
    workload: str | None = None
    seed: int = 0
    noise: float = 0.0
    alone: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> tuple[WorkDevice, Workload]:
        """Return the opened device and the workload on it.

        Raises `UnknownNameError` for a device or workload that is not there, `UnsupportedError`
        for a device that runs no work of its own, and what the backend raises.
        """
        device = self.open_device()
        return device, device.workload(self.workload)

    def open_device(self) -> WorkDevice:
        """Return the opened device; raises as `open` does."""
        from lowjoule.devices.interface import WorkDevice
        from lowjoule.devices.registry import OpenOptions, open_device
        from lowjoule.errors import InvalidValueError, UnsupportedError
        from lowjoule.source import Source

        options = OpenOptions(
            seed=self.seed,
            noise=self.noise,
            default=self.default,
            columns=self.columns,
            alone=self.alone,
        )
        device = open_device(self.spec, options)
        if not isinstance(device, WorkDevice):
            raise UnsupportedError(
                f"{self.spec} runs no work of its own",
                cure="choose a simulated or a replayed device (lowjoule devices)",
            )
        table_only = "--noise" if self.noise else "--column" if self.columns else None
        if table_only and device.identity.source is not Source.REPLAYED:
            raise InvalidValueError(
                f"{table_only} does not concern {self.spec}",
                cure="it is for tables of measurements (replay:FILE)",
            )
        return device


def pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Read repeated NAME=VALUE options."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", context, parameter)
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice", context, parameter)
        found[name] = value
    return found


def ratio(context: click.Context, parameter: click.Parameter, text: str) -> float:
    """Read a ratio like 1.5% or 0.015."""
    from lowjoule.quantities import Unit, parse

    return parse(text, Unit.RATIO)


def names(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    """Read names with commas between them; None where the option was not given."""
    if text is None:
        return None
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise click.BadParameter("no name is given", context, parameter)
    return found


_COLUMN_OPTION = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    callback=pairs,
    help="Which column of a table is which, like time_s=duration. May be repeated.",
)
_TABLE_OPTIONS = (
    _COLUMN_OPTION,
    click.option(
        "--default",
        "default",
        multiple=True,
        metavar="KNOB=VALUE",
        callback=pairs,
        help="Another default of a knob, like batch_size=64. May be repeated.",
    ),
)
_WHICH_OPTIONS = (
    click.option(
        "--device",
        "device_spec",
        metavar="KIND:NAME",
        required=True,
        help="A device, like sim:a100 or replay:runs.csv; `lowjoule devices` lists them.",
    ),
    click.option(
        "--workload",
        metavar="NAME",
        help="What is run; may be left out where the device knows one alone.",
    ),
    *_TABLE_OPTIONS,
)
_RANDOM_OPTIONS = (
    click.option(
        "--noise",
        default="0",
        show_default=True,
        metavar="RATIO",
        callback=ratio,
        help="Spread added to each draw from a table of measurements, like 1.5%.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Seed of every random number.",
    ),
)


def device_options(command: F) -> F:
    """Add the options that choose a device, a workload, and what is random of it.

    The command gets them as one argument, `device`, a `DeviceChoice`.
    """
    return _with(_chosen(command), (*_WHICH_OPTIONS, *_RANDOM_OPTIONS))


def known_options(command: F) -> F:
    """Add the options that choose a device and a workload of which nothing new is drawn.

    The command gets them as one argument, `device`, a `DeviceChoice`.
    """
    return _with(_chosen(command), _WHICH_OPTIONS)


def _chosen(command: F) -> F:
    @functools.wraps(command)
    def with_choice(
        *,
        device_spec: str,
        workload: str | None,
        columns: dict[str, str],
        default: dict[str, str],
        noise: float = 0.0,
        seed: int = 0,
        **others: Any,
    ) -> Any:
        choice = DeviceChoice(
            spec=device_spec,
            workload=workload,
            seed=seed,
            noise=noise,
            columns=columns,
            default=default,
        )
        return command(device=choice, **others)

    return with_choice  # type: ignore[return-value]


def column_option(command: F) -> F:
    """Add `--column` (argument `columns`, a mapping)."""
    return _with(command, (_COLUMN_OPTION,))


def table_options(command: F) -> F:
    """Add `--column` and `--default` (arguments `columns` and `default`, mappings)."""
    return _with(command, _TABLE_OPTIONS)


def objective_options(command: F) -> F:
    """Add `--objective` (argument `objective`, text) and `--constraint` (`constraints`, texts)."""
    return _with(
        command,
        (
            click.option(
                "--objective",
                default="eds",
                show_default=True,
                metavar="NAME",
                help="What is made small: eds, energy, time, edp, ed2p, throughput, efficiency, "
                "zeus:0.5@300W, money:0.30/kWh, carbon:400g/kWh.",
            ),
            click.option(
                "--constraint",
                "constraints",
                multiple=True,
                metavar="NAME<=BOUND",
                help="What must be kept to, like slowdown<=5%, power<=300W or deadline<=6h. "
                "May be repeated.",
            ),
        ),
    )


def objective_on(device: WorkDevice, text: str) -> Objective:
    """Return the objective that `text` means on `device`: a Zeus cost takes its largest limit."""
    from lowjoule.knobs import POWER_LIMIT
    from lowjoule.objectives import parse_objective

    limits = [knob for knob in device.space.knobs if knob.name == POWER_LIMIT]
    largest_w = float(limits[0].values[-1]) if limits else None
    return parse_objective(text, max_power_w=largest_w)


def json_option(command: F) -> F:
    """Add `--json` (argument `as_json`)."""
    return _with(
        command,
        (click.option("--json", "as_json", is_flag=True, help="Print JSON alone."),),
    )


def knobs_option(command: F) -> F:
    """Add `--knobs` (argument `knobs`, names or None)."""
    return _with(
        command,
        (
            click.option(
                "--knobs",
                metavar="NAME,...",
                callback=names,
                help="What may be turned. By default all that leaves learning alone: power limit, "
                "clocks, micro-batch, the batch of an inference. Precision and the batch size of "
                "a training only when named here.",
            ),
        ),
    )


def html_option(command: F) -> F:
    """Add `--html FILE` (argument `html`, a path or None)."""
    return _with(
        command,
        (
            click.option(
                "--html",
                metavar="FILE",
                type=click.Path(dir_okay=False),
                help="Write the picture to one self-contained file.",
            ),
        ),
    )


def _with(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        command = option(command)
    return command
