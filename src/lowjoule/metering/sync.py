"""Waiting until the device is done: a window ends when its work does, not when it was queued.

Only frameworks that the program has imported itself, and devices that they have opened, are asked:
importing one here, or making it open a device, would be work that the user did not ask for.
`synchronise` blocks; a `Mark` is put behind what is queued now and looked at later, and blocks
nothing.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

_SMALL_BYTES = 65536
_MOST_HELD = 32

Sync = Callable[[], object] | Literal["auto"] | None


class Mark(Protocol):
    """A place in what was queued."""

    def done(self) -> bool:
        """Whether the device has come there; does not wait."""
        ...


def synchronise(sync: Sync) -> str:
    """Wait as `sync` says and return what went wrong, "" where nothing did."""
    if sync is None:
        return ""
    if sync != "auto":
        return _tried("sync", sync)
    told = [_tried(name, wait) for name, (wait, _) in _KNOWN.items() if name in sys.modules]
    return "; ".join(one for one in told if one)


def mark(sync: Sync) -> Mark | None:
    """Return a mark behind all that is queued now, None where nothing is queued or known of.

    A callable cannot be looked at later: it is called, and what is queued is done then. Of streams
    it is those in use now on each device.
    """
    if sync != "auto":
        synchronise(sync)
        return None
    found: list[Callable[[], bool]] = []
    for name, (_, put) in _KNOWN.items():
        if name in sys.modules:
            try:
                found += put()
            except Exception:  # noqa: BLE001 - a mark that cannot be put costs accuracy only
                continue
    waiting = _Marks(found)
    return None if waiting.done() else waiting


class _Marks:
    """Marks of several devices, done when all are."""

    def __init__(self, waiting: Iterable[Callable[[], bool]]) -> None:
        self._waiting = list(waiting)

    def done(self) -> bool:
        self._waiting = [one for one in self._waiting if not _is_done(one)]
        return not self._waiting


def _is_done(look: Callable[[], bool]) -> bool:
    try:
        return bool(look())
    except Exception:  # noqa: BLE001 - a mark that was lost (an array given away) is no reason to wait
        return True


def _tried(name: str, wait: Callable[[], object]) -> str:
    try:
        wait()
    except Exception as error:  # noqa: BLE001  # a failed wait costs accuracy, never the work
        return f"waiting for the device failed ({name}: {error}), so the window may end early"
    return ""


def _torch_live() -> list[tuple[Any, int]]:
    """Return the modules (torch.cuda, torch.xpu) and numbers of devices that have a context.

    Asking any other to synchronise would open it, and take hundreds of megabytes there.
    """
    torch: Any = sys.modules["torch"]
    live = []
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is None or not getattr(module, "is_initialized", bool)():
            continue
        has_context = getattr(getattr(torch, "_C", None), f"_{kind}_hasPrimaryContext", None)
        if has_context is None:
            live.append((module, module.current_device()))
        else:
            live += [(module, n) for n in range(module.device_count()) if has_context(n)]
    return live


def _torch() -> None:
    for module, number in _torch_live():
        module.synchronize(number)


def _torch_marks() -> list[Callable[[], bool]]:
    looks = []
    for module, number in _torch_live():
        event = module.Event()
        event.record(module.current_stream(number))
        looks.append(event.query)
    return looks


def _cupy_live() -> Any:
    """Return CuPy where its current device has a context; asking for one would make it."""
    cupy: Any = sys.modules["cupy"]
    try:
        return cupy if cupy.cuda.driver.ctxGetCurrent() else None
    except AttributeError:
        return cupy


def _cupy() -> None:
    cupy = _cupy_live()
    if cupy is not None:
        cupy.cuda.Device(cupy.cuda.runtime.getDevice()).synchronize()


def _cupy_marks() -> list[Callable[[], bool]]:
    cupy = _cupy_live()
    if cupy is None:
        return []
    event = cupy.cuda.Event(disable_timing=True)
    event.record(cupy.cuda.get_current_stream())
    return [lambda: event.done]


def _jax_unready() -> list[Any]:
    """Return the arrays that are still computed, none where JAX has opened no device yet."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    jax: Any = sys.modules["jax"]
    if bridge is None or not getattr(bridge, "_backends", None):
        return []
    live = [one for kind in bridge._backends for one in jax.live_arrays(kind)]
    return [one for one in live if not one.is_deleted() and not one.is_ready()]


def _jax() -> None:
    for array in _jax_unready():
        if not array.is_deleted():
            array.block_until_ready()


def _jax_marks() -> list[Callable[[], bool]]:
    """Return looks at arrays that are still computed; what one step gives is ready at once.

    Small ones (a loss, a counter) are held, since a loop drops them before the device has come to
    them; larger ones are not, since that would hold their memory.
    """
    unready = sorted(_jax_unready(), key=lambda one: int(one.nbytes))
    small = [one for one in unready if one.nbytes <= _SMALL_BYTES][:_MOST_HELD]
    return [_jax_look(one) for one in small or map(weakref.ref, unready)]


def _jax_look(held: Any) -> Callable[[], bool]:
    def look() -> bool:
        array = held() if isinstance(held, weakref.ref) else held
        return array is None or array.is_deleted() or bool(array.is_ready())

    return look


_KNOWN: dict[str, tuple[Callable[[], None], Callable[[], list[Callable[[], bool]]]]] = {
    "torch": (_torch, _torch_marks),
    "cupy": (_cupy, _cupy_marks),
    "jax": (_jax, _jax_marks),
}
