"""What may be wrong with a measurement."""

from __future__ import annotations

from enum import StrEnum


class Flag(StrEnum):
    """One thing to know of a window before its figures are used."""

    UNRESOLVED = "unresolved"
    """The window is shorter than a few ticks of the counter, or a few looks at the power."""
    THROTTLED = "throttled"
    """Power, heat or another authority held the device back."""
    LOST = "lost"
    """The device stopped answering: what is given ends there."""
    MISSING = "missing"
    """A device gave no energy: it is not in the total."""
    COUNTER_RESET = "counter_reset"
    """The counter started again: the energy is from power samples, or missing."""
    COUNTER_FELL = "counter_fell"
    """The counter went back a little and was held; by how much is in the uncertainty."""
    COUNTER_FROZEN = "counter_frozen"
    """The counter stood still: the energy is from power samples, or missing."""
    DISAGREEMENT = "disagreement"
    """Counter and integrated power differ by more than both leave open."""
    BEATING = "beating"
    """The load varies faster than the power sensor shows, or may: they may be in step."""
    IMPLAUSIBLE = "implausible"
    """More than twice the largest power limit: not believed."""
    SHARED = "shared"
    """The figures are also those of other users of the device (MIG, a module)."""
