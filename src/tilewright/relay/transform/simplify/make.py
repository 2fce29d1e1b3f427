"""Construction of new graph by passes: calls that fold at once where their arguments are constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.registry import Op, get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.fold_constant import fold_call


def make(name: str, *args: Expr, span: str = "", **attrs: Any) -> Expr:
    """A call of the operator `name`, or its value if all of `args` are constants."""
    op = get(name)
    call = Call(op, args, complete(name, op.attributes, attrs), span)
    return fold_call(call) or call


def folded(call: Call) -> Expr:
    """`call`, or its value if all its arguments are constants."""
    return fold_call(call) or call


def reshape(data: Expr, shape: tuple[int, ...], span: str = "") -> Expr:
    """`data` under another shape of as many elements; `data` itself if that is its shape."""
    return data if tensor_type_of(data).shape == shape else make("reshape", data, newshape=shape, span=span)


def along_axis(vector: Expr, axis: int, ndim: int) -> Expr:
    """A vector of shape [C] as [C, 1, …], such that it broadcasts along `axis` of a tensor of `ndim` dimensions."""
    behind = ndim - 1 - axis % ndim
    return make("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


def along_channels(vector: Expr, axis: int, data: Expr, span: str = "", one_serves: bool = True) -> Expr:
    """`vector` along `axis` of `data`; a run checks a symbolic number of values or channels where the other is 1.

    With `one_serves`, a single value may stand for any number of channels.
    """
    type_, values = tensor_type_of(data), tensor_type_of(vector)
    size = type_.shape[axis]
    known = values.is_static and (one_serves or isinstance(size, int))
    if values.ndim == 1 and not known and is_one(size) != is_one(values.shape[0]):  # which would broadcast silently
        vector = make("reshape", vector, newshape=(size,), span=span)
    return along_axis(vector, axis, type_.ndim)


def is_one(size: object) -> bool:
    """True if a size is the number 1."""
    return isinstance(size, int) and size == 1


def scalar_like(value: float, like: Expr) -> Constant:
    """The number `value` in the element type of `like`."""
    return Constant(np.asarray(value, tensor_type_of(like).dtype.numpy))


def first_of(data: Expr, count: int, axis: int = -1) -> Expr:
    """The first `count` slices of `data` along `axis`, such as columns without those that fill up a panel."""
    shape = tensor_type_of(data).shape
    if shape[axis] == count:
        return data
    return make("strided_slice", data, begin=(0,), end=(count,), strides=None, axes=(axis % len(shape),))


def is_call(expr: Expr, *names: str) -> bool:
    """True if `expr` is a call of one of the operators called `names`."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names
