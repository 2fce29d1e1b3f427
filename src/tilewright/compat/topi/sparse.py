"""`tvm.topi.sparse` and the sparse products of `tvm.topi.nn`, of matrices that list their non-zero elements or blocks.

    y = sparse_dense(x, data, indices, indptr)      # x [M, K] times the transpose of a sparse [N, K]: [M, N]

A matrix in CSR has `data` and `indices` [nnz], in blocks (BSR) `data` [nnz, rows, columns]; `indptr` says where each
row, or row of blocks, begins. Reductions run over as many elements as the row has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.compat.runtime.sparse_arrays import CSRPlaceholderOp
from tilewright.errors import InputError, UnsupportedError
from tilewright.te.itervar import IterVar
from tilewright.tir.expr import Expr

Parts = Sequence[te.Tensor]


def _row(parts: Parts, row: Expr, term: Callable[[Expr, Expr], Expr], more: Sequence[IterVar] = ()) -> Expr:
    """The sum of `term(position, column)` over the elements of a sparse row, and over the axes `more`."""
    _, indices, starts = parts
    first = starts[row]
    k = te.reduce_axis((0, starts[row + 1] - first), name="elem_idx")
    position = first + k
    return te.sum(term(position, indices[position]), axis=[k, *more])


def _rows(starts: te.Tensor) -> Expr:
    return starts.shape[0] - 1


def sparse_dense(
    dense_data: te.Tensor,
    sparse_data: te.Tensor,
    sparse_indices: te.Tensor,
    sparse_indptr: te.Tensor,
    sparse_lhs: bool = False,
) -> te.Tensor:
    """`dense_data` [M, K] times the transpose of a sparse [N, K]; with `sparse_lhs` the other way: [N, M]."""
    side = "lhs" if sparse_lhs else "rhs"
    parts = (sparse_data, sparse_indices, sparse_indptr)
    if sparse_data.ndim == 1:
        return _by_elements(dense_data, parts, sparse_lhs, f"sparse_dense_sp_{side}_csrmm")
    if sparse_data.ndim == 3:
        return _by_blocks(dense_data, parts, sparse_lhs, f"sparse_dense_sp_{side}_bsrmm")
    raise InputError(f"sparse_dense: data of a sparse matrix has 1 dimension (CSR) or 3 (BSR), not {sparse_data.ndim}")


def _by_elements(dense: te.Tensor, parts: Parts, sparse_first: bool, tag: str) -> te.Tensor:
    count, rows = dense.shape[0], _rows(parts[2])

    def element(i: Expr, row: Expr) -> Expr:
        return _row(parts, row, lambda position, column: parts[0][position] * dense[i, column])

    if sparse_first:
        return te.compute((rows, count), lambda row, i: element(i, row), name="sparse_dense", tag=tag)
    return te.compute((count, rows), element, name="sparse_dense", tag=tag)


def _by_blocks(dense: te.Tensor, parts: Parts, sparse_first: bool, tag: str) -> te.Tensor:
    count, rows = dense.shape[0], _rows(parts[2])
    _, height, width = parts[0].shape

    def element(i: Expr, block: Expr, within: Expr) -> Expr:
        c = te.reduce_axis((0, width), name="c")
        return _row(
            parts, block, lambda position, column: parts[0][position, within, c] * dense[i, width * column + c], [c]
        )

    name, blocks = "sparse_dense", "sparse_dense_block"
    if sparse_first:
        made = te.compute((rows, height, count), lambda b, j, i: element(i, b, j), name=blocks, tag=f"{tag}_block")
        return te.compute((rows * height, count), lambda n, i: made[n // height, n % height, i], name=name, tag=tag)
    made = te.compute((count, rows, height), element, name=blocks, tag=f"{tag}_block")
    return te.compute((count, rows * height), lambda i, n: made[i, n // height, n % height], name=name, tag=tag)


def sparse_conv2d(
    dense_data: te.Tensor,
    sparse_data: te.Tensor,
    sparse_indices: te.Tensor,
    sparse_indptr: te.Tensor,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> te.Tensor:
    """A convolution of 1 x 1 with a sparse weight [out channels, in channels] in blocks; those of one column may have
    data [nnz, rows]."""
    if kernel_size != 1:
        raise UnsupportedError(f"sparse_conv2d: only kernels of 1 x 1, not of {kernel_size} x {kernel_size}")
    if layout not in ("NHWC", "NCHW"):
        raise InputError(f"sparse_conv2d: the layout is NHWC or NCHW, not {layout!r}")
    parts = (sparse_data, sparse_indices, sparse_indptr)
    rows, height = _rows(sparse_indptr), sparse_data.shape[1]
    tag = "sparse_conv2d_sp_bsrmm"
    read = (
        (lambda n, h, w, c: dense_data[n, h, w, c]) if layout == "NHWC" else lambda n, h, w, c: dense_data[n, c, h, w]
    )

    def element(n: Expr, h: Expr, w: Expr, block: Expr, within: Expr) -> Expr:
        if sparse_data.ndim == 2:
            return _row(parts, block, lambda position, column: sparse_data[position, within] * read(n, h, w, column))
        width = sparse_data.shape[2]
        c = te.reduce_axis((0, width), name="c")
        return _row(
            parts, block, lambda at, column: sparse_data[at, within, c] * read(n, h, w, width * column + c), [c]
        )

    name, blocks = "sparse_conv2d", "sparse_conv2d_block"
    if layout == "NHWC":
        n, h, w, _ = dense_data.shape
        made = te.compute((n, h, w, rows, height), element, name=blocks, tag=f"{tag}_block")
        return te.compute(
            (n, h, w, rows * height), lambda n, h, w, o: made[n, h, w, o // height, o % height], name=name, tag=tag
        )
    n, _, h, w = dense_data.shape
    made = te.compute(
        (n, rows, height, h, w), lambda n, b, j, h, w: element(n, h, w, b, j), name=blocks, tag=f"{tag}_block"
    )
    return te.compute(
        (n, rows * height, h, w), lambda n, o, h, w: made[n, o // height, o % height, h, w], name=name, tag=tag
    )


def csrmv(a: CSRPlaceholderOp, x: te.Tensor, y: te.Tensor | None = None) -> te.Tensor:
    """A sparse [M, K] times a column [K, 1], plus `y` [M]: [M, 1]."""
    if x.ndim != 2:
        raise InputError(f"csrmv: the vector is a column [K, 1], not of {x.ndim} dimensions")
    return _csr_product(a, x, y, 1, "csrmv")


def csrmm(a: CSRPlaceholderOp, b: te.Tensor, c: te.Tensor | None = None) -> te.Tensor:
    """A sparse [M, K] times [K, N], plus `c` [M] for each row: [M, N]."""
    if b.ndim != 2:
        raise InputError(f"csrmm: the second factor is a matrix [K, N], not of {b.ndim} dimensions")
    return _csr_product(a, b, c, b.shape[1], "csrmm")


def _csr_product(a: CSRPlaceholderOp, b: te.Tensor, c: te.Tensor | None, columns: Any, name: str) -> te.Tensor:
    parts = (a.data, a.indices, a.indptr)

    def element(row: Expr, n: Expr) -> Expr:
        return _row(parts, row, lambda position, column: a.data[position] * b[column, n])

    shape = (_rows(a.indptr), columns)
    made = te.compute(shape, element, name=name, tag=name)
    return made if c is None else te.compute(shape, lambda i, n: made[i, n] + c[i], name=f"{name}_bias", tag=name)


def dense(
    data: te.Tensor | CSRPlaceholderOp, weight: te.Tensor | CSRPlaceholderOp, bias: te.Tensor | None = None
) -> te.Tensor:
    """`data` [M, K] times the transpose of `weight` [N, K], one of them sparse, plus `bias` [N]."""
    if isinstance(data, CSRPlaceholderOp) and isinstance(weight, te.Tensor):
        made = _by_elements(weight, (data.data, data.indices, data.indptr), True, "dense")
    elif isinstance(weight, CSRPlaceholderOp) and isinstance(data, te.Tensor):
        made = _by_elements(data, (weight.data, weight.indices, weight.indptr), False, "dense")
    else:
        raise UnsupportedError("topi.sparse.dense takes one sparse argument and one that is not")
    if bias is None:
        return made
    return te.compute(made.shape, lambda i, n: made[i, n] + bias[n], name="dense_bias", tag="dense")
