from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from lowjoule.devices.registry import OpenOptions
from lowjoule.devices.replay import ReplayDevice, Table, parse_table
from lowjoule.knobs import Setting
from lowjoule.objectives.objective import Floats, Outcome
from lowjoule.testing import DeviceConformance, UntoldReadError, WorkDeviceConformance, strict
from lowjoule.tuning.driver import Driver
from lowjoule.tuning.search import Observation, Problem, Recommendation, Search

HEADER = "workload,unit,power_limit_w,sm_clock_mhz,batch_size,time_s,energy_j\n"


def grid() -> Table:
    rows = [
        f"a,sample,{limit},{clock},{batch},{500 / clock + 8 / batch},{limit * 0.9}\n"
        for limit, clock, batch in itertools.product((100, 200, 300), (900, 1400), (8, 16))
        if (limit, batch) != (100, 16)
    ]
    content = HEADER + "".join(rows) + "b,sample,200,900,8,2,70\n"
    return parse_table(content.encode(), name="grid.csv", stem="grid")


class TestReplay(WorkDeviceConformance):
    def open(self, seed: int = 0) -> ReplayDevice:
        return ReplayDevice(grid(), OpenOptions(seed=seed))


class TestNoisyReplay(WorkDeviceConformance):
    def open(self, seed: int = 0) -> ReplayDevice:
        return ReplayDevice(grid(), OpenOptions(seed=seed, noise=0.05))


class TestReplayWithoutDeviceKnobs(WorkDeviceConformance):
    def open(self, seed: int = 0) -> ReplayDevice:
        content = b"batch_size,time_ms,energy_mj\n8,3,70\n16,5,90\n"
        return ReplayDevice(parse_table(content, name="t.csv", stem="t"), OpenOptions(seed=seed))


def _writes_before_it_checks(device: ReplayDevice) -> None:
    def apply(setting: Setting) -> object:
        for name, value in setting.items():
            device._values[name] = device.space.knob(name).values[0]
            device.space.knob(name).index(value)
        return None

    device.apply = apply  # type: ignore[method-assign,assignment]


def _goes_back(device: ReplayDevice) -> None:
    read = device.read
    count = itertools.count()

    def backwards() -> object:
        return replace(read(), energy_j=1000.0 - next(count))

    device.read = backwards  # type: ignore[method-assign,assignment]


def _says_zero(device: ReplayDevice) -> None:
    read = device.read

    def zero() -> object:
        return replace(read(), sm_clock_hz=0.0)

    device.read = zero  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        (_writes_before_it_checks, "test_a_value_outside_the_domain_is_refused"),
        (_writes_before_it_checks, "test_a_knob_that_it_does_not_have_is_refused"),
        (_goes_back, "test_time_and_energy_never_go_back"),
        (_says_zero, "test_readings_are_possible_values_or_none"),
    ],
)
def test_the_suite_sees_a_fault(fault: Callable[[ReplayDevice], None], test: str) -> None:
    class Suite(DeviceConformance):
        def open(self, seed: int = 0) -> ReplayDevice:
            return ReplayDevice(grid())

    suite = Suite()
    device = suite.open()
    getattr(suite, test)(device)
    fault(device)
    with pytest.raises(AssertionError):
        getattr(suite, test)(device)


class PlainEnergy:
    name = "energy"
    needs_baseline = False

    def values(self, outcome: Outcome, baseline: Outcome | None = None) -> Floats:
        return np.asarray(outcome.energy_j)


@dataclass
class Given:
    """Tries given settings and recommends the one that it was told last."""

    settings: list[Setting]
    told: list[Observation] = field(default_factory=list)

    def ask(self) -> Setting | None:
        return self.settings.pop(0) if self.settings else None

    def tell(self, observation: Observation) -> None:
        self.told.append(observation)

    def recommend(self) -> Recommendation:
        last = self.told[-1]
        assert last.time_s is not None
        assert last.energy_j is not None
        return Recommendation(
            setting=last.asked,
            time_s=last.time_s,
            energy_j=last.energy_j,
            objective=last.energy_j,
            uncertainty=0.0,
        )


def tune(search: Callable[[Problem], Search]) -> tuple[ReplayDevice, list[Setting]]:
    table, permits = strict(grid())
    device = ReplayDevice(table)
    workload = device.workload("a")
    default = device.joint_space(workload).default
    permits.allow(default)
    factory = permits.asked(search)
    Driver(device, workload, objective=PlainEnergy(), search=factory).run()
    assert device.told == set(permits.read)
    return device, permits.read


def test_a_search_sees_only_what_it_asked_for() -> None:
    wanted = [Setting({"power_limit": 100.0, "sm_clock": 1.4e9, "batch_size": 8})]
    device, read = tune(lambda problem: Given(list(wanted)))
    assert read[1:] == wanted
    assert device.told == set(read)


def test_an_untold_read_raises() -> None:
    table, permits = strict(grid())
    device = ReplayDevice(table)
    workload = device.workload("a")
    with pytest.raises(UntoldReadError):
        device.survey(workload)
    setting = device.joint_space(workload).default
    with pytest.raises(UntoldReadError):
        table.point("a", setting)
    with pytest.raises(UntoldReadError):
        dict(table.task("a").points.items())
    permits.allow(setting)
    assert table.point("a", setting).time_s > 0
    assert permits.read == [setting]


class Peeking(Given):
    """A search that looks into the table it should not know."""

    def __init__(self, table: Table) -> None:
        super().__init__([])
        self.table = table

    def ask(self) -> Setting | None:
        points = self.table.task("a").points.values()
        return min(points, key=lambda point: point.energy_j).setting


def test_a_search_that_peeks_is_caught() -> None:
    table, permits = strict(grid())
    device = ReplayDevice(table)
    workload = device.workload("a")
    permits.allow(device.joint_space(workload).default)
    search = permits.asked(lambda problem: Peeking(table))
    driver = Driver(device, workload, objective=PlainEnergy(), search=search)
    with pytest.raises(UntoldReadError):
        driver.run()
