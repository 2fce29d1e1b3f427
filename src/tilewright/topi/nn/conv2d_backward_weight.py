"""The gradient of a convolution's kernel as sums over images and pixels, in vectors of neighbouring pixels.

Both operands are laid out so that every tap reads a plane shifted by a number of elements: rows as long as the output's
and as many zeros as the window is wider (zeros in the gradient, so that what the data has there counts for nothing),
columns and rows of the data by their remainder to the stride. A plane is then one run of pixels, and the kernel a
product of matrices [O, pixels] and [pixels, taps], whose second operand is read from the data as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, sum_dtype, workload
from tilewright.topi.util import extents

#: Pixels that are summed side by side: a line of cache of float32.
LANES = 16


def conv2d_backward_weight(
    gradient: Tensor,
    data: Tensor,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    images: int,
) -> Tensor:
    """The gradient of the kernel [O, C/groups, KH, KW] of a convolution of `data` [N, C, H, W] whose result has the
    `gradient` [N, O, OH, OW], all of constant sizes.

    `images` at a time are summed for all of the kernel before the next; they must divide N. Stages: gradient_rows
    [N, O, rows, pitch], data_rows [N, C, SH, SW, rows, pitch], conv2d_weight_lanes [parts, O, C, KH, KW, lanes] with
    the reduction axes b, r, t; conv2d_backward_weight, which adds up parts and lanes.
    """
    n, o, oh, ow = extents(gradient)
    c, (kh, kw), (dh, dw), (sh, sw) = extents(data)[1] // groups, kernel_size, dilation, strides
    right, below = (kw - 1) * dw // sw, (kh - 1) * dh // sh
    pitch = ow + right
    runs, vectors = vectors_of(oh, ow, right)
    whole = runs > 1
    g = gradient if whole else _gradient_rows(gradient, -(-vectors * LANES // pitch), pitch)
    reach = oh + below if whole else -(-(vectors * LANES + below * pitch + right) // pitch)
    x = _data_rows(data, reach, pitch, kernel_size, strides, padding, dilation)
    wide = sum_dtype(gradient, "")
    b, t = te.reduce_axis((0, images), name="b"), te.reduce_axis((0, vectors), name="t")
    r = te.reduce_axis((0, runs), name="r")

    def product(part: Any, f: Any, i: Any, y: Any, z: Any, lane: Any) -> Any:
        channel = i if groups == 1 else f // (o // groups) * c + i
        at, image = t * LANES + lane, part * images + b
        moved = at + y * dh // sh * pitch + z * dw // sw
        here = (r, at) if whole else (at // pitch, at % pitch)
        there = (r + y * dh // sh, at + z * dw // sw) if whole else (moved // pitch, moved % pitch)
        value = x(image, channel, y * dh % sh, z * dw % sw, *there)
        return te.sum(g(image, f, *here).astype(wide) * value.astype(wide), axis=[b, r, t])

    sums = te.compute((n // images, o, c, kh, kw, LANES), product, name="conv2d_weight_lanes", tag=tag.PARTIAL)
    part, lane = te.reduce_axis((0, n // images), name="part"), te.reduce_axis((0, LANES), name="lane")
    out = te.compute(
        (o, c, kh, kw),
        lambda f, i, y, z: te.sum(sums(part, f, i, y, z, lane), axis=[part, lane]),
        name="conv2d_backward_weight",
        tag=tag.CONV2D_BACKWARD_WEIGHT,
        attrs=workload(strides, padding, dilation, groups),
    )
    return finish(out, gradient, "")


def vectors_of(rows: int, columns: int, right: int) -> tuple[int, int]:
    """Runs of pixels of an image, and the vectors of one, where a window is `right` columns wider than one.

    A row is a run where vectors end with it, and needs no zeros behind it; else all rows are one."""
    if columns % LANES == 0 and right > 0:
        return rows, columns // LANES
    return 1, -(-((rows - 1) * (columns + right) + columns) // LANES)


def _gradient_rows(gradient: Tensor, rows: int, pitch: int) -> Tensor:
    """[N, O, rows, pitch]: the gradient with zeros behind its rows and below; itself where there are none."""
    n, o, oh, ow = extents(gradient)
    if (rows, pitch) == (oh, ow):
        return gradient

    def body(b: Any, f: Any, y: Any, x: Any) -> Any:
        inside = ([y < oh] if rows > oh else []) + ([x < ow] if pitch > ow else [])
        return tir.if_then_else(tir.all(*inside), gradient(b, f, y, x), tir.const(0, gradient.dtype))

    return te.compute((n, o, rows, pitch), body, name="gradient_rows", tag=tag.PAD)


def _data_rows(
    data: Tensor,
    rows: int,
    pitch: int,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Callable[..., Any]:
    """[N, C, SH, SW, rows, pitch]: rows and columns of the padded images by their remainders to the strides; a function
    that reads the images themselves where these are they."""
    n, c, h, w = extents(data)
    top, left = padding[:2]
    if (*kernel_size, *strides, rows, pitch) == (1, 1, 1, 1, h, w):
        return lambda b, f, r, q, y, x: data(b, f, y, x)
    phases = [min(s, (k - 1) * d + 1) for s, k, d in zip(strides, kernel_size, dilation)]
    last = [(size - 1) * s + p - 1 for size, s, p in zip((rows, pitch), strides, phases)]

    def body(b: Any, f: Any, r: Any, q: Any, y: Any, x: Any) -> Any:
        row, column = y * strides[0] + r - top, x * strides[1] + q - left
        inside = [row >= 0] if top else []
        inside += [row < h] if last[0] - top >= h else []
        inside += [column >= 0] if left else []
        inside += [column < w] if last[1] - left >= w else []
        value = data(b, f, row, column)
        return tir.if_then_else(tir.all(*inside), value, tir.const(0, data.dtype)) if inside else value

    return te.compute((n, c, *phases, rows, pitch), body, name="data_rows", tag=tag.PAD)
