"""The stages of a computation, as templates of all kinds of target look at them: order, shapes, inlining."""

from __future__ import annotations

import math
from typing import Any

from tilewright import te
from tilewright.support.recursion import nested
from tilewright.tir import IntImm
from tilewright.tir.size_hint import size_hint

#: Elements of 32 bits in the narrowest vector of any processor: fewer in a row are not worth vectors.
NARROWEST = 4


def shape_of(tensor: te.Tensor) -> tuple[int, ...]:
    """The shape as integers, symbolic dimensions as `supposed_extent` has them."""
    return tuple(supposed_extent(size) for size in tensor.shape)


def supposed_extent(size: Any) -> int:
    """A size as templates reckon with it: a symbolic one is a prime at or above its hint, and longer than a vector.

    So no tile seems to divide it or to take it whole, and what is chosen has a remainder to deal with at any size.
    """
    if isinstance(size, IntImm):
        return int(size.value)
    candidate = max(size_hint(size), 17)
    while any(candidate % factor == 0 for factor in range(2, math.isqrt(candidate) + 1)):
        candidate += 1
    return candidate


def computes(outs: list[te.Tensor]) -> list[te.Tensor]:
    """All computed tensors that `outs` need, producers before consumers (one per operation)."""
    order: list[te.Tensor] = []
    seen: set[int] = set()

    @nested
    def visit(tensor: te.Tensor) -> None:
        if id(tensor.op) in seen or isinstance(tensor.op, te.PlaceholderOp):
            return
        seen.add(id(tensor.op))
        for source in tensor.op.input_tensors:
            visit(source)
        order.append(tensor)

    for out in outs:
        visit(out)
    return order


def has_tag(tensor: te.Tensor, tag: str) -> bool:
    """True if the operation of `tensor` carries `tag` (tags are separated by commas)."""
    return tag in tensor.op.tag.split(",")


def operands_of(conv: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Image and filters of a convolution; one tensor may be both."""
    first, *others = conv.op.input_tensors
    return first, others[0] if others else first


def is_reduction(tensor: te.Tensor) -> bool:
    """True if the tensor is computed by a reduction."""
    return isinstance(tensor.op, te.ComputeOp) and len(tensor.op.reduce_axis) > 0


def inline_between(s: te.Schedule, anchor: te.Tensor, out: te.Tensor) -> te.Tensor:
    """Inline the epilogue of `anchor`, all of `out` that no reduction reads; returns the tensor that accumulates, in
    local scope.

    Where there is no epilogue the accumulator is a cache of `out` itself.
    """
    if anchor.op is out.op:
        return s.cache_write(out, "local")
    stages = computes([out])
    before = {tensor.op for tensor in computes([anchor, *filter(is_reduction, stages)])}
    for tensor in stages:
        if tensor.op not in before and tensor.op is not out.op:
            s[tensor].compute_inline()
    s[anchor].set_scope("local")
    return anchor


def inline_before(s: te.Schedule, anchor: te.Tensor) -> None:
    """Inline every injective operation that only `anchor` needs."""
    for tensor in computes([anchor]):
        if tensor.op is not anchor.op and not is_reduction(tensor):
            s[tensor].compute_inline()


def extent_of(axis: te.IterVar) -> int:
    """The number of iterations, a symbolic one as `supposed_extent` has it."""
    assert axis.dom is not None
    return supposed_extent(axis.dom.extent)


def terms_of(tensor: te.Tensor) -> int:
    """The number of terms that a reduction combines for one element; 0 for a stage that does not reduce."""
    axes = tensor.op.reduce_axis
    return math.prod(extent_of(axis) for axis in axes) if axes else 0
