"""The frame of every page that this package writes: HTML in one file, without scripts and without other files.

    document("Kernels of model.onnx", "<h2>…</h2>")

Light and dark as the reader's system has it; on a narrow screen a row of a table becomes a block with the names of its
columns, so that only pictures of schedules scroll sideways, within their frame. Long names break behind their
separators, never within a word, and an option of a command keeps its hyphen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --faint: #5b6474; --line: #d9dde5; --paper: #ffffff; --panel: #f5f7fa;
  --bar: #3b76b5; --good: #2c8a4b; --bad: #c0392b; --warn: #b07a12; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ef; --faint: #9aa5b5; --line: #333b48; --paper: #14181f;
  --panel: #1c222b; --bar: #6aa5e0; --good: #63c486; --bad: #ee7b6c; --warn: #e0b25a; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 78em; padding: 0 1.2em; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.5em; line-height: 1.25; } h2 { font-size: 1.15em; margin-top: 2em; }
h1, h2, a, li { overflow-wrap: break-word; }
a { color: var(--bar); }
p.note { color: var(--faint); max-width: 60em; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35em .7em; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid var(--faint); font-weight: 600; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bar { width: 16%; min-width: 5em; }
td.bar div { background: var(--bar); height: .85em; margin-top: .3em; min-width: 1px; border-radius: 2px; }
th.number { text-align: right; } td.text { overflow-wrap: break-word; min-width: 7em; }
.option { white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
nav { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .6em 1.2em; }
nav ol { margin: .3em 0; padding-left: 1.6em; }
.picture { background: #ffffff; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; padding: .5em; }
.picture svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { .picture { filter: invert(.92) hue-rotate(180deg); } }
svg.chart { width: 100%; height: auto; overflow: visible; color: var(--faint); }
svg.chart text { fill: currentColor; font-size: 12px; }
ul.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2em 1.4em; }
ul.legend span { display: inline-block; width: 1.6em; height: .25em; margin-right: .5em; vertical-align: middle; }
@media (max-width: 46em) {
  thead { display: none; } table, tbody, tr, td { display: block; width: auto; }
  tr { border-bottom: 2px solid var(--line); padding: .5em 0; } td, td.bar { border: 0; padding: .1em 0; width: auto; }
  td.number { text-align: left; white-space: normal; } td[data-column=""]:first-child { color: var(--faint); }
  svg.chart text { font-size: 28px; } .picture svg { max-width: none; }
  td[data-column]:not([data-column=""])::before { content: attr(data-column) ": "; color: var(--faint); }
  td.bar { padding: .2em 0 .4em; }
}
"""

#: Behind these a long name may break, but for those that it begins with.
_SEPARATORS = re.compile(r"(?<=[^;,])([;,]+|[_/.:=\]\)-]+)(?=\S)")


def breakable(text: str) -> str:
    """`text` escaped, with chances to break a line behind the separators of long words."""
    words = (_SEPARATORS.sub("\\1\u200b", word) if len(word) > 16 else word for word in text.split(" "))
    marked = (f'<span class="option">{escape(word)}</span>' if word[:1] == "-" else escape(word) for word in words)
    return " ".join(marked).replace("\u200b", "<wbr/>")


def document(title: str, body: str, head: str = "") -> str:
    """A whole page: its title, as heading too, and its body; `head` is more of the head. Well-formed XML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>{head}</head>\n"
        f"<body>\n<h1>{breakable(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are `<td>` elements already (`cell`), under the names of its columns."""
    kinds = (' class="number"' if cell.startswith('<td class="number"') else "" for cell in (rows or [columns])[0])
    head = "".join(f"<th{kind}>{escape(column)}</th>" for kind, column in zip(kinds, columns, strict=True))
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def cell(text: str, column: str, kind: str | None = None) -> str:
    """A cell of a column; one that begins with a digit is a number, and stands to the right."""
    kind = kind or ("number" if text[:1].isdigit() else "text")
    return f'<td class="{kind}" data-column="{escape(column)}">{breakable(text)}</td>'


def contents(headings: Sequence[str]) -> str:
    """An index of the sections `anchor(0)`, `anchor(1)` … of a page, by their headings."""
    entries = "".join(
        f'<li><a href="#{anchor(number)}">{breakable(text)}</a></li>' for number, text in enumerate(headings)
    )
    return f"<nav><ol>{entries}</ol></nav>"


def anchor(number: int) -> str:
    """The name of a section that `contents` leads to."""
    return f"section-{number}"
