"""What NVML's return codes mean, as our errors."""

from __future__ import annotations

from enum import IntEnum

from lowjoule.errors import (
    DeviceError,
    InvalidValueError,
    LostDeviceError,
    LowjouleError,
    PermissionDeniedError,
    UnsupportedError,
)


class Code(IntEnum):
    """The return codes that are told apart here."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    VERSION_NOT_SUPPORTED = 25
    DEPRECATED = 26
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


TRANSIENT = frozenset({Code.UNKNOWN, Code.TIMEOUT})
LOST = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED, Code.GPU_NOT_FOUND})
DRIVERLESS = frozenset(
    {
        Code.UNINITIALIZED,
        Code.DRIVER_NOT_LOADED,
        Code.LIBRARY_NOT_FOUND,
        Code.LIB_RM_VERSION_MISMATCH,
    }
)
UNSUPPORTED = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.FUNCTION_NOT_FOUND,
        Code.VERSION_NOT_SUPPORTED,
        Code.DEPRECATED,
    }
)

_CONTAINER = "in a container, pass the GPUs in (docker run --gpus all)"
_ADMINISTRATOR = "run as administrator (root with CAP_SYS_ADMIN on the host)"


def words(code: int) -> str:
    """Return a return code in words, for a detail: "not supported"."""
    try:
        return Code(code).name.lower().replace("_", " ")
    except ValueError:
        return f"NVML code {code}"


def driver_error(code: int) -> DeviceError:
    """Return our error for a `code` that concerns the driver, not one board."""
    if code == Code.LIBRARY_NOT_FOUND:
        return UnsupportedError(
            "the NVIDIA driver's library libnvidia-ml.so.1 is not here",
            cure=f"install the NVIDIA driver; {_CONTAINER}",
        )
    if code == Code.DRIVER_NOT_LOADED:
        return UnsupportedError(
            "the NVIDIA driver is not loaded",
            cure=f"load it (sudo modprobe nvidia) or install it; {_CONTAINER}",
        )
    if code == Code.LIB_RM_VERSION_MISMATCH:
        return DeviceError(
            "the NVIDIA driver that runs is not the one that is installed",
            cure="reboot, or unload the nvidia kernel modules and load them again",
        )
    if code == Code.OPERATING_SYSTEM:
        return PermissionDeniedError(
            "the operating system keeps the NVIDIA driver from this process",
            cure=f"allow access to /dev/nvidiactl and /dev/nvidia*; {_CONTAINER}",
        )
    return DeviceError(
        f"the NVIDIA driver does not answer ({words(code)})",
        cure="see whether nvidia-smi works, and the kernel's log if it does not",
    )


def board_error(code: int, function: str, uuid: str, cure: str | None = None) -> LowjouleError:
    """Return our error for `code`, answered by `function` on the board `uuid`.

    `cure` is the caller's, for what an administrator may do and what is outside the range.
    """
    if code in DRIVERLESS:
        return driver_error(code)
    if code in LOST:
        return LostDeviceError(
            f"GPU {uuid} is lost ({words(code)})",
            cure="stop what runs on it and reset it (sudo nvidia-smi -r) or reboot; the kernel's "
            "log says why (dmesg | grep Xid)",
        )
    if code in {Code.NO_PERMISSION, Code.OPERATING_SYSTEM}:
        return PermissionDeniedError(
            f"{function} on GPU {uuid} is for administrators", cure=cure or _ADMINISTRATOR
        )
    if code in UNSUPPORTED:
        return UnsupportedError(
            f"GPU {uuid} or its driver does not support {function}",
            cure="use another knob or a newer driver",
        )
    if code == Code.INVALID_ARGUMENT:
        return InvalidValueError(
            f"the driver refuses the value given to {function} on GPU {uuid}",
            cure=cure or "use one that nvidia-smi -q shows as allowed",
        )
    if code in TRANSIENT:
        return DeviceError(
            f"{function} on GPU {uuid} keeps failing ({words(code)})",
            cure="try again; if it stays, see the kernel's log (dmesg | grep -i nvrm)",
        )
    return DeviceError(
        f"{function} on GPU {uuid} failed ({words(code)})",
        cure="see whether nvidia-smi shows the same",
    )
