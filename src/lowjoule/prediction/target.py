"""What is predicted: a workload on a board, from the catalogue of boards or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowjoule.devices.figures import figures_of
from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.simulated.demand import memory_bytes
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.devices.simulated.survey import thinned
from lowjoule.errors import InvalidValueError
from lowjoule.knobs import BATCH_SIZE, MICRO_BATCH, PRECISION, Space, turnable
from lowjoule.prediction.anchoring import anchors_for, at_settings
from lowjoule.prediction.boards import same_board, with_limit
from lowjoule.prediction.features import KNOBS, MeasuredTask, anchor_settings
from lowjoule.prediction.grouping import workload_of
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.workloads import DeviceFigures, Workload

SIMULATED = (
    "no setting was measured here: the anchors are simulated, and their own error is in no interval"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A workload on a board whose settings are to be predicted."""

    device: WorkDevice
    workload: Workload
    space: Space

    @classmethod
    def of(
        cls, device: WorkDevice, workload: Workload, knobs: Sequence[str] | None = None
    ) -> Target:
        """Return the target with `knobs` free, by default those that leave learning alone.

        A micro-batch is not predicted and stands at its default. Raises `UnknownNameError` for a
        knob that is not there, `InvalidValueError` for one whose effect cannot be predicted.
        """
        joint = device.joint_space(workload)
        wanted = knobs
        if wanted is None:
            free = [knob.name for knob in turnable(joint).knobs if len(knob.values) > 1]
            wanted = [name for name in free if name in KNOBS]
        space = turnable(joint, wanted)
        other = sorted(k.name for k in space.knobs if len(k.values) > 1 and k.name not in KNOBS)
        if other:
            raise InvalidValueError(
                f"the effect of {', '.join(other)} cannot be predicted",
                cure=f"turn only {', '.join(KNOBS)} with --knobs",
            )
        if isinstance(device, SimulatedDevice):
            space = thinned(space)
        return cls(device, workload, space)

    @property
    def board(self) -> str:
        """The board's name."""
        return self.device.identity.model

    def figures(self, known: Sequence[str] = ()) -> DeviceFigures:
        """Return what is known of the board, called as among the boards `known` where it is one."""
        found = figures_of(self.device, self.workload)
        if not isinstance(self.device, SimulatedDevice):
            found = with_limit(found, self.device.survey(self.workload, self.space))
        return _called(found, known)

    def is_of(self, task: MeasuredTask) -> bool:
        """Return whether `task` is this workload on this board."""
        same = same_board(task.device.model, self.board)
        return same and workload_of(task) == self.workload.name

    def surveyed_anchors(self) -> Profile:
        """Return what the device itself tells of the settings worth measuring."""
        profile = self.device.survey(self.workload, self.space)
        return anchors_for(at_settings(profile, anchor_settings(self.space)), self.space)

    def anchors(self, measured: Profile | None) -> tuple[Profile, bool | None, tuple[str, ...]]:
        """Return the anchors, whether the board's simulation was calibrated, and notes.

        Without `measured` ones they are the device's own; calibration is None where nothing is
        simulated.
        """
        if measured is not None:
            return anchors_for(measured, self.space), None, ()
        found = self.surveyed_anchors()
        if found.source is not Source.SIMULATED or not isinstance(self.device, SimulatedDevice):
            return found, None, ()
        return found, self.device.model.calibrated, (SIMULATED,)

    def fits(self, columns: Mapping[str, NDArray[np.generic]]) -> NDArray[np.bool_] | None:
        """Return which settings fit the board's memory; None where that is not known."""
        workload, device = self.workload, self.device
        unknown = None in (workload.memory_fixed_bytes, workload.memory_per_sample_bytes)
        if not isinstance(device, SimulatedDevice) or unknown or BATCH_SIZE not in columns:
            return None
        batch = columns[BATCH_SIZE]
        own = np.full(len(batch), workload.precision)
        needed = memory_bytes(
            workload, batch, columns.get(MICRO_BATCH, batch), columns.get(PRECISION, own)
        )
        return np.asarray(np.broadcast_to(needed, len(batch)) <= device.model.memory_bytes)


def _called(found: DeviceFigures, known: Sequence[str]) -> DeviceFigures:
    names = [name for name in known if same_board(name, found.model)]
    return replace(found, model=names[0]) if names else found
