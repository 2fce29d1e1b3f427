"""3x3 convolution of stride 1 by minimal filtering: fewer multiplications, more additions (see `topi.winograd`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.pad import pad
from tilewright.topi.transform import layout_transform
from tilewright.topi.util import constant_shape
from tilewright.topi.winograd import KERNEL_MATRIX, transform_input, transform_output


def conv2d_winograd_NCHWc(data: Tensor, weight: Tensor, padding: Sequence[int], tile_size: int) -> Tensor:
    """`data` [N, C/ib, H, W, ib] with transformed weights [O/ob, m+2, m+2, C, ob] to [N, O/ob, OH, OW, ob].

    m is `tile_size` (2 or 4), `padding` is top, left, bottom, right. The image is covered by a grid of tiles of m by m
    outputs; where m does not divide the output, the tiles at the end hang over and read zeros.

    Stages: data_pad, input_rows (B^T d), input_tile (B^T d B), tile_product (the matrix product of every one of the
    (m+2)^2 points, reduced over ic_outer and ic_inner), output_rows (A^T M), conv2d_winograd (A^T M A, un-tiled).
    """
    n, ico, h, w, ib = constant_shape(data)
    oco, points, _, _, ob = constant_shape(weight)
    oh, ow = (size + padding[i] + padding[i + 2] - 2 for i, size in enumerate((h, w)))
    rows, columns = -(-oh // tile_size), -(-ow // tile_size)
    hang = (rows * tile_size - oh, columns * tile_size - ow)
    padded = pad(data, (0, 0, *padding[:2], 0), (0, 0, padding[2] + hang[0], padding[3] + hang[1], 0))
    tiles = _input_tiles(padded, (n, ico, rows, columns, ib), tile_size)

    outer, inner = te.reduce_axis((0, ico), name="ic_outer"), te.reduce_axis((0, ib), name="ic_inner")
    product = te.compute(
        (n, oco, points, points, rows, columns, ob),
        lambda b, oc, i, j, y, x, lane: te.sum(
            tiles(b, outer, y, i, j, x, inner) * weight(oc, i, j, outer * ib + inner, lane), axis=[outer, inner]
        ),
        name="tile_product",
        tag=tag.WINOGRAD_PRODUCT,
    )
    partial = te.compute(
        (n, oco, rows, columns, tile_size, points, ob),
        lambda b, oc, y, x, i, j, lane: _pick(
            i, transform_output, [product(b, oc, k, j, y, x, lane) for k in range(points)]
        ),
        name="output_rows",
        tag=tag.INJECTIVE,
    )

    def untiled(b: Any, oc: Any, y: Any, x: Any, lane: Any) -> Any:
        row = [partial(b, oc, y // tile_size, x // tile_size, y % tile_size, k, lane) for k in range(points)]
        return _pick(x % tile_size, transform_output, row)

    return te.compute(
        (n, oco, oh, ow, ob),
        untiled,
        name="conv2d_winograd",
        tag=tag.CONV2D_WINOGRAD,
        attrs={"tile_size": tile_size, "padding": tuple(padding), "ic_block": ib, "oc_block": ob},
    )


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int, kernel_layout: str, block: int) -> Tensor:
    """G g G^T of `kernel` (O, I, 3, 3 in the order of `kernel_layout`): [O/block, m+2, m+2, I, block]."""
    plain = kernel if kernel_layout == "OIHW" else layout_transform(kernel, kernel_layout, "OIHW")
    filters, channels, _, _ = constant_shape(plain)
    points = tile_size + 2
    matrix = KERNEL_MATRIX[tile_size]

    def combine(taps: Sequence[Any]) -> list[Any]:
        products = [[tap * float(factor) for tap, factor in zip(taps, row) if factor] for row in matrix]
        return [functools.reduce(operator.add, row) for row in products]

    partial = te.compute(
        (filters, channels, points, 3),
        lambda o, c, i, x: _pick(i, combine, [plain(o, c, y, x) for y in range(3)]),
        name="kernel_rows",
        tag=tag.INJECTIVE,
    )
    return te.compute(
        (filters // block, points, points, channels, block),
        lambda o, i, j, c, lane: _pick(j, combine, [partial(o * block + lane, c, i, x) for x in range(3)]),
        name="winograd_weight",
        tag=tag.INJECTIVE,
    )


def _input_tiles(padded: Tensor, grid: tuple[int, int, int, int, int], tile_size: int) -> Tensor:
    """B^T d B of every tile: [N, C/ib, rows, m+2, m+2, columns, ib]."""
    n, ico, rows, columns, ib = grid
    points = tile_size + 2
    partial = te.compute(
        (n, ico, rows, columns, points, points, ib),
        lambda b, c, y, x, i, j, lane: _pick(
            i, transform_input, [padded(b, c, y * tile_size + k, x * tile_size + j, lane) for k in range(points)]
        ),
        name="input_rows",
        tag=tag.INJECTIVE,
    )
    return te.compute(
        (n, ico, rows, points, points, columns, ib),
        lambda b, c, y, i, j, x, lane: _pick(
            j, transform_input, [partial(b, c, y, x, i, k, lane) for k in range(points)]
        ),
        name="input_tile",
        tag=tag.INJECTIVE,
    )


def _pick(index: Any, transform: Callable[[Sequence[Any]], list[Any]], values: Sequence[Any]) -> Any:
    """Element `index` of `transform(values)`: a chain of selections, which folds where `index` is unrolled."""
    *rest, result = transform(values)
    for position in range(len(rest) - 1, -1, -1):
        result = tir.select(tir.eq(index, position), rest[position], result)
    return result
