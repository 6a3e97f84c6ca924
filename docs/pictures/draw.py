"""Draws the pictures of the documentation from simulated profiles: python docs/pictures/draw.py."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ["LOWJOULE_SIMULATED"] = tempfile.mkdtemp()  # a board as it comes, not the user's

import numpy as np

import lowjoule as lj
from lowjoule.profile import Frontier
from lowjoule.quantities import Unit
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.svg import svg
from lowjoule.tuning.driver import observe

HERE = Path(__file__).parent


def known() -> lj.Profile:
    """Return limits, clocks and micro-batches of ResNet-50 on a simulated A100, 1,000 samples."""
    device = lj.open_device("sim:a100")
    assert isinstance(device, lj.WorkDevice)
    workload = device.workload("resnet50")
    profile = device.survey(workload)
    keep = profile.settings["batch_size"] == 256
    keep &= profile.settings["precision"] == "bf16"
    keep &= profile.time_s < 1.5 * profile.time_s.min()
    return profile.take(keep).scaled(lj.Work(1000.0, lj.WorkUnit.SAMPLE))


def figure(title: str, said: str, view: Frontier, cost: str, joined: str) -> Figure:
    """Return all points, the frontier and the default, over time and `cost`."""
    profile = view.profile
    default = profile.baseline(effective=True)
    assert default is not None
    series = [
        Series(name="other points", role=Role.POINTS, x=profile.time_s, y=profile.effective_j),
        Series(name=joined, role=Role.LINE, x=view.time_s, y=view.effective_j),
    ]
    if profile.time_s.min() <= default.time_s <= profile.time_s.max():  # else it broke the bound
        at = default.time_s[None], default.energy_j[None]
        series.append(Series(name="default", role=Role.DEFAULT, x=at[0], y=at[1]))
    return Figure(
        title=title,
        description=said,
        source=profile.source,
        x=Axis.over("time of 1000 samples", profile.time_s, Unit.SECOND),
        y=Axis.over(cost, profile.effective_j, Unit.JOULE),
        series=tuple(series),
    )


def mixture(profile: lj.Profile) -> Figure:
    """Return a few limits, the hull over them, and a plan of two of them within a time."""
    few = profile.take(
        (profile.settings["sm_clock"] == profile.settings["sm_clock"].max())
        & (profile.settings["micro_batch"] == 256)
        & (profile.settings["memory_clock"] == profile.settings["memory_clock"].max())
        & (profile.settings["power_limit"] % 50 == 0)
    )
    front = few.frontier()
    hull = front.hull()
    plan = hull.realise(0.37)
    at = np.array([plan.time_s]), np.array([plan.energy_j])
    return Figure(
        title="The hull: what mixtures in time reach",
        description="Power limits in steps of 50 W, the line between neighbours, and a plan of two "
        "settings that just keeps a time which no single setting fills.",
        source=few.source,
        x=Axis.over("time of 1000 samples", few.time_s, Unit.SECOND),
        y=Axis.over("energy of 1000 samples", few.energy_j, Unit.JOULE),
        series=(
            Series(name="settings and their hull", role=Role.LINE, x=hull.time_s, y=hull.energy_j),
            Series(name="plan within 370 ms", role=Role.CHOSEN, x=at[0], y=at[1]),
        ),
    )


def walk() -> Figure:
    """Return the trials of one search over limits and clocks, among all that could be tried."""
    device = lj.open_device("sim:a100")
    assert isinstance(device, lj.WorkDevice)
    workload = device.workload("resnet50")
    knobs = ("power_limit", "sm_clock")
    result = lj.Driver(
        device, workload, objective=lj.EDS(), search=lj.LinearSearch, knobs=knobs
    ).run()
    tried = [observe(trial) for trial in result.trials]
    limits = np.array([one.asked.number("power_limit") for one in tried])
    clocks = np.array([one.asked.number("sm_clock") for one in tried])
    first, best = result.default.setting, result.chosen.setting
    ends = {name: np.array(result.space.knob(name).values, dtype=float) for name in knobs}
    marks = [
        Series(
            name=name,
            role=role,
            x=np.array([one.number("sm_clock")]),
            y=np.array([one.number("power_limit")]),
        )
        for name, role, one in (
            ("default", Role.DEFAULT, first),
            ("chosen", Role.CHOSEN, best),
        )
    ]
    return Figure(
        title=f"{len(tried)} trials among {len(result.space)} settings",
        description="The settings that one linear search tried, over SM clock and power limit: "
        "they lie on lines through the best setting so far.",
        source=result.identity.source,
        x=Axis.over("SM clock", ends["sm_clock"], Unit.HERTZ),
        y=Axis.over("power limit", ends["power_limit"], Unit.WATT),
        series=(Series(name="tried", role=Role.POINTS, x=clocks, y=limits), *marks),
    )


def main() -> None:
    """Write the pictures beside this file."""
    profile = known()
    energy = "energy of 1000 samples"
    pictures = {
        "frontier": figure(
            "A profile and its frontier",
            "All settings in time and energy; the frontier runs from the fastest to the cheapest.",
            profile.frontier(),
            energy,
            "frontier",
        ),
        "bounded": figure(
            "Only what draws at most 250 W",
            "Under a power bound other points come to the frontier.",
            profile.where(lj.Power(250.0)).frontier(),
            energy,
            "frontier",
        ),
        "priced": figure(
            "Waiting at 84 W is priced",
            "Energy less what waiting would have drawn: slower points become worth it.",
            profile.priced(wait_w=84.0).frontier(),
            "energy less 84 W x time",
            "frontier",
        ),
        "mixture": mixture(profile),
        "walk": walk(),
    }
    for name, picture in pictures.items():
        text = svg(picture, name=name, standalone=True)
        (HERE / f"{name}.svg").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
