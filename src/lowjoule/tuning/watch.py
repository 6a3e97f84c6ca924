"""What is held, watched: does the work still take what it took?"""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.profiling import Estimate

_BEYOND_NOISE = 3.0
_IN_A_ROW = 2


@dataclass(slots=True)
class Watch:
    """Compares windows with the first one; says of a change when two in a row show it.

    What is within three standard deviations, or `least` of the figure, is no change.
    """

    least: float = 0.05
    _first: Estimate | None = None
    _seen: int = 0

    def look(self, found: Estimate) -> str | None:
        """Return what has changed, in words, None while nothing has."""
        if self._first is None:
            self._first = found
            return None
        changes = {
            "time": self._change("time", found),
            "energy": self._change("energy", found),
        }
        said = [f"{change:+.1%} {name}" for name, change in changes.items() if change]
        self._seen = self._seen + 1 if said else 0
        return " and ".join(said) if self._seen >= _IN_A_ROW else None

    def _change(self, name: str, found: Estimate) -> float | None:
        """Return the relative change of a figure, None within the noise."""
        assert self._first is not None
        before, now = getattr(self._first, name), getattr(found, name)
        change = float(now.value / before.value - 1.0)
        noise = float((before.sd**2 + now.sd**2) ** 0.5 / before.value)
        return change if abs(change) > max(self.least, _BEYOND_NOISE * noise) else None
