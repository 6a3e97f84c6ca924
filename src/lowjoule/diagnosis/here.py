"""The devices that are really here, and what works on each; nothing is written, none is woken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points

from lowjoule.devices.interface import Ability, Device, Identity, Probed
from lowjoule.devices.registry import GROUP, Available, Backend, OpenOptions
from lowjoule.errors import DeviceError, LowjouleError
from lowjoule.knobs import Knob
from lowjoule.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """One device: how it is named, and what was found where it could be opened.

    `identity` is None where it was not opened, and `failure` or `available.asleep` says why.
    """

    available: Available
    identity: Identity | None = None
    knobs: tuple[Knob, ...] = ()
    abilities: tuple[Ability, ...] = ()
    notes: tuple[str, ...] = ()
    failure: LowjouleError | None = None

    @property
    def measures(self) -> tuple[Ability, ...]:
        """What it says, of that which works."""
        turned = {knob.name for knob in self.knobs}
        return tuple(one for one in self.abilities if one.works and one.name not in turned)

    @property
    def missing(self) -> tuple[Ability, ...]:
        """What does not work, each with why and the cure."""
        return tuple(_told(one) for one in self.abilities if not one.works)

    def may_turn(self, knob: Knob) -> bool:
        """Return whether this process may turn `knob`, as far as the device knows."""
        return all(one.works for one in self.abilities if one.name == knob.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at the machine found: its devices, what is not opened, what may stand in."""

    devices: tuple[Here, ...] = ()
    elsewhere: tuple[Ability, ...] = ()
    others: tuple[Available, ...] = ()
    kinds: tuple[str, ...] = field(default=())


def registered() -> tuple[dict[str, Backend], tuple[Ability, ...]]:
    """Return the backends that can be loaded, and what is to be said of the others."""
    backends: dict[str, Backend] = {}
    broken = []
    for point in entry_points(group=GROUP):
        try:
            backends[point.name] = point.load()()
        except Exception as error:  # noqa: BLE001 - a broken plug-in hides no other device
            broken.append(_broken(point.name, error))
    return backends, tuple(broken)


def look(backends: Mapping[str, Backend], broken: Iterable[Ability] = ()) -> Found:
    """Return what is here. Devices that are awake are opened, to ask what works on them."""
    devices: list[Here] = []
    elsewhere: list[Ability] = list(broken)
    others: list[Available] = []
    for kind in sorted(backends):
        backend = backends[kind]
        try:
            offered = backend.available()
            told = backend.abilities() if isinstance(backend, Probed) else ()
        except Exception as error:  # noqa: BLE001 - as above
            elsewhere.append(_broken(kind, error))
            continue
        real = [one for one in offered if one.source is Source.MEASURED]
        others += [one for one in offered if one.source is not Source.MEASURED]
        devices += [_opened(backend, one) for one in real]
        elsewhere += _of_none(told, devices)
    return Found(
        devices=tuple(devices),
        elsewhere=tuple(elsewhere),
        others=tuple(others),
        kinds=tuple(sorted(backends)),
    )


def _broken(kind: str, error: Exception) -> Ability:
    cure = error.cure if isinstance(error, LowjouleError) else "tell the author of this plug-in"
    problem = error.problem if isinstance(error, LowjouleError) else f"it fails: {error!r}"
    return Ability(name=kind, works=False, detail=problem, cure=cure)


def _opened(backend: Backend, one: Available) -> Here:
    if one.asleep:
        return Here(available=one)
    try:
        device = backend.open(one.spec.partition(":")[2], OpenOptions())
        return described(one, device)
    except LowjouleError as error:
        return Here(available=one, failure=error)
    except Exception as error:  # noqa: BLE001 - as above
        said = _broken(one.spec, error)
        return Here(available=one, failure=DeviceError(said.detail, cure=said.cure or ""))


def described(one: Available, device: Device) -> Here:
    """Return what the opened `device` says of itself; raises `DeviceError` when it is lost."""
    notes: Iterable[str] = getattr(device, "notes", ())
    return Here(
        available=one,
        identity=device.identity,
        knobs=device.space.knobs,
        abilities=device.abilities() if isinstance(device, Probed) else (),
        notes=tuple(notes),
    )


def _of_none(abilities: Iterable[Ability], devices: Iterable[Here]) -> list[Ability]:
    """Return what a backend misses beside its devices; what they say themselves is not repeated."""
    said = {one.name for here in devices for one in here.abilities}
    return [_told(one) for one in abilities if not one.works and one.name not in said]


def _told(one: Ability) -> Ability:
    """Return what does not work with what a plug-in may have left unsaid."""
    detail = one.detail or "the device does not say why"
    return replace(one, detail=detail, cure=one.cure or "ask the author of its plug-in")
