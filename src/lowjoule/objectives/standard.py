"""The objectives that come with lowjoule; each is a value with a name and vectorised `values`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lowjoule.errors import IncomparableError, InvalidValueError
from lowjoule.objectives.objective import Floats, Outcome

_JOULES_PER_KWH = 3.6e6


def _weight(value: float, name: str) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidValueError(f"a weight {name} of {value}", cure="use one from 0 to 1")


def _at_least_zero(value: float, what: str) -> None:
    if not 0.0 <= value < np.inf:
        raise InvalidValueError(f"{what} of {value}", cure="use a finite one of at least 0")


def digits_of(value: float) -> str:
    """Return the shortest text that reads back as `value`."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _energy_of(outcome: Outcome, name: str) -> Floats:
    """Return the energy for a product or a ratio, which mean nothing below zero."""
    if np.any(outcome.energy_j < 0):
        raise IncomparableError(
            f"{name} of a negative energy, less than waiting would draw",
            cure="price waiting lower, or choose by energy or zeus",
        )
    return outcome.energy_j


def baseline_of(baseline: Outcome | None, name: str) -> Outcome:
    """Return `baseline`; raises `IncomparableError` where there is none."""
    if baseline is None:
        raise IncomparableError(
            f"{name} is relative to a baseline and none is given",
            cure="name the default setting of the profile or pass a baseline",
        )
    return baseline


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of the work, in joules."""

    name: ClassVar[str] = "energy"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return joules."""
        return outcome.energy_j


@dataclass(frozen=True, slots=True)
class Time:
    """Time of the work, in seconds."""

    name: ClassVar[str] = "time"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return seconds."""
        return outcome.time_s


@dataclass(frozen=True, slots=True)
class Throughput:
    """Work per second, negated inside so that lower is better; needs figures per unit of work."""

    name: ClassVar[str] = "throughput"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return minus the units of work per second."""
        return np.asarray(-1.0 / outcome.time_s)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Work per joule, negated inside so that lower is better; needs figures per unit of work."""

    name: ClassVar[str] = "efficiency"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return minus the units of work per joule."""
        energy_j = _energy_of(outcome, self.name)
        # Work for nothing is the best there is.
        with np.errstate(divide="ignore"):
            return np.asarray(-1.0 / energy_j)


@dataclass(frozen=True, slots=True)
class EDS:
    """Energy-delay sum a*E/E0 + (1-a)*T/T0 against a named baseline, 1 at the baseline.

    Roberts et al., "Metrics for Energy-Efficient Computing", ISC 2017. `weight` is a.
    """

    weight: float = 0.5
    needs_baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _weight(self.weight, "of the energy-delay sum")

    @property
    def name(self) -> str:
        """ "eds", with the weight where it is not one half."""
        return "eds" if self.weight == 0.5 else f"eds:{digits_of(self.weight)}"

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return the sum; raises `IncomparableError` without a baseline."""
        base = baseline_of(baseline, self.name)
        if not np.all(base.energy_j > 0):
            raise IncomparableError(
                "the baseline's energy less the price of waiting is not positive",
                cure="price waiting lower, or choose the objective energy",
            )
        energy = outcome.energy_j / base.energy_j
        return np.asarray(self.weight * energy + (1.0 - self.weight) * outcome.time_s / base.time_s)


@dataclass(frozen=True, slots=True)
class EDP:
    """Energy-delay product E*T (Gonzalez and Horowitz, 1996), in joule seconds."""

    name: ClassVar[str] = "edp"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return joule seconds."""
        return np.asarray(_energy_of(outcome, self.name) * outcome.time_s)


@dataclass(frozen=True, slots=True)
class ED2P:
    """Energy-delay-squared product E*T^2 (Martin et al., 2001), in joule square seconds."""

    name: ClassVar[str] = "ed2p"
    needs_baseline: ClassVar[bool] = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return joule square seconds."""
        return np.asarray(_energy_of(outcome, self.name) * outcome.time_s**2)


@dataclass(frozen=True, slots=True)
class ZeusCost:
    """Zeus's cost eta*E + (1-eta)*Pmax*T, in joules (You et al., NSDI 2023, eq. 2).

    `max_power_w` is the largest power limit of the device.
    """

    max_power_w: float
    eta: float = 0.5
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _weight(self.eta, "eta of the Zeus cost")
        if not 0 < self.max_power_w < np.inf:
            raise InvalidValueError(
                f"a maximum power of {self.max_power_w} W", cure="give the largest power limit"
            )

    @property
    def name(self) -> str:
        """The text form, "zeus:0.5@300W"."""
        return f"zeus:{digits_of(self.eta)}@{digits_of(self.max_power_w)}W"

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return joules."""
        time = self.max_power_w * outcome.time_s
        return np.asarray(self.eta * outcome.energy_j + (1.0 - self.eta) * time)


@dataclass(frozen=True, slots=True)
class Money:
    """What the energy costs, and the device's time where `per_hour` is given; one currency."""

    per_kwh: float
    per_hour: float = 0.0
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _at_least_zero(self.per_kwh, "a price per kWh")
        _at_least_zero(self.per_hour, "a price per hour")

    @property
    def name(self) -> str:
        """The text form, "money:0.3/kWh" or "money:0.3/kWh+2/h"."""
        hour = f"+{digits_of(self.per_hour)}/h" if self.per_hour else ""
        return f"money:{digits_of(self.per_kwh)}/kWh{hour}"

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return the price in the currency of the prices."""
        energy = outcome.energy_j * (self.per_kwh / _JOULES_PER_KWH)
        return np.asarray(energy + outcome.time_s * (self.per_hour / 3600.0))


@dataclass(frozen=True, slots=True)
class Carbon:
    """Carbon dioxide of the energy, in grams, at a constant intensity in grams per kWh."""

    g_per_kwh: float
    needs_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _at_least_zero(self.g_per_kwh, "a carbon intensity")

    @property
    def name(self) -> str:
        """The text form, "carbon:400g/kWh"."""
        return f"carbon:{digits_of(self.g_per_kwh)}g/kWh"

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        """Return grams."""
        return np.asarray(outcome.energy_j * (self.g_per_kwh / _JOULES_PER_KWH))
