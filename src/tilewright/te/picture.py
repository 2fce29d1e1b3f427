"""Pictures of schedules: what is computed where, the loops that come of it, and the memory they read and write.

`schedule_picture` returns SVG that needs no other file; `picture_page` puts several on one HTML page. Three parts, from
the top: the stages as a tree, each below the loop it is computed in; the loop nest, a box for each loop, coloured by
how it runs; the buffers with their scope and bytes, and how often the nest reads and writes each element.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tilewright.support import html_page
from tilewright.te.access_counts import BufferUse, access_counts
from tilewright.te.bounds import Bounds, infer_bounds
from tilewright.te.operation import PlaceholderOp
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.stage import INLINE, Stage
from tilewright.tir.printer import lines_and_names
from tilewright.tir.stmt import ForKind, PrimFunc

_LINE, _INDENT, _CHARACTER, _MARGIN = 18, 18, 7.3, 12  # pixels: of a line, a level, a letter of the font, around
_LONGEST = 140  # letters of a line; what is cut off shows when the mouse rests on it
_COLOURS = {
    "range": "#eef1f5",
    "parallel": "#d9ecd9",
    "vectorized": "#fbe3c4",
    "unrolled": "#f7f3c9",
    "thread": "#dfd9f2",
    "while": "#f2dada",
    "if": "#ffffff",
    "with": "#ffffff",
}
_LEGEND = ("range", "parallel", "vectorized", "unrolled", "thread")
_COLUMNS = ("buffer", "type", "scope", "bytes", "copies", "reads", "writes", "reads/element", "writes/element")
_NOTES = (
    "Reads and writes are counted from the extents of the loops, those of all copies together.",
    "<= : some of them stand under a condition, and are counted as if it held.   + call: a call gets the address.",
)


@dataclass
class _Canvas:
    """The shapes drawn so far, and how far they reach."""

    parts: list[str] = field(default_factory=list)
    width: float = 0
    y: float = _MARGIN

    def text(self, x: float, line: str, style: str = "") -> None:
        """A line of text at `x`, on the next line of the picture."""
        shown = line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
        whole = f"<title>{escape(line)}</title>" if shown != line else ""
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text x="{x:g}" y="{self.y + 12:g}"{kind}>{whole}{escape(shown)}</text>')
        self.width = max(self.width, x + len(shown) * _CHARACTER * (1.25 if style == "title" else 1))
        self.y += _LINE

    def title(self, line: str) -> None:
        """The heading of a part."""
        self.y += _LINE / 2
        self.text(_MARGIN, line, "title")

    def svg(self, title: str) -> str:
        """The whole picture."""
        width, height = self.width + _MARGIN, self.y + _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
                f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" xml:space="preserve" '
                f"aria-label={quoteattr(title)}>",
                f"<title>{escape(title)}</title>",
                "<style>text{font:12px monospace;fill:#1c2330;white-space:pre}.title{font-weight:bold;font-size:15px}"
                ".faint{fill:#6b7688}</style>",
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def schedule_picture(schedule: Schedule, args: Sequence[Any], name: str = "main") -> str:
    """A picture of `schedule` as the text of an SVG file; `args` and `name` as for `te.lower`.

    Bytes are those of one copy of a buffer. A buffer that is made inside loops has as many copies as these have turns;
    reads per element is the reads of all copies over the elements of all copies. Sizes known at run time only stand by
    their names. Raises ScheduleError where the schedule cannot be lowered.
    """
    func = schedule_to_tir(schedule, args, name)
    lines, names = lines_and_names(func)
    canvas = _Canvas()
    canvas.text(_MARGIN, name, "title")
    _draw_stages(canvas, schedule)
    _draw_loops(canvas, lines)
    _draw_buffers(canvas, func, names)
    return canvas.svg(f"Schedule of {name}")


def picture_page(pictures: Mapping[str, str], title: str = "Schedules") -> str:
    """A self-contained HTML page of pictures that `schedule_picture` drew, by their headings, with an index."""
    sections = [
        f'<h2 id="{html_page.anchor(number)}">{html_page.breakable(heading)}</h2>\n<div class="picture">{picture}</div>'
        for number, (heading, picture) in enumerate(pictures.items())
    ]
    return html_page.document(title, "\n".join([html_page.contents(list(pictures)), *sections]))


# ------------------------------------------------------------------------------------------------------ stages
def _draw_stages(canvas: _Canvas, schedule: Schedule) -> None:
    canvas.title("Stages")
    normal = schedule.normalize()
    bounds = infer_bounds(normal)
    children: dict[Stage | None, list[Stage]] = {}
    for stage in normal.stages:
        if isinstance(stage.op, PlaceholderOp):
            canvas.text(_MARGIN, f"{stage.name}: given", "faint")
        else:
            children.setdefault(stage.attach_stage, []).append(stage)
    for stage in schedule.stages:
        if stage.attach_type == INLINE:
            canvas.text(_MARGIN, f"{stage.name}: inlined in {', '.join(_readers(schedule, stage))}", "faint")
    for stage in children.get(None, []):
        _draw_stage(canvas, stage, children, bounds, 0)


def _draw_stage(
    canvas: _Canvas, stage: Stage, children: Mapping[Stage | None, list[Stage]], bounds: Bounds, level: int
) -> None:
    """One line for a stage, then those computed inside its loops, joined to it by lines."""
    x = _MARGIN + level * 2 * _INDENT
    position = "at the root"
    if stage.attach_stage is not None and stage.attach_ivar is not None:
        position = f"at {stage.attach_ivar.name} of {stage.attach_stage.name}"
    loops = " > ".join(_loop_text(stage, axis, bounds) for axis in stage.leaf_iter_vars)
    top = canvas.y
    where = stage.op.position
    written = f"  ({PurePath(where.file).name}:{where.line})" if where else ""
    canvas.text(x, f"{stage.name}: {position}{written}")
    for line in _wrapped(f"loops {loops}" if loops else "", _LONGEST - 2 * level - 2):
        canvas.text(x + _INDENT, line, "faint")
    for child in children.get(stage, []):
        middle = canvas.y + _LINE / 2
        elbow = f"M{x + 6:g} {top + _LINE:g}V{middle:g}H{x + 2 * _INDENT - 4:g}"
        canvas.parts.append(f'<path d="{elbow}" fill="none" stroke="#9aa5b5"/>')
        _draw_stage(canvas, child, children, bounds, level + 1)


def _wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` letters, broken between loops."""
    lines: list[str] = []
    for part in re.split(r"(?<=> )", text) if text else ():
        if lines and len(lines[-1]) + len(part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return [line.rstrip() for line in lines]


def _loop_text(stage: Stage, axis: Any, bounds: Bounds) -> str:
    """`i_inner 8 unrolled`."""
    attr = stage.attr(axis)
    words = [axis.name, str(bounds.stages[stage].extents.get(axis, ""))]
    if attr.thread is not None:
        words.append(attr.thread.thread_tag)
    elif attr.kind is not ForKind.SERIAL:
        words.append(attr.kind.value)
    if attr.intrin is not None:
        words.append(f"tensorized by {attr.intrin.name}")
    words += [f"{key}={value}" for key, value in attr.pragmas.items()]
    return " ".join(word for word in words if word)


def _readers(schedule: Schedule, stage: Stage) -> list[str]:
    return [s.name for s in schedule.stages if any(t in stage.outputs for t in s.op.input_tensors)]


# ------------------------------------------------------------------------------------------------------- loops
def _draw_loops(canvas: _Canvas, lines: Sequence[str]) -> None:
    """The function's lines, each loop with what it holds in a box of its own."""
    canvas.title("Loop nest")
    _draw_legend(canvas)
    shown = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]
    shown = [(indent // 4, text) for indent, text in shown if not text.startswith("# ")]
    top = canvas.y
    right = max(min(len(text), _LONGEST) * _CHARACTER + _MARGIN + (level + 2) * _INDENT for level, text in shown)
    for row, (level, text) in enumerate(shown):
        if not text.endswith(":") and "):  # " not in text:
            continue
        end = next((n for n in range(row + 1, len(shown)) if shown[n][0] <= level), len(shown))
        left = _MARGIN + level * _INDENT
        canvas.parts.append(
            f'<rect x="{left}" y="{top + row * _LINE:g}" width="{right - left - level * 3:.0f}" '
            f'height="{(end - row) * _LINE - 2:g}" rx="3" fill="{_colour(text)}" stroke="#b4bdca"/>'
        )
    for level, text in shown:
        canvas.text(_MARGIN + level * _INDENT + 5, text)
    canvas.width = max(canvas.width, right)


def _draw_legend(canvas: _Canvas) -> None:
    """The colours of loops."""
    x: float = _MARGIN
    for kind in _LEGEND:
        box = f'width="{_LINE - 6}" height="{_LINE - 6}" fill="{_COLOURS[kind]}" stroke="#b4bdca"'
        canvas.parts.append(f'<rect x="{x:g}" y="{canvas.y + 2:g}" {box}/>')
        label = "serial" if kind == "range" else kind
        canvas.parts.append(f'<text x="{x + _LINE:g}" y="{canvas.y + 12:g}" class="faint">{label}</text>')
        x += _LINE + (len(label) + 2) * _CHARACTER
    canvas.y += _LINE + 4


def _colour(head: str) -> str:
    """The colour of a loop or another compound statement, chosen by its first line."""
    loop = re.match(r"for \w+ in (\w+)\(", head)
    return _COLOURS.get(loop[1] if loop else head.split()[0], "#ffffff")


# ----------------------------------------------------------------------------------------------------- buffers
def _draw_buffers(canvas: _Canvas, func: PrimFunc, names: Mapping[Any, str]) -> None:
    canvas.title("Buffers")
    rows = [_COLUMNS, *(_buffer_row(use, names) for use in access_counts(func))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        canvas.text(_MARGIN, "  ".join(cells).rstrip(), "" if number else "faint")
    for note in _NOTES:
        canvas.text(_MARGIN, note, "faint")


def _buffer_row(use: BufferUse, names: Mapping[Any, str]) -> tuple[str, ...]:
    buffer, elements = use.buffer, use.elements()
    shape = ", ".join(names.get(size, str(size)) for size in buffer.shape)
    call = " + call" if use.escapes else ""
    counts = [("<= " if use.at_most and count.terms else "", count) for count in (use.reads, use.writes)]
    return (
        names.get(buffer, buffer.name),
        f"{buffer.dtype}[{shape}]",
        buffer.scope,
        use.bytes(),
        use.made.text(),
        *(f"{bound}{count}{call}" for bound, count in counts),
        *(f"{bound}{count.per(elements) or '?'}{call}" for bound, count in counts),
    )
