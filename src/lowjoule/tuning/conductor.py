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
from lowjoule.knobs import MICRO_BATCH, Applied, Setting, show_setting, turnable
from lowjoule.metering import Edge, Meter
from lowjoule.profiling import Estimate, Recording, Trial, Verdict
from lowjoule.profiling.recording import is_throttled, sample_length_s
from lowjoule.tuning.hand import Hand, Looked, Request
from lowjoule.tuning.progress import Gaps, Phase, Progress
from lowjoule.tuning.result import TuneResult
from lowjoule.tuning.round import Plan, Purpose, Round
from lowjoule.tuning.watch import Watch
from lowjoule.workloads import Work

log = logging.getLogger("lowjoule.tuning")

_MOST_MISSES = 3
_MOST_FAILURES = 3
_MOST_REAPPLIED = 3
_MOST_GAPS = 3
_ANSWER_S = 60.0
_SEARCH_S = 10.0
_MOST_HELD = 1000
_MOST_CONFIRMED = 3


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

    def __init__(self, plan: Plan, hand: Hand, meter: Meter, clock: Clock) -> None:
        self.plan = plan
        self.space = plan.account.space
        self.stage = Stage.MEASURING
        self.purpose = Purpose.DEFAULT
        self.notes: list[str] = []
        self.done = 0.0
        self.asked = self.space.default
        self.in_force = self.asked
        self.told = Told()
        self._hand, self._meter, self._clock = hand, meter, clock
        self._tick_s = meter.tick_s
        self._sample_s = sample_length_s(plan.precision, self._tick_s)
        self._round = Round(plan, self.note)
        self._before: list[Trial] = []
        self._held: list[Trial] = []
        self._retunes, self._confirmations = plan.retunes, _MOST_CONFIRMED
        self._request: Request[Any] | None = None
        self._since_s = self._settled_s = 0.0
        self._retry_s = -1.0
        self._misses = self._reapplied = self._gaps_dropped = 0
        self._known_own = True
        self._pending: tuple[Trial, Estimate | None] | None = None
        self._last_error = ""
        self._watch = Watch()
        self._gaps = Gaps()
        self._gaps_s: list[float] = []
        self.gave_up = False
        self._recording = self._new_recording()
        self._recording.open(None)
        self._recording.pause(None)  # what is before the first step is nobody's

    @property
    def own(self) -> Setting:
        """The part of the setting in force that is the device's."""
        return self.in_force.only(self._hand.names)

    def push(self, progress: Progress) -> None:
        """Take in what the loop tells."""
        if self.stage is not Stage.OFF and not self._hand.touch():
            self.give_up("there was no progress for so long that the claim has expired")
        if self.stage is Stage.OFF:
            self.done += progress.work if progress.phase is Phase.STEP else 0.0
        elif progress.phase is Phase.PAUSE:
            self._pause()
        elif progress.phase is Phase.RESUME:
            self._gaps.forget()
            self._recording.resume(self._edge(progress.time_s))
        else:
            self._step(progress)

    def _step(self, progress: Progress) -> None:
        now_s = progress.time_s
        self.done += progress.work
        gap_s = self._gaps.length_s(now_s)
        if gap_s is not None and self._gaps_dropped < _MOST_GAPS:
            # several without a sample between: this loop does not pause, it is slow like this
            self._gaps_dropped += 1
            self._recording.drop()
            self._gaps_s.append(gap_s)
        else:
            self._recording.add(progress.work)
        if self._request is not None:
            self._poll(now_s)
        elif now_s < self._retry_s:
            return
        elif self.stage is Stage.SETTLING and now_s >= self._settled_s:
            self._open(now_s)
        elif self.stage is Stage.MEASURING and self._recording.due(now_s):
            self._measure(now_s)

    def _pause(self) -> None:
        verdict = self._recording.pause(self._edge(self._clock.now_s()))
        if verdict is not Verdict.MORE and self.stage is Stage.MEASURING:
            self._window_ends()

    def _edge(self, now_s: float) -> Edge | None:
        """Read the device; None, counted, where it does not answer."""
        try:
            edge = self._meter.edge()
        except (LowjouleError, OSError) as error:
            self._misses += 1
            self._retry_s = now_s + self._sample_s
            self._recording.drop()
            if self._misses >= _MOST_MISSES:
                self.give_up(f"the device could not be read: {error}")
            return None
        self._misses = 0
        return edge

    def _open(self, now_s: float) -> None:
        edge = self._edge(now_s)
        if edge is not None and self.stage is not Stage.OFF:
            self._recording.open(edge)
            self.stage = Stage.MEASURING

    def _measure(self, now_s: float) -> None:
        edge = self._edge(now_s)
        if edge is None:
            return
        before = self._recording.total.work
        verdict = self._recording.cut(edge, throttled=self._throttled())
        if self._recording.total.work > before and self._gaps_dropped < _MOST_GAPS:
            self._gaps_dropped = 0
        if verdict is not Verdict.MORE:
            self._window_ends()

    def _throttled(self) -> bool:
        try:
            return is_throttled(self._hand.device.read().throttle_reasons)
        except (LowjouleError, OSError):
            return False  # not said, and the next edge shows whether the device is gone

    def _window_ends(self) -> None:
        """Keep what the window told until it is known that the setting was in force in it."""
        estimate = self._recording.estimate()
        self._pending = (self._trial(), estimate)
        self._begin_recording()
        self._ask(Stage.LOOKING, self._hand.look())

    def _trial(self, failure: str | None = None) -> Trial:
        return self._recording.trial(
            self.asked,
            self.in_force,
            unit=self.plan.account.workload.unit,
            source=self.plan.account.identity.source,
            told=self.told,
            failure=failure,
        )

    def _begin_recording(self) -> None:
        last, self._recording = self._recording, self._new_recording()
        self._recording.follow(last)

    def _new_recording(self) -> Recording:
        return Recording(self.plan.precision, sample_s=self._sample_s, tick_s=self._tick_s)

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
        turned = [k.name for k in self.space.knobs if len(k.values) > 1 and k.name in self.own]
        changed = self.own.only(turned).changed(found.only(turned))
        if changed:
            self._changed_by_others(found, changed)
        elif dropped:
            # it may have been dropped at any moment of the window, which tells nothing then
            self.note(f"{', '.join(dropped)} was dropped by the hardware and set again")
            self._begin_window()
        elif pending is not None:
            self._take_in(*pending)

    def _changed_by_others(self, found: Setting, changed: tuple[str, ...]) -> None:
        """A setting that fell back is set again; one that somebody chose is left alone."""
        shown = show_setting(found.only(changed), self.space)
        fell_back = all(found[name] == self.space.default[name] for name in changed)
        if fell_back and self._reapplied < _MOST_REAPPLIED:
            self._reapplied += 1
            self.note(f"the setting fell back to {shown} and was set again")
            self._known_own = False
            self._go(self.asked, self.purpose)
        else:
            self.give_up(f"{shown} was set by someone else, and is left as it is")

    def _take_in(self, trial: Trial, estimate: Estimate | None) -> None:
        if self.purpose is Purpose.HOLD:
            self._held.append(trial)
            del self._held[:-_MOST_HELD]
            if len(self._held) == 1 and self._confirmations > 0:
                self._confirmations -= 1
                self._watched(estimate)
                self._ask(Stage.SEARCHING, self._hand.ask(lambda: self._confirmed(trial)))
            else:
                self._watched(estimate)
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
        if purpose is self.purpose is Purpose.HOLD and setting == self.asked:
            self._begin_window()
            return
        if purpose is Purpose.HOLD:
            self._watch, self._held = Watch(), []
        self._go(setting, purpose)

    def _watched(self, estimate: Estimate | None) -> None:
        said = None if estimate is None else self._watch.look(estimate)
        if said is None:
            self._begin_window()
            return
        if self._retunes == 0:
            self.note(f"what is held now takes {said}: it was tuned often enough")
            self._watch = Watch()
            self._begin_window()
            return
        self._retunes -= 1
        self.note(f"what is held now takes {said}: tuned again")
        self._before += self._round.trials
        self._held, self._confirmations = [], _MOST_CONFIRMED
        self._round = Round(self.plan, self.note)
        self._go(self.space.default, Purpose.DEFAULT)

    def _begin_window(self) -> None:
        self.stage, self._settled_s = Stage.SETTLING, self._clock.now_s()

    def _go(self, setting: Setting, purpose: Purpose) -> None:
        """Have `setting` put in force; its window opens when it is and has had time to show."""
        self.asked, self.purpose = setting, purpose
        own = setting.only(self._hand.names)
        if self._known_own and own == self.own:
            self._in_force(own)
        else:
            self._ask(Stage.TURNING, self._hand.turn(own))

    def _turned(self, request: Request[Applied]) -> None:
        self._known_own = request.error is None
        if isinstance(request.error, PermissionDeniedError) and self._hand.refused:
            self._denied(request.error, self._hand.refused)
            return
        if request.error is not None:
            self.failed(request.error)
            return
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
        self._before += self._round.trials
        self.space = turnable(self.space, free)
        self.plan = replace(self.plan, account=replace(self.plan.account, space=self.space))
        self._round = Round(self.plan, self.note)
        self._begin_recording()
        self._go(self.space.default, Purpose.DEFAULT)

    def _in_force(self, own: Setting) -> None:
        """Turn the micro-batch at this step boundary and let everything settle."""
        before = self.in_force
        try:
            self._turn_micro(self.asked)
        except Exception as error:  # noqa: BLE001 - the user's callback: a trial fails, not the loop
            # what is in force is not known now: it is set again, whatever comes next
            self.in_force, self._known_own = own, False
            self.failed(error)
            return
        self.in_force = Setting({**self.asked, **own})
        turned = before.changed(self.in_force)
        latency_s = max((self.space.knob(name).latency_s for name in turned), default=0.0)
        self.stage, self._settled_s = Stage.SETTLING, self._clock.now_s() + latency_s

    def _turn_micro(self, setting: Setting) -> None:
        turn, batch = self.plan.turn_micro, self.plan.batch
        value = setting.get(MICRO_BATCH)
        if turn is None or batch is None or value is None:
            return
        if value != self.in_force.get(MICRO_BATCH):
            turn(int(value), batch // int(value))
            self.in_force = self.in_force.replace(**{MICRO_BATCH: value})

    def failed(self, error: Exception) -> None:
        """Take in that the setting just asked for does not run; the search goes on without it."""
        if self.stage is Stage.OFF:
            return
        reason = error.problem if isinstance(error, LowjouleError) else str(error)
        self._last_error = str(error)
        if self.purpose is not Purpose.TRIAL:
            self.give_up(f"{self.plan.account.show(self.asked)} cannot be set: {error}")
            return
        trial = self._trial(reason or type(error).__name__)
        self._begin_recording()
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
            self._turn_micro(self.space.default)
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
        notes = (*self.notes, *self._gap_notes(), *more_notes)
        result = account.result(
            self._round.trials, found, job, notes, paid=self.trials, held=self._held
        )
        return replace(result, trials=self.trials)

    def _gap_notes(self) -> list[str]:
        gaps_s = self._gaps_s
        if not gaps_s:
            return []
        counted = f"{len(gaps_s)} gap{'s' if len(gaps_s) > 1 else ''} between steps"
        return [f"{counted} ({max(gaps_s):.3g} s the longest) were left out as pauses"]

    def note(self, text: str) -> None:
        """Keep `text` for people, once."""
        if text not in self.notes:
            self.notes.append(text)
            log.info("%s", text)
