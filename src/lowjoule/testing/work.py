"""What every device that runs work itself must do, as tests that a backend's author subclasses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from lowjoule.devices.interface import WorkDevice
from lowjoule.errors import IncomparableError, LowjouleError, UnknownNameError
from lowjoule.knobs import BATCH_SIZE, Setting
from lowjoule.testing.conformance import DeviceConformance, restored, walk
from lowjoule.workloads import Work, Workload, WorkUnit


class WorkDeviceConformance(DeviceConformance):
    """Workloads and work as well. Define `open`; the device must be on a virtual clock."""

    name: str | None = None
    """The workload to run; by default the first one."""

    window_s = 1.0
    """How long a piece of work must at least be for the device's counter to see it."""

    def open(self, seed: int = 0) -> WorkDevice:
        """Return the device under test."""
        raise NotImplementedError

    @pytest.fixture
    def device(self) -> Iterator[WorkDevice]:  # narrows the type of the device that tests get
        """The device under test; what was in force is put back after the test."""
        device = self.open()
        with restored(device):
            yield device

    def job(self, device: WorkDevice) -> Workload:
        """Return the workload to run."""
        return device.workload(self.name or device.workload_names()[0])

    def enough(self, device: WorkDevice) -> Work:
        """Return work that takes at least `window_s` at the default setting."""
        job = self.job(device)
        own = device.workload_space(job).default
        work = Work(own.number(BATCH_SIZE) if BATCH_SIZE in own else 1.0, job.unit)
        while self._run(device, job, work, own)[0] < self.window_s:
            work = work * 2.0
        return work

    def _run(
        self, device: WorkDevice, job: Workload, work: Work, own: Setting
    ) -> tuple[float, float]:
        """Return the seconds and joules that `work` takes."""
        before = device.read()
        device.submit(job, work, own).wait()
        after = device.read()
        assert before.energy_j is not None
        assert after.energy_j is not None
        return after.time_s - before.time_s, after.energy_j - before.energy_j

    def test_it_meets_the_work_interface(self, device: WorkDevice) -> None:
        """All members are there."""
        assert isinstance(device, WorkDevice)

    def test_workloads_are_known_by_their_names(self, device: WorkDevice) -> None:
        """Each listed name gives the workload of that name; others are answered with names."""
        names = device.workload_names()
        assert names
        assert len(set(names)) == len(names)
        for name in names:
            assert device.workload(name).name == name
        with pytest.raises(UnknownNameError):
            device.workload("no such workload")

    def test_spaces_fit_together(self, device: WorkDevice) -> None:
        """Joint knobs are the device's and the workload's, once each; the default is allowed."""
        for name in device.workload_names():
            job = device.workload(name)
            own, joint = device.workload_space(job), device.joint_space(job)
            assert not set(own.names) & set(device.space.names)
            assert set(own.names) <= set(joint.names) <= {*own.names, *device.space.names}
            joint.check(joint.default)
            assert joint.default.only(own.names) == own.default

    def test_it_stands_at_the_default_at_first(self, device: WorkDevice) -> None:
        """A newly opened device is at the joint default of the workload."""
        joint = device.joint_space(self.job(device))
        assert device.current().only(joint.names) == joint.default.only(device.space.names)

    def test_work_takes_time_and_energy(self, device: WorkDevice) -> None:
        """Both are positive, and a second wait returns at once."""
        job = self.job(device)
        work = self.enough(device)
        before = device.read()
        execution = device.submit(job, work, device.workload_space(job).default)
        assert device.read().time_s == before.time_s
        execution.wait()
        after = device.read()
        assert after.time_s > before.time_s
        assert before.energy_j is not None
        assert after.energy_j is not None
        assert after.energy_j > before.energy_j
        execution.wait()
        assert device.read().time_s == after.time_s

    def test_the_counter_rises_while_work_runs(self, device: WorkDevice) -> None:
        """It never goes back, readings are possible values, and half-way is between the ends."""
        job = self.job(device)
        work = self.enough(device)
        own = device.workload_space(job).default
        time_s, _ = self._run(device, job, work, own)
        begin = device.read()
        execution = device.submit(job, work, own)
        seen = [begin]
        for _ in range(4):
            device.clock.sleep(time_s / 5)
            seen.append(device.read())
        execution.wait()
        seen.append(device.read())
        energies = [one.energy_j for one in seen if one.energy_j is not None]
        assert energies == sorted(energies)
        assert energies[0] < energies[-1]
        assert energies[2] < energies[-1]

    def test_more_work_takes_more(self, device: WorkDevice) -> None:
        """Eight times the work takes at least four times the time and energy."""
        job = self.job(device)
        own = device.workload_space(job).default
        work = self.enough(device)
        time_s, energy_j = self._run(device, job, work, own)
        long_s, long_j = self._run(device, job, work * 8.0, own)
        assert long_s > 4 * time_s
        assert long_j > 4 * energy_j

    def test_work_in_another_unit_is_refused(self, device: WorkDevice) -> None:
        """`IncomparableError`, and nothing runs."""
        job = self.job(device)
        other = WorkUnit.REQUEST if job.unit is not WorkUnit.REQUEST else WorkUnit.TOKEN
        before = device.read()
        with pytest.raises(IncomparableError):
            device.submit(job, Work(1.0, other), device.workload_space(job).default)
        assert device.read() == before

    def test_an_unknown_knob_of_the_work_is_refused(self, device: WorkDevice) -> None:
        """One of our errors, and nothing runs."""
        job = self.job(device)
        own = device.workload_space(job).default
        before = device.read()
        with pytest.raises(LowjouleError):
            device.submit(job, Work(1.0, job.unit), own.replace(no_such_knob=1.0))
        assert device.read() == before

    def test_the_same_seed_gives_the_same_figures(self) -> None:
        """Time and counter are equal after the same calls; reading in between changes nothing."""
        once = self._sequence(self.open(seed=7), watched=False)
        again = self._sequence(self.open(seed=7), watched=True)
        assert once == again
        assert once[-1] > once[0]

    def _sequence(self, device: WorkDevice, *, watched: bool) -> list[tuple[float, float | None]]:
        job = self.job(device)
        work = self.enough(device)
        own = device.workload_space(job).default
        seen = []
        with restored(device):
            for setting in itertools.islice(self._lines(device, job), 3):
                walk(device, setting.only(device.space.names))
                execution = device.submit(job, work, own)
                if watched:
                    device.read()
                execution.wait()
                reading = device.read()
                seen.append((reading.time_s, reading.energy_j))
        return seen

    @staticmethod
    def _lines(device: WorkDevice, job: Workload) -> Iterator[Setting]:
        """Yield two or more settings that run with the workload's own knobs at their default."""
        joint = device.joint_space(job)
        yield joint.default
        for knob in joint.knobs:
            if knob.name in device.space.names:
                for value in knob.values:
                    setting = joint.default.replace(**{knob.name: value})
                    try:
                        joint.check(setting)
                    except LowjouleError:
                        continue  # a combination that is not allowed with the defaults
                    yield setting
        yield joint.default

    def test_a_survey_is_all_points_and_runs_nothing(self, device: WorkDevice) -> None:
        """Its settings are those of the joint space that run; time and counter stand still."""
        job = self.job(device)
        before = device.read()
        profile = device.survey(job)
        assert device.read() == before
        assert profile.source is device.identity.source
        assert profile.work.unit is job.unit
        assert len(profile.time_s) > 0
        assert np.all(profile.time_s > 0)
        assert np.all(profile.energy_j > 0)
        columns = {name: values.tolist() for name, values in profile.settings.items()}
        joint = device.joint_space(job)
        for values in itertools.islice(zip(*columns.values(), strict=True), 200):
            joint.check(Setting(zip(columns, values, strict=True)))
