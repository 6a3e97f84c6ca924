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
    match = re.fullmatch(r"([\d.]+)/kWh(?:\+([\d.]+)/h)?", argument)
    if not match:
        raise InvalidValueError(
            f"a price {argument!r}", cure="write it like money:0.30/kWh or money:0.30/kWh+2/h"
        )
    return Money(parse(match[1], Unit.NONE), parse(match[2], Unit.NONE) if match[2] else 0.0)


def _carbon(argument: str) -> Objective:
    match = re.fullmatch(r"([\d.]+) ?g?/kWh", argument)
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

CONSTRAINTS: dict[str, tuple[str, Callable[[str], Constraint]]] = {
    "slowdown": ("slowdown<=5%", lambda text: Slowdown(parse(text, Unit.RATIO))),
    "deadline": ("deadline<=6h", lambda text: Deadline(parse(text, Unit.SECOND))),
    "power": ("power<=300W", lambda text: Power(parse(text, Unit.WATT))),
    "peak_power": ("peak_power<=350W", lambda text: PeakPower(parse(text, Unit.WATT))),
    "energy": ("energy<=2kWh", lambda text: EnergyBudget(parse(text, Unit.JOULE))),
    "memory": ("memory<=40GB", lambda text: Memory(parse(text, Unit.BYTE))),
}
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


def parse_objective(text: str) -> Objective:
    """Return the objective that `text` means, "NAME" or "NAME:ARGUMENT".

    Raises `UnknownNameError` with the nearest known names, `InvalidValueError` for an argument
    that does not fit.
    """
    name, _, argument = text.strip().partition(":")
    form = OBJECTIVES.get(name.lower())
    if form is None:
        raise UnknownNameError.among("objective", name, OBJECTIVES)
    return form.make(argument.strip())


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
        raise UnknownNameError.among("constraint", name, [*CONSTRAINTS, "p99"])
    return CONSTRAINTS[name][1](bound)
