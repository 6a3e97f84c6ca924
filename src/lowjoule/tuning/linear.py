"""Linear search: outward along each knob from a start, as long as a trial is worth its price."""

from __future__ import annotations

import numpy as np

from lowjoule.knobs import Setting
from lowjoule.objectives.objective import Floats
from lowjoule.tuning.judgement import Believed, Judge, Judgement
from lowjoule.tuning.ledger import Entry, scope_of
from lowjoule.tuning.lines import behind_walls, unhemmed
from lowjoule.tuning.modelled import ModelledSearch, believed_of
from lowjoule.tuning.search import Problem
from lowjoule.tuning.surface import Prior

# A search compares dozens of pairs: two standard deviations come up by chance, three hardly.
WORSE_SD = 3.0
CLOSE_WORTH = 1.25  # worths within a quarter are equal: the cheaper change goes first


class LinearSearch(ModelledSearch):
    """Walks outward along each knob from the best setting, both ways, then closes in on it.

    Candidates differ from the best setting tried in one knob, and lie within what was tried
    along it or as far again beyond: steps double while they pay, and refine afterwards. A
    direction is followed past one clearly worse point, not past two; where a knob has few values
    (names, memory clocks), the best setting of each of them is walked from too. All trials feed
    one smooth surface (`tuning.surface`), by which neighbours share their noise, and close calls
    are repeated. The next trial is the one with the largest worth for its price (a worse setting
    and a dear change cost more), between equals the one with the cheaper change. The search is
    done when no trial is expected to gain more than it costs over `Problem.remaining_work`
    (without it: more than `smallest_gain`), and the best is hemmed in by worse or failed points
    along each knob.

    `max_draws` bounds the trials (see `ModelledSearch`); `smallest_gain` is the relative gain
    below which a trial is not worth it (a job of a thousand trials in which a trial loses half
    its cost); `first_step` the first step along a knob over its log range.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        max_draws: int | None = None,
        smallest_gain: float = 0.0005,
        first_step: float = 0.25,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(
            problem,
            max_draws=max_draws,
            smallest_gain=smallest_gain,
            first_step=first_step,
            prior=prior,
        )

    def ask(self) -> Setting | None:
        """Return the setting to try next, or None when the search is done."""
        if self._ledger.draws >= self._max_draws:
            return None
        entries = self._ledger.measured
        first = self._first(bool(entries))
        if first is not None or not entries:
            return first
        judge, fits = Judge(self._ledger, entries), self._fits(entries)
        here = judge.judge([], believed_of(fits, self._rows(entries, [])))
        candidates = self._candidates(here, entries)
        rows = self._rows(entries, candidates)
        view = judge.judge(candidates, believed_of(fits, rows))
        return self._pick(view, view.gains() * self._chance_to_run(rows, len(entries)), rows)

    def _believed(self, entries: list[Entry]) -> Believed:
        return believed_of(self._fits(entries), self._rows(entries, []))

    def _candidates(self, here: Judgement, entries: list[Entry]) -> list[Setting]:
        """Return what is in reach on the best setting's lines before walls, and on its rivals'."""
        told = [entry.setting for entry in entries]
        failed = self._ledger.failed
        found = self._lines.candidates(told[here.best], told, failed)
        rows = self._rows(entries, found)
        shut = behind_walls(rows, here.told, here.best, here.clearly_worse(WORSE_SD))
        found = [one for one, gone in zip(found, shut[here.told :], strict=True) if not gone]
        rivals = self._lines.rivals(told, here.ranked())
        forbidden = here.forbidden()
        if forbidden is not None:
            rivals.append(told[forbidden])
        for rival in rivals:
            more = self._lines.candidates(rival, told, failed)
            found += [one for one in more if one not in found]
        return found

    def _pick(self, view: Judgement, gains: Floats, rows: Floats) -> Setting | None:
        prices = self._prices(view)
        pays = self._pays(gains, prices) & ~self._settled(len(gains))
        if not pays.any():
            # a gain too small to see is no reason to leave a direction unlooked at
            looked_for = np.maximum(gains, self._smallest_gain * 1.001)
            worse = rows[: view.told][view.clearly_worse(WORSE_SD)[view.best]]
            walls = np.concatenate([worse, self._surface.coordinates.of(self._ledger.failed)])
            pays = self._pays(looked_for, prices) & unhemmed(rows, view.best, walls)
            pays[: view.told] = False
        if not pays.any():
            return None
        worth = np.where(pays, np.maximum(gains, 0.0), -1.0) / prices
        close = np.flatnonzero(pays & (worth * CLOSE_WORTH >= worth.max())).tolist()
        best = view.settings[view.best]
        scopes = [scope_of(self._problem.space, best, view.settings[i]) for i in close]
        cheapest = [i for i, scope in zip(close, scopes, strict=True) if scope == min(scopes)]
        return view.settings[max(cheapest, key=lambda i: (worth[i], -i))]
