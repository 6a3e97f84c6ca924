"""What relative objectives and constraints compare with: the default's figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lowjoule.objectives.objective import Outcome


@dataclass(frozen=True, slots=True)
class Reference:
    """The default's time and energy, its price of time and what it draws while it waits.

    Kept apart from the rows, so that a filter which drops the default does not change what is
    compared with, and so that works which run together have a default too.
    """

    time_s: float
    energy_j: float
    price_w: float = 0.0
    wait_power_w: float | None = None

    def outcome(self, *, effective: bool) -> Outcome:
        """Return the figures as an outcome, with the effective energy if asked."""
        energy_j = self.energy_j - (self.price_w * self.time_s if effective else 0.0)
        return Outcome(time_s=np.asarray(self.time_s), energy_j=np.asarray(energy_j))

    def priced(self, wait_w: float | None) -> Reference:
        """Return the reference at another price of time, its own waiting power where None."""
        own_w = 0.0 if self.wait_power_w is None else self.wait_power_w
        return replace(self, price_w=own_w if wait_w is None else wait_w)

    def scaled(self, factor: float) -> Reference:
        """Return the reference of `factor` times the work."""
        return replace(self, time_s=self.time_s * factor, energy_j=self.energy_j * factor)

    def then(self, other: Reference) -> Reference:
        """Return the reference of both works, one after the other, without a change between."""
        time_s = self.time_s + other.time_s
        price_j = self.price_w * self.time_s + other.price_w * other.time_s
        return Reference(
            time_s, self.energy_j + other.energy_j, price_j / time_s, other.wait_power_w
        )

    def beside(self, other: Reference) -> Reference | None:
        """Return the reference of both at a barrier; None where a waiting power is unknown."""
        if self.wait_power_w is None or other.wait_power_w is None:
            return None
        time_s = max(self.time_s, other.time_s)
        waiting_j = self.wait_power_w * (time_s - self.time_s)
        waiting_j += other.wait_power_w * (time_s - other.time_s)
        return Reference(
            time_s,
            self.energy_j + other.energy_j + waiting_j,
            self.price_w + other.price_w,
            self.wait_power_w + other.wait_power_w,
        )
