"""Matrix products: dense (weights), packed dense, stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.size_hint import size_hint
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, sum_dtype
from tilewright.topi.nn.pad import pad
from tilewright.topi.util import extents

_PAGE_BYTES, _LINE_BYTES = 4096, 64

#: Columns of a stack of products are padded to a multiple of this, so that vectors of any target leave no tail.
_ALIGNMENT = 16

#: Rows from which on a padded copy of the other matrix pays.
_ROWS_OF_A_COPY = 4

#: Fewer rows than this leave room in a set of eight ways.
_ROWS_OF_A_TILE = 6

#: Rows of a transposed matrix that are copied together: three such groups fill a register tile of two vectors.
_ROWS_OF_A_GROUP = 4


def dense(data: Tensor, weight: Tensor, out_dtype: str = "") -> Tensor:
    """`data` [..., K] times the transpose of `weight` [N, K]: [..., N]."""
    units, depth = extents(weight)
    wide = sum_dtype(data, out_dtype)
    k = te.reduce_axis((0, depth), name="k")

    def body(*i: Any) -> Any:
        return te.sum(data(*i[:-1], k).astype(wide) * weight(i[-1], k).astype(wide), axis=k)

    out = te.compute((*data.shape[:-1], units), body, name="dense", tag=tag.DENSE)
    return finish(out, data, out_dtype)


def dense_pack(data: Tensor, weight: Tensor, out_dtype: str = "", units: int | None = None) -> Tensor:
    """`data` [..., K] times the transpose of a weight packed in panels of b rows, [N/b, K, b]: [..., N].

    Of the last panel only what `units` says are columns of the result; rows of zeros stand behind them.

    Stages: dense_pack; over several axes of rows, whose sizes are known, it is [rows, N], and dense_rows has its axes.
    Where columns are left out it is [rows, N / 16, 16], whole vectors that no bound cuts, and dense_rows leaves them.
    """
    panels, depth, block = extents(weight)
    wide = sum_dtype(data, out_dtype)
    k = te.reduce_axis((0, depth), name="k")
    *leading, _ = extents(data)
    data = rows_in_different_sets(data)
    flat = sum(not isinstance(size, int) or size > 1 for size in leading) > 1

    cropped = units is not None and units is not panels * block and units != panels * block
    vector = math.gcd(block, _ALIGNMENT) if cropped else 0
    rows = (math.prod(leading),) if flat else leading

    def body(*i: Any) -> Any:
        column = i[len(rows)] * vector + i[-1] if cropped else i[-1]
        panel = weight(column // block, k, column % block)
        row = unflattened(i[0], leading) if flat else i[: len(rows)]
        return te.sum(data(*row, k).astype(wide) * panel.astype(wide), axis=k)

    columns = (panels * block // vector, vector) if cropped else (panels * block,)
    out = te.compute((*rows, *columns), body, "dense_pack", tag.DENSE_PACK, {"block": block, "rows": len(rows)})
    if flat or cropped:
        product = out

        def element(*i: Any) -> Any:
            row = [flattened(i[:-1], leading)] if flat else i[:-1]
            return product(*row, i[-1] // vector, i[-1] % vector) if cropped else product(*row, i[-1])

        out = te.compute(
            (*leading, units if cropped else panels * block), element, name="dense_rows", tag=tag.INJECTIVE
        )
    return finish(out, data, out_dtype)


def dense_blocks(data: Tensor, weight: Tensor, out_dtype: str = "", units: int | None = None) -> Tensor:
    """The same product as stages dense_blocks [..., N/b, b], a panel of the weight each, and dense_rows [..., N]."""
    panels, depth, block = extents(weight)
    wide = sum_dtype(data, out_dtype)
    k = te.reduce_axis((0, depth), name="k")

    def body(*i: Any) -> Any:
        return te.sum(data(*i[:-2], k).astype(wide) * weight(i[-2], k, i[-1]).astype(wide), axis=k)

    sums = te.compute((*data.shape[:-1], panels, block), body, name="dense_blocks", tag=tag.DENSE_BLOCKS)
    out = te.compute(
        (*data.shape[:-1], panels * block if units is None else units),
        lambda *i: sums(*i[:-1], i[-1] // block, i[-1] % block),
        name="dense_rows",
        tag=tag.INJECTIVE,
    )
    return finish(out, data, out_dtype)


def flattened(position: Sequence[Any], sizes: Sequence[int]) -> Any:
    """The number of the element at `position` of an array of `sizes`."""
    found = position[0]
    for index, size in zip(position[1:], sizes[1:], strict=True):
        found = found * size + index
    return found


def unflattened(number: Any, sizes: Sequence[int]) -> list[Any]:
    """The position of the element with this number."""
    found: list[Any] = []
    for size in reversed(sizes[1:]):
        found.insert(0, number % size)
        number = number // size
    return [number, *found]


def rows_in_different_sets(data: Tensor) -> Tensor:
    """`data`, its rows moved apart by a cache line where they are whole pages long.

    A register tile walks along several rows at once; rows a page apart fall into one set of the first-level cache, and
    push each other out. Rows of bytes, which are read faster, do so from half a page on: 2048 products at 2048 bytes
    went at 129 in place of 430 G/s. The copy costs a hundredth of the product.
    """
    *rows, depth = extents(data)
    size = data.dtype.itemsize
    line = _LINE_BYTES // size
    whole_pages = isinstance(depth, int) and depth * size % (_PAGE_BYTES // 2 if size == 1 else _PAGE_BYTES) == 0
    if not whole_pages or size_hint(math.prod(rows)) < _ROWS_OF_A_TILE:
        return data
    return pad(data, [0] * data.ndim, [0] * len(rows) + [line])


def batch_matmul(
    a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = True, out_dtype: str = ""
) -> Tensor:
    """Products of stacks of matrices [B, M, K] (or [B, K, M]) and [B, N, K] (or [B, K, N]); a stack of 1 broadcasts.

    Stages: packed_a (one matrix of many rows: a transposed `a` in groups of rows [1, M / 4, K, 4], or rows moved
    apart), packed_b (then, and of a transposed `b`, so that the columns of a panel are neighbours in memory; with
    columns of zeros where several rows would leave a part of a vector at the end of each), batch_matmul (with such
    columns, in groups of whole vectors: [B, M, N / 16, 16]), batch_matmul_output (without those columns).
    """
    (batch_a, *left), (batch_b, *right) = extents(a), extents(b)
    rows, depth = reversed(left) if transpose_a else left
    columns = right[0] if transpose_b else right[1]
    wide = sum_dtype(a, out_dtype)
    k = te.reduce_axis((0, depth), name="k")
    padded = _padded_columns(size_hint(rows), columns)
    single = (batch_a, batch_b) == (1, 1) and isinstance(depth, int) and isinstance(columns, int)
    if copied := single and size_hint(rows) >= _ROWS_OF_A_COPY and columns > _ALIGNMENT:
        a = _rows_in_groups(a) if transpose_a else rows_in_different_sets(a)
    if copied or transpose_b or padded is not columns:
        b = _packed(b, transpose_b, (batch_b, depth, padded), columns)

    def body(n: Any, i: Any, *position: Any) -> Any:
        n_a, n_b = (0 if batch_a == 1 else n), (0 if batch_b == 1 else n)
        if a.ndim == 4:
            x = a(n_a, i // a.shape[3], k, i % a.shape[3])
        else:
            x = a(n_a, k, i) if transpose_a else a(n_a, i, k)
        j = position[0] if len(position) == 1 else position[0] * _ALIGNMENT + position[1]
        return te.sum(x.astype(wide) * b(n_b, k, j).astype(wide), axis=k)

    groups = (columns,) if padded is columns else (padded // _ALIGNMENT, _ALIGNMENT)
    out = te.compute(
        (batch_b if batch_a == 1 else batch_a, rows, *groups),
        body,
        name="batch_matmul",
        tag=tag.BATCH_MATMUL,
        attrs={"transpose_a": transpose_a, "transpose_b": transpose_b},
    )
    if padded is not columns:
        whole, shape = out, (*out.shape[:2], columns)
        out = te.compute(
            shape,
            lambda n, i, j: whole(n, i, j // _ALIGNMENT, j % _ALIGNMENT),
            name="batch_matmul_output",
            tag=tag.INJECTIVE,
        )
    return finish(out, a, out_dtype)


def _rows_in_groups(a: Tensor) -> Tensor:
    """The transpose of `a` [1, K, M] as [1, M / 4, K, 4], with a line of zeros behind each group of whole pages.

    A register tile of 12 rows walks along three pieces of memory and reads four broadcasts from each, and the copy
    moves neighbours together; a whole transpose takes an eighth of the product's time. Rows that are no multiple of
    four are in groups of two or one.
    """
    _, depth, rows = extents(a)
    group = math.gcd(rows, _ROWS_OF_A_GROUP) if isinstance(rows, int) else 1
    size = a.dtype.itemsize * group
    apart = _LINE_BYTES // size if depth * size % _PAGE_BYTES == 0 else 0

    def element(n: Any, g: Any, k: Any, i: Any) -> Any:
        value = a(n, k, g * group + i)
        return tir.if_then_else(k < depth, value, tir.const(0, a.dtype)) if apart else value

    return te.compute((1, rows // group, depth + apart, group), element, name="packed_a", tag=tag.INJECTIVE)


def _padded_columns(rows: int, columns: Any) -> Any:
    """The columns to compute for `columns`: whole vectors, where enough rows make up for a copy of the matrix."""
    if not isinstance(columns, int) or rows < _ROWS_OF_A_COPY or columns <= _ALIGNMENT or columns % _ALIGNMENT == 0:
        return columns
    return -(-columns // _ALIGNMENT) * _ALIGNMENT


def _packed(b: Tensor, transposed: bool, shape: tuple[Any, ...], columns: Any) -> Tensor:
    """`b` as [batch, depth, columns] with zeros behind the last column."""

    def element(n: Any, r: Any, c: Any) -> Any:
        value = b(n, c, r) if transposed else b(n, r, c)
        return value if shape[2] is columns else tir.if_then_else(c < columns, value, tir.const(0, b.dtype))

    return te.compute(shape, element, name="packed_b", tag=tag.INJECTIVE)


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str = "") -> Tensor:
    """The product of two matrices, either transposed first."""
    left, right = extents(a), extents(b)
    rows, depth = reversed(left) if transpose_a else left
    wide = sum_dtype(a, out_dtype)
    k = te.reduce_axis((0, depth), name="k")

    def body(i: Any, j: Any) -> Any:
        x = a(k, i) if transpose_a else a(i, k)
        y = b(j, k) if transpose_b else b(k, j)
        return te.sum(x.astype(wide) * y.astype(wide), axis=k)

    out = te.compute(
        (rows, right[0] if transpose_b else right[1]),
        body,
        name="matmul",
        tag=tag.MATMUL,
        attrs={"transpose_a": transpose_a, "transpose_b": transpose_b},
    )
    return finish(out, a, out_dtype)
