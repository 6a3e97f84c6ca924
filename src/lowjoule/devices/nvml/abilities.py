"""What works on a board and what does not, in words for people; nothing is written to find out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.nvml.controls import PERSISTENCE, Control, enforced_limit_w
from lowjoule.devices.nvml.driver import Driver
from lowjoule.devices.nvml.profiles import POWER_PROFILE
from lowjoule.devices.nvml.sensors import Sensors
from lowjoule.knobs import MEMORY_CLOCK, MODULE_POWER_LIMIT, POWER_LIMIT, SM_CLOCK
from lowjoule.quantities import Unit, show

_CAP_SYS_ADMIN = 21
_KNOBS = (POWER_LIMIT, MODULE_POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK, PERSISTENCE, POWER_PROFILE)
_NEWER = "a newer driver may tell it"
_CURES = {
    "energy counter": "energy is to be integrated from power",
    "instant power": f"averaged power is used in its place; {_NEWER}",
    "average power": f"instant power is used in its place; {_NEWER}",
    "power usage": "measure at the wall or by the machine's management controller",
    "module power": "use the power of the GPU: only modules of processor and GPU have more",
    "utilisation": f"{_NEWER}; of a board that MIG divides, ask DCGM",
    POWER_LIMIT: "turn the clocks; on a laptop the limit is the firmware's",
    SM_CLOCK: "turn the power limit",
    MODULE_POWER_LIMIT: "turn the power limit: only modules of processor and GPU have one",
    MEMORY_CLOCK: "turn the power limit or the SM clock",
    PERSISTENCE: "let nvidia-persistenced keep the driver loaded",
    POWER_PROFILE: "turn limit and clocks: only some boards and drivers have profiles",
}
_UNREAD_LOCK = "a lock set elsewhere is not seen: NVML does not tell locked clocks"


def is_administrator(root: Path = Path("/")) -> bool | None:
    """Return whether this process may turn knobs, as far as the system tells; None if it does not.

    In a container a process may be root and still be refused.
    """
    with contextlib.suppress(OSError):
        status = (root / "proc/self/status").read_text(encoding="utf-8")
        if mask := re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE):
            return bool(int(mask[1], 16) >> _CAP_SYS_ADMIN & 1)
    return os.geteuid() == 0 if hasattr(os, "geteuid") else None


def sensor_abilities(sensors: Sensors, uuid: str, module: bool) -> tuple[Ability, ...]:
    """Return what the board `uuid` can say."""
    found = []
    for name, answer in sensors.found.items():
        detail, cure, works = answer.detail, None, answer.works
        if name == "energy counter" and works and sensors.counter is None:
            works = False
            detail = "it counts the module, processor and memory included"
            cure = f"open nvml:{uuid}@module for the energy of the module"
        elif not works:
            cure = _CURES.get(name, _NEWER)
        elif name == "power usage" and works:
            known = "averaged over 1 s" if sensors.window_known else "averaged over 1 s at most"
            detail = known if sensors.window_known else f"{known}; over how long is not known"
        elif name == "module power" and module:
            detail = "the power of the whole module"
        found.append(Ability(name=name, works=works, detail=detail, cure=cure))
    return tuple(found)


def knob_abilities(
    driver: Driver, uuid: str, controls: Mapping[str, Control], administrator: bool | None
) -> tuple[Ability, ...]:
    """Return which knobs the board `uuid` has, and whether this process may turn them."""
    found = []
    for name in _KNOBS:
        control = controls.get(name)
        if control is None:
            detail = "the driver does not tell it, or has one value only"
            if name == POWER_LIMIT and (limit_w := enforced_limit_w(driver, uuid)):
                detail = f"not adjustable; {show(limit_w, Unit.WATT)} is enforced"
            found.append(Ability(name=name, works=False, detail=detail, cure=_CURES[name]))
            continue
        said = [control.knob.describe()]
        if name in {SM_CLOCK, MEMORY_CLOCK}:
            said.append(_UNREAD_LOCK)
        if administrator is False:
            said.insert(0, "needs administrator")
        found.append(
            Ability(
                name=name,
                works=administrator is not False,
                detail="; ".join(said),
                cure=control.command(control.current()) if administrator is False else None,
                forbidden=administrator is False,
            )
        )
    return tuple(found)
