"""Operators that take a shape or dtype from another tensor, and `collapse_sum`, which undoes a broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import Reference
from tilewright.relay.op import following, reduce, tensor, transform
from tilewright.relay.op.common import at_most, call, check_axis, dims, require, same_dim
from tilewright.relay.op.common import tensor as tensor_of
from tilewright.relay.op.composite import register_composite
from tilewright.support.named import named


def _register(
    name: str, num_inputs: int, expansion: Callable[[Sequence[Expr], Attrs], Expr], reference: Reference, doc: str
) -> Any:
    register_composite(name, num_inputs=num_inputs, expansion=expansion, reference=reference)

    def build(data: Expr, like: Expr) -> Call:
        return call(name, data, like)

    return named(build, name, doc)


cast_like = _register(
    "cast_like",
    2,
    lambda args, _attrs: tensor.cast(args[0], str(tensor_of(args[1].checked_type).dtype)),
    lambda _attrs, x, like: x.astype(like.dtype),
    "`data` in the dtype of `like`.",
)
full_like = _register(
    "full_like",
    2,
    lambda args, _attrs: tensor.full(args[1], dims(args[0]), str(tensor_of(args[0].checked_type).dtype)),
    lambda _attrs, x, value: np.full(x.shape, value, x.dtype),
    "A tensor of the type of `data` filled with the scalar `like`.",
)
broadcast_to_like = _register(
    "broadcast_to_like",
    2,
    lambda args, _attrs: transform.broadcast_to(args[0], dims(args[1])),
    lambda _attrs, x, like: np.asarray(np.broadcast_to(x, like.shape), order="C"),
    "`data` repeated to the shape of `like`.",
)


# --------------------------------------------------------------------------------------------------- reshape_like
def _reshaped(shape: Sequence[int], other: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """The dimensions [lhs_begin, lhs_end) of `shape` replaced by [rhs_begin, rhs_end) of `other`."""
    lhs = slice(attrs["lhs_begin"], attrs["lhs_end"])
    rhs = slice(attrs["rhs_begin"], attrs["rhs_end"])
    first, last, _ = lhs.indices(len(shape))
    return (*shape[:first], *other[rhs], *shape[max(first, last) :])


register_composite(
    "reshape_like",
    num_inputs=2,
    expansion=lambda args, attrs: transform.reshape(args[0], _reshaped(dims(args[0]), dims(args[1]), attrs)),
    reference=lambda attrs, x, like: x.reshape(_reshaped(x.shape, like.shape, attrs)),
    attributes={
        "lhs_begin": attr.integer(0),
        "lhs_end": attr.optional(attr.integer()),
        "rhs_begin": attr.integer(0),
        "rhs_end": attr.optional(attr.integer()),
    },
)


def reshape_like(
    data: Expr,
    shape_like: Expr,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Call:
    """`data` under the shape of `shape_like`, or with only the dimensions lhs_begin … replaced by rhs_begin … of it."""
    attrs = {"lhs_begin": lhs_begin, "lhs_end": lhs_end, "rhs_begin": rhs_begin, "rhs_end": rhs_end}
    return call("reshape_like", data, shape_like, **attrs)


def _reversed_reshape(shape: Sequence[int], newshape: Sequence[int]) -> tuple[int, ...]:
    """`newshape` read from the right: 0 keeps the dimension of the same position counted from the back, -1 is
    the rest.
    """
    wanted = [shape[-1 - k] if size == 0 else size for k, size in enumerate(reversed(newshape))][::-1]
    given = [not (isinstance(size, int) and size == -1) for size in wanted]
    if not all(given):
        known = math.prod([size for size, here in zip(wanted, given) if here])
        wanted[given.index(False)] = math.prod(shape) // known if not isinstance(known, int) or known else 0
    return tuple(wanted)


register_composite(
    "contrib_reverse_reshape",
    num_inputs=1,
    expansion=lambda args, attrs: transform.reshape(args[0], _reversed_reshape(dims(args[0]), attrs["newshape"])),
    reference=lambda attrs, x: x.reshape(_reversed_reshape(x.shape, attrs["newshape"])),
    attributes={"newshape": attr.integers()},
)


def contrib_reverse_reshape(data: Expr, newshape: Sequence[int]) -> Call:
    """`reshape` whose special sizes are read from the right: 0 keeps a dimension, -1 takes what is left."""
    return call("contrib_reverse_reshape", data, newshape=newshape)


# ------------------------------------------------------------------------------------------------------ slice_like
def _slice_like(args: Sequence[Expr], attrs: Attrs) -> Expr:
    shape, like = dims(args[0]), dims(args[1])
    axes = [check_axis(axis, len(shape)) for axis in attrs["axes"] or range(min(len(shape), len(like)))]
    for axis in axes:
        require(
            axis < len(like) and at_most(like[axis], shape[axis]),
            f"axis {axis} of {shape} cannot be cut to that of {like}",
        )
    return transform.strided_slice(args[0], [0] * len(axes), [like[axis] for axis in axes], axes=axes)


def _slice_like_reference(attrs: Attrs, x: np.ndarray, like: np.ndarray) -> np.ndarray:
    axes = [axis % x.ndim for axis in attrs["axes"] or range(min(x.ndim, like.ndim))]
    return np.asarray(x[tuple(slice(like.shape[d]) if d in axes else slice(None) for d in range(x.ndim))], order="C")


register_composite(
    "slice_like",
    num_inputs=2,
    expansion=_slice_like,
    reference=_slice_like_reference,
    follows=following.cut_like,
    attributes={"axes": attr.optional(attr.integers(), ())},
)


def slice_like(data: Expr, shape_like: Expr, axes: Sequence[int] | None = ()) -> Call:
    """The leading part of `data` of the sizes of `shape_like` along `axes` (all by default)."""
    return call("slice_like", data, shape_like, axes=tuple(axes or ()) or None)


# ---------------------------------------------------------------------------------------------------- collapse_sum
def _collapse(data: Expr, shape: Sequence[int]) -> Expr:
    own = dims(data)
    lead = len(own) - len(shape)
    fits = lead >= 0 and all(s == 1 or same_dim(s, o) for s, o in zip(shape, own[lead:]))
    require(fits, f"{tuple(shape)} does not broadcast to the shape {own}")
    axes = [*range(lead), *[d for d, s in enumerate(shape, lead) if s == 1 and own[d] != 1]]
    return transform.reshape(reduce.sum(data, axis=axes), shape) if axes else tensor.copy(data)


def _collapse_reference(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    lead = x.ndim - len(shape)
    axes = (*range(lead), *[d for d, s in enumerate(shape, lead) if s == 1])
    return x.sum(axis=axes, keepdims=True, dtype=x.dtype).reshape(shape)


register_composite(
    "collapse_sum_to",
    num_inputs=1,
    expansion=lambda args, attrs: _collapse(args[0], attrs["shape"]),
    reference=lambda attrs, x: _collapse_reference(x, attrs["shape"]),
    attributes={"shape": attr.integers()},
)
register_composite(
    "collapse_sum_like",
    num_inputs=2,
    expansion=lambda args, _attrs: _collapse(args[0], dims(args[1])),
    reference=lambda _attrs, x, like: _collapse_reference(x, like.shape),
)


def collapse_sum_to(data: Expr, shape: Sequence[int]) -> Call:
    """`data` summed over the axes along which `shape` would be broadcast to it."""
    return call("collapse_sum_to", data, shape=shape)


def collapse_sum_like(data: Expr, collapse_type: Expr) -> Call:
    """`data` summed to the shape of `collapse_type`, which broadcasts to it."""
    return call("collapse_sum_like", data, collapse_type)
