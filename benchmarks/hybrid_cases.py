"""What the hybrid search is compared with, and simulated tables of four knobs to try it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import lowjoule as lj
from lowjoule.devices.figures import figures_of
from lowjoule.devices.simulated.device import SimulatedDevice
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    POWER_LIMIT,
    SM_CLOCK,
    Knob,
    Setting,
    Space,
)
from lowjoule.objectives.objective import Outcome
from lowjoule.prediction import DeviceFigures, MeasuredTask, Predictor, anchor_settings
from lowjoule.prediction.tasks import prepare
from lowjoule.profile import Profile
from lowjoule.source import Source
from lowjoule.tuning import HybridSearch, Knowledge, LinearSearch, Observation, Problem, Search
from lowjoule.tuning.choice import choose
from lowjoule.tuning.ledger import Ledger
from lowjoule.tuning.search import Recommendation
from lowjoule.workloads import Work, WorkUnit
from recorded_tables import Table

FOUR = (POWER_LIMIT, SM_CLOCK, MEMORY_CLOCK, BATCH_SIZE)
GPUS = ("v100", "a40", "a100-80gb", "l40s", "rtx4090", "h100-sxm")
WORKLOADS = (
    *("resnet50", "shufflenetv2", "bert-base", "bert-large", "gpt2", "gpt3-1.3b", "ncf", "dlrm"),
    *("deepspeech2", "diffusion-unet", "vit-b16", "llama-3.1-8b-prefill", "llama-3.1-8b-decode"),
)
_MOST = {POWER_LIMIT: 16, SM_CLOCK: 32}  # values of a knob in a simulated table
_LEARNED = 200  # settings of a simulated task that are learned from: a design, not all


@dataclass(frozen=True, slots=True)
class Case:
    """A table to search, and what is known for it without its own model (or board)."""

    table: Table
    task: MeasuredTask
    predictor: Predictor


class OfflineChoice:
    """Measures the predictor's anchors, then what it chooses from them, and stops.

    With `onwards` a linear search goes on from there (He et al., Sustainable Computing 2025).
    """

    def __init__(self, problem: Problem, case: Case, *, onwards: bool = False) -> None:
        self._problem, self._case, self._onwards = problem, case, onwards
        self._ledger = Ledger(problem)
        self._told: list[Observation] = []
        self._left = list(anchor_settings(problem.space))
        self._choice: Setting | None = None
        self._linear: LinearSearch | None = None

    def tell(self, observation: Observation) -> None:
        """Take a trial."""
        self._ledger.tell(observation)
        self._told.append(observation)
        if self._linear is not None:
            self._linear.tell(observation)

    def ask(self) -> Setting | None:
        """Return anchors, then the predicted choice, then what the linear search asks."""
        while self._left:
            setting = self._left.pop(0)
            if setting not in self._ledger:
                return setting
        if self._choice is None:
            self._choice = self._predicted()
            if self._choice not in self._ledger:
                return self._choice
        if not self._onwards:
            return None
        if self._linear is None:
            self._linear = LinearSearch(replace(self._problem, start=self._choice))
            for one in self._told:
                self._linear.tell(one)
        return self._linear.ask()

    def recommend(self) -> Recommendation:
        """Return the best of what was measured."""
        return choose(self._ledger) if self._linear is None else self._linear.recommend()

    def _predicted(self) -> Setting:
        space, task = self._problem.space, self._case.task
        entries = self._ledger.measured
        outcome = self._ledger.outcome(entries)
        names = space.names
        anchors = Profile(
            work=Work(1.0, WorkUnit.STEP),
            time_s=outcome.time_s,
            energy_j=outcome.energy_j,
            settings={n: np.array([e.setting[n] for e in entries]) for n in names},
            default=space.default,
            source=Source.REPLAYED,
        )
        found = self._case.predictor.predict(space, anchors, task.device, task.workload).profile
        base = self._ledger.base_row(entries)
        baseline = Outcome(
            time_s=np.asarray(outcome.time_s[base]), energy_j=np.asarray(outcome.energy_j[base])
        )
        whole = Outcome(time_s=found.time_s, energy_j=found.energy_j)
        values = self._problem.objective.values(whole, baseline)
        return space.settings[int(np.argmin(values))]


def hybrid(problem: Problem, case: Case, **options: object) -> Search:
    """Return the hybrid search with the case's predictor."""
    known = Knowledge(
        device=case.task.device, predictor=case.predictor, workload=case.task.workload
    )
    search: Search = HybridSearch(problem, known, **options)  # type: ignore[arg-type]
    return search


def untaught(problem: Problem, case: Case) -> Search:
    """Return the hybrid search with nothing learned from."""
    return HybridSearch(problem, Knowledge(device=case.task.device, workload=case.task.workload))


def warm(space: Space) -> Setting:
    """Return the default at 0.6 of the largest limit."""
    largest = float(space.knob(POWER_LIMIT).values[-1])
    row = space.line(space.default, POWER_LIMIT)
    return min(row, key=lambda one: abs(one.number(POWER_LIMIT) - 0.6 * largest))


def limit_alone(table: Table) -> Table:
    """Return the part of `table` at the default batch."""
    space = table.space.free([POWER_LIMIT])
    return Table(table.name, space, {one: table.figures[one] for one in space.settings})


def simulated() -> list[tuple[Table, MeasuredTask]]:
    """Return simulated tables of limit, clocks and batch size that hold 2,000 settings or more."""
    found = []
    for gpu in GPUS:
        device = lj.open_device(f"sim:{gpu}")
        assert isinstance(device, SimulatedDevice)
        names = [name for name in WORKLOADS if name in device.workload_names()]
        found += [_surveyed(device, gpu, name) for name in names]
    return found


def _surveyed(device: SimulatedDevice, gpu: str, name: str) -> tuple[Table, MeasuredTask]:
    workload = device.workload(name)
    joint = device.joint_space(workload).free(FOUR)
    thin = Space(tuple(_thinned(knob) for knob in joint.knobs), joint.rules)
    seen = device.survey(workload, thin)
    names = [one for one in FOUR if one in seen.settings]
    profile = Profile(
        work=seen.work,
        time_s=seen.time_s,
        energy_j=seen.energy_j,
        settings={one: seen.settings[one] for one in names},
        default=thin.default.only(names),
        source=Source.SIMULATED,
    )
    settings = [profile.setting(row) for row in range(len(profile))]
    pairs = zip(profile.time_s.tolist(), profile.energy_j.tolist(), strict=True)
    knobs = tuple(knob for knob in thin.knobs if knob.name in names)
    table = Table(
        f"{gpu} {name}",
        Space(knobs, listed=frozenset(settings)),
        dict(zip(settings, pairs, strict=True)),
    )
    board: DeviceFigures = figures_of(device)
    task = MeasuredTask(
        name=table.name, model=name, device=board, profile=profile, workload=workload
    )
    return table, task


def _thinned(knob: Knob) -> Knob:
    most = _MOST.get(knob.name, len(knob.values))
    if len(knob.values) <= most:
        return knob
    places = np.unique(np.linspace(0, len(knob.values) - 1, most).round().astype(int))
    kept = {knob.values[place] for place in places} | {knob.default}
    return replace(knob, values=tuple(value for value in knob.values if value in kept))


def designed(tasks: Sequence[MeasuredTask]) -> list[MeasuredTask]:
    """Return `tasks` with so many of their settings as an offline benchmark would measure."""
    random = np.random.default_rng(0)
    found = []
    for task in tasks:
        rows = random.permutation(len(task.profile))[:_LEARNED]
        rows = np.unique(np.concatenate([prepare(task).anchors, rows]))
        found.append(replace(task, profile=task.profile.take(rows)))
    return found


Make = Callable[[Problem, Case, int], Search]
