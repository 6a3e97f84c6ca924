"""Objectives and constraints as text: "eds:0.7", "slowdown<=5%"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.objectives.constraints import (
    Deadline,
    EnergyBudget,
    LatencyPercentile,
    Memory,
    PeakPower,
    Power,
    Slowdown,
)
from lowjoule.objectives.objective import Constraint, Objective
from lowjoule.objectives.standard import (
    ED2P,
    EDP,
    EDS,
    Carbon,
    Efficiency,
    Energy,
    Money,
    Throughput,
    Time,
    ZeusCost,
)
from lowjoule.quantities import Unit, parse


@dataclass(frozen=True, slots=True)
class Form:
    """A text form: how it is written, what it means, and what makes the value of it."""

    example: str
    meaning: str
    make: Callable[[str], Objective]


def _plain(objective: Objective) -> Callable[[str], Objective]:
    def make(argument: str) -> Objective:
        if argument:
            raise InvalidValueError(
                f"objective {objective.name} with {argument!r}", cure="it takes no argument"
            )
        return objective

    return make


def _eds(argument: str) -> Objective:
    return EDS(parse(argument, Unit.RATIO)) if argument else EDS()


def _zeus(argument: str) -> Objective:
    eta, at, power = argument.partition("@")
    if not at:
        raise InvalidValueError(
            f"objective zeus:{argument} without the largest power limit",
            cure="write it like zeus:0.5@300W",
        )
    return ZeusCost(parse(power, Unit.WATT), parse(eta, Unit.RATIO) if eta else 0.5)


def _money(argument: str) -> Objective:
    match = re.fullmatch(r"([^/]+)/kWh(?:\+([^/]+)/h)?", argument)
    if not match:
        raise InvalidValueError(
            f"a price {argument!r}", cure="write it like money:0.30/kWh or money:0.30/kWh+2/h"
        )
    return Money(parse(match[1], Unit.NONE), parse(match[2], Unit.NONE) if match[2] else 0.0)


def _carbon(argument: str) -> Objective:
    match = re.fullmatch(r"([^/g]+?) ?g?/kWh", argument)
    if not match:
        raise InvalidValueError(
            f"a carbon intensity {argument!r}", cure="write it like carbon:400g/kWh"
        )
    return Carbon(parse(match[1], Unit.NONE))


OBJECTIVES: dict[str, Form] = {
    "eds": Form("eds:0.5", "energy-delay sum against the default (weight of energy)", _eds),
    "energy": Form("energy", "joules", _plain(Energy())),
    "time": Form("time", "seconds", _plain(Time())),
    "throughput": Form("throughput", "work per second", _plain(Throughput())),
    "efficiency": Form("efficiency", "work per joule", _plain(Efficiency())),
    "edp": Form("edp", "energy-delay product", _plain(EDP())),
    "ed2p": Form("ed2p", "energy-delay-squared product", _plain(ED2P())),
    "zeus": Form("zeus:0.5@300W", "Zeus cost: eta*E + (1-eta)*Pmax*T", _zeus),
    "money": Form("money:0.30/kWh+2/h", "price of energy and device time", _money),
    "carbon": Form("carbon:400g/kWh", "grams of carbon dioxide", _carbon),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A text form of a constraint: how it is written, what it means, and what makes it."""

    example: str
    meaning: str
    make: Callable[[str], Constraint]


def _bound(kind: Callable[[float], Constraint], unit: Unit) -> Callable[[str], Constraint]:
    return lambda text: kind(parse(text, unit))


_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")

CONSTRAINTS: dict[str, Bound] = {
    "slowdown": Bound(
        "slowdown<=5%", "how much slower than the default", _bound(Slowdown, Unit.RATIO)
    ),
    "deadline": Bound("deadline<=6h", "time of the work", _bound(Deadline, Unit.SECOND)),
    "power": Bound("power<=300W", "average power", _bound(Power, Unit.WATT)),
    "peak_power": Bound("peak_power<=350W", "peak power", _bound(PeakPower, Unit.WATT)),
    "energy": Bound("energy<=2kWh", "energy of the work", _bound(EnergyBudget, Unit.JOULE)),
    "memory": Bound("memory<=40GB", "device memory", _bound(Memory, Unit.BYTE)),
    "p99": Bound(
        "p99<=200ms",
        "latency at a percentile (p50, p99.9)",
        _bound(LatencyPercentile, Unit.SECOND),
    ),
}


def parse_objective(text: str, *, max_power_w: float | None = None) -> Objective:
    """Return the objective that `text` means, "NAME" or "NAME:ARGUMENT".

    `max_power_w` is the device's largest power limit, for a Zeus cost that does not name it.

    Raises `UnknownNameError` with the nearest known names, `InvalidValueError` for an argument
    that does not fit.
    """
    name, _, argument = text.strip().partition(":")
    form = OBJECTIVES.get(name.lower())
    if form is None:
        raise UnknownNameError.among("objective", name, OBJECTIVES)
    argument = argument.strip()
    if form is OBJECTIVES["zeus"] and "@" not in argument and max_power_w is not None:
        argument = f"{argument}@{max_power_w!r}W"
    return form.make(argument)


def parse_constraint(text: str) -> Constraint:
    """Return the constraint that `text` means, "NAME<=BOUND".

    Raises `UnknownNameError` with the nearest known names, `InvalidValueError` for a bound that
    does not fit.
    """
    name, found, bound = text.partition("<=")
    name = name.strip().lower()
    if not found:
        raise InvalidValueError(f"{text!r} is not a constraint", cure="write it like slowdown<=5%")
    if percentile := _PERCENTILE.fullmatch(name):
        return LatencyPercentile(parse(bound, Unit.SECOND), float(percentile[1]))
    if name not in CONSTRAINTS:
        raise UnknownNameError.among("constraint", name, CONSTRAINTS)
    return CONSTRAINTS[name].make(bound)
