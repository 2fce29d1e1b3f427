"""Products of bytes summed in int32, laid out for dot products of four: weights hold four inputs side by side.

Those of bfloat16, in pairs and summed in float32, are laid out alike.

A processor with such an instruction (AVX-512 VNNI, NEON sdot) multiplies sixteen to sixty-four bytes by as many at once
and adds groups of four of the products to 32-bit sums. So the depth is the innermost axis of weights, in groups of
four; data are read four neighbours at a time, which lie together as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.dot_product import SUMS
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import output_size, workload
from tilewright.topi.nn.dense import flattened, rows_in_different_sets
from tilewright.topi.nn.pad import pad
from tilewright.topi.util import extents


def dense_dot(
    data: Tensor,
    weight: Tensor,
    in_pairs: bool = False,
    leading: Sequence[int] = (),
    units: int = 0,
    order: Tensor | None = None,
) -> Tensor:
    """`data` [..., K] times the transpose of a weight in panels of b rows, [N/b, K/4, b, 4]: int32 [..., N].

    Of bfloat16 [N/b, K/2, b, 2] and float32. The result has the first `units` columns (0: all) and, in axes
    `leading`, as many of the first rows of data [R, K].

    `in_pairs` says that sums of two neighbouring products fit 16 bits (`tir/dot_product.py`). With an `order` [N/b, K]
    each panel has its own of the depth (`ordered_byte`).

    Stages: data_pad (where rows of data would share sets of the cache) or in_order [..., N/b, K/16, 16], dense_dot
    [..., N/b, b] with the reduction axes k_window (of an order), k_outer and k_inner, dense_units.
    """
    panels, groups, block, size = extents(weight)
    wide = SUMS[str(data.dtype)][1]
    rows, windows = data.shape[:-1], 1 if order is None else groups * size // ENTRIES
    data = rows_in_different_sets(data) if order is None else in_order(data, order)
    outer = te.reduce_axis((0, groups // windows), name="k_outer")
    inner = te.reduce_axis((0, size), name="k_inner")
    window = te.reduce_axis((0, windows), name="k_window")
    axes = [outer, inner] if order is None else [window, outer, inner]

    def body(*i: Any) -> Any:
        *row, panel, lane = i
        at = outer * size + inner
        value = data(*row, at) if order is None else data(*row, panel, window, at)
        group = outer if order is None else window * (groups // windows) + outer
        return te.sum(value.astype(wide) * weight(panel, group, lane, inner).astype(wide), axis=axes)

    facts: dict[str, Any] = {"block": block, **({"in_pairs": True} if in_pairs else {})}
    sums = te.compute((*rows, panels, block), body, name="dense_dot", tag=tag.DENSE_DOT, attrs=facts)

    def element(*i: Any) -> Any:
        rows = [flattened(i[:-1], leading)] if leading else i[:-1]
        return sums(*rows, i[-1] // block, i[-1] % block)

    return te.compute(
        (*(leading or rows), units or panels * block),
        element,
        name="dense_units",
        tag=tag.INJECTIVE,
    )


def in_order(data: Tensor, order: Tensor) -> Tensor:
    """The columns of `data` [..., K] in the order of each panel, in windows of 16: [..., panels, K/16, 16]."""
    *rows, depth = extents(data)

    def element(*i: Any) -> Any:
        *row, panel, window, k = i
        named = order(panel, window * ENTRIES + k)
        return ordered_byte(lambda column: data(*row, window * ENTRIES + column), named)

    return te.compute((*rows, order.shape[0], depth // ENTRIES, ENTRIES), element, name="in_order", tag=tag.IN_ORDER)


def ordered_byte(window: Callable[[Any], Any], named: Any) -> Any:
    """The byte of a window of 16 that a byte of an order names by its low four bits; 255 less it if it has bit 4."""
    lowest = tir.op.call_intrin("uint8", "bitwise_and", named, tir.op.const(ENTRIES - 1, "uint8"))
    turned = tir.op.const(0, "uint8") - tir.op.call_intrin("uint8", "shift_right", named, tir.op.const(4, "uint8"))
    return tir.op.call_intrin("uint8", "bitwise_xor", window(lowest.astype("int32")), turned)


def batch_matmul_dot(a: Tensor, b: Tensor) -> Tensor:
    """Products of stacks [B, M, K] and, in panels of columns, [B, N/b, K/4, b, 4]: int32 [B, M, N]; a stack of 1
    broadcasts.

    Stages: batch_matmul_dot [B, M, N/b, b] with the reduction axes k_outer and k_inner, matmul_columns.
    """
    batch_a, rows, _ = extents(a)
    batch_b, panels, groups, block, size = extents(b)
    wide = SUMS[str(a.dtype)][1]
    outer, inner = te.reduce_axis((0, groups), name="k_outer"), te.reduce_axis((0, size), name="k_inner")

    def body(n: Any, i: Any, panel: Any, lane: Any) -> Any:
        n_a, n_b = (0 if batch_a == 1 else n), (0 if batch_b == 1 else n)
        value = a(n_a, i, outer * size + inner).astype(wide)
        return te.sum(value * b(n_b, panel, outer, lane, inner).astype(wide), axis=[outer, inner])

    batch = batch_b if batch_a == 1 else batch_a
    sums = te.compute(
        (batch, rows, panels, block),
        body,
        name="batch_matmul_dot",
        tag=tag.DENSE_DOT,
        attrs={"block": block, "row_axis": 1},
    )
    return te.compute(
        (batch, rows, panels * block),
        lambda n, i, j: sums(n, i, j // block, j % block),
        name="matmul_columns",
        tag=tag.INJECTIVE,
    )


def conv2d_dot_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    pad_value: int = 0,
    in_pairs: bool = False,
) -> Tensor:
    """`data` [N, C/ib, H, W, ib] with `kernel` [O/ob, C/ib, KH, KW, ib/4, ob, 4] to int32 [N, O/ob, OH, OW, ob].

    `pad_value` stands around the image, as the code of zero; `in_pairs` says that sums of two neighbouring products
    fit 16 bits (`tir/dot_product.py`). Stages: data_pad (if there is padding), conv2d_dot_NCHWc with the reduction axes
    ic_outer, kh, kw, ic_group, ic_inner.
    """
    n, ico, h, w, _ = extents(data)
    oco, _, kh, kw, groups, ob, size = extents(kernel)
    wide = SUMS[str(data.dtype)][1]
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    padded = pad(data, (0, 0, padding[0], padding[1], 0), (0, 0, padding[2], padding[3], 0), pad_value)
    outer, ry, rx = (
        te.reduce_axis((0, extent), name=name) for extent, name in ((ico, "ic_outer"), (kh, "kh"), (kw, "kw"))
    )
    group, inner = te.reduce_axis((0, groups), name="ic_group"), te.reduce_axis((0, size), name="ic_inner")

    def body(b: Any, oc: Any, y: Any, x: Any, block: Any) -> Any:
        row, column = y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1]
        value = padded(b, outer, row, column, group * size + inner).astype(wide)
        weight = kernel(oc, outer, ry, rx, group, block, inner).astype(wide)
        return te.sum(value * weight, axis=[outer, ry, rx, group, inner])

    return te.compute(
        (n, oco, oh, ow, ob),
        body,
        name="conv2d_dot_NCHWc",
        tag=tag.CONV2D_DOT,
        attrs={**workload(strides, padding, dilation, 1, oc_block=ob), **({"in_pairs": True} if in_pairs else {})},
    )
