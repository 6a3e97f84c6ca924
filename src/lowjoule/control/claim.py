"""A claim: one owner for the knobs of a device, and what was found put back at the end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType

from lowjoule.control.advice import Advice, advice, probed, refused
from lowjoule.control.effect import Change, Effect, settle
from lowjoule.control.ownership import board_of, holding
from lowjoule.control.record import Record, sentences
from lowjoule.control.upkeep import Kept, Watch
from lowjoule.devices.interface import Ability, Device
from lowjoule.errors import BusyError, InvalidValueError, LowjouleError, PermissionDeniedError
from lowjoule.knobs import Applied, Setting, path
from lowjoule.knobs.knob import Value

_SETTLE_S = 2.0


class Claim:
    """Sole right to turn some knobs of one device, as a context manager.

    No other claim of this machine holds them meanwhile, but for one opened `within` this one,
    which gives back what this one had set. On leaving, every knob that was written through the
    claim gets back the value it had when the claim began: not the vendor's default. A knob that
    somebody else has changed since our last write is left as it is. What could not be put back,
    or was left alone, stands in `notes`, and on the exception that ends the claim.

    Of a device that other processes see, every write is in the journal before it is made, and a
    watchdog puts things back when this process dies; what an earlier process left is put back on
    entering. With `expires_s` the watchdog also does so when `touch` is not called for that
    long. The claim is not shared between threads, but for `touch`; in a forked child it is over.

    Raises `BusyError` on entering when another claim holds one of the knobs, and
    `PermissionDeniedError` when the device says that one of those named may not be turned.
    """

    def __init__(
        self,
        device: Device,
        owner: str,
        knobs: Iterable[str] | None = None,
        *,
        within: Claim | None = None,
        expires_s: float | None = None,
    ) -> None:
        if expires_s is not None and not expires_s > 0:
            raise InvalidValueError(f"a claim that expires in {expires_s} s", cure="give more")
        self.device = device
        self.owner = owner
        self.knobs = tuple(device.space.names if knobs is None else knobs)
        self.notes: list[str] = []
        self._named = knobs is not None
        self._outer = within
        self._inner: Claim | None = None
        self._expires_s = expires_s
        self._held = ExitStack()
        self._pid: int | None = None
        self._prior: Setting | None = None
        self._ours: dict[str, set[Value]] = {}
        self._refused: dict[str, Ability] = {}

    def __enter__(self) -> Claim:
        self._check_knobs()
        self._record = self._outer_record() or Record(self.device, self.owner, self._expires_s)
        with ExitStack() as held:
            owed = {}
            if self._outer is None:
                self.notes += sentences(self._record.replay_stale())
                held.enter_context(holding(self.device, self.knobs, self.owner))
                owed = self._record.owed(self.knobs)
            found = self.device.current()
            self._ours = {name: set(one.written) for name, one in owed.items()}
            self._prior = Setting({**found, **{name: one.prior for name, one in owed.items()}})
            self._watch = Watch(self.device)
            self._changes: dict[str, Change] = {}
            self._pid = os.getpid()
            if self._outer is not None:
                self._outer._inner = self
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pid != os.getpid():
            return
        try:
            if self._inner is not None:
                self.notes.append(f"{self._inner.owner} had not ended and is ended now")
                self._inner.__exit__(None, None, None)
            try:
                self.restore()
            except BaseException:  # a second Ctrl-C, in the middle of it
                self.restore()
                raise
        finally:
            self._prior = None
            self._pid = None
            if self._outer is not None:
                self._outer._inner = None
            else:
                self.notes += self._record.notes
            self._held.close()
        if error is not None:
            for note in self.notes:
                error.add_note(note)

    @property
    def prior(self) -> Setting:
        """The setting that was found when the claim began."""
        if self._prior is None:
            raise BusyError("the claim is not held", cure="use it in a with statement")
        return self._prior

    def apply(self, setting: Setting) -> Applied:
        """Write `setting` in an order that is valid at every step and return what was read back.

        Raises what the device raises; `BusyError` for knobs outside the claim, in a forked child
        and once the claim has expired; `PermissionDeniedError`, before anything is written, for
        knobs that the device says may not be turned; `DeviceError` where the journal cannot
        be kept.
        """
        self._check_held(setting)
        for one in self.advice(setting):
            raise one.error()
        enforced: dict[str, Value] = {}
        for name, value in self._steps(setting):
            enforced.update(self._write(name, value).enforced)
        return Applied(setting, self.device.current().only(setting), enforced)

    def settle(self, limit_s: float = _SETTLE_S) -> tuple[Effect, ...]:
        """Wait until what was written last on each knob shows, for `limit_s` at most.

        The time is the device's; what was and was not seen is told, knob by knob.
        """
        return settle(self.device, list(self._changes.values()), limit_s)

    def verify(self) -> tuple[str, ...]:
        """Notice what the hardware has dropped, write it again and return the knobs concerned.

        A reload of the driver, or persistence switched off, drops limits and locks without a
        word. What stands at another value than ours and the default was changed by somebody
        else: it is left as it is, and noted. So is what is dropped again and again.
        """
        self._check_held(Setting())
        kept = self._watch.look(self._written_last())
        for name in kept.foreign:
            self._changes.pop(name, None)
        self.notes += [note for note in kept.notes if note not in self.notes]
        return self._again(kept)

    def touch(self) -> bool:
        """Tell that the work goes on; False once the claim has expired. Costs next to nothing."""
        return self._pid == os.getpid() and self._record.touch()

    def advice(self, setting: Setting) -> tuple[Advice, ...]:
        """Return what an administrator is to type for what this process may not turn.

        As far as the device says so by itself; `probe` finds out the rest.
        """
        return advice(self.device, setting, self._refused)

    def probe(self) -> tuple[Advice, ...]:
        """Find out which knobs may not be turned, by writing the values in force again.

        Some drivers say it in no other way. Knobs whose value cannot be read are left out.
        """
        self._check_held(Setting())
        readable = [
            name
            for name in self.knobs
            if name not in self._watch.unread and name not in self._refused
        ]
        found = probed(self.device, readable)
        for one in found:
            self._refused[one.knob] = Ability(
                name=one.knob, works=False, detail=one.problem, cure=one.command
            )
        return (*self.advice(self.device.current().only(self.knobs)),)

    def restore(self) -> None:
        """Put back every knob written so far, each on its own; never raises for one of them.

        What could not be put back is tried again by the next call.
        """
        if self._pid != os.getpid():
            return
        for name in list(self._ours):
            if (said := self._record.expired(name)) is not None:
                self.notes.append(f"the claim has expired: {said}")
                self._done(name)
        try:
            back = self._to_put_back(self.device.current())
            steps = self._steps(self.prior.only(back)) if back else []
        except Exception as error:  # noqa: BLE001 - each is tried all the same, and it is said
            self.notes.append(
                f"{', '.join(self._ours)}: the setting in force is not known: {error}"
            )
            steps = [(name, self.prior[name]) for name in self._ours]
        for name, value in sorted(steps, key=self._turn):
            try:
                self.device.apply(Setting({name: value}))
                if value == self.prior[name]:
                    self._check_back(name)
            except Exception as error:  # noqa: BLE001 - the others are put back, and it is said
                self.notes.append(f"{name} could not be put back to {value}: {error}")

    def _check_knobs(self) -> None:
        """Refuse knobs that there are not, or that the device says may not be turned."""
        told = refused(self.device, self.knobs)
        for name in self.knobs:
            if self._named and name in told:
                raise PermissionDeniedError(
                    f"{name} of {self.device.identity.model} may not be turned by this process "
                    f"({told[name].detail}), so nothing is written",
                    cure=told[name].cure or "ask an administrator",
                )
            self.device.space.knob(name)
        self._refused = told

    def _outer_record(self) -> Record | None:
        """Return the record of the claim around this one, once it is sure that it may be."""
        outer = self._outer
        if outer is None:
            return None
        if board_of(outer.device) != board_of(self.device):
            raise InvalidValueError(
                f"{self.owner} is to be within {outer.owner}, which is on another device",
                cure="open it on its own",
            )
        if self._expires_s is not None:
            raise InvalidValueError(
                f"{self.owner} is within {outer.owner} and cannot expire by itself",
                cure="give expires_s to the outermost claim",
            )
        outer._check_held(Setting(dict.fromkeys(self.knobs, 0)))
        return outer._record

    def _check_held(self, setting: Setting) -> None:
        foreign = [name for name in setting if name not in self.knobs]
        if self._pid is not None and self._pid != os.getpid():
            raise BusyError(
                f"the claim of {self.owner} is held by the process that forked this one",
                cure="turn knobs there, or claim them here once it has ended",
            )
        if foreign or self._prior is None:
            raise BusyError(
                f"{foreign or list(setting)} is not held by {self.owner}",
                cure="claim the knobs first",
            )
        if self._inner is not None and (taken := set(setting) & set(self._inner.knobs)):
            raise BusyError(
                f"{', '.join(sorted(taken))} is held by {self._inner.owner}, within {self.owner}",
                cure="end that first",
            )

    def _write(self, name: str, value: Value) -> Applied:
        # known before it is written: a write may reach the hardware and fail all the same
        before = self.device.current()[name]
        with self._record.writing(name, value, self.prior[name]):
            self._own(name, value)
            applied = self.device.apply(Setting({name: value}))
            now = self.device.current()[name]
            self._own(name, now)
            self._record.saw(name, now)
        self._changes[name] = Change(name, before, value)
        return applied

    def _own(self, name: str, value: Value) -> None:
        """Keep that `value` is one of ours, here and in the claims around this one."""
        claim: Claim | None = self
        while claim is not None:
            claim._ours.setdefault(name, set()).add(value)
            claim = claim._outer

    def _written_last(self) -> Setting:
        return Setting({name: one.asked for name, one in self._changes.items()})

    def _again(self, kept: Kept) -> tuple[str, ...]:
        done = []
        for name, value in sorted(kept.dropped.items(), key=self._turn):
            try:
                self._write(name, value)
                done.append(name)
            except LowjouleError as error:
                self.notes.append(f"{name} could not be written again: {error}")
        return tuple(done)

    def _turn(self, step: tuple[str, Value]) -> int:
        """Return when it is the turn of a write: what keeps the rest goes on first, off last."""
        name, value = step
        if not self.device.space.knob(name).upkeep:
            return 1
        return 2 if value == "off" else 0

    def _steps(self, goal: Setting) -> list[tuple[str, Value]]:
        """Return the single writes, in a valid order, from the setting in force to `goal`."""
        here, space = self.device.current(), self.device.space
        steps = []
        for step in path(here, goal, space.rules, space.knobs):
            (name,) = here.changed(step)
            steps.append((name, step[name]))
            here = step
        return steps

    def _check_back(self, name: str) -> None:
        after, prior = self.device.current()[name], self.prior[name]
        if after == prior:
            self._done(name)
        else:
            self.notes.append(f"{name} was to be put back to {prior} and stays at {after}")

    def _done(self, name: str) -> None:
        self._ours.pop(name, None)
        if self._outer is None:
            self._record.put_back(name)

    def _to_put_back(self, now: Setting) -> list[str]:
        """Return the knobs that stand at a value of ours; the others are nobody's or foreign."""
        back = []
        for name, values in list(self._ours.items()):
            if now[name] == self.prior[name]:
                self._done(name)
            elif now[name] in values:
                back.append(name)
            else:
                self._done(name)
                self.notes.append(
                    f"{name} was changed by someone else to {now[name]} and is left as it is"
                )
        return back
