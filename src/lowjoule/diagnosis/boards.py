"""Checks of each NVIDIA board: facts are asked for once, the checks are made of those alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowjoule.devices.nvml.controls import enforced_limit_w
from lowjoule.devices.nvml.driver import Driver
from lowjoule.devices.nvml.visible import Board
from lowjoule.diagnosis.check import Check, not_applicable, ok, warn
from lowjoule.quantities import Unit, show

_SAME_W = 0.5
_MODES = {
    1: "passed through to this virtual machine",
    2: "a virtual GPU",
    3: "host of virtual GPUs",
}
_VIRTUAL_GPU = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a board says of itself; None is "does not say"."""

    uuid: str
    persistence: bool | None = None
    requested_w: float | None = None
    enforced_w: float | None = None
    range_w: tuple[float, float] | None = None
    energy_j: float | None = None
    power_w: float | None = None
    partitioned: bool = False
    virtualisation: int | None = None


def facts_of(driver: Driver, board: Board) -> Facts:
    """Ask the board, which must be awake; raises `LostDeviceError` where it is gone."""
    uuid = board.uuid

    def ask(function: str) -> float | None:
        value = driver.ask(uuid, function)
        return None if value is None else float(value)

    mode = ask("nvmlDeviceGetPersistenceMode")
    limits = driver.ask(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")
    virtual = ask("nvmlDeviceGetVirtualizationMode")
    return Facts(
        uuid=uuid,
        persistence=None if mode is None else bool(mode),
        requested_w=_thousandth(ask("nvmlDeviceGetPowerManagementLimit")),
        enforced_w=enforced_limit_w(driver, uuid),
        range_w=None if limits is None else (float(limits[0]) / 1e3, float(limits[1]) / 1e3),
        energy_j=_thousandth(ask("nvmlDeviceGetTotalEnergyConsumption")),
        power_w=_thousandth(ask("nvmlDeviceGetPowerUsage")),
        partitioned=board.partitioned,
        virtualisation=None if virtual is None else int(virtual),
    )


def _thousandth(value: float | None) -> float | None:
    # 0 is how some boards say that they do not know
    return value / 1e3 if value else None


def persistence(facts: Facts) -> Check:
    """Check that the driver keeps limit and clocks when nobody uses the board."""
    name = "persistence mode"
    if facts.persistence is None:
        return not_applicable(name, f"GPU {facts.uuid} has none")
    if facts.persistence:
        return ok(name, "on", facts.uuid)
    return warn(
        name,
        "off: the driver forgets limit and clocks when the last program leaves",
        f"sudo nvidia-smi -i {facts.uuid} -pm 1, or run nvidia-persistenced",
        facts.uuid,
    )


def energy(facts: Facts) -> Check:
    """Check what the board measures."""
    name = "energy of the board"
    if facts.energy_j is not None:
        return ok(name, "it has an energy counter", facts.uuid)
    if facts.power_w is not None:
        found = "no energy counter: energy is integrated from power"
        return warn(name, found, "measure for seconds at least", facts.uuid)
    return warn(
        name,
        "neither energy nor power is told",
        "measure where the driver tells them (not in a virtual GPU)",
        facts.uuid,
    )


def limit(facts: Facts) -> Check:
    """Check that a power limit can be set at all (not on most laptops)."""
    name = "power limit"
    adjustable = facts.range_w is not None and facts.range_w[0] < facts.range_w[1]
    if facts.requested_w is not None and adjustable:
        return ok(name, f"{show(facts.requested_w, Unit.WATT)} is requested", facts.uuid)
    if facts.enforced_w is not None:
        kept = f"not adjustable, as on laptops; {show(facts.enforced_w, Unit.WATT)} is enforced"
        return warn(name, kept, "turn clocks instead (sm_clock)", facts.uuid)
    return warn(name, "not told", "turn clocks instead (sm_clock)", facts.uuid)


def authority(facts: Facts) -> Check:
    """Check that no other authority enforces a lower limit than the one requested."""
    name = "other limits"
    requested_w, enforced_w = facts.requested_w, facts.enforced_w
    if requested_w is None or enforced_w is None:
        return not_applicable(name, f"GPU {facts.uuid} does not tell both limits")
    if enforced_w >= requested_w - _SAME_W:
        return ok(name, "what is requested is enforced", facts.uuid)
    return warn(
        name,
        f"{show(enforced_w, Unit.WATT)} is enforced, {show(requested_w, Unit.WATT)} requested: "
        "limits between them are one limit",
        "raise the limit of the management controller (BMC), or search below it",
        facts.uuid,
    )


def mig(facts: Facts) -> Check:
    """Check whether the board is divided."""
    name = "MIG"
    if not facts.partitioned:
        return ok(name, "not divided", facts.uuid)
    return warn(
        name,
        "divided: energy, power, limit and clocks are those of all slices together",
        "measure with the board to yourself",
        facts.uuid,
    )


def virtual(facts: Facts) -> Check:
    """Check whether the board is a virtual one."""
    name = "virtual GPU"
    if not facts.virtualisation:
        return ok(name, "no", facts.uuid)
    found = _MODES.get(facts.virtualisation, f"virtualised (mode {facts.virtualisation})")
    if facts.virtualisation != _VIRTUAL_GPU:
        return ok(name, found, facts.uuid)
    return warn(
        name, f"{found}: sensors and limits belong to the host", "measure on the host", facts.uuid
    )


CHECKS = (energy, limit, authority, persistence, mig, virtual)


def board_checks(facts: Sequence[Facts]) -> list[Check]:
    """Return the checks of all boards."""
    return [check(one) for check in CHECKS for one in facts]
