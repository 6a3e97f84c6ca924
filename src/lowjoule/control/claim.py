"""A claim: one owner for the knobs of a device, and what was found put back at the end."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType

from lowjoule.control.ownership import holding
from lowjoule.devices.interface import Device
from lowjoule.errors import BusyError
from lowjoule.knobs import Applied, Setting, path
from lowjoule.knobs.knob import Value


class Claim:
    """Sole right to turn some knobs of one device, as a context manager.

    No other claim of this machine holds them meanwhile. On leaving, every knob that was written
    through the claim gets back the value it had when the claim began: not the vendor's default.
    A knob that somebody else has changed since our last write is left as it is. What could not
    be put back, or was left alone, stands in `notes`, and on the exception that ends the claim.
    The claim is not shared between threads.

    Raises `BusyError` on entering when another claim holds one of the knobs.
    """

    def __init__(self, device: Device, owner: str, knobs: Iterable[str] | None = None) -> None:
        self.device = device
        self.owner = owner
        self.knobs = tuple(device.space.names if knobs is None else knobs)
        self.notes: list[str] = []
        self._held = ExitStack()
        self._prior: Setting | None = None
        self._ours: dict[str, set[Value]] = {}

    def __enter__(self) -> Claim:
        with ExitStack() as held:
            held.enter_context(holding(self.device, self.knobs, self.owner))
            self._prior = self.device.current()
            self._held = held.pop_all()
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
            self._prior = None
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
            # known before it is written: a write may reach the hardware and fail all the same
            ours = self._ours.setdefault(name, set())
            ours.add(value)
            applied = self.device.apply(Setting({name: value}))
            ours.add(self.device.current()[name])
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
        """Put back every knob written so far, each on its own; never raises for one of them.

        What could not be put back is tried again by the next call.
        """
        try:
            now = self.device.current()
            back = self._to_put_back(now)
            steps = self._steps(self.prior.only(back)) if back else []
        except Exception as error:  # noqa: BLE001 - each is tried all the same, and it is said
            self.notes.append(
                f"{', '.join(self._ours)}: the setting in force is not known: {error}"
            )
            steps = [(name, self.prior[name]) for name in self._ours]
        for name, value in steps:
            try:
                self.device.apply(Setting({name: value}))
                if value == self.prior[name]:
                    self._ours.pop(name, None)
            except Exception as error:  # noqa: BLE001 - the others are put back, and it is said
                self.notes.append(f"{name} could not be put back to {value}: {error}")

    def _to_put_back(self, now: Setting) -> list[str]:
        """Return the knobs that stand at a value of ours; the others are nobody's or foreign."""
        back = []
        for name, values in list(self._ours.items()):
            if now[name] == self.prior[name]:
                del self._ours[name]
            elif now[name] in values:
                back.append(name)
            else:
                del self._ours[name]
                self.notes.append(
                    f"{name} was changed by someone else to {now[name]} and is left as it is"
                )
        return back
