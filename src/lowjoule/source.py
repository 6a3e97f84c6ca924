"""Where a number comes from; carried by everything that is made of it."""

from __future__ import annotations

from enum import StrEnum


class Source(StrEnum):
    """Provenance of a reading, a point, a profile or a result."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    SIMULATED = "simulated"
    REPLAYED = "replayed"
    PREDICTED = "predicted"
