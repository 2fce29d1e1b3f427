"""An attention as the kernels of devices see it: its sizes, and its operands as functions of positions.

    result[b, h, r, e] = sum over j of softmax over j(scale * sum over d of q[b, h, r, d] * k[b, g, j, d] + mask) * v

Operands are read where they lie: transposes, slices and splits before the attention are part of the functions. Where
several heads of few queries share keys, their rows are stacked, so that a block reads those keys once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.te.rewrite import BodyRewriter
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, ProducerLoad, Var
from tilewright.tir.stmt import BufferStore, For, ForKind, Stmt
from tilewright.topi.schedule.stages import computes, has_tag
from tilewright.topi.tag import ATTENTION
from tilewright.topi.util import extents

#: The element of an operand at a position.
Element = Callable[..., Expr]


@dataclass(frozen=True)
class Stages:
    """The tensors of an attention in its computation (see `topi.nn.attention`)."""

    query: te.Tensor
    key: te.Tensor
    value: te.Tensor
    mask: te.Tensor | None
    product: te.Tensor
    out: te.Tensor


def find_attention(outs: list[te.Tensor]) -> Stages | None:
    """The attention whose result is the one output; None where there is none."""
    found = [t for t in computes(outs) if has_tag(t, ATTENTION)] if len(outs) == 1 else []
    if len(found) != 1 or outs[0].op.name != "attention_output" or found[0] not in outs[0].op.input_tensors:
        return None
    exponentials, value = found[0].op.input_tensors
    masked = exponentials.op.input_tensors[0]
    scores, *masks = masked.op.input_tensors
    query, key = scores.op.input_tensors
    query, key, value = (packed.op.input_tensors[0] for packed in (query, key, value))
    return Stages(query, key, value, masks[0] if masks else None, found[0], outs[0])


@dataclass(frozen=True)
class Problem:
    """Sizes are ints where they are known, else expressions; `dtype` is that of operands, `wide` that of sums."""

    batch: Any
    heads: int
    shared: int
    rows: Any
    columns: Any
    depth: int
    width: int
    dtype: str
    wide: str
    scale: float
    causal: bool
    out_layout: str
    query: Element
    key: Element
    value: Element
    mask: Element | None
    out: Buffer

    @property
    def group(self) -> int:
        """Heads that share keys."""
        return self.heads // self.shared

    def position(self, head: Expr, row: Expr, stack: int) -> tuple[Expr, Expr]:
        """The head and the row in it of row number `row` of a stack of `stack` heads, the stack number `head`."""
        if stack == 1:
            return head, row
        rows = op.convert(self.rows)
        return head * stack + op.floordiv(row, rows), op.floormod(row, rows)

    def store(self, batch: Expr, head: Expr, row: Expr, column: Expr, value: Expr) -> Stmt:
        """The store of an element of the result."""
        sizes = dict(zip("BHSD", (batch, head, row, column), strict=True))
        return BufferStore(self.out, op.cast(self.dtype, value), tuple(sizes[x] for x in self.out_layout))


def problem_of(stages: Stages, buffers: dict[te.Tensor, Buffer], out: Buffer) -> Problem:
    """The attention of `stages` on the buffers of all inputs, its result in `out`."""

    def element(tensor: te.Tensor) -> Element:
        return lambda *indices: _read(tensor, tuple(op.convert(i) for i in indices), buffers)

    batch, heads, rows, depth = extents(stages.query)
    _, shared, columns, width = extents(stages.value)
    attrs = stages.product.op.attrs
    mask = None if stages.mask is None else _broadcast(stages.mask, element(stages.mask))
    return Problem(
        batch, heads, shared, rows, columns, depth, width, str(stages.query.dtype), str(stages.product.dtype),
        attrs["scale"], attrs["causal"], attrs["out_layout"], element(stages.query), element(stages.key),
        element(stages.value), mask, out,
    )  # fmt: skip


def _broadcast(tensor: te.Tensor, element: Element) -> Element:
    """The element of a mask, whose axes of one element broadcast."""
    sizes = extents(tensor)
    return lambda *indices: element(*(0 if size == 1 else i for i, size in zip(indices, sizes, strict=True)))


def _read(tensor: te.Tensor, indices: tuple[Expr, ...], buffers: dict[te.Tensor, Buffer]) -> Expr:
    """The element of a tensor, as an expression of what inputs hold."""
    if tensor in buffers:
        return BufferLoad(buffers[tensor], indices)
    if not isinstance(tensor.op, te.ComputeOp):
        return ProducerLoad(tensor, indices)
    values = {iv.var: index for iv, index in zip(tensor.op.axis, indices, strict=True)}
    return BodyRewriter(values, lambda t, i: _read(t, i, buffers))(tensor.op.body[tensor.value_index])


# -------------------------------------------------------------------------------------------------- loops of kernels
def grid(loops: list[tuple[Var, Any, str]], body: Stmt, annotations: dict[str, Any] | None = None) -> Stmt:
    """`body` in loops bound to hardware axes, outermost first."""
    for var, extent, tag in reversed(loops):
        body = For(var, op.const(0), op.convert(extent), ForKind.THREAD_BINDING, body, tag, annotations or {})
    return body


def serial(var: Var, extent: Any, body: Stmt) -> Stmt:
    """A loop that stays one."""
    return For(var, op.const(0), op.convert(extent), ForKind.SERIAL, body, "", {"unroll_hint": False})


def quotient(size: Any, step: int) -> Any:
    """`size` in pieces of `step`, the last perhaps not whole."""
    if isinstance(size, int):
        return -(-size // step)
    return op.floordiv(op.convert(size) + (step - 1), op.const(step))
