"""What a board can say of itself, found by asking, and readings made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from lowjoule.clock import Clock
from lowjoule.devices.interface import Reading
from lowjoule.devices.nvml import fields
from lowjoule.devices.nvml.driver import Answer, Driver
from lowjoule.devices.nvml.fields import Field, field_values

SLOW_WINDOW_S = 1.0  # what NVML documents of its averaged power
_SM_CLOCK, _MEMORY_CLOCK, _GPU_TEMPERATURE = 1, 2, 0
_MOST_LIMITS = 2.0  # a figure above this many times the largest limit is no power
_MOST_POWER_W = 20e3  # and above this nowhere
_MOST_ENERGY_J = 1e12  # a kilowatt for thirty years; guests have shown petajoules
_BEYOND_GPU = 1.02  # a driver that ignores the scope answers with the GPU's own power

_ENERGY_CALL = "nvmlDeviceGetTotalEnergyConsumption"
_POWER_CALL = "nvmlDeviceGetPowerUsage"

# idle is not among them: a board that waits is not held back
_REASONS = {
    0x2: ("clock setting",),
    0x4: ("power",),
    0x8: ("hardware slowdown",),
    0x10: ("sync boost",),
    0x20: ("thermal",),
    0x40: ("thermal", "hardware thermal"),
    0x80: ("power brake",),
    0x100: ("display clock",),
    0x200: ("board limit",),
    0x400: ("reliability",),
}

Call = tuple[str, tuple[int, ...]]

_CANDIDATES: dict[str, tuple[Call, ...]] = {
    "sm clock": (("nvmlDeviceGetClockInfo", (_SM_CLOCK,)),),
    "memory clock": (("nvmlDeviceGetClockInfo", (_MEMORY_CLOCK,)),),
    "temperature": (
        ("nvmlDeviceGetTemperature", (_GPU_TEMPERATURE,)),
        ("nvmlDeviceGetTemperatureV", (_GPU_TEMPERATURE,)),
    ),
    "utilisation": (("nvmlDeviceGetUtilizationRates", ()),),
    "throttle reasons": (
        ("nvmlDeviceGetCurrentClocksEventReasons", ()),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", ()),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Which questions a board answers.

    `scope` is that of all power fields; `counter`, `power` and `average` are where the figures
    come from, None where there are none; `power_window_s` is what the power is averaged over and
    `window_known` whether that was found or is the longest that is documented.
    """

    scope: int
    counter: Field | Call | None
    power: Field | Call | None
    power_window_s: float
    window_known: bool
    average: Field | None
    most_power_w: float
    calls: Mapping[str, Call]
    found: Mapping[str, Answer]


def probe(driver: Driver, uuid: str, *, module: bool) -> Sensors:
    """Return what the board `uuid` answers, for the GPU or the whole module that it sits on.

    Raises `LostDeviceError`.
    """
    scope = fields.MODULE if module else fields.GPU
    energy, average = (fields.ENERGY, 0), (fields.AVERAGE_POWER, scope)
    instant, own, whole = ((fields.INSTANT_POWER, one) for one in (scope, 0, 1))
    limit = (fields.MOST_LIMIT, scope)
    told = _told(driver, uuid, [energy, average, own, whole, limit])
    found = {
        "energy counter": told[energy],
        "instant power": _positive(told[instant]),
        "average power": _positive(told[average]),
        "module power": _module(told[own], told[whole]),
    }
    calls, answers = _first_working(driver, uuid)
    found |= answers
    counter: Field | Call | None = energy if told[energy].works else None
    if counter is None:
        found["energy counter"] = driver.attempt(uuid, _ENERGY_CALL)
        counter = (_ENERGY_CALL, ()) if found["energy counter"].works else None
    if found["module power"].works and not module:
        # the counter is the module's then, processor and all
        counter = None
    power, window_s, known = _power(driver, uuid, found, instant, module)
    return Sensors(
        scope=scope,
        counter=counter,
        power=power,
        power_window_s=window_s,
        window_known=known,
        average=average if found["average power"].works else None,
        most_power_w=_most_power_w(driver, uuid, told[limit], module),
        calls=calls,
        found=found,
    )


def _told(driver: Driver, uuid: str, asked: list[Field]) -> Mapping[Field, Answer]:
    told = field_values(driver, uuid, asked)
    if any(answer.works for answer in told.values()):
        return told
    # one field that a driver has never heard of may cost all of them
    return {one: field_values(driver, uuid, [one])[one] for one in asked}


def _power(
    driver: Driver, uuid: str, found: dict[str, Answer], instant: Field, module: bool
) -> tuple[Field | Call | None, float, bool]:
    if found["instant power"].works:
        return instant, 0.0, True
    usage = Answer(None, 3) if module else _positive(driver.attempt(uuid, _POWER_CALL))
    found["power usage"] = usage
    if not usage.works:
        return None, SLOW_WINDOW_S, False
    # boards differ in whether this call averages, and only some tell
    averaged = found["average power"].works and found["average power"].value == usage.value
    return (_POWER_CALL, ()), SLOW_WINDOW_S, averaged


def _module(own: Answer, whole: Answer) -> Answer:
    real = whole.works and whole.value > _BEYOND_GPU * (own.value if own.works else 0.0)
    return whole if real else Answer(None, whole.code or 3)


def _positive(answer: Answer) -> Answer:
    return answer if not answer.works or answer.value > 0 else Answer(None, 3)


def _first_working(driver: Driver, uuid: str) -> tuple[dict[str, Call], dict[str, Answer]]:
    calls, answers = {}, {}
    for name, candidates in _CANDIDATES.items():
        for call, arguments in candidates:
            answers[name] = driver.attempt(uuid, call, *arguments)
            if answers[name].works:
                calls[name] = (call, arguments)
                break
    return calls, answers


def _most_power_w(driver: Driver, uuid: str, field: Answer, module: bool) -> float:
    if not module:
        constraints = driver.ask(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")
        if constraints is not None and constraints[1] > 0:
            return _MOST_LIMITS * float(constraints[1]) / 1e3
    if field.works and field.value > 0:
        return _MOST_LIMITS * float(field.value) / 1e3
    return _MOST_POWER_W


def sample(driver: Driver, uuid: str, sensors: Sensors, clock: Clock) -> Reading:
    """Return time, energy and power alone, in as few calls as the board allows."""
    return _timed(driver, uuid, sensors, clock, None)


def read(driver: Driver, uuid: str, sensors: Sensors, clock: Clock) -> Reading:
    """Return all that the board says; the time is that of energy and power."""
    energy = _timed(driver, uuid, sensors, clock, sensors.average)
    said = {
        name: driver.ask(uuid, call, *arguments)
        for name, (call, arguments) in sensors.calls.items()
    }
    use, reasons = said.get("utilisation"), said.get("throttle reasons")
    return Reading(
        time_s=energy.time_s,
        energy_j=energy.energy_j,
        power_w=energy.power_w,
        power_window_s=energy.power_window_s,
        average_power_w=energy.average_power_w,
        sm_clock_hz=_clock_hz(said.get("sm clock")),
        memory_clock_hz=_clock_hz(said.get("memory clock")),
        temperature_c=_temperature_c(said.get("temperature")),
        utilisation=None if use is None or use.gpu > 100 else use.gpu / 100,
        throttle_reasons=reason_words(0 if reasons is None else int(reasons)),
    )


def _timed(
    driver: Driver, uuid: str, sensors: Sensors, clock: Clock, average: Field | None
) -> Reading:
    wanted = [one for one in (sensors.counter, sensors.power, average) if one is not None]
    in_one_call = [one for one in wanted if _is_field(one)]
    before_s = clock.now_s()
    told: dict[Any, Answer] = dict(field_values(driver, uuid, in_one_call))
    for one in wanted:
        if one not in told:
            told[one] = driver.attempt(uuid, str(one[0]))
    # a read may take milliseconds: its middle is the best guess of when it was
    time_s = (before_s + clock.now_s()) / 2
    power_w = _power_w(told.get(sensors.power), sensors)
    return Reading(
        time_s=time_s,
        energy_j=_energy_j(told.get(sensors.counter)),
        power_w=power_w,
        power_window_s=None if power_w is None else sensors.power_window_s,
        average_power_w=_power_w(told.get(average), sensors),
    )


def _is_field(one: Field | Call) -> TypeGuard[Field]:
    return isinstance(one[0], int)


def _energy_j(answer: Answer | None) -> float | None:
    """Return millijoules as joules; a counter of 0 is one that does not count (yet)."""
    if answer is None or not answer.works:
        return None
    energy_j = float(answer.value) / 1e3
    return energy_j if 0 < energy_j < _MOST_ENERGY_J else None


def _power_w(answer: Answer | None, sensors: Sensors) -> float | None:
    if answer is None or not answer.works:
        return None
    power_w = float(answer.value) / 1e3
    return power_w if 0 < power_w <= sensors.most_power_w else None


def _clock_hz(mhz: int | None) -> float | None:
    return None if not mhz else mhz * 1e6


def _temperature_c(value: int | None) -> float | None:
    # drivers without the sensor have answered 0 and 255
    return float(value) if value is not None and 0 < value < 150 else None


def reason_words(bits: int) -> frozenset[str]:
    """Return the words for NVML's bits of why clocks are held back."""
    found: Sequence[tuple[str, ...]] = [said for bit, said in _REASONS.items() if bits & bit]
    return frozenset(word for said in found for word in said)
