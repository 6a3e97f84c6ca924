from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from lowjoule.errors import InvalidValueError
from lowjoule.quantities import Unit
from lowjoule.reports.chart import ASCII, UNICODE, chart, signs_for
from lowjoule.reports.figure import Axis, Figure, Role, Series
from lowjoule.reports.page import Page
from lowjoule.reports.svg import MOST_POINTS, svg
from lowjoule.source import Source

HOSTILE = '<script>alert("x")</script> & </svg>'


def figure(count: int = 30, title: str = "a picture", unit: Unit | str = Unit.JOULE) -> Figure:
    time_s = np.linspace(1.0, 3.0, count)
    energy_j = 2000.0 / time_s
    return Figure(
        title=title,
        description=f"what {title} shows",
        source=Source.SIMULATED,
        x=Axis.over("time", time_s, Unit.SECOND),
        y=Axis.over("energy", np.append(energy_j, energy_j * 1.1), unit),
        series=(
            Series(name="others", role=Role.POINTS, x=time_s, y=energy_j * 1.1),
            Series(
                name=title,
                role=Role.LINE,
                x=time_s[:5],
                y=energy_j[:5],
                hovers=(title,) * min(5, count),
            ),
            Series(name="default", role=Role.DEFAULT, x=time_s[:1], y=energy_j[:1]),
        ),
    )


@pytest.mark.parametrize("width", [10, 24, 60, 80, 200])
@pytest.mark.parametrize("signs", [UNICODE, ASCII])
def test_a_chart_fits_its_width_and_names_its_axes(width: int, signs: object) -> None:
    lines = str(chart(figure(), width=width, signs=signs)).splitlines()  # type: ignore[arg-type]
    assert max(len(line) for line in lines) <= max(width, 40)
    if width >= 60:
        text = "\n".join(lines)
        assert "energy (kJ)" in text
        assert "time (s)" in text
        assert "SIMULATED" in text
        assert "default" in text


def test_a_chart_falls_back_to_ascii() -> None:
    assert signs_for("utf-8") is UNICODE
    assert signs_for("ascii") is ASCII
    assert signs_for(None) is ASCII
    assert signs_for("no-such-encoding") is ASCII
    str(chart(figure(), signs=ASCII)).encode("ascii")


def test_an_svg_is_well_formed_and_escapes_names() -> None:
    text = svg(figure(title=HOSTILE), standalone=True)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "<script" not in text
    assert text.count("</svg>") == 1
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"title", "desc", "path", "text"} <= names
    assert "script" not in names


def test_very_many_points_are_thinned_and_said() -> None:
    text = svg(figure(count=50 * MOST_POINTS))
    assert len(text) < 400_000
    assert re.search(r"\d+ of \d+|shown", text)


@pytest.mark.parametrize(
    ("scale", "label"), [(1e-6, "1e-6 epochs/J"), (1e-2, "epochs/J"), (5.0, "(epochs/J)")]
)
def test_small_rates_have_readable_ticks(scale: float, label: str) -> None:
    axis = Axis.over("efficiency", np.array([scale, 2 * scale]), "epochs/J")
    assert label in axis.title
    assert all(len(text) <= 6 for _, text in axis.ticks(6))


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    page = Page(
        title=HOSTILE,
        source=Source.REPLAYED,
        sentences=[HOSTILE],
        figures=[figure(title=HOSTILE)],
        listings=[],
    )
    place = tmp_path / "page.html"
    page.write(place)
    text = place.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "REPLAYED" in text
    assert "default-src 'none'" in text
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html"]
    with pytest.raises(InvalidValueError, match="writable"):
        page.write(tmp_path / "missing" / "page.html")


def test_a_figure_of_one_point_has_axes() -> None:
    text = svg(figure(count=1))
    ElementTree.fromstring(text)
    assert "nan" not in text
    assert str(chart(figure(count=1)))


def test_a_legend_cuts_the_longest_names_alone() -> None:
    drawn = figure()
    names = ("other points (37372 are beyond) (2000 of 7097 are drawn)", "frontier", "chosen (eds)")
    series = [
        Series(name=name, role=Role.POINTS, x=np.ones(1), y=np.ones(1), hovers=()) for name in names
    ]
    text = svg(replace(drawn, series=tuple(series)))
    assert ">frontier<" in text
    assert ">chosen (eds)<" in text
    assert ">other points (37372 are beyond)" in text
