"""The one way to NVML: started when first needed, again after a fork, its codes as our errors."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from lowjoule.devices.nvml.codes import (
    DRIVERLESS,
    LOST,
    TRANSIENT,
    Code,
    board_error,
    driver_error,
    words,
)
from lowjoule.errors import MissingExtraError

_TRIES = 3
_CLOSING_S = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What NVML answered: a value, or the code with which it did not give one."""

    value: Any
    code: int = 0

    @property
    def works(self) -> bool:
        """Whether there is a value."""
        return self.code == 0

    @property
    def detail(self) -> str:
        """The refusal in words; empty where there is none."""
        return "" if self.works else f"the driver answers: {words(self.code)}"


class Driver:
    """NVML in this process, for all its threads.

    Boards are named by UUID, as a handle does not outlive a fork. Every call raises
    `LostDeviceError` where the board is gone and `DeviceError` where the driver is. There is no
    clean-up in a destructor: `close` ends it, and so does the process.
    """

    def __init__(self) -> None:
        self._start_over()

    def _start_over(self) -> None:
        # what the parent knew, its locks included, is of no use in a child
        self._guard = threading.Condition(threading.Lock())
        self._pid: int | None = None
        self._inside = 0
        self._ending = False
        self._handles: dict[str, Any] = {}

    def ask(self, uuid: str, function: str, *arguments: Any) -> Any | None:
        """Return what `function` says of the board `uuid`, None where it says nothing."""
        return self.attempt(uuid, function, *arguments).value

    def attempt(self, uuid: str, function: str, *arguments: Any) -> Answer:
        """Return what `function` says of the board `uuid`, or why it does not."""
        answer = self._try(function, uuid, arguments)
        if answer.code in LOST or answer.code in DRIVERLESS:
            raise board_error(answer.code, function, uuid)
        return answer

    def tell(self, uuid: str, function: str, *arguments: Any, cure: str | None = None) -> None:
        """Have `function` write on the board `uuid`; a refusal has `cure` as its cure.

        Raises `PermissionDeniedError`, `UnsupportedError`, `InvalidValueError` or `DeviceError`.
        """
        answer = self._try(function, uuid, arguments)
        if not answer.works:
            raise board_error(answer.code, function, uuid, cure)

    def machine(self, function: str, *arguments: Any) -> Any:
        """Return what `function` says of the machine or of a handle; raises `DeviceError`."""
        answer = self.machine_attempt(function, *arguments)
        if not answer.works:
            raise driver_error(answer.code)
        return answer.value

    def machine_attempt(self, function: str, *arguments: Any) -> Answer:
        """Return what `function` says of the machine or of a handle, or why it does not."""
        answer = self._try(function, None, arguments)
        if answer.code in DRIVERLESS:
            raise driver_error(answer.code)
        return answer

    def structure(self, name: str) -> Any | None:
        """Return a new structure of the binding to be filled, None where it has none so called."""
        kind = getattr(_library(), name, None)
        return None if kind is None else kind()

    def close(self) -> None:
        """End the use of NVML, once no thread is inside; it starts again when next asked.

        Other libraries in the process keep theirs: NVML counts its users.
        """
        with self._guard:
            idle = self._wait_idle()
            ours, self._pid = self._pid == os.getpid(), None
            self._handles.clear()
            if ours and idle:
                self._code(_library().nvmlShutdown, ())

    def _end(self) -> None:
        """Keep the threads that outlive the program out of a library that is being unloaded.

        The main thread still puts back what was changed, so NVML is not ended; the process does.
        """
        with self._guard:
            self._ending = True
            self._wait_idle()

    def _wait_idle(self) -> bool:
        # a call that hangs on a broken board must not keep the process from ending
        return self._guard.wait_for(lambda: self._inside == 0, timeout=_CLOSING_S)

    def _try(self, function: str, uuid: str | None, arguments: tuple[Any, ...]) -> Answer:
        call = getattr(_library(), function, None)
        if call is None:
            return Answer(None, Code.FUNCTION_NOT_FOUND)
        answer = Answer(None, Code.UNKNOWN)
        for _ in range(_TRIES):
            self._enter()
            try:
                answer = self._once(call, uuid, arguments)
            finally:
                self._leave()
            if answer.code == Code.UNINITIALIZED:
                # another library of this process has ended NVML once too often
                self._forget()
            elif answer.code not in TRANSIENT:
                break
        return answer

    def _once(
        self, call: Callable[..., Any], uuid: str | None, arguments: tuple[Any, ...]
    ) -> Answer:
        if uuid is None:
            return self._code(call, arguments)
        handle = self._handles.get(uuid)
        if handle is None:
            found = self._code(_library().nvmlDeviceGetHandleByUUID, (uuid,))
            if not found.works:
                gone = found.code in {Code.NOT_FOUND, Code.INVALID_ARGUMENT}
                return Answer(None, Code.GPU_NOT_FOUND) if gone else found
            handle = self._handles[uuid] = found.value
        return self._code(call, (handle, *arguments))

    def _enter(self) -> None:
        """Hold NVML open for a call; starts it where this process has not."""
        with self._guard:
            if self._ending and threading.current_thread() is not threading.main_thread():
                # ends the thread without a word, as the interpreter is about to do
                raise SystemExit
            if self._pid != os.getpid():
                self._start()
            self._inside += 1

    def _leave(self) -> None:
        with self._guard:
            self._inside -= 1
            self._guard.notify_all()

    def _start(self) -> None:
        # In a child NVML still counts the parent's use. That is not ended here: ending the last
        # use frees what the parent holds too, as both have the same open files.
        for _ in range(_TRIES):
            started = self._code(_library().nvmlInitWithFlags, (0,))
            if started.code not in TRANSIENT:
                break
        if not started.works:
            raise driver_error(started.code)
        self._handles.clear()
        self._pid = os.getpid()

    def _forget(self) -> None:
        with self._guard:
            self._pid = None
            self._handles.clear()

    def _code(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Answer:
        try:
            return Answer(call(*arguments))
        except _library().NVMLError as error:
            return Answer(None, int(cast(Any, error).value))


_BINDING: list[ModuleType] = []


def _library() -> ModuleType:
    """Return the binding, imported when first needed; raises `MissingExtraError`."""
    if not _BINDING:
        _BINDING.append(_imported())
    return _BINDING[0]


def _imported() -> ModuleType:
    try:
        import pynvml
    except ImportError:
        raise MissingExtraError.of("nvidia-ml-py", "nvidia", "an NVIDIA GPU") from None
    module = cast(ModuleType, pynvml)
    if not (hasattr(module, "nvmlInitWithFlags") and hasattr(module, "NVML_FI_DEV_POWER_INSTANT")):
        raise MissingExtraError(
            f"the module pynvml at {getattr(module, '__file__', 'an unknown place')} is not that "
            "of nvidia-ml-py 12 or later",
            cure="pip uninstall -y pynvml; pip install --force-reinstall 'nvidia-ml-py>=12'",
        )
    return module


DRIVER = Driver()
"""NVML in this process; starts with the first question."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=DRIVER._start_over)
atexit.register(DRIVER._end)
