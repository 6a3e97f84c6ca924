"""What every device must do, as tests that a backend's author subclasses.

    class TestMyDevice(DeviceConformance):
        def open(self, seed: int = 0) -> Device:
            return MyDevice(seed=seed)

The subclass's name must begin with `Test`. Each test opens the device anew; one that belongs to
others must be put in a state of its own by `open`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lowjoule.devices.interface import Device, Probed, Reading
from lowjoule.errors import InvalidValueError, LowjouleError
from lowjoule.knobs import Knob, Setting, Space, Value, path
from lowjoule.knobs.space import columns_of
from lowjoule.source import Source

_COMBINATIONS = 10_000


class DeviceConformance:
    """Identity, readings and writing of any device. Define `open`."""

    pause_s = 0.25
    """How long the tests let pass on the device's clock between two readings."""

    def open(self, seed: int = 0) -> Device:
        """Return the device under test, with `seed` for whatever is random in it."""
        raise NotImplementedError

    @pytest.fixture
    def device(self) -> Iterator[Device]:
        """The device under test; what was in force is put back after the test."""
        device = self.open()
        with restored(device):
            yield device

    def test_it_meets_the_interface(self, device: Device) -> None:
        """All members are there."""
        assert isinstance(device, Device)

    def test_identity_is_stable(self, device: Device) -> None:
        """The same device, asked or opened again, is the same, whatever was done to it."""
        before = device.identity
        assert all((before.uuid, before.model, before.vendor, before.backend, before.driver))
        assert isinstance(before.source, Source)
        device.read()
        device.apply(_edges(device.space)[0])
        assert device.identity == before
        assert self.open().identity.uuid == before.uuid

    def test_readings_are_possible_values_or_none(self, device: Device) -> None:
        """Nothing is negative, infinite or not a number; a clock is never 0 for "unknown"."""
        for _ in range(3):
            _check_reading(device.read())
            device.clock.sleep(self.pause_s)

    def test_time_and_energy_never_go_back(self, device: Device) -> None:
        """The reading's time follows the device's clock and the counter only rises."""
        last = device.read()
        for _ in range(5):
            before_s = device.clock.now_s()
            device.clock.sleep(self.pause_s)
            now = device.read()
            assert now.time_s >= last.time_s + 0.99 * (device.clock.now_s() - before_s)
            assert (now.energy_j is None) == (last.energy_j is None)
            if now.energy_j is not None and last.energy_j is not None:
                assert now.energy_j >= last.energy_j
            last = now

    def test_the_setting_in_force_is_in_the_space(self, device: Device) -> None:
        """`current` has one allowed value for each knob."""
        current = device.current()
        assert set(current) == set(device.space.names)
        for name, value in current.items():
            device.space.knob(name).index(value)

    def test_every_edge_is_applied_and_put_back(self, device: Device) -> None:
        """The least and the largest value of each knob can be written; what was there restored."""
        found = device.current()
        for goal in _edges(device.space):
            walk(device, goal)
            assert device.current() == goal
            walk(device, found)
            assert device.current() == found

    def test_what_was_achieved_is_said(self, device: Device) -> None:
        """`apply` names what was asked, and what is in force, which stays inside the domain."""
        for goal in _edges(device.space):
            for step in path(device.current(), goal, device.space.rules):
                applied = device.apply(step)
                assert applied.asked == step
                assert applied.achieved == device.current().only(step)
                for name, value in applied.achieved.items():
                    device.space.knob(name).index(value)

    def test_other_knobs_stay_as_they_are(self, device: Device) -> None:
        """A setting of one knob turns only this one."""
        for knob in device.space.knobs:
            before = device.current()
            for value in _ends(knob):
                wanted = before.replace(**{knob.name: value})
                if _allowed(device.space, wanted):
                    device.apply(Setting({knob.name: value}))
                    assert device.current() == wanted
            device.apply(before.only([knob.name]))

    def test_a_value_outside_the_domain_is_refused(self, device: Device) -> None:
        """`InvalidValueError`, and no knob is written, not even the ones with a good value."""
        before = device.current()
        for knob in device.space.knobs:
            for wrong in _outside(knob):
                others = {other.name: _ends(other)[0] for other in device.space.knobs}
                for setting in (Setting({knob.name: wrong}), Setting({**others, knob.name: wrong})):
                    with pytest.raises(InvalidValueError):
                        device.apply(setting)
                    assert device.current() == before

    def test_a_knob_that_it_does_not_have_is_refused(self, device: Device) -> None:
        """One of our errors, and nothing is written."""
        before = device.current()
        others = {knob.name: _ends(knob)[0] for knob in device.space.knobs}
        for name in ("a_knob_before_all", "zz_knob_after_all"):
            with pytest.raises(LowjouleError):
                device.apply(Setting({**others, name: 1.0}))
            assert device.current() == before

    def test_a_combination_against_the_rules_is_refused(self, device: Device) -> None:
        """One of our errors, and nothing is written."""
        before = device.current()
        for setting in _forbidden(device.space):
            with pytest.raises(LowjouleError):
                device.apply(setting)
            assert device.current() == before

    def test_what_does_not_work_has_a_reason_and_a_cure(self, device: Device) -> None:
        """A device that says what works says of the rest why not, and what to do."""
        told = device.abilities() if isinstance(device, Probed) else ()
        for one in told:
            assert one.works or (one.detail and one.cure), one

    def test_the_empty_setting_changes_nothing(self, device: Device) -> None:
        """Applying no knob is allowed."""
        before = device.current()
        device.apply(Setting())
        assert device.current() == before


def _check_reading(reading: Reading) -> None:
    energies = (reading.energy_j, reading.power_w, reading.power_window_s)
    for value in (reading.time_s, *energies):
        assert value is None or (math.isfinite(value) and value >= 0)
    for value in (reading.sm_clock_hz, reading.memory_clock_hz):
        assert value is None or (math.isfinite(value) and value > 0)
    assert reading.temperature_c is None or -50 < reading.temperature_c < 150
    assert reading.utilisation is None or 0 <= reading.utilisation <= 1
    assert reading.power_w is None or reading.power_window_s is not None


@contextmanager
def restored(device: Device) -> Iterator[None]:
    """Put back what is in force now at the end; a device's state may outlive the object."""
    found = device.current()
    try:
        yield
    finally:
        walk(device, found)


def walk(device: Device, goal: Setting) -> None:
    """Bring `device` to `goal` in steps that are valid each."""
    for step in path(device.current(), goal, device.space.rules):
        device.apply(step)


def _ends(knob: Knob) -> tuple[Value, Value]:
    return knob.values[0], knob.values[-1]


def _edges(space: Space) -> list[Setting]:
    """Return the allowed combinations of least and largest values."""
    products = itertools.product(*(_ends(knob) for knob in space.knobs))
    every = [Setting(zip(space.names, values, strict=True)) for values in products]
    return [setting for setting in every if _allowed(space, setting)]


def _allowed(space: Space, setting: Setting) -> bool:
    table = columns_of([setting])
    return all(bool(rule.allows(table)[0]) for rule in space.rules if table)


def _forbidden(space: Space) -> list[Setting]:
    """Return some combinations that break a rule of `space`."""
    products = itertools.product(*(knob.values for knob in space.knobs))
    every = (Setting(zip(space.names, v, strict=True)) for v in products)
    some = itertools.islice(every, _COMBINATIONS)
    return [setting for setting in some if not _allowed(space, setting)][:5]


def _outside(knob: Knob) -> list[Value]:
    """Return values that are not in the knob's domain."""
    if isinstance(knob.values[0], str):
        return ["no such value"]
    low, high = (float(value) for value in _ends(knob))
    wrong = [-1.0, low - 0.5, high * 2 + 1.0, math.nan, math.inf]
    return [value for value in wrong if value not in knob.values]
