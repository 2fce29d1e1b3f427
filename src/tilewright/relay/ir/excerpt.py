"""The lines of a program that an error is about, the position underlined.

in @main:
  1 | def @main(%x: Tensor[(1, 4), float32], %w: Tensor[(3, 5), float32]) {
  2 |   %0 = nn.dense(%x, %w, units=None);
    |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, GlobalVar
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.printer import MARKS, to_text

#: Lines shown before the one that is underlined.
BEFORE = 2


def excerpt(mod: IRModule, node: Expr, hint: GlobalVar) -> str:
    """The lines around `node`, looked for in the function `hint` first; empty if no function has it."""
    for gvar in (hint, *[other for other in mod.functions if other is not hint]):
        text = to_text(IRModule({gvar: mod[gvar]}), mark=node)
        start, end = text.find(MARKS[0]), text.find(MARKS[1])
        if start >= 0:
            return f"in @{gvar.name}:\n{underlined(text.replace(MARKS[0], '').replace(MARKS[1], ''), start, end - 1)}"
    return ""


def underlined(text: str, start: int, end: int) -> str:
    """The line of `text` that has the characters from `start` to `end`, with carets below, the first line and two more.

    Where the position goes on over several lines, its first line is underlined.
    """
    lines = text.split("\n")
    number = text.count("\n", 0, start)
    column = start - (text.rfind("\n", 0, start) + 1)
    length = max(1, min(end - start, len(lines[number]) - column))
    shown = sorted({0, *range(max(0, number - BEFORE), number + 1)})
    width = len(str(number + 1))
    result: list[str] = []
    for previous, index in zip([-1, *shown], shown):
        if index != previous + 1:
            result.append(f"  {'':{width}} | …")
        result.append(f"  {index + 1:{width}} | {lines[index]}")
    return "\n".join([*result, f"  {'':{width}} | {' ' * column}{'^' * length}"])
