"""Small Relay idioms that the converters of several formats share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import as_dim
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.support.dtype import DType


def constant(value: Any, dtype: str | DType = "float32") -> Constant:
    """A Relay constant of `value` in `dtype`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return Constant(np.asarray(value).astype(DType(dtype).numpy, order="C"))


def like(value: Any, other: Expr) -> Constant:
    """The scalar `value` in the element type of `other`."""
    return constant(value, dtype_of(other))


def shape_of(value: Expr) -> tuple[Any, ...]:
    """The extents of a tensor."""
    return tensor_type_of(value).shape


def rank_of(value: Expr) -> int:
    """The number of axes of a tensor."""
    return len(shape_of(value))


def dtype_of(value: Expr) -> str:
    """The element type of a tensor."""
    return str(tensor_type_of(value).dtype)


def product(extents: Sequence[Any]) -> Any:
    """The product of extents."""
    return as_dim(math.prod(extents))


def cast(value: Expr, dtype: str | DType) -> Expr:
    """`value` in `dtype`; itself when it already has it."""
    return value if tensor_type_of(value).dtype == DType(dtype) else op.cast(value, dtype=str(dtype))


def reshape(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` in `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.reshape(value, newshape=target)


def as_vector(value: Expr) -> Expr:
    """The elements as one vector."""
    return flatten(value, 0)


def on_axis(value: Expr, axis: int, rank: int) -> Expr:
    """A vector as a tensor of `rank` axes, which runs along `axis` and has extent 1 along the others."""
    return reshape(value, [shape_of(value)[0] if position == axis else 1 for position in range(rank)])


def flatten(value: Expr, axis: int = 1) -> Expr:
    """[outer …, inner …] as [outer …, product of those from `axis` on]."""
    shape = shape_of(value)
    return reshape(value, (*shape[:axis], product(shape[axis:])))


def as_matrix(value: Expr, axis: int) -> Expr:
    """The axes before `axis` as rows, those from it on as columns."""
    shape = shape_of(value)
    return reshape(value, (product(shape[:axis]), product(shape[axis:])))


def prelu(x: Expr, slopes: Expr, axis: int = 1) -> Expr:
    """`x` where positive, times a slope elsewhere: one of each position along `axis`, or one for all."""
    return op.nn.prelu(x, broadcast_to(as_vector(slopes), (shape_of(x)[axis],)), axis=axis)


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with its axes permuted; what was permuted before is permuted once, the identity not at all."""
    order = tuple(int(axis) for axis in axes)
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "transpose":
        inner = value.attrs["axes"]
        if inner is not None:
            return transpose(value.args[0], [inner[axis] for axis in order])
    return value if order == tuple(range(len(order))) else op.transpose(value, axes=order)


def broadcast_to(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` broadcast to `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.broadcast_to(value, shape=target)


def concatenate(values: Sequence[Expr], axis: int) -> Expr:
    """`values` joined along `axis`; a single one is returned as it is."""
    return values[0] if len(values) == 1 else op.concatenate(Tuple(tuple(values)), axis=axis)


def slice_axis(value: Expr, axis: int, begin: Any, end: Any, step: int = 1) -> Expr:
    """Elements begin, begin + step … before `end` of one axis; the bounds may be expressions."""
    extent = shape_of(value)[axis]
    whole = isinstance(begin, int) and begin == 0 and (end is extent or (isinstance(end, int) and end == extent))
    if whole and step == 1:
        return value
    return op.strided_slice(value, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))


def index_axis(value: Expr, axis: int, position: Any) -> Expr:
    """The slice at `position` of one axis, which disappears."""
    return op.squeeze(slice_axis(value, axis, position, as_dim(position + 1)), axis=(axis,))


def along(values: Any, axis: int, rank: int, dtype: str = "float32") -> Constant:
    """A vector as a constant that broadcasts along `axis` of a tensor of `rank` axes."""
    data = np.asarray(values).reshape(-1)
    return constant(data.reshape([-1 if position == axis else 1 for position in range(rank)]), dtype)


def scale_shift(value: Expr, scale: Any, shift: Any, axis: int = 1) -> Expr:
    """`value` times a vector along `axis` plus another one; None leaves out."""
    rank, dtype = rank_of(value), dtype_of(value)
    if scale is not None:
        value = value * along(scale, axis, rank, dtype)
    return value if shift is None else value + along(shift, axis, rank, dtype)


def outputs(call: Call) -> list[Expr]:
    """The results of a call that returns a tuple."""
    count = len(type_of(call).fields)  # type: ignore[attr-defined]
    return [TupleGetItem(call, index) for index in range(count)]


def pads(before: Sequence[int], behind: Sequence[int]) -> tuple[int, ...]:
    """Padding as the operators on windows take it: all of it before, then all behind."""
    return (*before, *behind)


def channels_first(value: Expr) -> Expr:
    """[N, spatial …, C] as [N, C, spatial …]."""
    rank = len(shape_of(value))
    return transpose(value, (0, rank - 1, *range(1, rank - 1)))


def channels_last(value: Expr) -> Expr:
    """[N, C, spatial …] as [N, spatial …, C]."""
    return transpose(value, (0, *range(2, len(shape_of(value))), 1))


def full(value: Any, shape: Sequence[Any], dtype: str | DType) -> Expr:
    """A tensor of one number."""
    return broadcast_to(constant(value, dtype), shape)


def with_axes(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with axes of extent 1 at these positions of the result, counted from the front."""
    shape = list(shape_of(value))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(value, shape)


def without_axes(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` without these axes of extent 1; without any where none are given."""
    ones = [axis for axis, extent in enumerate(shape_of(value)) if isinstance(extent, int) and extent == 1]
    return op.squeeze(value, axis=tuple(axes or ones)) if axes or ones else value


def along_axis(value: Expr, axis: Any) -> tuple[Expr, int]:
    """`value` and an axis counted from the front; without an axis, all elements along one."""
    return (as_vector(value), 0) if axis is None else (value, int(axis) % rank_of(value))


def one_hot(codes: Expr, depth: int, dtype: str | DType = "float32", axis: int = -1) -> Expr:
    """1 at the position that each number is along a new axis, 0 elsewhere."""
    return op.one_hot(codes, constant(1, dtype), constant(0, dtype), depth=depth, axis=axis, dtype=str(dtype))


def move_axis(value: Expr, source: int, target: int) -> Expr:
    """`value` with the axis `source` moved to the position `target`."""
    order = [axis for axis in range(rank_of(value)) if axis != source]
    order.insert(target, source)
    return transpose(value, order)


def swap_axes(value: Expr, first: int = -2, second: int = -1) -> Expr:
    """`value` with two axes exchanged, by default the last two."""
    order = list(range(rank_of(value)))
    order[first], order[second] = order[second], order[first]
    return transpose(value, order)


def is_float(dtype: str) -> bool:
    """True for floating point of any width."""
    return DType(dtype).is_float


def round_half_away(value: Expr) -> Expr:
    """Floats as whole numbers, halves away from zero, as C's `round`."""
    whole = op.trunc(value)
    half = like(0.5, value)
    return whole + op.where(op.abs(value - whole) >= half, op.sign(value), 0)
