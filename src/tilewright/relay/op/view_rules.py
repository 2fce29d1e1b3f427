"""Offsets of results within the memory of their input, for operators that only slice or rename: the field `Op.view`."""

from __future__ import annotations

import math

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.type import Dim, TensorType, TupleType, as_dim
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.shapes import slice_bounds


def whole(_call: Call, _source: TensorType) -> tuple[Dim, ...]:
    """The result is the input under another shape."""
    return (0,)


def slice_offset(call: Call, source: TensorType) -> tuple[Dim, ...] | None:
    """A slice along the first axis longer than 1 is a run of memory."""
    attrs = call.attrs
    bounds = slice_bounds(source.shape, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    cut = [axis for axis, (_, _, count) in enumerate(bounds) if count != source.shape[axis]]
    apart = any(stride != 1 and count not in (0, 1) for _, stride, count in bounds)  # symbolic counts too
    if apart or any(count == 0 for _, _, count in bounds):
        return None
    if cut and math.prod(count for _, _, count in bounds[: cut[-1]]) != 1:
        return None
    start = sum(bounds[axis][0] * math.prod(source.shape[axis + 1 :]) for axis in cut)
    return (as_dim(start * source.dtype.itemsize),)


def split_offsets(call: Call, source: TensorType) -> tuple[Dim, ...] | None:
    """The parts along the first axis longer than 1 are runs of memory, one behind the other."""
    axis = call.attrs.axis % source.ndim
    type_ = type_of(call)
    assert isinstance(type_, TupleType)
    if math.prod(source.shape[:axis]) != 1:
        return None
    sizes = [field.nbytes for field in type_.fields if isinstance(field, TensorType)]
    return tuple(as_dim(sum(sizes[:index])) for index in range(len(sizes)))
