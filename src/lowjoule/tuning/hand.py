"""The hand that turns knobs for a loop: a claim on a thread of its own.

A driver may take long to answer, and a search to think, and a training loop is not to wait for
them: what writes goes to a background thread, in order, and the loop looks later whether it is
done. The claim lives on that thread from its begin to its end. In virtual time there is nothing to
wait for, and all is done at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from lowjoule.control import Claim
from lowjoule.devices.interface import Device
from lowjoule.errors import DeviceError, PermissionDeniedError
from lowjoule.knobs import Applied, Setting

T = TypeVar("T")
_JOIN_S = 10.0


class Request(Generic[T]):
    """Something asked of the hand: `value` or `error` once it is done."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._done = threading.Event()
        self._value: T | None = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether it was carried out, or failed."""
        return self._done.is_set()

    @property
    def value(self) -> T:
        """What came of it; raises its error."""
        if self.error is not None:
            raise self.error
        return cast(T, self._value)

    def run(self) -> None:
        """Carry it out."""
        try:
            self._value = self._action()
        except Exception as error:  # noqa: BLE001 - it is handed to whoever asked
            self.error = error
        finally:
            self._done.set()

    def wait(self, limit_s: float) -> bool:
        """Wait until it is done, `limit_s` at most; return whether it is."""
        return self._done.wait(limit_s)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen of the setting in force: knobs that were dropped and set again, and all.

    `problem` is what is to be said of those that are not, and are left as they are.
    """

    dropped: tuple[str, ...]
    setting: Setting
    problem: str = ""


class Hand:
    """Holds the claim on `device` and does to it what is asked, one after the other."""

    def __init__(
        self, device: Device, owner: str, *, background: bool, expires_s: float | None = None
    ) -> None:
        self.device = device
        self.names = tuple(device.space.names)
        self._claim = Claim(device, owner, expires_s=expires_s)
        self._held = False
        self.refused: tuple[str, ...] = ()
        self._background = background
        self._queue: queue.SimpleQueue[Request[object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def notes(self) -> list[str]:
        """What could not be put back, or was left alone."""
        return list(self._claim.notes)

    def take(self) -> Setting:
        """Claim the device and return the setting found; raises what claims and devices raise."""
        if self._background:
            self._thread = threading.Thread(target=self._work, name="lowjoule-hand", daemon=True)
            self._thread.start()
        request = self.ask(self._enter)
        if not request.wait(_JOIN_S):
            raise DeviceError(
                f"{self.device.identity.model} has not answered for {_JOIN_S:g} s",
                cure="check its driver",
            )
        return request.value

    def turn(self, setting: Setting) -> Request[Applied]:
        """Write `setting`; where that is not permitted, `refused` names the knobs at fault."""
        return self.ask(lambda: self._apply(setting))

    def look(self) -> Request[Looked]:
        """Read the setting in force, and set again what the hardware has dropped."""
        return self.ask(self._look)

    def touch(self) -> bool:
        """Tell that the work goes on; False once the claim has expired."""
        return not self._held or self._claim.touch()

    def put_back(self) -> Request[bool]:
        """Put back what was found, and keep the claim."""
        return self.ask(self._restore)

    def leave(self) -> bool:
        """Put back what was found and end the claim; return whether that was done in time."""
        request = self.ask(self._exit)
        self._queue.put(None)
        done = request.wait(_JOIN_S)
        if self._thread is not None and done:
            self._thread.join(_JOIN_S)
        return done

    def ask(self, action: Callable[[], T]) -> Request[T]:
        """Carry out anything else that takes longer than a loop is to wait."""
        request = Request(action)
        if self._thread is None:
            request.run()
        else:
            self._queue.put(request)  # type: ignore[arg-type]
        return request

    def _work(self) -> None:
        while (request := self._queue.get()) is not None:
            request.run()

    def _enter(self) -> Setting:
        self._claim.__enter__()
        self._held = True
        return self._claim.prior

    def _apply(self, setting: Setting) -> Applied:
        self.refused = ()
        try:
            return self._claim.apply(setting)
        except PermissionDeniedError:
            # knobs are written one by one: those before the one at fault are in force
            self.refused = self.device.current().only(setting).changed(setting)[:1]
            raise

    def _look(self) -> Looked:
        said = len(self._claim.notes)
        dropped = self._claim.verify()
        return Looked(dropped, self.device.current(), "; ".join(self._claim.notes[said:]))

    def _restore(self) -> bool:
        if self._held:
            self._claim.restore()
        return self._held

    def _exit(self) -> bool:
        held, self._held = self._held, False
        if held:
            self._claim.__exit__(None, None, None)
        return held
