"""A figure as SVG: no script, no network, readable in light and dark and without colours."""

from __future__ import annotations

from html import escape

import numpy as np

from lowjoule.reports.figure import Axis, Figure, Role, Series

WIDTH, HEIGHT = 720.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 80.0, 20.0, 58.0, 56.0
_MARK, _LETTER = 40.0, 7.2  # widths in the legend: a mark with its gaps, a letter
MOST_POINTS = 2000

STYLE = """
.lj{--ink:#1f2430;--soft:#5b6472;--grid:#dfe3ea;--paper:#ffffff;--points:#7c8797;--line:#1668b8;
--second:#a03a8c;--anchor:#6d28d9;--default:#b45309;--chosen:#15803d;font:13px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.lj{--ink:#e7eaf0;--soft:#a3adbd;--grid:#333b4a;--paper:#161a22;
--points:#8d98a9;--line:#66b2ff;--second:#e58fd3;--anchor:#b794f6;--default:#f5a742;--chosen:#5dd58a}}
.lj .paper{fill:var(--paper)}.lj text{fill:var(--ink)}.lj .soft{fill:var(--soft)}
.lj .head{font-size:15px;font-weight:600}.lj .source{font-weight:700;letter-spacing:.08em}
.lj .grid{stroke:var(--grid)}.lj .axis{stroke:var(--soft)}
.lj .points{fill:var(--points);fill-opacity:.55}
.lj .line{fill:var(--line);stroke:var(--line)}.lj .second{fill:var(--paper);stroke:var(--second)}
.lj .anchor{fill:var(--anchor)}.lj .default{fill:var(--default)}.lj .chosen{fill:var(--chosen)}
.lj .default,.lj .chosen,.lj .anchor{stroke:var(--paper)}
.lj path.ends{fill:none;stroke:var(--soft);stroke-opacity:.6}
.lj path.line,.lj path.second{fill:none;stroke-width:2}.lj path.second{stroke-dasharray:6 4}
"""


def svg(figure: Figure, *, name: str = "figure", standalone: bool = False) -> str:
    """Return the figure as an SVG element; `name` keeps its ids apart from others on a page.

    `standalone` adds what a file of its own needs. Of very many points that are on no line only
    `MOST_POINTS` are drawn, and the legend says so.
    """
    figure = figure.thinned(MOST_POINTS)
    attributes = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    parts = [
        f'<svg class="lj" role="img" viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
        f' aria-labelledby="{name}-title {name}-desc"{attributes}>',
        f'<title id="{name}-title">{escape(_heading(figure))}</title>',
        f'<desc id="{name}-desc">{escape(figure.description)}</desc>',
        f"<style>{STYLE}</style>" if standalone else "",
        f'<rect class="paper" width="{WIDTH:g}" height="{HEIGHT:g}"/>',
        f'<text class="head" x="{_LEFT:g}" y="20">{escape(_short(figure.title, 54))}</text>',
        f'<text class="source" text-anchor="end" x="{WIDTH - _RIGHT:g}" y="20">'
        f"{figure.source.value.upper()}</text>",
        *_legend(figure),
        *_grid(figure),
        *(
            part
            for role in Role
            for one in figure.series
            if one.role is role
            for part in _series(one, figure)
        ),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _heading(figure: Figure) -> str:
    return f"{figure.source.value.upper()}: {figure.title}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _across(axis: Axis, values: object) -> list[float]:
    places = np.atleast_1d(axis.place(np.asarray(values, dtype=np.float64)))
    return [_LEFT + float(p) * (WIDTH - _LEFT - _RIGHT) for p in places]


def _down(axis: Axis, values: object) -> list[float]:
    places = np.atleast_1d(axis.place(np.asarray(values, dtype=np.float64)))
    return [HEIGHT - _BOTTOM - float(p) * (HEIGHT - _TOP - _BOTTOM) for p in places]


def _grid(figure: Figure) -> list[str]:
    """Return grid lines, axes, numbers and titles."""
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for value, text in figure.y.ticks(6):
        (y,) = _down(figure.y, value)
        parts.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}H{right:g}"/>')
        parts.append(
            f'<text class="soft" text-anchor="end" x="{_LEFT - 8:g}" y="{y + 4:.1f}">'
            f"{escape(text)}</text>"
        )
    for value, text in figure.x.ticks(8):
        (x,) = _across(figure.x, value)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom:g}v5"/>')
        parts.append(
            f'<text class="soft" text-anchor="middle" x="{x:.1f}" y="{bottom + 20:g}">'
            f"{escape(text)}</text>"
        )
    middle = (_LEFT + right) / 2, (_TOP + bottom) / 2
    parts += [
        f'<path class="axis" fill="none" d="M{_LEFT:g} {_TOP:g}V{bottom:g}H{right:g}"/>',
        f'<text text-anchor="middle" x="{middle[0]:g}" y="{HEIGHT - 12:g}">'
        f"{escape(figure.x.title)}</text>",
        f'<text text-anchor="middle" transform="translate(18 {middle[1]:g}) rotate(-90)">'
        f"{escape(figure.y.title)}</text>",
    ]
    return parts


def _series(series: Series, figure: Figure) -> list[str]:
    spots = list(zip(_across(figure.x, series.x), _down(figure.y, series.y), strict=True))
    parts = _ends(series, figure, spots)
    if series.role.joined and len(spots) > 1 and not figure.x.names:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        parts.append(f'<path class="{series.role}" d="M{path}"/>')
    hovers = series.hovers or ("",) * len(spots)
    parts += [_mark(series.role, x, y, hover) for (x, y), hover in zip(spots, hovers, strict=True)]
    return parts


def _ends(series: Series, figure: Figure, spots: list[tuple[float, float]]) -> list[str]:
    """Return the intervals of a series as lines through its points, cut at the edges."""
    parts = []
    for ends, axis, place, upright in (
        (series.x_ends, figure.x, _across, False),
        (series.y_ends, figure.y, _down, True),
    ):
        if ends is None:
            continue
        low, high = (place(axis, np.clip(one, axis.low, axis.high)) for one in ends)
        for (x, y), a, b in zip(spots, low, high, strict=True):
            if np.isfinite(a) and np.isfinite(b):
                path = f"M{x:.1f} {a:.1f}V{b:.1f}" if upright else f"M{a:.1f} {y:.1f}H{b:.1f}"
                parts.append(f'<path class="ends" d="{path}"/>')
    return parts


def _mark(role: Role, x: float, y: float, hover: str = "") -> str:
    """Return one mark: each role has a shape of its own, so that colour is not needed."""
    title = f"<title>{escape(hover)}</title>" if hover else ""
    if role is Role.DEFAULT:
        shape = f"M{x:.1f} {y - 9:.1f}l8 9l-8 9l-8 -9z"
        return f'<path class="{role}" d="{shape}">{title}</path>'
    if role is Role.CHOSEN:
        return f'<polygon class="{role}" points="{_star(x, y)}">{title}</polygon>'
    if role is Role.ANCHOR:
        shape = f"M{x - 5:.1f} {y - 5:.1f}h10v10h-10z"
        return f'<path class="{role}" d="{shape}">{title}</path>'
    radius = 3.0 if role is Role.POINTS else 4.0
    return f'<circle class="{role}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>'


def _star(x: float, y: float) -> str:
    angles = np.arange(10) * np.pi / 5 - np.pi / 2
    radii = np.where(np.arange(10) % 2, 4.5, 11.0)
    corners = zip(x + radii * np.cos(angles), y + radii * np.sin(angles), strict=True)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)


def _legend(figure: Figure) -> list[str]:
    parts = []
    room = WIDTH - _LEFT - _MARK * len(figure.series)
    most = max((len(series.name) for series in figure.series), default=0)
    # only the longest names are cut where they do not all fit
    while most > 2 and _LETTER * sum(min(len(one.name), most) for one in figure.series) > room:
        most -= 1
    x = _LEFT
    for series in figure.series:
        parts.append(_mark(series.role, x + 8, 38))
        name = _short(series.name, most)
        parts.append(f'<text x="{x + 22:.0f}" y="42">{escape(name)}</text>')
        x += _MARK + _LETTER * len(name)
    return parts
