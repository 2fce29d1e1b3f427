"""One call of an operator by its NumPy `reference`: what folds constants, and what the interpreter is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InternalError
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.values import Value, flatten
from tilewright.relay.ir.visitor import post_order


def call_reference(call: Call, args: Sequence[Value], check: bool = True, attrs: Attrs | None = None) -> Value:
    """Apply the reference of the operator of `call` to `args` (its types must be known).

    `attrs` stand in place of the call's own where those name sizes of a run.
    """
    op: Any = call.op
    assert not isinstance(op, Expr)
    out_type = call.checked_type
    with np.errstate(all="ignore"):  # infinities and NaN are values here, as in compiled code
        result = _typed(op.reference(call.attrs if attrs is None else attrs, *flatten(tuple(args))), out_type)
    if check and not fits(result, out_type):
        got = [(leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf for leaf in flatten(result)]
        raise InternalError(f"the reference of {op.name} returns {got}, its type rule says {out_type}")
    return result


def reference_value(expr: Expr) -> Value:
    """The value of an expression of operators, constants and tuples, one call after another."""
    type_of(expr)
    values: dict[Expr, Value] = {}
    for node in post_order(expr):
        if isinstance(node, Call):
            values[node] = call_reference(node, [values[arg] for arg in node.args])
        elif isinstance(node, Tuple):
            values[node] = tuple([values[field] for field in node.fields])
        elif isinstance(node, TupleGetItem):
            values[node] = values[node.tuple_value][node.index]
        else:
            assert isinstance(node, Constant)
            values[node] = node.data
    return values[expr]


def _typed(result: Value, type_: Type) -> Value:
    """NumPy scalars as arrays, lists as tuples, where `type_` says so."""
    if isinstance(type_, TensorType):
        return np.asarray(result)
    if isinstance(type_, TupleType):
        return tuple([_typed(item, field) for item, field in zip(result, type_.fields, strict=True)])
    return result


def fits(value: Value, type_: Type, sizes: dict[Any, int] | None = None) -> bool:
    """True if `value` is of `type_`. `sizes` keeps what each symbolic dimension was met as."""
    if isinstance(type_, TensorType):
        if not isinstance(value, np.ndarray) or value.dtype != type_.dtype.numpy or value.ndim != type_.ndim:
            return False
        known = {} if sizes is None else sizes
        return all(
            dim == size if isinstance(dim, int) else type(dim) is AnyDim or known.setdefault(dim, size) == size
            for dim, size in zip(type_.shape, value.shape)
        )
    if isinstance(type_, TupleType):
        return (
            isinstance(value, tuple)
            and len(value) == len(type_.fields)
            and all(fits(item, field, sizes) for item, field in zip(value, type_.fields))
        )
    return True
