"""A page of HTML that needs no other file: headings, tables with bars, lines of text. Reports are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from tilewright.support import html_page


@dataclass(frozen=True)
class Bar:
    """A cell drawn as a bar: `share` of the width, from 0 to 1."""

    share: float


Cell = str | Bar


@dataclass
class Page:
    """A page that is being written: `heading`, `text`, `table` add to it, `html` is its text."""

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A heading within the page."""
        self._parts.append(f"<h2>{html_page.breakable(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self._parts.append(f'<p class="note">{html_page.breakable(text)}</p>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """A table; cells that begin with a digit are numbers, and stand to the right. Without rows, a word for that.

        Where no column has a name it is one of facts, and all of it text.
        """
        if not rows:
            self.text("none")
            return
        cells = [
            [_cell(cell, column, None if any(columns) else "text") for cell, column in zip(row, columns, strict=True)]
            for row in rows
        ]
        self._parts.append(html_page.table(columns, cells))

    def chart(self, lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> None:
        """A diagram of lines by name; `across` and `up` say what their numbers are."""
        self._parts.append(_chart(lines, across, up))

    def html(self) -> str:
        """The whole page."""
        return html_page.document(self.title, "\n".join(self._parts))


def _cell(cell: Cell, column: str, kind: str | None) -> str:
    if isinstance(cell, Bar):
        return f'<td class="bar"><div style="width:{100 * min(max(cell.share, 0.0), 1.0):.1f}%"></div></td>'
    return html_page.cell(cell, column, kind)


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 380.0, 60.0, 40.0
_COLOURS = ("#4a7fb5", "#c0563c", "#4f9a5b", "#8a62a8", "#b8923a", "#5aa0a0", "#a0506e", "#707070")


def _chart(lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """Lines as SVG over a legend, with scales from the least to the largest of their numbers."""
    xs, ys = ([point[axis] for line in lines.values() for point in line] for axis in (0, 1))
    if not xs:
        return ""
    left, right, low = min(xs), max(max(xs), min(xs) + 1), min(ys)
    high = max(ys) if max(ys) > low else low + max(abs(low) / 10, 1e-9)  # lines that stay level lie on the lower scale

    def position(x: float, y: float) -> str:
        across_, up_ = (x - left) / (right - left), (y - low) / (high - low)
        return f"{_LEFT + across_ * (_WIDTH - 2 * _LEFT):.1f},{_HEIGHT - _BOTTOM - up_ * (_HEIGHT - 2 * _BOTTOM):.1f}"

    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}">']
    for value in (low, high):
        (x1, y), (x2, _) = position(left, value).split(","), position(right, value).split(",")
        parts.append(f'<line x1="{x1}" y1="{y}" x2="{x2}" y2="{y}" stroke="currentColor" stroke-opacity="0.35"/>')
    for number, (name, line) in enumerate(lines.items()):
        points = " ".join(position(x, y) for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" stroke-width="1.6" '
                     f'stroke-dasharray="{_dashes(number)}"><title>{escape(name)}</title></polyline>')  # fmt: skip
    for value, anchor in ((low, low), (high, high)):
        x, y = position(left, anchor).split(",")
        parts.append(f'<text x="{float(x) - 6:.1f}" y="{y}" text-anchor="end">{value:.3g}</text>')
    for value in (left, right):
        x, _ = position(value, low).split(",")
        parts.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM / 2:.1f}" text-anchor="middle">{value:.4g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_BOTTOM / 2}">{escape(up)}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(across)}</text></svg>')
    parts.append(f'<ul class="legend">{"".join(_entry(number, name) for number, name in enumerate(lines))}</ul>')
    return "\n".join(parts)


def _entry(number: int, name: str) -> str:
    """A line of the legend."""
    return f'<li><span style="background:{_colour(number)}"></span>{html_page.breakable(name)}</li>'


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _dashes(number: int) -> str:
    """Another pattern for each round of the colours."""
    return ("none", "6 3", "2 3", "8 3 2 3")[number // len(_COLOURS) % 4]
