"""A page of HTML that needs no other file: headings, tables with bars, lines of text. Reports are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: .3em .7em; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bar { width: 22%; }
td.bar div { background: #4a7fb5; height: .9em; min-width: 1px; }
td.text { overflow-wrap: anywhere; }
p.note { color: #555; }
"""


@dataclass(frozen=True)
class Bar:
    """A cell drawn as a bar: `share` of the width, from 0 to 1."""

    share: float


Cell = str | Bar


@dataclass
class Page:
    """A page that is being written: `heading`, `text`, `table` add to it, `html` gives it."""

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A heading within the page."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self._parts.append(f'<p class="note">{escape(text)}</p>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """A table; cells that begin with a digit are numbers, and stand to the right."""
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self._parts.append(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>")

    def chart(self, lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> None:
        """A diagram of lines by name; `across` and `up` say what their numbers are."""
        self._parts.append(_chart(lines, across, up))

    def html(self) -> str:
        """The whole page."""
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"/><title>{escape(self.title)}</title>\n'
            f"<style>{_STYLE}</style></head>\n<body>\n<h1>{escape(self.title)}</h1>\n"
            + "\n".join(self._parts)
            + "\n</body>\n</html>\n"
        )


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return f'<td class="bar"><div style="width:{100 * min(max(cell.share, 0.0), 1.0):.1f}%"></div></td>'
    kind = "number" if cell[:1].isdigit() else "text"
    return f'<td class="{kind}">{escape(cell)}</td>'


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 380.0, 60.0, 40.0
_COLOURS = ("#4a7fb5", "#c0563c", "#4f9a5b", "#8a62a8", "#b8923a", "#5aa0a0", "#a0506e", "#707070")


def _chart(lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """Lines as SVG, with scales from the least to the largest of their numbers."""
    xs, ys = ([point[axis] for line in lines.values() for point in line] for axis in (0, 1))
    if not xs:
        return ""
    left, right, low, high = min(xs), max(max(xs), min(xs) + 1), min(ys), max(max(ys), min(ys) + 1e-9)

    def place(x: float, y: float) -> str:
        across_, up_ = (x - left) / (right - left), (y - low) / (high - low)
        return f"{_LEFT + across_ * (_WIDTH - 2 * _LEFT):.1f},{_HEIGHT - _BOTTOM - up_ * (_HEIGHT - 2 * _BOTTOM):.1f}"

    parts = [f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" font-size="12" style="width:100%">']
    for number, (name, line) in enumerate(lines.items()):
        colour, points = _COLOURS[number % len(_COLOURS)], " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6">'
                     f"<title>{escape(name)}</title></polyline>")  # fmt: skip
    for value, anchor in ((low, low), (high, high)):
        x, y = place(left, anchor).split(",")
        parts.append(f'<text x="{float(x) - 6:.1f}" y="{y}" text-anchor="end">{value:.3g}</text>')
    for value in (left, right):
        x, _ = place(value, low).split(",")
        parts.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM / 2:.1f}" text-anchor="middle">{value:.4g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_BOTTOM / 2}">{escape(up)}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(across)}</text></svg>')
    return "\n".join(parts)
