"""A claim: one owner for the knobs of a device, and what was found put back at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from lowjoule.devices.interface import Device
from lowjoule.errors import BusyError, LowjouleError
from lowjoule.knobs import Applied, Setting, path
from lowjoule.knobs.knob import Value

_OWNERS: dict[tuple[str, str], str] = {}
_LOCK = threading.Lock()


class Claim:
    """Sole right to turn some knobs of one device, as a context manager.

    On leaving, every knob that was written through the claim gets back the value it had when
    the claim began: not the vendor's default. A knob that somebody else has changed since our
    last write is left as it is. What could not be put back, or was left alone, stands in
    `notes`. Owners are kept within this process; the claim is not shared between threads.

    Raises `BusyError` on entering when another claim holds one of the knobs.
    """

    def __init__(self, device: Device, owner: str, knobs: Iterable[str] | None = None) -> None:
        self.device = device
        self.owner = owner
        self.knobs = tuple(device.space.names if knobs is None else knobs)
        self.notes: list[str] = []
        self._prior: Setting | None = None
        self._written: dict[str, Value] = {}

    def __enter__(self) -> Claim:
        uuid = self.device.identity.uuid
        with _LOCK:
            for knob in self.knobs:
                holder = _OWNERS.get((uuid, knob))
                if holder is not None:
                    raise BusyError(
                        f"{knob} of {self.device.identity.model} ({uuid}) is held by {holder}",
                        cure="wait until it is released",
                    )
            _OWNERS.update({(uuid, knob): self.owner for knob in self.knobs})
        try:
            self._prior = self.device.current()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.restore()
        finally:
            self._release()

    @property
    def prior(self) -> Setting:
        """The setting that was found when the claim began."""
        if self._prior is None:
            raise BusyError("the claim is not held", cure="use it in a with statement")
        return self._prior

    def apply(self, setting: Setting) -> Applied:
        """Write `setting` in an order that is valid at every step and return what was read back.

        Raises what the device raises; knobs outside the claim raise `BusyError`.
        """
        foreign = [name for name in setting if name not in self.knobs]
        if foreign or self._prior is None:
            raise BusyError(
                f"{foreign or list(setting)} is not held by {self.owner}",
                cure="claim the knobs first",
            )
        enforced: dict[str, Value] = {}
        for name, value in self._steps(setting):
            applied = self.device.apply(Setting({name: value}))
            self._written[name] = self.device.current()[name]
            enforced.update(applied.enforced)
        return Applied(setting, self.device.current().only(setting), enforced)

    def _steps(self, goal: Setting) -> list[tuple[str, Value]]:
        """Return the single writes, in a valid order, from the setting in force to `goal`."""
        here, space = self.device.current(), self.device.space
        steps = []
        for step in path(here, goal, space.rules, space.knobs):
            (name,) = here.changed(step)
            steps.append((name, step[name]))
            here = step
        return steps

    def restore(self) -> None:
        """Put back every knob written so far, each on its own; never raises for one of them."""
        written, self._written = self._written, {}
        if not written:
            return
        now = self.device.current()
        for name in [name for name, value in written.items() if now.get(name) != value]:
            del written[name]
            self.notes.append(
                f"{name} was changed by someone else to {now.get(name)} and is left as it is"
            )
        for name, value in self._steps(self.prior.only(written)):
            try:
                self.device.apply(Setting({name: value}))
            except LowjouleError as error:
                self.notes.append(f"{name} could not be put back to {value}: {error}")

    def _release(self) -> None:
        uuid = self.device.identity.uuid
        with _LOCK:
            for knob in self.knobs:
                _OWNERS.pop((uuid, knob), None)
        self._prior = None
