"""Checks of the NVIDIA driver and of what stands between it and this process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from lowjoule.devices.nvml.abilities import is_administrator
from lowjoule.devices.nvml.visible import Board, visible
from lowjoule.diagnosis.check import Check, fail, not_applicable, ok, warn
from lowjoule.diagnosis.machine import Machine, may
from lowjoule.errors import InvalidValueError, LowjouleError, MissingExtraError

GPUS_OF_CONTAINER = "pass the GPUs in (docker run --gpus all)"
_OLDEST_BINDING = 12


def driver(machine: Machine) -> Check:
    """Check that the driver answers, and which version it is."""
    name = "NVIDIA driver"
    try:
        version = str(machine.driver.machine("nvmlSystemGetDriverVersion"))
    except MissingExtraError as error:
        if not machine.expects_gpu:
            return not_applicable(name, "no NVIDIA GPU is seen here")
        return fail(name, f"a GPU is here, but {error.problem}", error.cure)
    except LowjouleError as error:
        if not machine.expects_gpu:
            return not_applicable(name, f"no NVIDIA GPU is seen here: {error.problem}")
        return fail(name, error.problem, _cure(machine, error))
    loaded = machine.kernel_driver
    if loaded is not None and loaded[:1].isdigit() and loaded != version:
        return warn(
            name,
            f"the library says {version}, the kernel's module {loaded}",
            "reboot, so that both are of one version",
        )
    return ok(name, version)


def _cure(machine: Machine, error: LowjouleError) -> str:
    """Return the cure, in a container the one for containers alone."""
    absent = "not here" in error.problem or "not loaded" in error.problem
    return GPUS_OF_CONTAINER if machine.container and absent else error.cure


def binding(machine: Machine) -> Check:
    """Check that the module `pynvml` is that of nvidia-ml-py and of no other distribution."""
    name = "NVML binding"
    origin = machine.origin_of("pynvml")
    ours, other = machine.installed("nvidia-ml-py"), machine.installed("pynvml")
    cure = "pip uninstall -y pynvml; pip install --force-reinstall 'nvidia-ml-py>=12'"
    if origin is None:
        if not machine.expects_gpu:
            return not_applicable(name, "not installed, and no NVIDIA GPU is seen here")
        return fail(name, "nvidia-ml-py is not installed", "pip install 'lowjoule[nvidia]'")
    # nvidia-ml-py brings one file; the package of that name is another's, and wins the import
    if origin.endswith("__init__.py"):
        which = f"the distribution pynvml {other}" if other else "something else"
        return fail(name, f"{origin} is of {which} and hides nvidia-ml-py", cure)
    if ours is None:
        return fail(name, f"{origin} is not of nvidia-ml-py", cure)
    if _major(ours) < _OLDEST_BINDING:
        return fail(name, f"nvidia-ml-py {ours} is too old", "pip install -U 'nvidia-ml-py>=12'")
    return ok(name, f"nvidia-ml-py {ours}")


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def nodes(machine: Machine) -> Check:
    """Check that the driver's device files are here and open to this user."""
    name = "device files"
    if machine.wsl:
        if not (machine.root / "dev/dxg").exists():
            return not_applicable(name, "WSL without a GPU (/dev/dxg is absent)")
        return ok(name, "/dev/dxg, as under WSL")
    if not machine.expects_gpu:
        return not_applicable(name, "no NVIDIA GPU is seen here")
    found = [one for one in machine.names("dev") if re.fullmatch(r"nvidia(ctl|\d+)", one)]
    boards = [one for one in found if one != "nvidiactl"]
    if "nvidiactl" not in found or not boards:
        lacking = "/dev/nvidiactl" if "nvidiactl" not in found else "/dev/nvidia0"
        if machine.container:
            cure = GPUS_OF_CONTAINER
        else:
            cure = "sudo nvidia-modprobe -u -c=0, or load the driver (sudo modprobe nvidia)"
        return fail(name, f"{lacking} is absent", cure)
    paths = [machine.root / "dev" / one for one in found]
    closed = [f"/dev/{one.name}" for one in paths if not may(one, os.R_OK | os.W_OK)]
    if closed:
        cure = f"sudo chmod a+rw {' '.join(closed)}, or join the group that owns them"
        return fail(name, f"this user may not open {', '.join(closed)}", cure)
    total = len(machine.nvidia_addresses)
    if total > len(boards):
        cure = GPUS_OF_CONTAINER if machine.container else "see the kernel's log (dmesg)"
        return warn(name, f"{len(boards)} of {total} GPUs have one here", cure)
    return ok(name, f"/dev/nvidiactl and {len(boards)} of boards")


def permission(machine: Machine, boards: Sequence[Board], control: bool = False) -> Check:
    """Check whether this process may turn knobs; a failure where `control` is asked for."""
    name = "permission to control"
    if not boards:
        return not_applicable(name, "no NVIDIA GPU is seen here")
    say = fail if control else warn
    allowed = is_administrator(machine.root)
    if machine.user_namespace and (allowed or machine.user_id == 0):
        return say(
            name,
            "this process is root in a user namespace, which the driver does not count",
            "turn knobs on the host, or in a container that is not rootless with "
            "--cap-add SYS_ADMIN",
        )
    if allowed:
        return ok(name, "this process has CAP_SYS_ADMIN")
    if machine.user_id == 0:
        cure = "docker run --cap-add SYS_ADMIN" if machine.container else "keep CAP_SYS_ADMIN"
        return say(name, "this process is root without CAP_SYS_ADMIN: measuring works", cure)
    return say(
        name,
        "this user may not turn limits and clocks: measuring works",
        "run as root (sudo), or let an administrator set what lowjoule names",
    )


def hidden(machine: Machine, boards: Sequence[Board]) -> Check:
    """Check what CUDA_VISIBLE_DEVICES says against the boards that are here."""
    name = "CUDA_VISIBLE_DEVICES"
    value = machine.environment.get(name)
    if value is None:
        return ok(name, "not set: all boards are visible")
    if not boards:
        return not_applicable(name, f"is {value!r}, and no NVIDIA GPU is seen here")
    try:
        shown = visible(boards, value, machine.environment.get("CUDA_DEVICE_ORDER"))
    except InvalidValueError as error:
        return fail(name, error.problem, error.cure)
    if shown.notes:
        cure = "correct it: nvidia-smi -L lists the names"
        return fail(name, "; ".join(shown.notes), cure)
    if shown.hidden:
        names = ", ".join(board.uuid for board in shown.hidden)
        return warn(name, f"hides {names}", "unset it to measure all boards")
    return ok(name, f"is {value!r}: all boards are visible")


def order(machine: Machine, boards: Sequence[Board]) -> Check:
    """Check that a number names the same board for CUDA and for us."""
    name = "CUDA_DEVICE_ORDER"
    models = sorted({board.model for board in boards})
    value = (machine.environment.get(name) or "").strip()
    if len(models) < 2:
        return not_applicable(name, "boards of one model at most: numbers follow the bus")
    if value == "PCI_BUS_ID":
        return ok(name, "PCI_BUS_ID: numbers follow the bus")
    return warn(
        name,
        f"{'is ' + repr(value) if value else 'not set'}, with boards of several models "
        f"({', '.join(models)}): which one is 0 is not known",
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID, or name boards by UUID",
    )
