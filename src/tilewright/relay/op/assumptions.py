"""Sizes that operators take to be equal though the program does not say so: what a run has to check.

add(%x: Tensor[(H, 4)], %y: Tensor[(W, 4)])        H and W
reshape(%x: Tensor[(H, 4)], newshape=(W, 2))       H * 4 and W * 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, TensorType, as_dim, tensor_types
from tilewright.relay.ir.visitor import calls
from tilewright.tir.expr import Expr
from tilewright.tir.op import minimum

Pair = tuple[Dim, Dim]


def assumed_equal(function: Function) -> Iterator[tuple[Dim, Dim, str]]:
    """Pairs of sizes that calls within `function` need to be equal and that may differ, each with the call's name."""
    for call in calls(function.body):
        if not isinstance(call.op, Op):
            continue
        types = [leaf for arg in call.args for leaf in tensor_types(arg.checked_type)]
        if all(type_.is_static for type_ in types) and all(t.is_static for t in tensor_types(call.checked_type)):
            continue
        rule = _RULES.get(call.op.name)
        if rule is None and call.op.pattern <= OpPattern.BROADCAST:
            rule = _broadcast
        for a, b in rule(call, types) if rule is not None else ():
            if _may_differ(a, b):
                yield a, b, call.span or call.op.name


def _may_differ(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return False
    return a is not b and not isinstance(a, AnyDim) and not isinstance(b, AnyDim)


def _broadcast(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """Sizes on one axis, aligned at the last, other than 1."""
    rank = max((t.ndim for t in types), default=0)
    for axis in range(rank):
        sizes = [t.shape[axis - rank] for t in types if t.ndim >= rank - axis]
        sizes = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        for other in sizes[1:]:
            yield sizes[0], other


def _concatenate(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """Sizes of all parts beside the axis that joins them."""
    axis = call.attrs["axis"] % types[0].ndim
    for other in types[1:]:
        for d in range(types[0].ndim):
            if d != axis:
                yield types[0].shape[d], other.shape[d]


def _reshape(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """The number of elements."""
    result = call.checked_type
    assert isinstance(result, TensorType)
    yield types[0].size, result.size


def _batch_matmul(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """The stacks, unless one is broadcast, and the sizes that are summed over."""
    a, b = types[0].shape, types[1].shape
    if not any(isinstance(n, int) and n == 1 for n in (a[0], b[0])):
        yield a[0], b[0]
    yield a[1 if call.attrs["transpose_a"] else 2], b[2 if call.attrs["transpose_b"] else 1]


def _dense(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """The sizes that are summed over."""
    if call.attrs.get("weight_layout", "NC") == "NC":
        yield types[0].shape[-1], types[1].shape[1]


def _argsort(call: Call, types: Sequence[TensorType]) -> Iterator[Pair]:
    """That there are as many elements as are wanted: the lesser number of both is the latter."""
    size, count = types[0].shape[call.attrs["axis"]], call.attrs.get("count", 0)
    if count > 0 and isinstance(size, Expr):
        yield as_dim(minimum(size, count)), count


_RULES: dict[str, Callable[[Call, Sequence[TensorType]], Iterator[Pair]]] = {
    "argsort": _argsort,
    "concatenate": _concatenate,
    "reshape": _reshape,
    "nn.batch_matmul": _batch_matmul,
    "nn.dense": _dense,
}
