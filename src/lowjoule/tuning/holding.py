"""What is held after a search: its windows, and whether it is to be tuned again."""

from __future__ import annotations

from lowjoule.profiling import Estimate, Trial
from lowjoule.tuning.watch import Watch

_MOST_HELD = 1000
_MOST_CONFIRMED = 3


class Holding:
    """Keeps windows of the setting held; the first of each is told to the search, thrice at most.

    `retunes` is how often a search may begin anew.
    """

    def __init__(self, retunes: int) -> None:
        self.trials: list[Trial] = []
        self._retunes, self._confirmations = retunes, _MOST_CONFIRMED
        self._watch = Watch()

    def begin(self) -> None:
        """Hold another setting."""
        self._watch, self.trials = Watch(), []

    def begin_anew(self) -> None:
        """Hold nothing: a search begins."""
        self.begin()
        self._retunes -= 1
        self._confirmations = _MOST_CONFIRMED

    def keep(self, trial: Trial) -> bool:
        """Take in a window; return whether the search is to be told of it."""
        self.trials.append(trial)
        del self.trials[:-_MOST_HELD]
        if len(self.trials) > 1 or self._confirmations == 0:
            return False
        self._confirmations -= 1
        return True

    def changed(self, estimate: Estimate | None) -> str | None:
        """Return what is held takes otherwise than at first, in words; None where nothing."""
        return None if estimate is None else self._watch.look(estimate)

    @property
    def may_tune(self) -> bool:
        """Whether a search may begin anew; where not, the watch begins from here."""
        if self._retunes > 0:
            return True
        self._watch = Watch()
        return False
