"""What a command took, as JSON and as a table."""

from __future__ import annotations

import shlex
from typing import Any

from lowjoule.launch.measured import Outcome
from lowjoule.metering import DeviceEnergy
from lowjoule.quantities import Unit, show
from lowjoule.reports.listing import Listing

VERSION = 1
NOT_KNOWN = "n/a"
_LONGEST_COMMAND = 60


def outcome_dict(outcome: Outcome, lowjoule: str) -> dict[str, Any]:
    """Return the JSON form, in SI units; what is not known is null. `lowjoule` is our version."""
    return {
        "version": VERSION,
        "lowjoule": lowjoule,
        "command": list(outcome.command),
        "exit_code": outcome.ending.exit_code,
        "signal": outcome.ending.signal,
        "time_s": outcome.time_s,
        "energy_j": outcome.energy_j,
        "uncertainty_j": outcome.uncertainty_j,
        "devices": [_device_dict(one) for one in outcome.devices],
        "notes": list(outcome.notes),
    }


def _device_dict(one: DeviceEnergy) -> dict[str, Any]:
    known = one.identity
    return {
        "uuid": known.uuid,
        "model": known.model,
        "pci_bus_id": known.pci_bus_id,
        "source": known.source.value,
        "calibrated": known.calibrated,
        "scope": known.scope.value,
        "method": one.method,
        "energy_j": one.energy_j,
        "uncertainty_j": one.uncertainty_j,
        "power_w": one.power_w,
        "peak_power_w": one.peak_power_w,
        "flags": sorted(flag.value for flag in one.flags),
    }


def outcome_listing(outcome: Outcome) -> Listing:
    """Return a row for each device, and their sum where there are several."""
    rows = [
        (
            one.identity.title,
            _short(one.identity.uuid),
            _energy(one.energy_j, one.uncertainty_j),
            _shown(one.power_w, Unit.WATT),
            _shown(one.peak_power_w, Unit.WATT),
            _remarks(one),
        )
        for one in outcome.devices
    ]
    if len(rows) > 1:
        powers_w = [one.power_w for one in outcome.devices if one.power_w is not None]
        power_w = None if outcome.energy_j is None else sum(powers_w)
        energy = _energy(outcome.energy_j, outcome.uncertainty_j)
        rows.append(("all", "", energy, _shown(power_w, Unit.WATT), "", ""))
    return Listing(
        title=_title(outcome),
        columns=("device", "uuid", "energy", "power", "peak", "remarks"),
        rows=tuple(rows),
        numbers=frozenset(("energy", "power", "peak")),
    )


def outcome_sentences(outcome: Outcome) -> list[str]:
    """Return how the command ended, and what is to be known of the figures."""
    if outcome.time_s is None:
        return list(outcome.notes)
    ending = outcome.ending
    how = f"ended by {ending.signal}" if ending.signal else f"exit code {ending.exit_code}"
    lines = [f"{show(outcome.time_s, Unit.SECOND)}, {how}."]
    if all(one.energy_j is None for one in outcome.devices):
        lines.append("Its energy is not known: nothing could be measured (lowjoule doctor).")
    return [*lines, *outcome.notes]


def _title(outcome: Outcome) -> str:
    text = shlex.join(outcome.command)
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 3]}..."


def _remarks(one: DeviceEnergy) -> str:
    said = [flag.value.replace("_", " ") for flag in sorted(one.flags)]
    if one.identity.source.value != "measured":
        said.insert(0, one.identity.source.value)
    return ", ".join(said)


def _energy(energy_j: float | None, uncertainty_j: float | None) -> str:
    text = _shown(energy_j, Unit.JOULE)
    known = energy_j is not None and uncertainty_j is not None
    return f"{text} ± {show(uncertainty_j, Unit.JOULE, 2)}" if known and uncertainty_j else text


def _shown(value: float | None, unit: Unit) -> str:
    return NOT_KNOWN if value is None else show(value, unit)


def _short(uuid: str) -> str:
    return uuid[:12] if uuid.startswith("GPU-") else uuid
