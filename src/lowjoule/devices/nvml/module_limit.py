"""The power limit of the module that a GPU shares with its processor and their memory."""

from __future__ import annotations

import math

from lowjoule.devices.nvml import fields
from lowjoule.devices.nvml.driver import Driver
from lowjoule.devices.nvml.fields import field_values
from lowjoule.errors import DeviceError, PermissionDeniedError
from lowjoule.knobs import MODULE_POWER_LIMIT, Knob, Privilege, Value
from lowjoule.quantities import Unit

_LATENCY_S = 0.2
_SET = "nvmlDeviceSetPowerManagementLimit_v2"


class ModuleLimit:
    """The limit that this machine asks for of the whole module; the GPU keeps its own beside it."""

    def __init__(self, driver: Driver, uuid: str, least_w: float, most_w: float) -> None:
        self._driver = driver
        self._uuid = uuid
        found_w = self.current()
        default_w = _told_w(driver, uuid, fields.DEFAULT_LIMIT) or found_w
        whole = range(math.ceil(least_w), math.floor(most_w) + 1)
        values = {float(value) for value in whole} | {least_w, most_w, found_w, default_w}
        self.knob = Knob(
            name=MODULE_POWER_LIMIT,
            unit=Unit.WATT,
            values=tuple(sorted(values)),
            default=default_w,
            latency_s=_LATENCY_S,
            privilege=Privilege.ADMINISTRATOR,
            # it takes from the GPU what the processor draws: not to be searched beside its own
            upkeep=True,
        )

    def current(self) -> float:
        """Return the requested limit in watts; raises `DeviceError`."""
        limit_w = _told_w(self._driver, self._uuid, fields.REQUESTED_LIMIT)
        if limit_w is None:
            raise DeviceError(
                f"the module of GPU {self._uuid} does not say its power limit now", cure="try again"
            )
        return limit_w

    def write(self, value: Value) -> None:
        """Write `value` in watts."""
        before_w = self.current()
        cure = self.command(value)
        self._driver.tell(self._uuid, _SET, fields.MODULE, round(float(value) * 1e3), cure=cure)
        # the binding drops the driver's answer: what has not moved was refused
        if self.current() == before_w != float(value):
            raise PermissionDeniedError(
                f"{_SET} on GPU {self._uuid} changed nothing: it is for administrators", cure=cure
            )

    def enforced(self) -> float | None:
        """Return the limit in watts that the module keeps."""
        return _told_w(self._driver, self._uuid, fields.ENFORCED_LIMIT)

    def command(self, value: Value) -> str:
        """Return the command that writes `value`."""
        return f"sudo nvidia-smi -i {self._uuid} -sc 1 -pl {float(value):g}"


def module_limit(driver: Driver, uuid: str) -> ModuleLimit | None:
    """Return the knob of the module of `uuid`, None where it has no limit of its own."""
    least_w = _told_w(driver, uuid, fields.LEAST_LIMIT)
    most_w = _told_w(driver, uuid, fields.MOST_LIMIT)
    requested_w = _told_w(driver, uuid, fields.REQUESTED_LIMIT)
    if least_w is None or most_w is None or requested_w is None or not least_w < most_w:
        return None
    own = (fields.MOST_LIMIT, fields.GPU)
    # a driver that does not know scopes answers with the GPU's own
    if field_values(driver, uuid, [own])[own].value == most_w * 1e3:
        return None
    return ModuleLimit(driver, uuid, least_w, most_w)


def _told_w(driver: Driver, uuid: str, number: int) -> float | None:
    field = (number, fields.MODULE)
    limit_mw = field_values(driver, uuid, [field])[field].value
    return float(limit_mw) / 1e3 if limit_mw else None
