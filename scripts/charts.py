"""Charts of the benchmark tables in docs: bars on the pages of the site, and the picture of the README.

A comment before a table requests its chart: `<!-- chart: ratio | 1 thread | 2 threads -->` draws the columns named
"ratio", one bar each, under those names. The table stays the only source of the figures.

    python scripts/charts.py            writes docs/networks.svg, the picture of the README
    python scripts/charts.py --check    fails where it differs from its table
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "networks.svg"
MARK = re.compile(
    r"^<!-- chart: (?P<column>[^|]+?)(?P<names>(?: \| [^|\n]+?)*) -->\n+(?P<table>(?:^\|.*\n)+)", re.MULTILINE
)
#: Colours that differ on white and on black, and in print.
LIGHT, DARK = ("#0b6e99", "#d9730d"), ("#4db1dd", "#f0a35e")


@dataclass(frozen=True)
class Chart:
    """Values by row and series, as ratios to the level 1."""

    names: list[str]
    rows: list[tuple[str, list[float]]]

    @property
    def largest(self) -> float:
        """The value at the right end of the axis."""
        return max(1.0, *(value for _, values in self.rows for value in values))


def cells(line: str) -> list[str]:
    """The cells of one line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def chart_of(mark: re.Match[str]) -> Chart:
    """The chart that a comment requests; rows without a number in its columns are left out."""
    head, _, *lines = mark["table"].splitlines()
    columns = [index for index, name in enumerate(cells(head)) if name == mark["column"]]
    names = [name.strip() for name in mark["names"].split("|")[1:]]
    if len(names) != len(columns):
        raise ValueError(f"{len(columns)} columns {mark['column']!r}, but {len(names)} names for them: {names}")
    rows = []
    for line in map(cells, lines):
        values = [re.match(r"\d+(?:\.\d+)?", line[index]) for index in columns]
        if all(values):
            rows.append((line[0].split(":")[0], [float(value[0]) for value in values if value]))
    return Chart(names, rows)


def html(chart: Chart) -> str:
    """The chart as a figure of HTML, which takes its colours from the page."""
    scale = 100 / chart.largest
    legend = "".join(f'<span class="tw-key tw-{i}">{escape(name)}</span>' for i, name in enumerate(chart.names))
    lines = []
    for name, values in chart.rows:
        bars = "".join(
            f'<span class="tw-bar tw-{i}" style="width:{value * scale:.1f}%"><b>{value:.2f}</b></span>'
            for i, value in enumerate(values)
        )
        lines.append(
            f'<div class="tw-row"><span class="tw-name">{escape(name)}</span><span class="tw-bars">{bars}</span></div>'
        )
    level = '<span class="tw-key tw-level">1, the faster peer</span>'
    body = "".join(lines)
    return f'<div class="tw-chart" style="--one:{scale:.2f}%"><div class="tw-legend">{legend}{level}</div>{body}</div>'


def with_charts(page: str) -> str:
    """The page with a chart before each table that requests one; the table folds away under it."""

    def drawn(mark: re.Match[str]) -> str:
        table = "".join(f"    {line}\n" for line in mark["table"].splitlines())
        return f'{html(chart_of(mark))}\n\n??? note "The figures"\n\n{table}'

    return MARK.sub(drawn, page)


def svg(chart: Chart, title: str) -> str:
    """The chart as a file of its own, for light and dark pages."""
    left, width, step = 170, 720, 15 * len(chart.names) + 8
    scale, height = (width - left - 60) / chart.largest, 70 + step * len(chart.rows)
    style = "text{fill:#1f2328}.level{stroke:#1f2328}"
    style += "".join(f".s{i}{{fill:{colour}}}" for i, colour in enumerate(LIGHT))
    dark = "text{fill:#e6edf3}.level{stroke:#e6edf3}" + "".join(f".s{i}{{fill:{c}}}" for i, c in enumerate(DARK))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<style>{style}@media(prefers-color-scheme:dark){{{dark}}}</style>",
        f'<text x="0" y="18" font-size="15">{escape(title)}</text>',
    ]
    for i, name in enumerate(chart.names):
        parts.append(f'<rect class="s{i}" x="{left + 100 * i}" y="30" width="11" height="11"/>')
        parts.append(f'<text x="{left + 16 + 100 * i}" y="40">{escape(name)}</text>')
    for row, (name, values) in enumerate(chart.rows):
        top = 56 + step * row
        parts.append(f'<text x="{left - 8}" y="{top + step / 2:g}" text-anchor="end">{escape(name)}</text>')
        for i, value in enumerate(values):
            y = top + 15 * i
            parts.append(f'<rect class="s{i}" x="{left}" y="{y}" width="{value * scale:.1f}" height="12" rx="2"/>')
            parts.append(f'<text x="{left + value * scale + 5:.1f}" y="{y + 10}" font-size="10">{value:.2f}</text>')
    one = left + scale
    parts.append(f'<path class="level" d="M{one:.1f} 50V{height - 10}" stroke-dasharray="3"/>')
    return "\n".join([*parts, "</svg>\n"])


def networks() -> Chart:
    """The fifteen benchmark networks on the newest processor of docs/benchmarks.md."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    section = page[page.index("### An Intel Xeon with AMX") :]
    mark = MARK.search(section)
    if mark is None:
        raise ValueError("docs/benchmarks.md has no chart in the section of the Xeon")
    return chart_of(mark)


def picture() -> str:
    """The picture of the README."""
    return svg(networks(), "Speed beside the faster of onnxruntime and OpenVINO (1 = equal)")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(picture() != PICTURE.read_text())
    PICTURE.write_text(picture())
