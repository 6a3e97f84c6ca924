"""Waiting until the device is done: a window ends when its work does, not when it was queued.

Only frameworks that the program has imported itself, and that have touched a device, are asked:
importing one here, or making it open a device, would be work that the user did not ask for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

Sync = Callable[[], object] | Literal["auto"] | None


def synchronise(sync: Sync) -> str:
    """Wait as `sync` says and return what went wrong, "" where nothing did."""
    if sync is None:
        return ""
    if sync != "auto":
        return _tried("sync", sync)
    told = [_tried(name, wait) for name, wait in _WAITS.items() if name in sys.modules]
    return "; ".join(one for one in told if one)


def _tried(name: str, wait: Callable[[], object]) -> str:
    try:
        wait()
    except Exception as error:  # noqa: BLE001  # a failed wait costs accuracy, never the work
        return f"waiting for the device failed ({name}: {error}), so the window may end early"
    return ""


def _torch() -> None:
    torch: Any = sys.modules["torch"]
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is None or not getattr(module, "is_initialized", bool)():
            continue
        for number in range(module.device_count()):
            module.synchronize(number)


def _cupy() -> None:
    cupy: Any = sys.modules["cupy"]
    runtime = cupy.cuda.runtime
    current = runtime.getDevice()
    # a device without a context has no work; asking for one would make it
    if not _has_context(cupy):
        return
    cupy.cuda.Device(current).synchronize()


def _has_context(cupy: Any) -> bool:
    try:
        return bool(cupy.cuda.driver.ctxGetCurrent())
    except AttributeError:
        return True


def _jax() -> None:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    jax: Any = sys.modules["jax"]
    if bridge is None or not getattr(bridge, "_backends", None):
        return  # no device was opened yet
    for array in jax.live_arrays():
        array.block_until_ready()


_WAITS: dict[str, Callable[[], object]] = {"torch": _torch, "cupy": _cupy, "jax": _jax}
