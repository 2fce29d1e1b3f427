"""Sparse tensors: coordinate lists, compressed rows (CSR) and blocks (BSR).

A sparse matrix becomes a dense one in the graph: where it is constant, as weights are, that happens at compile time and
the product runs at the speed of a dense one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const, element_type
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.common import Types, call, require, require_same_dtype, same_dims, tensors
from tilewright.relay.op.common import tensor as tensor_of
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.nn.convolution import conv2d
from tilewright.relay.op.nn.dense import dense
from tilewright.relay.op.scatter import scatter_nd
from tilewright.relay.op.sort import searchsorted


def _kind(expr: Expr) -> TensorType:
    return tensor_of(expr.checked_type)


# -------------------------------------------------------------------------------------------------- sparse_to_dense
def _sparse_to_dense_type(types: Types, attrs: Attrs) -> Type:
    indices, values, default = tensors(types)
    require(indices.dtype.is_int and indices.ndim <= 2, f"integer coordinates [N, D] are needed, not {indices}")
    require_same_dtype(values, default)
    require(default.shape == () and values.ndim <= 1, "values [N] (or one) and a default scalar are needed")
    return TensorType(attrs["output_shape"], values.dtype)


def _sparse_to_dense(args: Sequence[Expr], attrs: Attrs) -> Expr:
    indices, values, default = args
    kind, shape = _kind(indices), attrs["output_shape"]
    base = tensor.full(default, shape, str(_kind(values).dtype))
    count = kind.shape[0] if kind.ndim else 1
    rows = transform.reshape(indices, (count, len(shape)))
    return scatter_nd(base, transform.transpose(rows), transform.broadcast_to(values, (count,)))


def _sparse_to_dense_reference(
    attrs: Attrs, indices: np.ndarray, values: np.ndarray, default: np.ndarray
) -> np.ndarray:
    out = np.full(attrs["output_shape"], default, values.dtype)
    rows = indices.reshape(-1, out.ndim)
    for row, value in zip(rows, np.broadcast_to(values, len(rows))):
        out[tuple(row)] = value
    return out


register_composite(
    "sparse_to_dense",
    num_inputs=3,
    type_rule=_sparse_to_dense_type,
    expansion=_sparse_to_dense,
    reference=_sparse_to_dense_reference,
    attributes={"output_shape": attr.integers()},
)


def sparse_to_dense(
    sparse_indices: Expr, output_shape: Sequence[int], sparse_values: Expr, default_value: Any = 0
) -> Call:
    """A tensor of `output_shape` with values at the coordinates [N, D] (or [N], or one), else the default."""
    default = default_value if isinstance(default_value, Expr) else const(default_value, element_type(sparse_values))
    return call("sparse_to_dense", sparse_indices, sparse_values, default, output_shape=output_shape)


# --------------------------------------------------------------------------------------------------- sparse matrices
def _dense_of(data: Expr, indices: Expr, indptr: Expr, columns: int) -> Expr:
    """The dense matrix of CSR `data` [nnz], or BSR `data` [nnz, R, C], with `columns` columns."""
    kind, dtype = _kind(data), str(_kind(data).dtype)
    count, rows = kind.shape[0], _kind(indptr).shape[0] - 1
    block_rows, block_columns = kind.shape[1:] if kind.ndim == 3 else (1, 1)
    positions = tensor.arange(count, dtype=str(_kind(indptr).dtype))
    owner = searchsorted(indptr, positions, right=True) - 1
    indices = transform.stack([owner, tensor.cast(indices, "int32")], 0)
    across = columns // block_columns
    if kind.ndim == 1:
        return scatter_nd(tensor.zeros((rows, columns), dtype), indices, data, "add")
    blocks = scatter_nd(tensor.zeros((rows, across, block_rows, block_columns), dtype), indices, data, "add")
    return transform.reshape(transform.transpose(blocks, (0, 2, 1, 3)), (rows * block_rows, columns))


def _dense_reference(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int) -> np.ndarray:
    blocks = data.reshape(len(data), *(data.shape[1:] or (1, 1)))
    _, r, c = blocks.shape
    out = np.zeros(((len(indptr) - 1) * r, columns), data.dtype)
    for row, (first, last) in enumerate(pairwise(indptr)):
        for k in range(first, last):
            out[row * r : (row + 1) * r, indices[k] * c : (indices[k] + 1) * c] += blocks[k]
    return out


def _sparse_type(expansion: Any) -> Any:
    def rule(types: Types, attrs: Attrs) -> Type:
        _, data, indices, indptr = tensors(types)
        fits = data.ndim in (1, 3) and same_dims(indices.shape, data.shape[:1]) and indptr.ndim == 1
        require(fits, f"CSR or BSR data, indices and indptr are needed, not {data}, {indices}, {indptr}")
        require(indices.dtype.is_int and indptr.dtype.is_int, "indices and indptr must be integers")
        return type_of_expansion(expansion, types, attrs)

    return rule


def _sparse_dense(args: Sequence[Expr], attrs: Attrs) -> Expr:
    matrix, *sparse = args
    columns = _kind(matrix).shape[-1]
    other = _dense_of(sparse[0], sparse[1], sparse[2], columns)
    return dense(other, matrix) if attrs["sparse_lhs"] else dense(matrix, other)


def _sparse_dense_reference(attrs: Attrs, matrix: np.ndarray, *sparse: np.ndarray) -> np.ndarray:
    other = _dense_reference(sparse[0], sparse[1], sparse[2], matrix.shape[-1])
    return other @ matrix.T if attrs["sparse_lhs"] else matrix @ other.T


for _name in ("nn.sparse_dense", "nn.internal.sparse_dense_padded"):
    register_composite(
        _name,
        num_inputs=4,
        type_rule=_sparse_type(_sparse_dense),
        expansion=_sparse_dense,
        reference=_sparse_dense_reference,
        attributes={"sparse_lhs": attr.flag(False)},
    )


def sparse_dense(dense_mat: Expr, sparse_mat: Sequence[Expr], sparse_lhs: bool = False) -> Call:
    """`dense_mat` [M, K] times the transpose of a sparse matrix (data, indices, indptr) [N, K], or the other way."""
    return call("nn.sparse_dense", dense_mat, *sparse_mat, sparse_lhs=sparse_lhs)


def sparse_dense_padded(dense_mat: Expr, sparse_mat: Sequence[Expr], sparse_lhs: bool = False) -> Call:
    """`sparse_dense` of a matrix whose rows were padded with zeros to equal lengths."""
    return call("nn.internal.sparse_dense_padded", dense_mat, *sparse_mat, sparse_lhs=sparse_lhs)


def _sparse_add(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    matrix, *sparse = args
    return matrix + _dense_of(sparse[0], sparse[1], sparse[2], _kind(matrix).shape[-1])


register_composite(
    "nn.sparse_add",
    num_inputs=4,
    type_rule=_sparse_type(_sparse_add),
    expansion=_sparse_add,
    reference=lambda _attrs, matrix, data, indices, indptr: (
        matrix + _dense_reference(data, indices, indptr, matrix.shape[-1])
    ),
)


def sparse_add(dense_mat: Expr, sparse_mat: Sequence[Expr]) -> Call:
    """`dense_mat` [M, N] plus a sparse matrix (data, indices, indptr) of its shape."""
    return call("nn.sparse_add", dense_mat, *sparse_mat)


# ----------------------------------------------------------------------------------------------------- sparse_conv2d
def _window(attrs: Attrs) -> dict[str, Any]:
    pad = (attrs["kernel_size"] - 1) // 2
    return {"padding": (pad, pad, pad, pad), "data_layout": attrs["layout"], "kernel_layout": "OHWI"}


def _sparse_conv2d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, *sparse = args
    channels, size = _kind(data).shape[attrs["layout"].index("C")], attrs["kernel_size"]
    matrix = _dense_of(sparse[0], sparse[1], sparse[2], size * size * channels)
    outputs = (_kind(sparse[2]).shape[0] - 1) * (_kind(sparse[0]).shape[1] if _kind(sparse[0]).ndim == 3 else 1)
    return conv2d(data, transform.reshape(matrix, (outputs, size, size, channels)), **_window(attrs))


def _sparse_conv2d_reference(attrs: Attrs, data: np.ndarray, *sparse: np.ndarray) -> np.ndarray:
    channels, size = data.shape[attrs["layout"].index("C")], attrs["kernel_size"]
    matrix = _dense_reference(sparse[0], sparse[1], sparse[2], size * size * channels)
    plain = Attrs(strides=(1, 1), dilation=(1, 1), groups=1, out_layout="", out_dtype="", **_window(attrs))
    return get("nn.conv2d").reference(plain, data, matrix.reshape(-1, size, size, channels))  # type: ignore[return-value]


register_composite(
    "nn.sparse_conv2d",
    num_inputs=4,
    type_rule=_sparse_type(_sparse_conv2d),
    expansion=_sparse_conv2d,
    reference=_sparse_conv2d_reference,
    attributes={"layout": attr.text("NHWC"), "kernel_size": attr.integer(1)},
)


def sparse_conv2d(dense_mat: Expr, sparse_mat: Sequence[Expr], layout: str = "NHWC", kernel_size: int = 1) -> Call:
    """Convolution, padded to the same size, with a sparse kernel [O, KH·KW·I] (data, indices, indptr)."""
    return call("nn.sparse_conv2d", dense_mat, *sparse_mat, layout=layout, kernel_size=kernel_size)
