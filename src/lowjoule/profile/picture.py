"""A frontier as a picture: in a notebook and with matplotlib."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lowjoule.errors import MissingExtraError
from lowjoule.quantities import Unit, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lowjoule.profile.frontier import Frontier

_SHOWN = 20


def draw(frontier: Frontier, axes: Axes | None) -> Axes:
    """Draw all points and the frontier on `axes` (new ones by default) and return them."""
    if axes is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingExtraError.of("matplotlib", "plot", "drawing a frontier") from None
        axes = plt.subplots()[1]
    profile = frontier.profile
    axes.plot(profile.time_s, profile.effective_j, ".", color="0.7", label="points")
    axes.plot(frontier.time_s, frontier.effective_j, "o-", label="frontier")
    axes.set_xlabel("time (s)")
    priced = profile.effective_j is not profile.energy_j
    axes.set_ylabel("energy less waiting (J)" if priced else "energy (J)")
    axes.set_title(f"{profile.source.value}: {profile.work}")
    axes.legend()
    return axes


def html(frontier: Frontier) -> str:
    """Return the frontier as an HTML table, its first points and how many more there are."""
    profile = frontier.profile
    rows = [
        f"<tr><td>{escape(str(dict(point.setting)))}</td><td>{show(point.time_s, Unit.SECOND)}"
        f"</td><td>{show(point.energy_j, Unit.JOULE)}</td><td>{show(point.power_w, Unit.WATT)}"
        "</td></tr>"
        for point, _ in zip(frontier, range(_SHOWN), strict=False)
    ]
    more = f"<p>and {len(frontier) - _SHOWN} more</p>" if len(frontier) > _SHOWN else ""
    head = "".join(f"<th>{name}</th>" for name in ("setting", "time", "energy", "power"))
    caption = f"{profile.source.value}: {len(frontier)} of {len(profile)} points, of {profile.work}"
    return (
        f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{''.join(rows)}</table>{more}"
    )
