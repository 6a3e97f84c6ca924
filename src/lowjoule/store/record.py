"""One measured point of one setting, with all that is needed to trust it later."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from numbers import Integral, Real

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs import Setting, Value
from lowjoule.source import Source
from lowjoule.workloads import Work, WorkUnit

NEEDED_TEXTS = ("device_model", "device_uuid", "backend", "workload", "signature")
FREE_TEXTS = ("driver", "lowjoule_version", "python_version")
POSITIVE = ("time_s", "energy_j")
NOT_NEGATIVE = (
    "time_sd_s",
    "energy_sd_j",
    "peak_power_w",
    "wait_power_w",
    "memory_bytes",
    "latency_s",
)
SETTINGS = ("asked", "achieved")
FLAT_TEXTS = (*NEEDED_TEXTS, *FREE_TEXTS, "source", "unit")
FLAT_NUMBERS = ("work", *POSITIVE, *NOT_NEGATIVE, "when_unix_s")
FLAT = (*FLAT_TEXTS, *FLAT_NUMBERS, "windows", *SETTINGS, "provenance")
FLAT_NEEDED = (*NEEDED_TEXTS, "source", "unit", "work", *POSITIVE)

_LONGEST_TEXT = 500
_LARGEST_DOCUMENT = 65536
_MOST_WINDOWS = 2**31 - 1
_LARGEST_INTEGER = 2**63 - 1


@cache
def _lowjoule_version() -> str:
    return version("lowjoule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A point as the store keeps it: what was measured, of what, where, when and by what.

    `time_s` and `energy_j` are of `work`, the mean of `windows` windows; `time_sd_s` and
    `energy_sd_j` the standard deviations of one such window. `asked` is the setting that was
    wanted, `achieved` what the hardware confirmed (at least the same knobs), the workload's own
    knobs included. `signature` tells workloads of one name apart (`Workload.signature`).
    `when_unix_s` is when it was measured, None when that is not known. `provenance` is free JSON
    (the command, a table's path and hash). What was not measured is None.

    Raises `InvalidValueError` for anything that could not be kept and read back as it is.
    """

    device_model: str
    device_uuid: str
    backend: str
    driver: str = ""
    source: Source
    workload: str
    signature: str
    asked: Setting
    achieved: Setting
    work: Work
    time_s: float
    energy_j: float
    time_sd_s: float | None = None
    energy_sd_j: float | None = None
    windows: int = 1
    peak_power_w: float | None = None
    wait_power_w: float | None = None
    memory_bytes: float | None = None
    latency_s: float | None = None
    when_unix_s: float | None = None
    lowjoule_version: str = field(default_factory=_lowjoule_version)
    python_version: str = field(default_factory=platform.python_version)
    provenance: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        clean: dict[str, object] = {
            **{name: _text(name, getattr(self, name), needed=True) for name in NEEDED_TEXTS},
            **{name: _text(name, getattr(self, name), needed=False) for name in FREE_TEXTS},
            **{name: _number(name, getattr(self, name), above=0.0) for name in POSITIVE},
            **{name: _optional(name, getattr(self, name), least=0.0) for name in NOT_NEGATIVE},
            "when_unix_s": _optional("when_unix_s", self.when_unix_s),
            "windows": _windows(self.windows),
            **{name: setting_of(name, getattr(self, name)) for name in SETTINGS},
            "provenance": _document(self.provenance),
        }
        for name, value in clean.items():
            object.__setattr__(self, name, value)
        unsaid = sorted(set(self.asked) - set(self.achieved))
        if unsaid:
            raise InvalidValueError(
                f"achieved does not say what became of {', '.join(unsaid)}",
                cure="give every knob of asked a value in achieved too",
            )

    @property
    def key(self) -> str:
        """A hash of what was measured and when, in hexadecimal.

        Equal for a point that is imported again, from whatever file and by whatever version. The
        time does not count for what was replayed or simulated: the same figures at another time
        are a copy there, not another measurement.
        """
        told = self.flat()
        if self.source in (Source.REPLAYED, Source.SIMULATED):
            del told["when_unix_s"]
        for name in ("provenance", "lowjoule_version", "python_version"):
            del told[name]
        for name in SETTINGS:
            told[name] = {k: _exact(v) for k, v in sorted(getattr(self, name).items())}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def flat(self) -> dict[str, object]:
        """Return the record as JSON values by the names in `FLAT`."""
        told: dict[str, object] = {
            "source": self.source.value,
            "work": self.work.quantity,
            "unit": self.work.unit.value,
            "provenance": dict(self.provenance),
            **{name: dict(getattr(self, name)) for name in SETTINGS},
        }
        return {name: told[name] if name in told else getattr(self, name) for name in FLAT}

    @classmethod
    def from_flat(cls, flat: Mapping[str, object]) -> Record:
        """Return the record of what `flat` gave; raises `InvalidValueError` for anything else.

        Only the names in `FLAT_NEEDED` have to be there; `achieved` is taken as asked when it is
        empty or absent.
        """
        for name in flat:
            if name not in FLAT:
                raise UnknownNameError.among("field", str(name), FLAT)
        missing = [name for name in FLAT_NEEDED if flat.get(name) is None]
        if missing:
            raise InvalidValueError(f"{', '.join(missing)} is missing", cure="give it a value")
        work = _number("work", flat["work"], above=0.0)
        plain = {name: flat[name] for name in (*NEEDED_TEXTS, *POSITIVE)}
        plain |= {name: flat.get(name, "") for name in FREE_TEXTS}
        plain |= {name: flat.get(name) for name in (*NOT_NEGATIVE, "when_unix_s")}
        asked = setting_of("asked", flat.get("asked") or {})
        return cls(
            **plain,  # type: ignore[arg-type]  # __post_init__ checks each
            source=Source(_member("source", flat["source"], Source)),
            work=Work(work, WorkUnit(_member("unit", flat["unit"], WorkUnit))),
            windows=flat.get("windows", 1),  # type: ignore[arg-type]
            asked=asked,
            achieved=setting_of("achieved", flat.get("achieved") or asked),
            provenance=flat.get("provenance") or {},  # type: ignore[arg-type]
        )


def _text(name: str, value: object, *, needed: bool) -> str:
    if not isinstance(value, str):
        raise InvalidValueError(f"{name} is {_shown(value)}, not text", cure="give it as text")
    if needed and not value:
        raise InvalidValueError(f"{name} is empty", cure="give it a value")
    if len(value) > _LONGEST_TEXT:
        raise InvalidValueError(
            f"{name} has {len(value)} characters", cure=f"use at most {_LONGEST_TEXT}"
        )
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        raise InvalidValueError(
            f"{name} holds a character that is not text", cure="remove NUL and lone surrogates"
        )
    return str(value)


def _number(name: str, value: object, *, above: float | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidValueError(f"{name} is {_shown(value)}, not a number", cure="give a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValueError(
            f"{name} is {number}", cure="give a finite number, or leave it empty if it is optional"
        )
    if above is not None and number <= above:
        raise InvalidValueError(f"{name} is {number:g}", cure=f"it must be above {above:g}")
    return number


def _optional(name: str, value: object, *, least: float | None = None) -> float | None:
    if value is None:
        return None
    number = _number(name, value)
    if least is not None and number < least:
        raise InvalidValueError(f"{name} is {number:g}", cure="it must not be negative")
    return number


def _windows(value: object) -> int:
    number = _number("windows", value)
    if not number.is_integer() or not 1 <= number <= _MOST_WINDOWS:
        raise InvalidValueError(f"windows is {number:g}", cure="give a whole number from 1")
    return int(number)


def setting_of(name: str, value: object) -> Setting:
    """Return `value` as a setting of plain values; raises `InvalidValueError`."""
    if not isinstance(value, Mapping):
        raise InvalidValueError(
            f"{name} is {_shown(value)}, not a setting", cure="give a value for each knob"
        )
    return Setting(
        {
            _text(f"a knob of {name}", knob, needed=True): _value(f"{name} {knob}", one)
            for knob, one in value.items()
        }
    )


def _value(name: str, value: object) -> Value:
    if isinstance(value, str):
        return _text(name, value, needed=False)
    number = _number(name, value)
    if not isinstance(value, Integral):
        return number
    if abs(int(value)) > _LARGEST_INTEGER:
        raise InvalidValueError(f"{name} is {_shown(value)}", cure="use a smaller whole number")
    return int(value)


def _exact(value: Value) -> Value:
    """Return one form for equal numbers, so that 64 and 64.0 are the same value in a key."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _document(value: object) -> dict[str, object]:
    """Return `value` as it is after a trip through JSON."""
    try:
        if not isinstance(value, Mapping):
            raise TypeError("not an object")
        text = json.dumps(dict(value), allow_nan=False)
        again: dict[str, object] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(
            f"provenance cannot be written as JSON ({error})",
            cure="use an object of text, finite numbers, lists and objects",
        ) from None
    if len(text) > _LARGEST_DOCUMENT:
        raise InvalidValueError(
            f"provenance takes {len(text)} characters of JSON",
            cure=f"keep it under {_LARGEST_DOCUMENT}",
        )
    return again


def _member(name: str, value: object, kinds: Iterable[str]) -> str:
    known = [str(kind) for kind in kinds]
    if value not in known:
        raise UnknownNameError.among(name, str(value), known)
    return str(value)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."
