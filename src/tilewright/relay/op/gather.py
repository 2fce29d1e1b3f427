"""Operators that pick elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const
from tilewright.relay.ir.registry import IndexedAxes, OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.common import (
    Types,
    at_most,
    call,
    check_axis,
    known_size,
    require,
    require_positions,
    same_dims,
    tensors,
    with_attrs,
)
from tilewright.relay.op.layout_rules import follow_first_input
from tilewright.topi.reference import transform as ref
from tilewright.topi.transform import BYTES


def _indexed(types: Types) -> tuple[TensorType, TensorType]:
    data, indices = tensors(types[:2])
    require(indices.dtype.is_int, f"the indices must be integers, not {indices.dtype}; cast them first")
    return data, indices


#: What `take` does with indices out of range.
TAKE_MODES = ("clip", "from_back", "wrap", "fast")


def _take_type(types: Types, attrs: Attrs) -> Type:
    data, indices = _indexed(types)
    require(attrs["mode"] in TAKE_MODES, f"mode {attrs['mode']!r}; known: {', '.join(TAKE_MODES)}")
    if attrs["axis"] is None:
        require_positions(data.shape, indices.size)
        return TensorType(indices.shape, data.dtype)
    at = check_axis(attrs["axis"], data.ndim)
    require_positions(data.shape[at : at + 1], indices.size)
    return TensorType((*data.shape[:at], *indices.shape, *data.shape[at + 1 :]), data.dtype)


register(
    "take",
    num_inputs=2,
    type_rule=_take_type,
    compute=with_attrs(topi.take, "axis", "mode"),
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x, indices: ref.take(x, indices, attrs["axis"], attrs["mode"]),
    positions=lambda call: None if call.attrs["mode"] == "wrap" else _on_axis(call),
    precision=Precision.FOLLOW,
    attributes={"axis": attr.optional(attr.integer()), "mode": attr.text("clip")},
    picks=True,
)


def take(data: Expr, indices: Any, axis: int | None = None, mode: str = "clip") -> Call:
    """Slices of `data` along `axis` (of the flattened data if None) at `indices`.

    Indices out of range are clipped, wrapped around, or with mode ``"fast"`` undefined. Negative ones count from the
    back in the modes ``"from_back"``, which clips the others, and ``"wrap"``; ``"clip"`` takes the first slice there.
    """
    return call("take", data, indices if isinstance(indices, Expr) else const(indices), axis=axis, mode=mode)


def _lookup_type(types: Types, _attrs: Attrs) -> Type:
    data, table = tensors(types)
    require(data.dtype in ("int8", "uint8"), f"the data must be bytes, not {data.dtype}")
    require(table.shape == (BYTES,), f"the table has {BYTES} elements, not the shape {table.shape}")
    return TensorType(data.shape, table.dtype)


register(
    "lookup_byte",
    num_inputs=2,
    type_rule=_lookup_type,
    compute=lambda _attrs, inputs, _out: [topi.lookup_byte(*inputs)],
    pattern=OpPattern.ELEMWISE,
    reference=lambda _attrs, x, table: table[x.view(np.uint8)],
    layout=follow_first_input,
    precision=Precision.NEVER,
)


def lookup_byte(data: Expr, table: Expr) -> Call:
    """Elements of `table`, one of 256, by the bytes of `data` read as unsigned: a function of a byte by its values."""
    return call("lookup_byte", data, table)


def _gather_type(types: Types, attrs: Attrs) -> Type:
    data, indices = _indexed(types)
    at = check_axis(attrs["axis"], data.ndim)
    fits = indices.ndim == data.ndim and all(
        d == at or at_most(i, s) for d, (i, s) in enumerate(zip(indices.shape, data.shape))
    )
    require(fits, f"the indices' shape {indices.shape} exceeds the data's {data.shape} beside axis {attrs['axis']}")
    require_positions(data.shape[at : at + 1], indices.size)
    return TensorType(indices.shape, data.dtype)


register(
    "gather",
    num_inputs=2,
    type_rule=_gather_type,
    compute=lambda attrs, inputs, _out: [topi.gather(inputs[0], attrs["axis"], inputs[1])],
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x, indices: ref.gather(x, indices, attrs["axis"] % x.ndim),
    positions=lambda call: _on_axis(call),
    precision=Precision.FOLLOW,
    attributes={"axis": attr.integer()},
    picks=True,
)


def gather(data: Expr, axis: int, indices: Expr) -> Call:
    """out[i, j, …] = data[i, …, indices[i, j, …], …] with the index on `axis` (ONNX GatherElements)."""
    return call("gather", data, indices, axis=axis)


def _on_axis(call: Call) -> IndexedAxes:
    axis = call.attrs["axis"]
    positions = () if axis is None else (axis % tensor_type_of(call.args[0]).ndim,)
    return IndexedAxes(positions, from_back=call.attrs.get("mode", "from_back") != "clip")


def coordinates(call: Call, first: int = 0, from_back: bool = True) -> IndexedAxes:
    """Positions by tuples of numbers, which the first axis of the indices holds, on the axes from `first` on."""
    depth = known_size(tensor_type_of(call.args[1]).shape[0], "the number of coordinates")
    return IndexedAxes(tuple(range(first, first + depth)), coordinates=True, from_back=from_back)


def _gather_nd_type(types: Types, attrs: Attrs) -> Type:
    data, indices = _indexed(types)
    batch = attrs["batch_dims"]
    require(indices.ndim >= 1, "the indices need a first axis that holds the coordinates")
    depth = known_size(indices.shape[0], "the number of coordinates") + batch
    require(depth <= data.ndim, f"{indices.shape[0]} coordinates are too many for data of {data.ndim} dimensions")
    require(
        same_dims(indices.shape[1 : 1 + batch], data.shape[:batch]), "the batch dimensions of data and indices differ"
    )
    require_positions(data.shape[batch:depth], TensorType(indices.shape[1:], indices.dtype).size)
    return TensorType((*indices.shape[1:], *data.shape[depth:]), data.dtype)


register(
    "gather_nd",
    num_inputs=2,
    type_rule=_gather_nd_type,
    compute=with_attrs(topi.gather_nd, "batch_dims"),
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x, indices: ref.gather_nd(x, indices, attrs["batch_dims"]),
    positions=lambda call: coordinates(call, call.attrs["batch_dims"]),
    precision=Precision.FOLLOW,
    attributes={"batch_dims": attr.integer(0)},
    picks=True,
)


def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0) -> Call:
    """Slices of `data` at the coordinates in the first axis of `indices`, after `batch_dims` shared leading axes.

    ONNX keeps the coordinates in the last axis: transpose the indices first.
    """
    return call("gather_nd", data, indices, batch_dims=batch_dims)


def _one_hot_type(types: Types, attrs: Attrs) -> Type:
    indices, on_value, off_value = tensors(types)
    require(indices.dtype.is_int, f"the indices must be integers, not {indices.dtype}; cast them first")
    require(on_value.shape == () == off_value.shape, "on_value and off_value must be scalars")
    at = check_axis(attrs["axis"], indices.ndim + 1)
    return TensorType((*indices.shape[:at], attrs["depth"], *indices.shape[at:]), attrs["dtype"])


register(
    "one_hot",
    num_inputs=3,
    type_rule=_one_hot_type,
    compute=with_attrs(topi.one_hot, "depth", "axis", "dtype"),
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, indices, on_value, off_value: ref.one_hot(
        indices, on_value, off_value, attrs["depth"], attrs["axis"], TensorType((), attrs["dtype"]).dtype.numpy
    ),
    attributes={"depth": attr.integer(), "axis": attr.integer(-1), "dtype": attr.dtype("float32")},
)


def one_hot(indices: Expr, on_value: Any, off_value: Any, depth: int, axis: int = -1, dtype: str = "float32") -> Call:
    """`on_value` where the new `axis` of size `depth` equals the index (negatives from the back), else `off_value`."""
    values = [v if isinstance(v, Expr) else const(v, dtype) for v in (on_value, off_value)]
    return call("one_hot", indices, *values, depth=depth, axis=axis, dtype=str(dtype))
