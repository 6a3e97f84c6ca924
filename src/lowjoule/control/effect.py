"""Whether what was written shows: by read-back, and in what the device says while it works."""

from __future__ import annotations

from dataclasses import dataclass

from lowjoule.devices.interface import Device, Reading
from lowjoule.knobs import MEMORY_CLOCK, POWER_LIMIT, SM_CLOCK, Knob, Value
from lowjoule.quantities import Unit, show

_POLL_S = 0.01
_OVER = 1.05  # a limit is what a control loop aims at
_BIN_HZ = 16e6  # drivers round clocks to bins
_LATENCIES = 3.0  # how long a clock that may rise is given to do so


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Whether a value that was written shows. `seen` is None where nothing can show it.

    A limit shows when it is read back and the power is at or below it, a clock when it is at or
    below the one held to. One that was raised shows by rising, which an idle or a throttled
    device does not do; `shown` is what was read last, `waited_s` how long was waited.
    """

    knob: str
    asked: Value
    shown: Value | None
    seen: bool | None
    waited_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A write whose effect is waited for."""

    knob: str
    before: Value
    asked: Value


def settle(device: Device, changes: list[Change], limit_s: float) -> tuple[Effect, ...]:
    """Wait until all `changes` show, for `limit_s` of the device's time at most."""
    clock = device.clock
    begin_s = clock.now_s()
    while True:
        now, reading = device.current(), device.read()
        waited_s = clock.now_s() - begin_s
        effects = tuple(
            _effect(one, device.space.knob(one.knob), now[one.knob], reading, waited_s)
            for one in changes
        )
        if waited_s >= limit_s or not any(_open(one, device) for one in effects):
            return effects
        clock.sleep(min(_POLL_S, limit_s - waited_s))


def _open(effect: Effect, device: Device) -> bool:
    """Whether waiting may still tell something of `effect`."""
    if effect.seen is not None:
        return not effect.seen
    latency_s = device.space.knob(effect.knob).latency_s
    return effect.shown is not None and effect.waited_s < _LATENCIES * latency_s


def _effect(change: Change, knob: Knob, now: Value, reading: Reading, waited_s: float) -> Effect:
    shown: Value | None = now
    if now != change.asked:
        seen: bool | None = False
        text = f"{knob.name} is at {knob.show(now)}, not at {knob.show(change.asked)}"
    elif knob.name == POWER_LIMIT and reading.power_w is not None:
        shown = reading.power_w
        seen = reading.power_w <= _OVER * float(change.asked)
        text = f"{show(reading.power_w, Unit.WATT)} are drawn under {knob.show(change.asked)}"
    elif knob.name in {SM_CLOCK, MEMORY_CLOCK}:
        shown = reading.sm_clock_hz if knob.name == SM_CLOCK else reading.memory_clock_hz
        seen = _clock_seen(change, shown)
        text = "the device does not say its clock"
        if shown is not None:
            text = f"it runs at {show(shown, Unit.HERTZ)} under {knob.show(change.asked)}"
    else:
        seen, text = True, f"{knob.name} is read back as {knob.show(now)}"
    return Effect(
        knob=knob.name,
        asked=change.asked,
        shown=shown,
        seen=seen,
        waited_s=waited_s,
        text=text,
    )


def _clock_seen(change: Change, shown_hz: float | None) -> bool | None:
    if shown_hz is None:
        return None
    asked_hz, before_hz = float(change.asked), float(change.before)
    if shown_hz > asked_hz + _BIN_HZ:
        return False
    if asked_hz <= before_hz:
        return True
    # a clock that may rise need not: the device is idle, or held back by something else
    return True if shown_hz > before_hz + _BIN_HZ else None
