"""The tuning of a loop, as a state machine: it is told progress and decides what is next.

It never waits. A driver's answer is looked for at a later step; the device is read once a sample,
and a setting is asked of the search when a window has told enough. Its own faults end the tuning,
never the loop: the prior setting is put back and the reason is said once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import StrEnum
from typing import Any

from lowjoule.clock import Clock
from lowjoule.devices.interface import Told
from lowjoule.errors import LowjouleError, PermissionDeniedError
from lowjoule.knobs import Applied, Setting, show_setting, turnable
from lowjoule.profiling import Estimate, Trial, Verdict
from lowjoule.tuning.hand import Hand, Looked, Request
from lowjoule.tuning.holding import Holding
from lowjoule.tuning.progress import Phase, Progress
from lowjoule.tuning.result import TuneResult
from lowjoule.tuning.round import Plan, Purpose, Round
from lowjoule.tuning.standing import Standing
from lowjoule.tuning.windows import Windows
from lowjoule.workloads import Work

log = logging.getLogger("lowjoule.tuning")

_MOST_FAILURES = 3
_ANSWER_S = 60.0
_SEARCH_S = 10.0


class Stage(StrEnum):
    """What the conductor waits for."""

    TURNING = "turning"
    SETTLING = "settling"
    MEASURING = "measuring"
    LOOKING = "looking at"
    SEARCHING = "done with"
    OFF = "off"


class Conductor:
    """Drives one search over one loop, holds what is best, and keeps the accounts."""

    def __init__(self, plan: Plan, hand: Hand, windows: Windows, clock: Clock) -> None:
        self.plan = plan
        self.space = plan.account.space
        self.stage = Stage.MEASURING
        self.purpose = Purpose.DEFAULT
        self.notes: list[str] = []
        self.done = 0.0
        self.told = Told()
        self.standing = Standing(self.space, hand.names, plan.turn_micro, plan.batch)
        self.gave_up = False
        self._hand, self._windows, self._clock = hand, windows, clock
        self._round = Round(plan, self.note)
        self._before: list[Trial] = []
        self._holding = Holding(plan.retunes)
        self._request: Request[Any] | None = None
        self._since_s = self._settled_s = 0.0
        self._pending: tuple[Trial, Estimate | None] | None = None
        self._last_error = ""
        self._callback_failed = False

    def push(self, progress: Progress) -> None:
        """Take in what the loop tells."""
        if self.stage is not Stage.OFF and not self._hand.touch():
            self.give_up("there was no progress for so long that the claim has expired")
        if self.stage is Stage.OFF:
            self.done += progress.work if progress.phase is Phase.STEP else 0.0
        elif progress.phase is Phase.PAUSE:
            verdict = self._windows.pause()
            if verdict is not Verdict.MORE and self.stage is Stage.MEASURING:
                self._window_ends()
        elif progress.phase is Phase.RESUME:
            self._windows.resume()
        else:
            self._step(progress)
        if self._windows.lost:
            self.give_up(self._windows.lost)

    def _step(self, progress: Progress) -> None:
        now_s = progress.time_s
        self.done += progress.work
        self._windows.step(progress)
        if self._request is not None:
            self._poll(now_s)
        elif self.stage is Stage.SETTLING and now_s >= self._settled_s:
            if self._windows.open(now_s):
                self.stage = Stage.MEASURING
        elif self.stage is Stage.MEASURING and self._windows.cut(now_s) is not Verdict.MORE:
            self._window_ends()

    def _window_ends(self) -> None:
        """Keep what the window told until it is known that the setting was in force in it."""
        estimate = self._windows.recording.estimate()
        self._pending = (self._trial(), estimate)
        self._windows.begin()
        self._ask(Stage.LOOKING, self._hand.look())

    def _trial(self, failure: str | None = None) -> Trial:
        return self._windows.recording.trial(
            self.standing.asked,
            self.standing.in_force,
            unit=self.plan.account.workload.unit,
            source=self.plan.account.identity.source,
            told=self.told,
            failure=failure,
        )

    def _ask(self, stage: Stage, request: Request[Any]) -> None:
        now_s = self._clock.now_s()
        self.stage, self._request, self._since_s = stage, request, now_s
        self._poll(now_s)

    def _poll(self, now_s: float) -> None:
        request, stage = self._request, self.stage
        if request is None or not request.done:
            if request is not None and now_s - self._since_s > _ANSWER_S:
                what = "search" if stage is Stage.SEARCHING else "driver"
                self.give_up(f"the {what} has not answered for {_ANSWER_S:g} s")
            return
        self._request = None
        if stage is Stage.LOOKING:
            self._looked(request)
        elif stage is Stage.TURNING:
            self._turned(request)
        elif stage is Stage.SEARCHING:
            self._searched(request)

    def _looked(self, request: Request[Looked]) -> None:
        pending, self._pending = self._pending, None
        if request.error is not None:
            self.give_up(f"the setting in force is not known: {request.error}")
            return
        found, dropped = request.value.setting, request.value.dropped
        changed = self.standing.changed_in(found, self.space)
        if changed:
            shown = show_setting(found.only(changed), self.space)
            problem = request.value.problem or f"{shown} was set by someone else"
            self.give_up(f"{problem}, and is left as it is")
        elif dropped:
            # it may have been dropped at any moment of the window, which tells nothing then
            self.note(f"{', '.join(dropped)} was dropped by the hardware and set again")
            self._begin_window()
        elif pending is not None:
            self._take_in(*pending)

    def _take_in(self, trial: Trial, estimate: Estimate | None) -> None:
        if self.purpose is Purpose.HOLD:
            tell = self._holding.keep(trial)
            said = self._holding.changed(estimate)
            if tell:
                self._ask(Stage.SEARCHING, self._hand.ask(lambda: self._confirmed(trial)))
            else:
                self._watched(said)
            return
        if self.purpose is Purpose.DEFAULT and trial.failure is not None:
            self.give_up(f"the default gave no figure: {trial.failure}")
            return
        self._ask(Stage.SEARCHING, self._hand.ask(lambda: self._decided(trial)))

    def _decided(self, trial: Trial) -> tuple[Setting, Purpose] | None:
        """Tell the search of a trial and return what is next, None where too many failed."""
        self._round.take(trial, self.done)
        return self._round.next() if self._round.failures < _MOST_FAILURES else None

    def _confirmed(self, trial: Trial) -> tuple[Setting, Purpose]:
        """Tell the search of the first window of what is held: it was picked for looking good."""
        return self._round.confirmed(trial), Purpose.HOLD

    def _searched(self, request: Request[tuple[Setting, Purpose] | None]) -> None:
        if request.error is not None:
            self.give_up(f"the search failed ({type(request.error).__name__}: {request.error})")
            return
        following = request.value
        if following is None:
            self.give_up(f"{_MOST_FAILURES} settings in a row failed, at last: {self._last_error}")
            return
        setting, purpose = following
        if purpose is self.purpose is Purpose.HOLD and setting == self.standing.asked:
            self._begin_window()
            return
        if purpose is Purpose.HOLD:
            self._holding.begin()
        self._go(setting, purpose)

    def _watched(self, said: str | None) -> None:
        if said is None or not self._holding.may_tune:
            if said is not None:
                self.note(f"what is held now takes {said}: it was tuned often enough")
            self._begin_window()
            return
        self.note(f"what is held now takes {said}: tuned again")
        self._holding.begin_anew()
        self._search_anew()

    def _search_anew(self) -> None:
        """Begin from the default; the trials so far have their price, and are of another state."""
        self._before += self._round.trials
        self._round = Round(self.plan, self.note)
        self._go(self.space.default, Purpose.DEFAULT)

    def _begin_window(self) -> None:
        self.stage, self._settled_s = Stage.SETTLING, self._clock.now_s()

    def _go(self, setting: Setting, purpose: Purpose) -> None:
        """Have `setting` put in force; its window opens when it is and has had time to show."""
        self.standing.asked, self.purpose = setting, purpose
        if self.standing.known and self.standing.wanted == self.standing.own:
            self._in_force(self.standing.own)
        else:
            self._ask(Stage.TURNING, self._hand.turn(self.standing.wanted))

    def _turned(self, request: Request[Applied]) -> None:
        self.standing.known = request.error is None
        if isinstance(request.error, PermissionDeniedError) and self._hand.refused:
            self._denied(request.error, self._hand.refused)
        elif request.error is not None:
            self.failed(request.error)
        else:
            self._in_force(request.value.achieved)

    def _denied(self, error: PermissionDeniedError, names: tuple[str, ...]) -> None:
        """Leave what this process may not turn, say what an administrator would type, and go on."""
        turned = [knob.name for knob in self.space.knobs if len(knob.values) > 1]
        free = [name for name in turned if name not in names]
        if not free or len(free) == len(turned):  # the latter: it was turned and may not go back
            self.give_up(f"nothing more may be turned here: {error}")
            return
        text = f"{', '.join(names)} may not be turned by this process and is left as it is"
        self.note(f"{text}; an administrator can: {error.cure}")
        log.warning("%s; an administrator can: %s", text, error.cure)
        self.space = turnable(self.space, free)
        self.plan = replace(self.plan, account=replace(self.plan.account, space=self.space))
        self._windows.begin()
        self._search_anew()

    def _in_force(self, own: Setting) -> None:
        """Turn the micro-batch at this step boundary and let everything settle."""
        try:
            turned = self.standing.settle_on(own)
        except Exception as error:  # noqa: BLE001 - the user's callback: a trial fails, not the loop
            if not self._callback_failed:
                self._callback_failed = True
                shown = self.plan.account.show(self.standing.asked)
                log.warning("accumulate failed for %s: %s: %s", shown, type(error).__name__, error)
            self.failed(error)
            return
        latency_s = max((self.space.knob(name).latency_s for name in turned), default=0.0)
        self.stage, self._settled_s = Stage.SETTLING, self._clock.now_s() + latency_s

    def failed(self, error: Exception) -> None:
        """Take in that the setting just asked for does not run; the search goes on without it."""
        if self.stage is Stage.OFF:
            return
        reason = error.problem if isinstance(error, LowjouleError) else str(error)
        self._last_error = str(error)
        if self.purpose is not Purpose.TRIAL:
            self.give_up(f"{self.plan.account.show(self.standing.asked)} cannot be set: {error}")
            return
        trial = self._trial(reason or type(error).__name__)
        self._windows.begin()
        self._request = self._pending = None
        self._take_in(trial, None)

    def give_up(self, reason: str) -> None:
        """End the tuning, not the loop: what was found is put back, and the reason is logged."""
        if self.stage is Stage.OFF:
            return
        self.gave_up = True
        self.note(f"the tuning ended early: {reason}")
        log.warning("the tuning ended early and the training goes on: %s", reason)
        self.close()
        self._hand.put_back()

    def close(self) -> None:
        """Stop: nothing is read or asked any more, and the micro-batch is what it was."""
        self.stage, self._request, self._pending = Stage.OFF, None, None
        try:
            self.standing.turn_micro(self.space.default)
        except Exception as error:  # noqa: BLE001 - the user's callback, said
            self.note(f"the micro-batch could not be put back: {error}")

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials so far, those before a search was begun anew included."""
        return (*self._before, *self._round.trials)

    def result(self, more_notes: tuple[str, ...]) -> TuneResult | None:
        """Return the account so far, None before the default is known."""
        if self._request is not None and self.stage is Stage.SEARCHING:
            self._request.wait(_SEARCH_S)
        if not self._round.default_known:
            return None
        found = None if self.gave_up else self._round.recommended()
        account = self.plan.account
        job = self.plan.job or Work(max(self.done, 1.0), account.workload.unit)
        notes = (*self.notes, *self._windows.notes, *more_notes)
        result = account.result(
            self._round.trials,
            found,
            job,
            notes,
            seen=self._round.observations,
            paid=self.trials,
            held=self._holding.trials,
        )
        return replace(result, trials=self.trials)

    def note(self, text: str) -> None:
        """Keep `text` for people, once."""
        if text not in self.notes:
            self.notes.append(text)
            log.info("%s", text)
