"""Making the library this process's NVML, for a while."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from lowjoule.errors import InvalidValueError

_one_at_a_time = threading.Lock()
_LONGEST_CALL_S = 5.0


@contextmanager
def loaded(library: Path, environment: Mapping[str, str]) -> Iterator[ctypes.CDLL]:
    """Let whatever asks for NVML in this process, and in children of it, get `library`."""
    if not _one_at_a_time.acquire(blocking=False):
        raise InvalidValueError(
            "a fake NVML is loaded in this process already", cure="end its block first"
        )
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    handle = ctypes.CDLL(str(library))
    kept = _take_pynvml(handle)
    try:
        yield handle
    finally:
        handle.lowjoule_fake_leave()
        _give_pynvml_back(kept)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _unload(handle)
        _one_at_a_time.release()


def _take_pynvml(handle: ctypes.CDLL) -> dict[str, Any] | None:
    """Point pynvml at the library, even where it has one already; return what it had."""
    pynvml = _pynvml()
    if pynvml is None:
        return None
    kept = {
        "nvmlLib": pynvml.nvmlLib,
        "_nvmlLib_refcount": pynvml._nvmlLib_refcount,
        "cache": dict(pynvml._nvmlGetFunctionPointer_cache),
    }
    _set_pynvml(pynvml, handle, 0, {})
    return kept


def _give_pynvml_back(kept: dict[str, Any] | None) -> None:
    pynvml = _pynvml()
    if pynvml is not None and kept is not None:
        _set_pynvml(pynvml, kept["nvmlLib"], kept["_nvmlLib_refcount"], kept["cache"])


def _set_pynvml(pynvml: ModuleType, library: object, count: int, cache: dict[str, Any]) -> None:
    with pynvml.libLoadLock:
        pynvml.nvmlLib = library  # type: ignore[attr-defined]
        pynvml._nvmlLib_refcount = count  # type: ignore[attr-defined]
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(cache)


def _pynvml() -> ModuleType | None:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _unload(handle: ctypes.CDLL) -> None:
    """Take the library out, lest a real one of the same name be hidden by it.

    Not under a thread that is still in a call: then it stays, and says that it is not initialised.
    """
    end_s = time.monotonic() + _LONGEST_CALL_S
    while handle.lowjoule_fake_inside():
        if time.monotonic() > end_s:
            return
        time.sleep(0.001)
    _ctypes.dlclose(handle._handle)
