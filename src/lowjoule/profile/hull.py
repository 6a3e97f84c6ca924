"""The lower convex hull of a frontier: what mixtures of settings in time can reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lowjoule.errors import InfeasibleError, InvalidValueError
from lowjoule.profile.plan import Branch, Leaf, Order, Plan
from lowjoule.profile.profile import Floats
from lowjoule.profile.pruning import Indices
from lowjoule.quantities import Unit, show

if TYPE_CHECKING:
    from lowjoule.profile.frontier import Frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A plan within a bound: at most two settings, each for a share of the work.

    `energy_j` and `time_s` include the switches; energy is effective energy where waiting is
    priced.
    """

    plan: Plan
    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """Vertices of the hull in ascending time, of shape (k,), their energies falling and convex.

    The relaxation of the discrete choice: between two vertices lie the mixtures of both. Hulls
    of parts that run one after the other add by merging their edges by slope (the infimal
    convolution; Rockafellar, Convex Analysis, 1970, section 16).
    """

    time_s: Floats
    energy_j: Floats
    frontier: Frontier | None = None
    places: Indices | None = None

    @classmethod
    def of(cls, time_s: Floats, energy_j: Floats, frontier: Frontier | None = None) -> Hull:
        """Return the hull of points in ascending time and falling energy (Andrew, 1979)."""
        if len(time_s) == 0:
            raise InfeasibleError("the frontier has no point", cure="measure or relax first")
        kept: list[int] = []
        for place in range(len(time_s)):
            while len(kept) >= 2 and _above(time_s, energy_j, kept[-2], kept[-1], place):
                kept.pop()
            kept.append(place)
        places = np.array(kept, dtype=np.intp)
        return cls(time_s[places], energy_j[places], frontier, places)

    def __len__(self) -> int:
        return len(self.time_s)

    def energy_at(self, time_s: float) -> float:
        """Return the least energy of any mixture that takes at most `time_s`.

        Raises `InfeasibleError` below the fastest time.
        """
        self._check(time_s)
        return float(np.interp(time_s, self.time_s, self.energy_j))

    def then(self, other: Hull) -> Hull:
        """Return the hull of both, one after the other."""
        steps_t = np.concatenate((np.diff(self.time_s), np.diff(other.time_s)))
        steps_e = np.concatenate((np.diff(self.energy_j), np.diff(other.energy_j)))
        order = np.argsort(steps_e / steps_t, kind="stable")
        time_s = np.cumsum(np.append(self.time_s[0] + other.time_s[0], steps_t[order]))
        energy_j = np.cumsum(np.append(self.energy_j[0] + other.energy_j[0], steps_e[order]))
        return Hull(time_s, energy_j)

    def realise(
        self,
        time_s: float | None = None,
        switch_s: float = 0.0,
        switch_j: float = 0.0,
        *,
        energy_j: float | None = None,
    ) -> Mixture:
        """Return the best plan within a bound: one setting, or two with one switch.

        Within `time_s` the plan of least energy, or within `energy_j` (effective energy) the one
        of least time. `switch_s` and `switch_j` are what the change between the two costs. The
        single settings of the whole frontier compete, so that a switch is made only where it
        pays. Raises `InfeasibleError` where even the best end is beyond the bound.
        """
        if self.frontier is None or self.places is None:
            raise InvalidValueError(
                "this hull is a sum of hulls and has no settings of its own",
                cure="realise each part",
            )
        if not (0 <= switch_s < np.inf and 0 <= switch_j < np.inf):
            raise InvalidValueError(
                f"a switch of {switch_s} s and {switch_j} J", cure="use costs of at least 0"
            )
        if time_s is not None and energy_j is None:
            return self._within_time(time_s, switch_s, switch_j)
        if energy_j is not None and time_s is None:
            return self._within_energy(energy_j, switch_s, switch_j)
        raise InvalidValueError("a plan within no bound or two", cure="give time_s or energy_j")

    def _within_time(self, time_s: float, switch_s: float, switch_j: float) -> Mixture:
        self._check(time_s)
        assert self.frontier is not None  # realise refuses sums of hulls
        place = int(np.searchsorted(self.frontier.time_s, time_s, side="right")) - 1
        single = self._single(place)
        left_s = time_s - switch_s
        edge = int(np.searchsorted(self.time_s, left_s, side="right")) - 1
        if edge < 0 or edge + 1 >= len(self):
            return single
        share = (left_s - self.time_s[edge]) / (self.time_s[edge + 1] - self.time_s[edge])
        mixed = self._mixed(edge, float(share), switch_s, switch_j)
        return mixed if mixed.energy_j < single.energy_j else single

    def _within_energy(self, energy_j: float, switch_s: float, switch_j: float) -> Mixture:
        if not energy_j >= self.energy_j[-1]:
            raise InfeasibleError(
                f"nothing is done with {show(energy_j, Unit.JOULE)}",
                cure=f"the least is {show(float(self.energy_j[-1]), Unit.JOULE)}",
            )
        assert self.frontier is not None  # realise refuses sums of hulls
        single = self._single(int(np.argmax(self.frontier.effective_j <= energy_j)))
        left_j = energy_j - switch_j
        edge = int(np.argmax(self.energy_j <= left_j)) - 1
        if edge < 0 or self.energy_j[-1] > left_j:
            return single
        share = (self.energy_j[edge] - left_j) / (self.energy_j[edge] - self.energy_j[edge + 1])
        mixed = self._mixed(edge, float(share), switch_s, switch_j)
        return mixed if mixed.time_s < single.time_s else single

    def _mixed(self, edge: int, share: float, switch_s: float, switch_j: float) -> Mixture:
        """Return the mixture of the two ends of an edge; a share of 0 or 1 needs no switch."""
        if not 0.0 < share < 1.0:
            switch_s = switch_j = 0.0
        ends = [(edge, 1.0 - share), (edge + 1, share)]
        parts = tuple(
            replace(plan := self._plan(v), count=plan.count * s) for v, s in ends if s > 0
        )
        return Mixture(
            plan=Branch(order=Order.SEQUENCE, parts=parts) if len(parts) > 1 else parts[0],
            time_s=float(sum(s * self.time_s[v] for v, s in ends)) + switch_s,
            energy_j=float(sum(s * self.energy_j[v] for v, s in ends)) + switch_j,
        )

    def _single(self, place: int) -> Mixture:
        assert self.frontier is not None  # realise refuses sums of hulls
        return Mixture(
            plan=self.frontier.plan(place),
            time_s=float(self.frontier.time_s[place]),
            energy_j=float(self.frontier.effective_j[place]),
        )

    def _plan(self, vertex: int) -> Leaf | Branch:
        assert self.frontier is not None
        assert self.places is not None
        return self.frontier.plan(int(self.places[vertex]))

    def _check(self, time_s: float) -> None:
        if not time_s >= self.time_s[0]:
            raise InfeasibleError(
                f"nothing is done within {show(time_s, Unit.SECOND)}",
                cure=f"the fastest takes {show(float(self.time_s[0]), Unit.SECOND)}",
            )


def _above(time_s: Floats, energy_j: Floats, first: int, middle: int, last: int) -> bool:
    """Return whether `middle` is on or above the chord from `first` to `last`."""
    rise = (energy_j[middle] - energy_j[first]) * (time_s[last] - time_s[first])
    return bool(rise >= (energy_j[last] - energy_j[first]) * (time_s[middle] - time_s[first]))
