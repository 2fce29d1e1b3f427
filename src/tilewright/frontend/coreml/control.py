"""Branches and loops of ML programs, and the loops of networks.

A loop whose condition is known before each iteration is unrolled; any other becomes a function of the module that calls
itself, with the values from around the loop that its blocks read as further parameters:

    @while_1(%i, %x, %w) { if (%i < 8) @while_1(%i + 1, dense(%x, %w), %w) else (%i, %x) }
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.builders.loops import recursive_call
from tilewright.frontend.coreml.node import Blocks, MilNode, converts
from tilewright.frontend.graph_node import GraphNode
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, var
from tilewright.relay.ir.type_of import type_of

#: Loops of more iterations are functions.
_MOST_UNROLLED = 512


@converts("cond")
def convert_cond(node: MilNode) -> list[Expr]:
    """One of two blocks, of a condition that is known, or of values that both have been computed for."""
    blocks, pred = _blocks(node, 2), node.arg("pred")
    if isinstance(pred, Constant):
        return blocks.results(0 if bool(pred.data) else 1, [])
    branches = [blocks.results(index, []) for index in range(2)]
    return [op.where(pred, yes, no) for yes, no in zip(*branches, strict=True)]


@converts("while_loop")
def convert_while_loop(node: MilNode) -> list[Expr]:
    """The final loop variables: the second block is applied to them while the first is true."""
    blocks, start = _blocks(node, 2), node.listed("loop_vars")
    return loop(node, blocks, start)


def loop(node: GraphNode, blocks: Blocks, start: Sequence[Expr]) -> list[Expr]:
    """The final values of a loop that begins with `start`, of a block that tests and one that is its body."""
    before = dict(blocks.functions)
    unrolled = _unrolled(blocks, start)
    if unrolled is not None:
        return unrolled
    blocks.functions.clear()  # loops within were converted for iterations that are not unrolled
    blocks.functions.update(before)
    return _recursive(node, blocks, start)


def _blocks(node: MilNode, count: int) -> Blocks:
    if node.blocks is None or node.blocks.count != count:
        node.bad(f"it needs {count} blocks")
    return node.blocks


def _unrolled(blocks: Blocks, start: Sequence[Expr]) -> list[Expr] | None:
    """The final values of a loop whose condition is known before each iteration; None where it is not."""
    values = list(start)
    for _ in range(_MOST_UNROLLED):
        (goes_on,) = blocks.results(0, values)
        if not isinstance(goes_on, Constant):
            return None
        if not goes_on.data.any():
            return values
        values = blocks.results(1, values)
    return None


def _recursive(node: GraphNode, blocks: Blocks, start: Sequence[Expr]) -> list[Expr]:
    """The results of a function that calls itself while the condition holds."""
    types = [type_of(value) for value in start]
    params = [var(f"carried_{index}", type_) for index, type_ in enumerate(types)]
    outer = blocks.outer()
    inner = {name: var(f"outer_{index}", type_of(value)) for index, (name, value) in enumerate(outer.items())}
    (goes_on,) = blocks.results(0, params, inner)
    again = blocks.results(1, params, inner)
    found = [type_of(value) for value in again]
    if found != types:
        node.unsupported(f"a loop whose variables change their types from {types} to {found}")
    own, further = [*params, *inner.values()], [*again, *inner.values()]
    begin = [*start, *outer.values()]
    result = recursive_call(blocks.functions, "while", own, len(types), goes_on, further, begin, node.name)
    return [result[index] for index in range(len(types))]
