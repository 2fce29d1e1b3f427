"""Sizes that operators take to be equal though the types do not say so, the field `Op.equal_sizes`.

add(%x: Tensor[(H, 4)], %y: Tensor[(W, 4)])        H and W
reshape(%x: Tensor[(H, 4)], newshape=(W, 2))       H * 4 and W * 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.type import Dim, TensorType, as_dim
from tilewright.tir.expr import Expr
from tilewright.tir.op import minimum

Pairs = Iterator[tuple[Dim, Dim]]


def of_broadcast(_call: Call, types: Sequence[TensorType]) -> Pairs:
    """Sizes on one axis, aligned at the last, other than 1."""
    rank = max((t.ndim for t in types), default=0)
    for axis in range(rank):
        sizes = [t.shape[axis - rank] for t in types if t.ndim >= rank - axis]
        sizes = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        for other in sizes[1:]:
            yield sizes[0], other


def of_broadcast_to(call: Call, types: Sequence[TensorType]) -> Pairs:
    """Sizes other than 1 and those of the result, aligned at the last."""
    result = call.checked_type
    assert isinstance(result, TensorType)
    for size, wanted in zip(types[0].shape[::-1], result.shape[::-1]):
        if not (isinstance(size, int) and size == 1):
            yield size, wanted


def of_reshape(call: Call, types: Sequence[TensorType]) -> Pairs:
    """The number of elements."""
    result = call.checked_type
    assert isinstance(result, TensorType)
    yield types[0].size, result.size


def of_argsort(call: Call, types: Sequence[TensorType]) -> Pairs:
    """That there are as many elements as are wanted: the lesser number of both is the latter."""
    size, count = types[0].shape[call.attrs["axis"]], call.attrs["count"]
    if count > 0 and isinstance(size, Expr):
        yield as_dim(minimum(size, count)), count
