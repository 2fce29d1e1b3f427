"""Winograd convolution: fewer multiplications, more additions (see `topi.winograd`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.errors import InternalError
from tilewright.te import Tensor
from tilewright.tir.dot_product import SUMS
from tilewright.topi import tag
from tilewright.topi.nn.pad import pad
from tilewright.topi.shapes import conv_output, simplified
from tilewright.topi.transform import layout_transform
from tilewright.topi.util import constant_shape, extents
from tilewright.topi.winograd import Filter, exact_quotient, find_filters


def filters_of(
    tile_size: int, kernel_size: Sequence[int], strides: Sequence[int] = (1, 1), integers: bool = False
) -> tuple[Filter, Filter]:
    """The filters of rows and of columns; raises InternalError where there are none."""
    found = find_filters(tile_size, kernel_size, strides, integers)
    if found is None:
        raise InternalError(f"no Winograd transform of tile_size {tile_size} by {kernel_size} at strides {strides}")
    return found


def conv2d_winograd_NCHWc(
    data: Tensor,
    weight: Tensor,
    padding: Sequence[int],
    tile_size: int,
    kernel_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
    group: Sequence[int] = (1, 1),
) -> Tensor:
    """`data` [N, C/ib, H, W, ib] with transformed weights [O/ob, P, Q, C, ob] to [N, O/ob, OH, OW, ob].

    P and Q are the points of the filters of rows and columns for `tile_size`; `padding` is top, left, bottom, right.
    The image is covered by a grid of tiles; where they do not divide the output, those at the end hang over and read
    zeros. The grid has whole groups of `group` rows by columns, so that no tile of a group needs a guard where the
    sizes of the image are symbolic. Of int16, weights [O/ob, P, Q, C/2, ob, 2], the result is int32.

    Stages: data_pad, input_rows (B^T d), input_tile (B^T d B), tile_product (the matrix product of every one of the
    P * Q points, reduced over ic_outer and ic_inner), output_rows (A^T M), conv2d_winograd (A^T M A, un-tiled).
    """
    along = filters_of(tile_size, kernel_size, strides, data.dtype == "int16")
    sizes = extents(data)[2:4]
    out = [
        conv_output(size, along[i].taps, along[i].stride, padding[i], padding[i + 2], 1) for i, size in enumerate(sizes)
    ]
    grid = [
        simplified((size + f.outputs * g - 1) // (f.outputs * g) * g)
        for f, g, size in zip(along, group, out, strict=True)
    ]
    after = [
        simplified((count - 1) * f.step + f.inputs - size - padding[i])
        for i, (f, count, size) in enumerate(zip(along, grid, sizes, strict=True))
    ]
    padded = pad(data, (0, 0, *padding[:2], 0), (0, 0, *after, 0))
    product = _products(_input_tiles(padded, grid, *along), weight)
    facts = {
        "tile_size": (along[0].outputs, along[1].outputs),
        "m": tile_size,
        "kernel_size": tuple(kernel_size),
        "strides": tuple(strides),
        "padding": tuple(padding),
        "group": tuple(group),
        "ic_block": extents(data)[4],
        "oc_block": constant_shape(weight)[4],
    }
    return _outputs(product, out, facts, *along)


def conv2d_winograd_nchw(
    data: Tensor,
    weight: Tensor,
    padding: Sequence[int],
    tile_size: int,
    kernel_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
) -> Tensor:
    """`data` [N, C, H, W] with transformed weights [1, P, Q, C, O] to [N, O, OH, OW].

    The tiles of all images are one axis, the innermost of the products, so that neighbouring threads of a GPU have
    neighbouring tiles. Those at the end of an image hang over and read zeros.

    Stages: input_patch (the d of a tile), input_rows (B^T d), input_tile (B^T d B: [P, Q, C, tiles]), tile_product
    ([P, Q, O, tiles], reduced over the channels), output_rows (A^T M), output_tile (A^T M A), conv2d_winograd.
    """
    down, across = filters_of(tile_size, kernel_size, strides)
    (batch, channels, *sizes), filters = extents(data), constant_shape(weight)[4]
    out = [
        conv_output(size, f.taps, f.stride, padding[i], padding[i + 2], 1)
        for i, (f, size) in enumerate(zip((down, across), sizes, strict=True))
    ]
    rows, columns = (
        simplified((size + f.outputs - 1) // f.outputs) for f, size in zip((down, across), out, strict=True)
    )
    count = simplified(batch * rows * columns)

    def element(c: Any, tile: Any, i: Any, j: Any) -> Any:
        y = tile // columns % rows * down.step + i - padding[0]
        x = tile % columns * across.step + j - padding[1]
        inside = tir.all(y >= 0, y < sizes[0], x >= 0, x < sizes[1])
        return tir.if_then_else(inside, data(tile // (rows * columns), c, y, x), tir.const(0, data.dtype))

    patch = te.compute((channels, count, down.inputs, across.inputs), element, name="input_patch")
    partial = te.compute(
        (channels, count, down.points, across.inputs),
        lambda c, t, i, j: _pick(i, down.to_points([patch(c, t, k, j) for k in range(down.inputs)])),
        name="input_rows",
    )
    tiles = te.compute(
        (down.points, across.points, channels, count),
        lambda i, j, c, t: _pick(j, across.to_points([partial(c, t, i, k) for k in range(across.inputs)])),
        name="input_tile",
    )
    term = te.reduce_axis((0, channels), name="ic")
    product = te.compute(
        (down.points, across.points, filters, count),
        lambda i, j, o, t: te.sum(weight(0, i, j, term, o) * tiles(i, j, term, t), axis=term),
        name="tile_product",
    )
    half = te.compute(
        (filters, count, down.outputs, across.points),
        lambda o, t, i, j: _pick(i, down.from_points([product(k, j, o, t) for k in range(down.points)])),
        name="output_rows",
    )
    whole = te.compute(
        (filters, count, down.outputs, across.outputs),
        lambda o, t, i, j: _pick(j, across.from_points([half(o, t, i, k) for k in range(across.points)])),
        name="output_tile",
    )

    def untiled(b: Any, o: Any, y: Any, x: Any) -> Any:
        (tile_row, row), (tile_column, column) = _in_tile(y, down), _in_tile(x, across)
        return whole(o, (b * rows + tile_row) * columns + tile_column, row, column)

    facts = {"filters": (down, across)}
    return te.compute(
        (batch, filters, *out), untiled, name="conv2d_winograd", tag=tag.CONV2D_WINOGRAD_NCHW, attrs=facts
    )


def conv2d_winograd_weight_transform(
    kernel: Tensor, tile_size: int, kernel_layout: str, block: int, strides: Sequence[int] = (1, 1)
) -> Tensor:
    """G g G^T of `kernel` (O, I, KH, KW in the order of `kernel_layout`): [O/block, P, Q, I, block].

    Of int8 they are int16, pairs of channels side by side: [O/block, P, Q, I/2, block, 2].
    """
    plain = kernel if kernel_layout == "OIHW" else layout_transform(kernel, kernel_layout, "OIHW")
    filters, channels, kh, kw = constant_shape(plain)
    integers = plain.dtype == "int8"
    rows, columns = filters_of(tile_size, (kh, kw), strides, integers)

    def combine(taps: Sequence[Any], by: Filter) -> list[Any]:
        taps, number = ([tap.astype("int16") for tap in taps], int) if integers else (taps, float)
        products = [[tap * number(factor) for tap, factor in zip(taps, row) if factor] for row in by.kernel_matrix]
        return [functools.reduce(operator.add, row) for row in products]

    partial = te.compute(
        (filters, channels, rows.points, kw),
        lambda o, c, i, x: _pick(i, combine([plain(o, c, y, x) for y in range(kh)], rows)),
        name="kernel_rows",
        tag=tag.INJECTIVE,
    )
    pair = SUMS["int16"][0] if integers else 1
    return te.compute(
        (filters // block, rows.points, columns.points, channels // pair, block, *([pair] if integers else [])),
        lambda o, i, j, c, lane, *one: _pick(
            j, combine([partial(o * block + lane, c * pair + sum(one), i, x) for x in range(kw)], columns)
        ),
        name="winograd_weight",
        tag=tag.INJECTIVE,
    )


def _input_tiles(padded: Tensor, grid: Sequence[Any], along_rows: Filter, along: Filter) -> Tensor:
    """B^T d B of every tile: [N, C/ib, rows, P, Q, columns, ib]."""
    n, ico, _, _, ib = extents(padded)
    rows, columns = grid
    partial = te.compute(
        (n, ico, rows, columns, along_rows.points, along.inputs, ib),
        lambda b, c, y, x, i, j, lane: _pick(
            i,
            along_rows.to_points(
                [padded(b, c, y * along_rows.step + k, x * along.step + j, lane) for k in range(along_rows.inputs)]
            ),
        ),
        name="input_rows",
        tag=tag.INJECTIVE,
    )
    return te.compute(
        (n, ico, rows, along_rows.points, along.points, columns, ib),
        lambda b, c, y, i, j, x, lane: _pick(
            j, along.to_points([partial(b, c, y, x, i, k, lane) for k in range(along.inputs)])
        ),
        name="input_tile",
        tag=tag.INJECTIVE,
    )


def _products(tiles: Tensor, weight: Tensor) -> Tensor:
    """The tiles' products with the weights, summed over the channels: [N, O/ob, P, Q, rows, columns, ob]."""
    n, ico, rows, p, q, columns, ib = extents(tiles)
    oco, _, _, _, ob = constant_shape(weight)[:5]
    outer, inner = te.reduce_axis((0, ico), name="ic_outer"), te.reduce_axis((0, ib), name="ic_inner")
    if tiles.dtype == "int16":
        size, wide = SUMS["int16"]
        group, inner = te.reduce_axis((0, ib // size), name="ic_group"), te.reduce_axis((0, size), name="ic_inner")

        def body(b: Any, oc: Any, i: Any, j: Any, y: Any, x: Any, lane: Any) -> Any:
            value = tiles(b, outer, y, i, j, x, group * size + inner).astype(wide)
            factor = weight(oc, i, j, outer * (ib // size) + group, lane, inner).astype(wide)
            return te.sum(value * factor, axis=[outer, group, inner])

        return te.compute((n, oco, p, q, rows, columns, ob), body, name="tile_product", tag=tag.WINOGRAD_PRODUCT)
    return te.compute(
        (n, oco, p, q, rows, columns, ob),
        lambda b, oc, i, j, y, x, lane: te.sum(
            tiles(b, outer, y, i, j, x, inner) * weight(oc, i, j, outer * ib + inner, lane), axis=[outer, inner]
        ),
        name="tile_product",
        tag=tag.WINOGRAD_PRODUCT,
    )


def _outputs(product: Tensor, out: Sequence[Any], facts: dict[str, Any], rows: Filter, columns: Filter) -> Tensor:
    """A^T M A of every tile, as an image of the sizes `out`: [N, O/ob, OH, OW, ob]; `facts` are for the template."""
    n, oco, _, _, tile_rows, tile_columns, ob = extents(product)
    partial = te.compute(
        (n, oco, tile_rows, tile_columns, rows.outputs, columns.points, ob),
        lambda b, oc, y, x, i, j, lane: _pick(
            i, rows.from_points([product(b, oc, k, j, y, x, lane) for k in range(rows.points)])
        ),
        name="output_rows",
        tag=tag.INJECTIVE,
    )

    def untiled(b: Any, oc: Any, y: Any, x: Any, lane: Any) -> Any:
        (tile_row, row), (tile_column, column) = _in_tile(y, rows), _in_tile(x, columns)
        values = [partial(b, oc, tile_row, tile_column, row, k, lane) for k in range(columns.points)]
        return quotient(_pick(column, columns.from_points(values)))

    scale = rows.scale * columns.scale

    def quotient(multiple: Any) -> Any:
        if scale == 1:
            return multiple
        return exact_quotient(multiple, scale, lambda x, bits: tir.call_intrin(x.dtype, "shift_right", x, bits))

    return te.compute((n, oco, *out, ob), untiled, name="conv2d_winograd", tag=tag.CONV2D_WINOGRAD, attrs=facts)


def _in_tile(index: Any, along: Filter) -> tuple[Any, Any]:
    """The tile of an output, and which of its outputs that is."""
    return (index, 0) if along.outputs == 1 else (index // along.outputs, index % along.outputs)


def _pick(index: Any, values: Sequence[Any]) -> Any:
    """Element `index` of `values`: a chain of selections, which folds where `index` is unrolled."""
    *rest, result = values
    for position in range(len(rest) - 1, -1, -1):
        result = tir.select(tir.eq(index, position), rest[position], result)
    return result
