"""A page of HTML that needs no other file: headings, tables with bars, lines of text. Reports are made of it."""

from __future__ import annotations

from collections.abc import Sequence
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
