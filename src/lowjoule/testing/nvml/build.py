"""Compiling the library, once per source and compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lowjoule.errors import LowjouleError

SOURCE = Path(__file__).parent / "c"
SONAME = "libnvidia-ml.so.1"
_FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")


class CompilerError(LowjouleError):
    """The library could not be compiled."""


def compiler() -> str | None:
    """Return the path of the system's C compiler, None where there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def compile_library(folder: Path | None = None) -> Path:
    """Return the compiled library, in a folder of its own under `folder`.

    By default `folder` is the user's cache. What was compiled from the same source is used again.
    """
    tool = compiler()
    if tool is None:
        raise CompilerError(
            "the fake NVML cannot be compiled as no C compiler was found", cure="install gcc"
        )
    base = folder if folder is not None else _cache()
    library = base / f"fake-nvml-{_digest(tool)}" / SONAME
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(tool, library)
    return library


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "lowjoule"


def _digest(tool: str) -> str:
    digest = hashlib.sha256(" ".join((tool, *_FLAGS)).encode())
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(tool: str, library: Path) -> None:
    # into a file of its own, moved at the end: other processes may compile the same
    descriptor, name = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(descriptor)
    sources = sorted(str(path) for path in SOURCE.glob("*.c"))
    command = [tool, *_FLAGS, "-pthread", f"-Wl,-soname,{SONAME}", "-o", name, *sources, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        Path(name).unlink()
        raise CompilerError(
            f"{tool} could not compile the fake NVML: {done.stderr.strip()[:2000]}",
            cure="use another compiler by setting CC",
        )
    Path(name).replace(library)
