"""Where the rows of a composed profile come from, so that each can say what it applies."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.profile.plan import Branch, Order, Plan
from lowjoule.profile.profile import Profile, Rows
from lowjoule.profile.pruning import Indices


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Row i is row `left_rows[i]` of `left` and row `right_rows[i]` of `right`, in `order`."""

    left: Profile
    right: Profile
    left_rows: Indices
    right_rows: Indices
    order: Order

    def plan(self, row: int) -> Plan:
        """Return a branch of both parts."""
        parts = (
            self.left.plan(int(self.left_rows[row])),
            self.right.plan(int(self.right_rows[row])),
        )
        return Branch(order=self.order, parts=parts)

    def take(self, rows: Rows) -> Pairs:
        """Return the origin of some rows."""
        return Pairs(self.left, self.right, self.left_rows[rows], self.right_rows[rows], self.order)


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Row i is row `rows[i]` of `profile`, `count` times."""

    profile: Profile
    rows: Indices
    count: float

    def plan(self, row: int) -> Plan:
        """Return a branch that repeats the row's plan."""
        part = self.profile.plan(int(self.rows[row]))
        return Branch(order=Order.SEQUENCE, parts=(part,), count=self.count)

    def take(self, rows: Rows) -> Times:
        """Return the origin of some rows."""
        return Times(self.profile, self.rows[rows], self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """Row i is row `rows[i]` of `left` where that is >= 0, and row -1 - `rows[i]` of `right`."""

    left: Profile
    right: Profile
    rows: Indices

    def plan(self, row: int) -> Plan:
        """Return the plan of the alternative."""
        place = int(self.rows[row])
        return self.left.plan(place) if place >= 0 else self.right.plan(-1 - place)

    def take(self, rows: Rows) -> Either:
        """Return the origin of some rows."""
        return Either(self.left, self.right, self.rows[rows])
