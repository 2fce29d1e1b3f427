"""Operators whose result has as many elements as the data decides. They run on the host."""

from __future__ import annotations

import typing

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import Any, TensorType, TupleType, Type
from tilewright.relay.op.common import Types, call, require, tensor, tensors
from tilewright.relay.op.host import register_host

# ----------------------------------------------------------------------------------------------- argwhere and unique
register_host(
    "argwhere",
    num_inputs=1,
    type_rule=lambda types, _attrs: TensorType((Any(), tensor(types[0]).ndim), "int32"),
)


def argwhere(condition: Expr) -> Call:
    """The coordinates of the elements that are not zero, one row each, int32."""
    return call("argwhere", condition)


def _unique_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require(data.ndim == 1, f"a vector is needed, not {data}")
    count = Any()
    found = [TensorType((count,), data.dtype), TensorType((count,), "int32")]
    found += [TensorType(data.shape, "int32"), TensorType((1,), "int32")]
    return TupleType([*found, TensorType((count,), "int32")] if attrs["return_counts"] else found)


register_host(
    "unique",
    num_inputs=1,
    type_rule=_unique_type,
    attributes={"sorted": attr.flag(True), "return_counts": attr.flag(False)},
)


def unique(data: Expr, is_sorted: bool = True, return_counts: bool = False) -> Call:
    """(distinct values, where each came first, the way back, how many there are[, counts]), sorted or as they come."""
    return call("unique", data, sorted=is_sorted, return_counts=return_counts)


# ---------------------------------------------------------------------------------------------------- segments
def _segment_sum_type(types: Types, attrs: Attrs) -> Type:
    data, segment_ids = tensors(types)
    require(
        data.ndim >= 1 and segment_ids.ndim == 1, f"rows and a number for each are needed, not {data}, {segment_ids}"
    )
    require(segment_ids.dtype.is_int, f"the numbers of segments are integers, not {segment_ids.dtype}")
    count = attrs["num_segments"]
    return TensorType((Any() if count is None else count, *data.shape[1:]), data.dtype)


register_host(
    "segment_sum",
    num_inputs=2,
    type_rule=_segment_sum_type,
    attributes={"num_segments": attr.optional(attr.integer())},
)


def segment_sum(data: Expr, segment_ids: Expr, num_segments: int | None = None) -> Call:
    """The sums of the rows of `data` that have the same number in `segment_ids`; rows behind the last number count not.

    There are `num_segments` sums; without it one more than the largest number.
    """
    return call("segment_sum", data, segment_ids, num_segments=num_segments)


# ------------------------------------------------------------------------------------------------- coordinate lists
def _fill_rows_type(types: Types, _attrs: Attrs) -> Type:
    indices, values, shape, _ = tensors(types)
    require(indices.ndim == 2 and values.ndim == 1 and shape.ndim == 1, "indices [N, D], values [N] and a shape needed")
    rows = Any()
    listed = TensorType((rows, indices.shape[1]), indices.dtype)
    return TupleType([listed, TensorType((rows,), values.dtype), TensorType((Any(),), "bool")])


register_host("sparse_fill_empty_rows", num_inputs=4, type_rule=_fill_rows_type)


def sparse_fill_empty_rows(sparse_indices: Expr, sparse_values: Expr, dense_shape: Expr, default_value: Expr) -> Call:
    """(indices, values, which rows were empty) of a coordinate list in which each empty row got the default."""
    return call("sparse_fill_empty_rows", sparse_indices, sparse_values, dense_shape, default_value)


def _sparse_reshape_type(types: Types, _attrs: Attrs) -> Type:
    indices, _, newshape = tensors(types)
    return TupleType([TensorType((indices.shape[0], newshape.shape[0]), indices.dtype), newshape])


register_host("sparse_reshape", num_inputs=3, type_rule=_sparse_reshape_type)


def sparse_reshape(sparse_indices: Expr, prev_shape: Expr, new_shape: Expr) -> Call:
    """(indices, shape) of a coordinate list under another shape, of which one size may be -1."""
    return call("sparse_reshape", sparse_indices, prev_shape, new_shape)


register_host("nn.sparse_transpose", num_inputs=3, type_rule=lambda types, _attrs: TupleType(tensors(types)))


def sparse_transpose(x: typing.Sequence[Expr]) -> Call:
    """The transpose of a square matrix in compressed rows (data, indices, indptr)."""
    return call("nn.sparse_transpose", *x)


# ----------------------------------------------------------------------------------------------------------- random
def _key(type_: Type) -> TensorType:
    key = tensor(type_)
    require(key == TensorType((10,), "uint64"), f"a key of 10 uint64 words is needed, not {key}")
    return key


register_host(
    "random.threefry_generate",
    num_inputs=1,
    type_rule=lambda types, attrs: TupleType([_key(types[0]), TensorType(attrs["out_shape"], "uint64")]),
    attributes={"out_shape": attr.integers()},
)
register_host(
    "random.threefry_split",
    num_inputs=1,
    type_rule=lambda types, _attrs: TupleType([_key(types[0]), _key(types[0])]),
)
register_host(
    "random.uniform",
    num_inputs=3,
    type_rule=lambda types, attrs: TupleType([_key(types[0]), TensorType(attrs["out_shape"], attrs["out_dtype"])]),
    attributes={"out_shape": attr.integers(), "out_dtype": attr.dtype()},
)
