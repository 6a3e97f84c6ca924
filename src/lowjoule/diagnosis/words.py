"""What was found here in tables for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lowjoule.devices.interface import Ability
from lowjoule.devices.registry import Available
from lowjoule.diagnosis.here import Found, Here
from lowjoule.knobs import Knob
from lowjoule.reports.listing import Listing

NOT_KNOWN = "n/a"
_SHORT = 12  # "GPU-8932f937"
_NAMED = 3


def short_uuid(uuid: str, others: Iterable[str] = ()) -> str:
    """Return the beginning of `uuid` that still tells it from the `others`."""
    if not uuid.startswith(("GPU-", "MIG-")):
        return uuid
    rest = [one for one in others if one != uuid]
    for length in range(_SHORT, len(uuid)):
        if not any(one.startswith(uuid[:length]) for one in rest):
            return uuid[:length]
    return uuid


def short_specs(devices: Iterable[Here]) -> dict[str, str]:
    """Return for each full name the shortest that opens the same device."""
    specs = [one.available.spec for one in devices]
    short = {}
    for spec in specs:
        kind, _, argument = spec.partition(":")
        others = [other.partition(":")[2] for other in specs]
        is_uuid = argument.startswith(("GPU-", "MIG-"))
        short[spec] = f"{kind}:{short_uuid(argument, others)}" if is_uuid else spec
    return short


def devices_listing(found: Found) -> Listing:
    """Return a row for each device that is here."""
    names = short_specs(found.devices)
    uuids = [one.identity.uuid for one in found.devices if one.identity]
    rows = []
    for here in found.devices:
        known = here.identity
        rows.append(
            (
                names[here.available.spec],
                known.model if known else here.available.title,
                "\n".join(_places(here, uuids)),
                "\n".join(_measures(here)) or NOT_KNOWN,
                "\n".join(_knob(here, knob) for knob in here.knobs)
                or ("nothing" if known else NOT_KNOWN),
            )
        )
    return Listing(
        title="Devices here",
        columns=("device", "what it is", "uuid, place", "measures", "controls"),
        rows=tuple(rows),
    )


def missing_listing(found: Found) -> Listing:
    """Return what does not work and the cure; the same on several devices is said once."""
    names = short_specs(found.devices)
    grouped: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for here in found.devices:
        for one in _all_missing(here):
            cure = _anyone(one.cure, here)
            grouped.setdefault((one.name, one.detail, cure), []).append(
                (names[here.available.spec], one.cure or "")
            )
    rows = [
        (_who([who for who, _ in same]), name, detail, same[0][1] if len(same) == 1 else cure)
        for (name, detail, cure), same in grouped.items()
    ]
    for here in found.devices:
        who = names[here.available.spec]
        rows += [(who, "note", note, "none is needed: read its figures so") for note in here.notes]
    rows += [("this machine", one.name, one.detail, one.cure or "") for one in found.elsewhere]
    return Listing(title="Missing", columns=("device", "what", "why", "cure"), rows=tuple(rows))


def others_listing(others: Iterable[Available]) -> Listing:
    """Return the devices that stand in for real ones."""
    rows = [(one.spec, one.title, one.remark) for one in others]
    rows.append(("replay:FILE", "a table of measurements (CSV)", "replayed"))
    return Listing(
        title="Simulated and replayed", columns=("device", "what it is", "remark"), rows=tuple(rows)
    )


def others_sentences(others: Iterable[Available]) -> list[str]:
    """Return the names of the devices that stand in for real ones, few words about them."""
    of_kind: dict[str, list[str]] = {}
    for one in others:
        of_kind.setdefault(str(one.source), []).append(one.spec)
    lines = [f"{kind}: {', '.join(specs)}" for kind, specs in sorted(of_kind.items())]
    return [*lines, "replayed: replay:FILE, a table of measurements (--all tells more)"]


def device_dict(here: Here) -> dict[str, object]:
    """Return the JSON form of a device that is here; what is not known is null."""
    known = here.identity
    return {
        "device": here.available.spec,
        "kind": here.available.spec.partition(":")[0],
        "title": here.available.title,
        "remark": here.available.remark,
        "source": known.source if known else here.available.source,
        "asleep": here.available.asleep,
        "model": known.model if known else None,
        "vendor": known.vendor if known else None,
        "driver": known.driver if known else None,
        "uuid": known.uuid if known else None,
        "pci_bus_id": known.pci_bus_id if known else None,
        "scope": known.scope if known else None,
        "measures": [{"name": one.name, "detail": one.detail} for one in here.measures],
        "controls": [_knob_dict(here, knob) for knob in here.knobs],
        "missing": [_missing_dict(one) for one in _all_missing(here)],
        "notes": here.notes,
    }


def other_dict(one: Available) -> dict[str, object]:
    """Return the JSON form of a device that stands in for a real one."""
    return {
        "device": one.spec,
        "kind": one.spec.partition(":")[0],
        "title": one.title,
        "remark": one.remark,
        "source": one.source,
    }


def found_dict(found: Found) -> Mapping[str, object]:
    """Return the JSON form of all that was found."""
    return {
        "version": 1,
        "kinds": found.kinds,
        "devices": [
            *(device_dict(one) for one in found.devices),
            *(other_dict(one) for one in found.others),
        ],
        "missing": [_missing_dict(one) for one in found.elsewhere],
    }


def _all_missing(here: Here) -> tuple[Ability, ...]:
    if here.available.asleep:
        why = "asleep: left alone, as a question would wake it"
        return (Ability(name="everything", works=False, detail=why, cure=_wake(here)),)
    if here.failure is not None:
        why, cure = here.failure.problem, here.failure.cure
        return (Ability(name="everything", works=False, detail=why, cure=cure),)
    return here.missing


def _wake(here: Here) -> str:
    return f"name it (--device {here.available.spec}) to wake it"


def _places(here: Here, uuids: list[str]) -> list[str]:
    known = here.identity
    if known is None:
        return [NOT_KNOWN]
    place = [known.pci_bus_id] if known.pci_bus_id else []
    return [short_uuid(known.uuid, uuids), *place]


def _measures(here: Here) -> list[str]:
    """Return energy and power a line each, the rest in one, and what they are of."""
    first = [one for one in here.measures if "energy" in one.name or "power" in one.name]
    said = [one.name if not one.detail else f"{one.name}: {one.detail}" for one in first]
    rest = [one.name for one in here.measures if one not in first]
    said += [", ".join(rest)] if rest else []
    scope = None if here.identity is None else str(here.identity.scope).replace("_", " ")
    return [*said, f"scope: {scope}"] if said and scope else said


def _knob(here: Here, knob: Knob) -> str:
    refused = "" if here.may_turn(knob) else " (not permitted)"
    return f"{knob.name} {knob_range(knob)}{refused}"


def knob_range(knob: Knob) -> str:
    """Return the domain of `knob` in the fewest words."""
    if len(knob.values) <= _NAMED or isinstance(knob.values[0], str):
        return knob.describe()
    return f"{knob.show(knob.values[0])} ... {knob.show(knob.values[-1])}"


def _knob_dict(here: Here, knob: Knob) -> dict[str, object]:
    names = isinstance(knob.values[0], str)
    return {
        "name": knob.name,
        "unit": knob.unit,
        "least": None if names else knob.values[0],
        "most": None if names else knob.values[-1],
        "values": knob.values if names else None,
        "default": knob.default,
        "permitted": here.may_turn(knob),
    }


def _missing_dict(one: Ability) -> dict[str, object]:
    return {"name": one.name, "detail": one.detail, "cure": one.cure}


def _anyone(cure: str | None, here: Here) -> str:
    """Return a cure in which no single device is named."""
    text = cure or ""
    return text.replace(here.identity.uuid, "UUID") if here.identity else text


def _who(names: list[str]) -> str:
    if len(names) <= _NAMED:
        return "\n".join(names)
    return f"{names[0]}\nand {len(names) - 1} more"
