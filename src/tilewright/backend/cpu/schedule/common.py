"""Shared parts of the CPU templates: walking the computation, inlining, the epilogue, and the grain of parallel
work.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import te
from tilewright.support.recursion import nested
from tilewright.target import Target
from tilewright.tir import IntImm
from tilewright.tir.size_hint import size_hint


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
    """Inline the epilogue that lies between `anchor` and `out`; returns the tensor that accumulates, in local scope.

    Where there is no epilogue the accumulator is a cache of `out` itself.
    """
    if anchor.op is out.op:
        return s.cache_write(out, "local")
    after = computes([out])
    position = next(i for i, t in enumerate(after) if t.op is anchor.op)
    for tensor in after[position + 1 :]:
        if tensor.op is not out.op:
            s[tensor].compute_inline()
    s[anchor].set_scope("local")
    return anchor


def inline_before(s: te.Schedule, anchor: te.Tensor) -> None:
    """Inline every injective operation that only `anchor` needs."""
    for tensor in computes([anchor]):
        if tensor.op is not anchor.op and not is_reduction(tensor):
            s[tensor].compute_inline()


def vector_lanes(extent: int, target: Target) -> int:
    """Lanes for an axis of `extent` that is passed over: the axis itself if short, else a line of cache or half of one.

    Half a line where only that divides `extent`; a whole vector where it is longer than a line.
    """
    limit = line_elements(target)
    if extent <= limit:
        return extent
    for lanes in (limit, limit // 2):
        if lanes > 1 and extent % lanes == 0:
            return lanes
    return limit


def vectorize_lanes(
    s: te.Schedule, tensor: te.Tensor, axis: te.IterVar, extent: int, target: Target
) -> list[te.IterVar]:
    """Make `axis` of `extent` iterations whole vectors: one vectorized axis, after an unrolled one if it takes several.

    Vectors have a power of two lanes, as LLVM keeps no others in registers from one iteration to the next. Returns the
    axes that `axis` became, outermost first.
    """
    lanes = power_of_two_lanes(extent, target)
    if lanes == extent:
        s[tensor].vectorize(axis)
        return [axis]
    outer, inner = s[tensor].split(axis, factor=lanes)
    s[tensor].unroll(outer)
    s[tensor].vectorize(inner)
    return [outer, inner]


def line_elements(target: Target) -> int:
    """Elements of float32 in a line of cache, or in a vector where that is longer."""
    return max(target.machine.line // 4, target.machine.lanes())


def power_of_two_lanes(extent: int, target: Target) -> int:
    """The largest power of two that divides `extent` and fits a vector register of float32."""
    return math.gcd(extent, max(4, target.machine.lanes()))


def extent_of(axis: te.IterVar) -> int:
    """The number of iterations, a symbolic one as `supposed_extent` has it."""
    assert axis.dom is not None
    return supposed_extent(axis.dom.extent)


def terms_of(tensor: te.Tensor) -> int:
    """The number of terms that a reduction combines for one element; 0 for a stage that does not reduce."""
    axes = tensor.op.reduce_axis
    return math.prod(extent_of(axis) for axis in axes) if axes else 0


#: Iterations that are enough to share out.
_ENOUGH_SHARES = 16


def _apart_from_symbolic(tensor: te.Tensor, axes: list[te.IterVar]) -> list[te.IterVar]:
    """`axes` without an innermost one of symbolic extent, where there is enough to share out without it.

    To find one's position in fused axes takes a division by each symbolic extent, which costs as much as a vector or
    two."""
    *outer, last = axes
    own = [axis for axis in outer if axis in tensor.op.axis]
    fixed = isinstance(last.dom.extent, IntImm) if last.dom is not None else isinstance(tensor.shape[-1], IntImm)
    return axes if fixed or math.prod(map(extent_of, own)) < _ENOUGH_SHARES else outer


def parallel_outer(
    s: te.Schedule, tensor: te.Tensor, axes: list[te.IterVar], target: Target, terms: int = 0
) -> te.IterVar:
    """Fuse `axes` (outermost, in order) into one parallel loop if the work is worth it; returns the innermost loop.

    `terms` is what each element of `tensor` combines in a reduction within the loop: eight multiply-adds in registers
    cost about as much as one element loaded and stored.
    """
    outer = _apart_from_symbolic(tensor, axes)
    fused = s[tensor].fuse(*outer) if len(outer) > 1 else outer[0]
    if math.prod(shape_of(tensor)) * (1 + terms // 8) >= target.machine.parallel_elements:
        s[tensor].parallel(fused)
    return fused if len(outer) == len(axes) else axes[-1]


#: Blocks of input channels from the one in use to that which is fetched.
BLOCKS_AHEAD = 2


def fetch_ahead(s: te.Schedule, accumulator: te.Tensor, data: te.Tensor, weight: te.Tensor) -> None:
    """Ask for what a register tile reads next while it sums over blocks of channels.

    Of `weight` that is what the loop around all tiles moves on to, evenly over them, and of blocked `data` the tile's
    part of a later block of channels: pieces too short and too far apart for a prefetcher to follow.
    """
    blocks = s[accumulator].op.reduce_axis[0]
    s[accumulator].prefetch(weight, blocks, spread=True)
    if len(data.shape) > 4:
        s[accumulator].prefetch(data, blocks, BLOCKS_AHEAD)
