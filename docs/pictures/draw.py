"""Draws the pictures of the documentation from simulated profiles: python docs/pictures/draw.py."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ["LOWJOULE_SIMULATED"] = tempfile.mkdtemp()  # a board as it comes, not the user's

import lowjoule as lj
from lowjoule.profile import Frontier
from lowjoule.quantities import Unit
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.svg import svg

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
        Series(name="default", role=Role.DEFAULT, x=default.time_s[None], y=default.energy_j[None]),
    ]
    return Figure(
        title=title,
        description=said,
        source=profile.source,
        x=Axis.over("time of 1000 samples", profile.time_s, Unit.SECOND),
        y=Axis.over(cost, profile.effective_j, Unit.JOULE),
        series=tuple(series),
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
    }
    for name, picture in pictures.items():
        text = svg(picture, name=name, standalone=True)
        (HERE / f"{name}.svg").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
