"""What the checks look at: files, environment, driver; all of it can be replaced in a test."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from lowjoule.clock import Clock, WallClock
from lowjoule.devices.nvml.driver import DRIVER, Driver

_ALL_USERS = re.compile(r"\s*0\s+0\s+4294967295\s*")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def installed(name: str) -> str | None:
    """Return the version of an installed distribution, None where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def origin_of(name: str) -> str | None:
    """Return the file of a module without importing it, None where there is none."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def may(path: Path, mode: int) -> bool:
    """Return whether this process may do `mode` (`os.R_OK`, `os.W_OK`) with `path` as it is now."""
    # by the rights in force, which a root that has laid some down no longer has
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """This machine, or one that a test describes.

    `root` is where /sys, /proc and /dev are found; `installed` and `origin_of` tell of Python's
    packages; `user_id` is None where the system has none.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    driver: Driver = DRIVER
    clock: Clock = field(default_factory=WallClock)
    installed: Callable[[str], str | None] = installed
    origin_of: Callable[[str], str | None] = origin_of
    user_id: int | None = field(default_factory=getattr(os, "geteuid", lambda: None))

    def text(self, path: str) -> str | None:
        """Return what the file at `path` under the root says, None where it says nothing."""
        try:
            return (self.root / path).read_text("utf-8", "replace").strip() or None
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder under the root, none where it is absent."""
        try:
            return tuple(sorted(os.listdir(self.root / path)))
        except OSError:
            return ()

    @cached_property
    def container(self) -> str | None:
        """What kind of container this process is in; None for none that is known."""
        if (self.root / ".dockerenv").exists():
            return "docker"
        if (self.root / "run/.containerenv").exists():
            return "podman"
        if named := self.environment.get("container"):
            return named
        if self.environment.get("APPTAINER_CONTAINER") or self.environment.get(
            "SINGULARITY_CONTAINER"
        ):
            return "apptainer"
        groups = self.text("proc/1/cgroup") or ""
        if "KUBERNETES_SERVICE_HOST" in self.environment or "kubepods" in groups:
            return "kubernetes"
        return "container" if re.search(r"docker|containerd|lxc", groups) else None

    @cached_property
    def wsl(self) -> bool:
        """Whether this is Linux under Windows, whose GPU driver is the one of Windows."""
        return "microsoft" in (self.text("proc/version") or "").lower()

    @cached_property
    def guest(self) -> bool:
        """Whether this is a virtual machine, as far as the processor says."""
        flags = re.search(r"^flags\s*:(.*)$", self.text("proc/cpuinfo") or "", re.MULTILINE)
        return flags is not None and "hypervisor" in flags[1].split()

    @cached_property
    def user_namespace(self) -> bool:
        """Whether this process's root is not the host's (rootless containers, `unshare -U`)."""
        mapped = self.text("proc/self/uid_map")
        return mapped is not None and _ALL_USERS.fullmatch(mapped) is None

    @cached_property
    def nvidia_addresses(self) -> tuple[str, ...]:
        """Where NVIDIA's GPUs sit, by the kernel, whether or not there is a driver."""
        folder = "sys/bus/pci/devices"
        return tuple(
            name
            for name in self.names(folder)
            if self.text(f"{folder}/{name}/vendor") == _NVIDIA
            and (self.text(f"{folder}/{name}/class") or "").startswith(_DISPLAY)
        )

    @cached_property
    def kernel_driver(self) -> str | None:
        """The version of the NVIDIA driver in the kernel; None where none is loaded."""
        said = self.text("proc/driver/nvidia/version")
        if said is None:
            return None
        found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", said)
        return found[1] if found else "of a version that it does not tell"

    @cached_property
    def expects_gpu(self) -> bool:
        """Whether there is a sign of an NVIDIA GPU at all."""
        return bool(self.nvidia_addresses) or self.kernel_driver is not None
