"""Workload power profiles: bundles of limits and clocks that the vendor made for kinds of work."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import byref
from typing import Any

from lowjoule.devices.nvml.driver import Driver
from lowjoule.errors import DeviceError
from lowjoule.knobs import Knob, Privilege, Value
from lowjoule.quantities import Unit

POWER_PROFILE = "power_profile"
NONE = "none"
_LATENCY_S = 0.2
_GET = "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles"
_SET = "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles"
_CLEAR = "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles"
_WORD = 32

_NAMES = (
    "max_p",
    "max_q",
    "compute",
    "memory_bound",
    "network",
    "balanced",
    "llm_inference",
    "llm_training",
    "rbm",
    "dcpcie",
    "hmma_sparse",
    "hmma_dense",
    "sync_balanced",
    "hpc",
    "mig",
    "max_q_1",
    "network_bound",
    "high_throughput_inference",
    "medium_throughput_inference",
    "low_latency_inference",
    "training",
    "inference",
    "max_q_2",
    "max_q_3",
    "low_priority_background",
)


class PowerProfile:
    """The profile that is requested; arbitration among requests decides what is enforced.

    Several at once, which only others request, read as their names joined by "+".
    """

    def __init__(self, driver: Driver, uuid: str, known: Iterable[int]) -> None:
        self._driver = driver
        self._uuid = uuid
        found = self.current()
        values = dict.fromkeys((NONE, *(_name(one) for one in known), found))
        self.knob = Knob(
            name=POWER_PROFILE,
            unit=Unit.NONE,
            values=tuple(values),
            default=found,
            latency_s=_LATENCY_S,
            privilege=Privilege.ADMINISTRATOR,
            # a profile turns limit and clocks by itself, against whoever turns those
            upkeep=True,
        )

    def current(self) -> str:
        """Return the requested profile; raises `DeviceError` where the board does not say."""
        return _joined(self._state().requestedProfilesMask)

    def enforced(self) -> str | None:
        """Return the profile that arbitration lets have its way."""
        return _joined(self._state().enforcedProfilesMask)

    def write(self, value: Value) -> None:
        """Request the profile called `value`, and no other."""
        before, after = set(_numbers(self._state().requestedProfilesMask)), _numbers_of(str(value))
        # what is to come first, so that a refusal leaves the board as it was
        if after - before:
            self._request(_SET, after - before, value)
        if before - after:
            self._request(_CLEAR, before - after, value)

    def command(self, value: Value) -> str:
        """Return the command that requests `value`."""
        numbers = ",".join(str(one) for one in sorted(_numbers_of(str(value))))
        change = f"-sr {numbers}" if numbers else f"-cr {self._cleared()}"
        return f"sudo nvidia-smi power-profiles -i {self._uuid} {change}"

    def _cleared(self) -> str:
        return ",".join(str(one) for one in _numbers(self._state().requestedProfilesMask)) or "0"

    def _request(self, function: str, numbers: set[int], value: Value) -> None:
        wanted: Any = self._driver.structure("c_nvmlWorkloadPowerProfileRequestedProfiles_v1_t")
        for one in numbers:
            wanted.requestedProfilesMask.mask[one // _WORD] |= 1 << (one % _WORD)
        self._driver.tell(self._uuid, function, byref(wanted), cure=self.command(value))

    def _state(self) -> Any:
        state = _state(self._driver, self._uuid)
        if state is None:
            raise DeviceError(
                f"GPU {self._uuid} does not say its power profile now", cure="try again"
            )
        return state


def power_profile(driver: Driver, uuid: str) -> PowerProfile | None:
    """Return the knob of the board `uuid`, None where it has no profiles."""
    state = _state(driver, uuid)
    known = [] if state is None else _numbers(state.perfProfilesMask)
    return PowerProfile(driver, uuid, known) if known else None


def _state(driver: Driver, uuid: str) -> Any | None:
    # the binding hands these structures on as they come: it is for us to pass them by reference
    state = driver.structure("c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t")
    if state is None or not driver.attempt(uuid, _GET, byref(state)).works:
        return None
    return state


def _numbers(mask: Any) -> list[int]:
    words = list(mask.mask)
    return [one for one in range(_WORD * len(words)) if words[one // _WORD] >> (one % _WORD) & 1]


def _name(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else f"profile_{number}"


def _joined(mask: Any) -> str:
    return "+".join(_name(one) for one in _numbers(mask)) or NONE


def _numbers_of(value: str) -> set[int]:
    names = [] if value == NONE else value.split("+")
    return {_NAMES.index(n) if n in _NAMES else int(n.removeprefix("profile_")) for n in names}
