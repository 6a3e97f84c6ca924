"""A report as one HTML file that needs nothing else: no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path

from lowjoule.reports.figure import Figure
from lowjoule.reports.listing import Listing
from lowjoule.reports.svg import STYLE, svg
from lowjoule.sink import Sink
from lowjoule.source import Source

_PAGE_STYLE = """
:root{color-scheme:light dark}
body{margin:2rem auto;max-width:60rem;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;
color:#1f2430;background:#fff}
.badge{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;background:#b45309;color:#fff;
font-weight:700;letter-spacing:.08em}
figure{margin:1.5rem 0}svg{width:100%;height:auto;border:1px solid #dfe3ea;border-radius:.4rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:1.5rem 0}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .7rem;border-bottom:1px solid #dfe3ea;text-align:left;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums}footer{color:#5b6472;font-size:.9rem}
@media (prefers-color-scheme:dark){body{color:#e7eaf0;background:#0f1218}
svg{border-color:#333b4a}th,td{border-color:#333b4a}footer{color:#a3adbd}}
"""

_ORIGIN = {
    Source.MEASURED: "The figures were measured.",
    Source.ESTIMATED: "The figures are estimated, not measured.",
    Source.SIMULATED: "The figures are of a simulated device: no hardware was measured.",
    Source.REPLAYED: "The figures are replayed from a table of measurements made earlier.",
    Source.PREDICTED: "The figures are predicted, not measured.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a report shows, in order: sentences, figures, tables."""

    title: str
    source: Source
    sentences: Sequence[str]
    figures: Sequence[Figure]
    listings: Sequence[Listing]

    def html(self) -> str:
        """Return the whole file. Every name in it is escaped, and the page may run no script."""
        figures = [
            f"<figure>{svg(figure, name=f'f{place}')}"
            f"<figcaption>{escape(figure.description)}</figcaption></figure>"
            for place, figure in enumerate(self.figures, start=1)
        ]
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width,initial-scale=1">',
                '<meta http-equiv="Content-Security-Policy" '
                "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
                f"<title>{escape(self.source.value.upper() + ': ' + self.title)}</title>",
                f"<style>{_PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n<main>",
                f'<p><span class="badge">{self.source.value.upper()}</span> '
                f"{_ORIGIN[self.source]}</p>",
                f"<h1>{escape(self.title)}</h1>",
                *(f"<p>{escape(sentence)}</p>" for sentence in self.sentences),
                *figures,
                *(_table(listing) for listing in self.listings),
                f"</main>\n<footer>Made by lowjoule {escape(version('lowjoule'))}.</footer>",
                "</body>\n</html>\n",
            ]
        )

    def write(self, path: str | Path) -> None:
        """Write the file, all of it or nothing; raises `InvalidValueError` where it cannot be."""
        Sink(path).write(self.html())


def _table(listing: Listing) -> str:
    def cell(kind: str, column: str, text: str) -> str:
        number = ' class="n"' if column in listing.numbers else ""
        scope = ' scope="col"' if kind == "th" else ""
        return f"<{kind}{scope}{number}>{escape(text)}</{kind}>"

    head = "".join(cell("th", name, name) for name in listing.columns)
    rows = [
        "<tr>"
        + "".join(cell("td", n, text) for n, text in zip(listing.columns, row, strict=True))
        + "</tr>"
        for row in listing.rows
    ]
    caption = f"<caption>{escape(listing.title)}</caption>"
    return f'<div class="scroll"><table>{caption}<tr>{head}</tr>{"".join(rows)}</table></div>'
