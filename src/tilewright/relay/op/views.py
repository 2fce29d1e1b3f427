"""Calls that move no bytes: their result is their input's memory, part of it, or their inputs lie end to end in it.

`fuse_ops` keeps such calls out of kernels where it can, and `plan_memory` assigns them storage instead of running them:

    reshape(x)                           the storage of x
    strided_slice(x), split(x)           a run of the bytes of x, if the cut is along the first axis longer than 1
    concatenate((a, b))                  memory of its own that a and b are computed into, under the same condition
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import Dim, TensorType, as_dim
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.view_rules import whole


@dataclass(frozen=True)
class Join:
    """A concatenation of contiguous parts: keys of the memory of the result and of each part, and the parts' bytes."""

    result: Hashable
    parts: tuple[Hashable, ...]
    nbytes: tuple[Dim, ...]


def is_reshape(call: Expr) -> bool:
    """True for a call that only renames the shape of its input."""
    return isinstance(call, Call) and isinstance(call.op, Op) and call.op.view is whole


def cut_offsets(call: Call) -> tuple[Dim, ...] | None:
    """Byte offsets, in the input, of the results of a slice or split that takes whole runs of memory; else None."""
    if not isinstance(call.op, Op) or call.op.view is None or call.op.view is whole:
        return None
    source = type_of(call.args[0])
    if not isinstance(source, TensorType) or source.size == 0 or source.has_any:
        return None
    return call.op.view(call, source)


def joins_contiguously(call: Call) -> bool:
    """True for a concatenation along the first axis longer than 1: the parts lie one behind the other."""
    if not isinstance(call.op, Op) or call.op.name != "concatenate" or not isinstance(call.args[0], Tuple):
        return False
    result = type_of(call)
    assert isinstance(result, TensorType)
    return math.prod(result.shape[: call.attrs.axis % result.ndim]) == 1 and result.size != 0


def assign_joins(joins: Sequence[Join], fixed: Callable[[Hashable], bool]) -> dict[Hashable, tuple[Hashable, Dim]]:
    """Offsets of memory inside other memory, as key -> (outer key, byte offset), such that joins cost nothing.

    `joins` come in order of evaluation; memory that is `fixed` stays where it is. The last join decides first: of
    concatenations that grow by a part at a time, the others are then the beginning of it.
    """
    placed: dict[Hashable, tuple[Hashable, Dim]] = {}
    for join in reversed(joins):
        if fixed(join.result):
            continue
        offsets = [as_dim(offset) for offset in accumulate(join.nbytes[:-1], initial=0)]
        if all(part in placed for part in join.parts):
            parent, start = placed[join.parts[0]]
            in_order = all(placed[part] == (parent, as_dim(start + off)) for part, off in zip(join.parts, offsets))
            if in_order and join.result not in placed and parent != join.result:
                placed[join.result] = (parent, start)
        elif len(set(join.parts)) == len(join.parts) and not any(p in placed or fixed(p) for p in join.parts):
            placed.update({part: (join.result, off) for part, off in zip(join.parts, offsets)})
    return placed


def is_free(join: Join, placed: dict[Hashable, tuple[Hashable, Dim]]) -> bool:
    """True if `assign_joins` put the parts of `join` end to end at its result."""
    base, shift = absolute(join.result, placed)
    offset: Dim = 0
    for part, nbytes in zip(join.parts, join.nbytes):
        if absolute(part, placed) != (base, as_dim(shift + offset)):
            return False
        offset += nbytes
    return True


def absolute(key: Hashable, placed: dict[Hashable, tuple[Hashable, Dim]]) -> tuple[Hashable, Dim]:
    """The outermost memory that `key` lies in, and the byte offset there."""
    offset: Dim = 0
    while key in placed:
        key, inner = placed[key]
        offset += inner
    return key, as_dim(offset)


def free_concatenations(calls: Iterable[Call], results: Iterable[Expr]) -> set[Call]:
    """The concatenations among `calls` (in order) that will cost nothing if their parts are computed by kernels.

    `results` are the values that the function returns, which have positions of their own.
    """
    outside = {memory_of(value) for value in results}
    joins: dict[Call, Join] = {}
    for call in calls:
        if joins_contiguously(call):
            parts = call.args[0]
            assert isinstance(parts, Tuple)
            sizes = tuple(_nbytes(part) for part in parts.fields)
            joins[call] = Join(call, tuple(memory_of(part) for part in parts.fields), sizes)

    def fixed(key: Hashable) -> bool:
        computed = isinstance(key, Call) and isinstance(key.op, Op) and cut_offsets(key) is None
        return key in outside or not computed

    placed = assign_joins(list(joins.values()), fixed)
    return {call for call, join in joins.items() if is_free(join, placed)}


def memory_of(value: Expr) -> Expr:
    """The node whose memory `value` has: reshapes are looked through."""
    while isinstance(value, Call) and is_reshape(value):
        value = value.args[0]
    return value


def single_call(call: Call) -> Call | None:
    """The one call that a primitive function makes, if it makes one and passes its parameters straight on."""
    func = call.op
    if not isinstance(func, Function) or not isinstance(func.body, Call) or not isinstance(func.body.op, Op):
        return None
    args = [leaf for arg in func.body.args for leaf in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    passed = all(isinstance(arg, Var) for arg in args) and tuple(args) == func.params
    return func.body if passed else None


def _nbytes(value: Expr) -> Dim:
    type_ = type_of(value)
    assert isinstance(type_, TensorType)
    return type_.nbytes


def producer(expr: Expr) -> Expr:
    """The node that computes `expr`: the tuple-valued one if `expr` is a field."""
    return expr.tuple_value if isinstance(expr, TupleGetItem) else expr
