"""Gradients of what samples images at fractional coordinates, of regions, and of moved and displaced windows.

Each operator is written once more in operators that have gradients, and that expression is differentiated; nothing of
it runs in a forward pass. What is taken of an image does not change with the position but through the weights between
pixels, so nothing flows through rounding, nor to the image's number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, const, element_type
from tilewright.relay.ir.registry import Expansion, set_gradient
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import nn, reduce, tensor, transform
from tilewright.relay.op.algebra import einsum
from tilewright.relay.op.gather import take
from tilewright.relay.op.gradients.adjoint import gradient_of_parts
from tilewright.relay.op.gradients.common import number, shape_of
from tilewright.relay.op.scatter import scatter_nd

_CUBIC = -0.75


def _steps(count: int, like: Expr, shape: Sequence[int] = (-1,)) -> Expr:
    """0, 1, 2, … in the element type of `like`."""
    dtype = element_type(like)
    assert dtype is not None
    return Constant(np.arange(count).astype(dtype.numpy).reshape(shape))


def _along(data: Expr, axis: int, begin: int, end: int, stride: int = 1) -> Expr:
    return transform.strided_slice(data, begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))


# ------------------------------------------------------------------------------------------------ fractional
# coordinates
def _weights(position: Expr, method: str) -> list[tuple[Expr, Expr]]:
    """(pixel, weight) of interpolation along one axis; pixels are whole numbers in floating point."""
    one = number(1, position)
    if method == "nearest":
        return [(tensor.round(position), tensor.ones_like(position))]
    base = tensor.floor(position)
    t = position - base
    if method == "bilinear":
        return [(base, one - t), (base + one, t)]

    def near(u: Expr) -> Expr:
        return (number(_CUBIC + 2, u) * u - number(_CUBIC + 3, u)) * u * u + one

    def far(u: Expr) -> Expr:
        return number(_CUBIC, u) * (((u - number(5, u)) * u + number(8, u)) * u - number(4, u))

    return [
        (base - one, far(t + one)),
        (base, near(t)),
        (base + one, near(one - t)),
        (base + number(2, t), far(number(2, t) - t)),
    ]


def sampled(data: Expr, owners: Expr | None, y: Expr, x: Expr, method: str, zeros: bool) -> Expr:
    """[M, P, C]: images [N, C, H, W] at positions [M, P] of the images `owners` [M] (of image m by default).

    Beside the image 0 or the nearest pixel.
    """
    n, channels, height, width = tensor_type_of(data).shape
    pixels = transform.reshape(transform.transpose(data, (0, 2, 3, 1)), (n * height * width, channels))
    if owners is None:
        owners = Constant(np.arange(n, dtype="int64"))
    first = transform.expand_dims(_images(owners, n) * const(height * width, "int64"), 1)
    total: Expr | None = None
    for row, row_weight in _weights(y, method):
        for column, column_weight in _weights(x, method):
            weight = row_weight * column_weight
            if zeros:
                weight = weight * _inside(row, height - 1) * _inside(column, width - 1)
            at = [tensor.cast(tensor.clip(p, 0, size - 1), "int64") for p, size in ((row, height), (column, width))]
            part = take(pixels, first + at[0] * const(width, "int64") + at[1], 0) * transform.expand_dims(weight, 2)
            total = part if total is None else total + part
    assert total is not None
    return total


def _images(owners: Expr, count: int) -> Expr:
    """Positions of images as int64, each the nearest one that there is, as the kernels read them."""
    return tensor.cast(tensor.clip(owners, 0, count - 1), "int64")


def _inside(position: Expr, last: float, first: float = 0) -> Expr:
    """1 where `position` is between `first` and `last`, else 0."""
    there = tensor.logical_and(
        tensor.greater_equal(position, number(first, position)), tensor.less_equal(position, number(last, position))
    )
    dtype = element_type(position)
    return tensor.cast(there, str(dtype))


def _mirrored(position: Expr, size: int, align_corners: bool) -> Expr:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if high <= low:
        return position
    twice, first = number(2 * (high - low), position), number(low, position)
    away = position - first
    away = away - tensor.floor(away / twice) * twice
    return first + tensor.where(tensor.greater(away, number(high - low, position)), twice - away, away)


def _grid_sample(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, grid = args
    n, channels, *sizes = shape_of(data)
    rows, columns = shape_of(grid)[2:]
    positions = []
    for index, size in ((1, sizes[0]), (0, sizes[1])):
        g = transform.reshape(_along(grid, 1, index, index + 1), (n, rows * columns)) + number(1, grid)
        scale = (size - 1) / 2 if attrs["align_corners"] else size / 2
        position: Expr = g * number(scale, grid) - number(0 if attrs["align_corners"] else 0.5, grid)
        if attrs["padding_mode"] == "reflection":
            position = _mirrored(position, size, attrs["align_corners"])
        positions.append(position if attrs["padding_mode"] == "zeros" else tensor.clip(position, 0, size - 1))
    found = sampled(data, None, positions[0], positions[1], attrs["method"], attrs["padding_mode"] == "zeros")
    return transform.reshape(transform.transpose(found, (0, 2, 1)), (n, channels, rows, columns))


def _crop_and_resize(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, boxes, owners = args
    (_, channels, *sizes), count = shape_of(data), shape_of(boxes)[0]
    size = attrs["crop_size"]
    positions = []
    for axis in range(2):
        begin, end = (_along(boxes, 1, k, k + 1) for k in (axis, axis + 2))
        reach = number(sizes[axis] - 1, boxes)
        if size[axis] == 1:
            positions.append((begin + end) * number(0.5, boxes) * reach)
        else:
            parts = _steps(size[axis], boxes, (1, -1)) / number(size[axis] - 1, boxes)
            positions.append((begin + (end - begin) * parts) * reach)
    shape = (count, size[0], size[1])
    y = transform.broadcast_to(transform.expand_dims(positions[0], 2), shape)
    x = transform.broadcast_to(transform.expand_dims(positions[1], 1), shape)
    y, x = (transform.reshape(position, (count, size[0] * size[1])) for position in (y, x))
    method = "nearest" if attrs["method"] == "nearest_neighbor" else "bilinear"
    found = sampled(data, owners, y, x, method, zeros=False)
    inside = transform.expand_dims(_inside(y, sizes[0] - 1) * _inside(x, sizes[1] - 1), 2)
    outside = number(attrs["extrapolation_value"], data)
    found = inside * found + (number(1, data) - inside) * outside
    return transform.reshape(transform.transpose(found, (0, 2, 1)), (count, channels, *size))


# ---------------------------------------------------------------------------------------------------------- regions
def _column(rois: Expr, index: int) -> Expr:
    return _along(rois, 1, index, index + 1)


def _roi_align(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Samples [R, bins along y, samples, bins along x, samples]; those that a bin does not have count for nothing."""
    data, rois = args
    (_, channels, *sizes), count = shape_of(data), shape_of(rois)[0]
    one, scale = number(1, rois), number(attrs["spatial_scale"], rois)
    positions, there, counts = [], [], []
    for axis in range(2):
        bins, ratio = attrs["pooled_size"][axis], attrs["sample_ratio"]
        begin, end = (_column(rois, k) * scale for k in (2 - axis, 4 - axis))
        length = (end - begin if attrs["aligned"] else tensor.maximum(end - begin, one)) / number(bins, rois)
        begin = begin - number(0.5, rois) if attrs["aligned"] else begin
        most = ratio if ratio > 0 else -(-sizes[axis] // bins) + 1
        taken = number(ratio, rois) if ratio > 0 else tensor.minimum(tensor.ceil(length), number(most, rois))
        taken = transform.broadcast_to(taken, (count, 1))
        sample = (_steps(most, rois, (1, 1, most)) + number(0.5, rois)) / transform.expand_dims(taken, 2)
        cell = _steps(bins, rois, (1, bins, 1)) + sample
        position = transform.expand_dims(begin, 2) + cell * transform.expand_dims(length, 2)
        positions.append(transform.reshape(tensor.clip(position, 0, sizes[axis] - 1), (count, bins * most)))
        used = _inside(position, sizes[axis], -1) * _inside(
            transform.expand_dims(taken, 2) - _steps(most, rois, (1, 1, most)), most, 1
        )
        there.append(transform.reshape(used, (count, bins * most)))
        counts.append((bins, most, taken))
    (rows, row_samples, rows_taken), (columns, column_samples, columns_taken) = counts
    shape = (count, rows * row_samples, columns * column_samples)
    y, x = (
        transform.reshape(transform.broadcast_to(transform.expand_dims(p, 2 - k), shape), (count, shape[1] * shape[2]))
        for k, p in enumerate(positions)
    )
    found = sampled(data, transform.squeeze(_column(rois, 0), 1), y, x, "bilinear", zeros=False)
    cells = transform.reshape(found, (count, rows, row_samples, columns, column_samples, channels))
    used = transform.reshape(
        transform.expand_dims(there[0], 2) * transform.expand_dims(there[1], 1),
        (count, rows, row_samples, columns, column_samples, 1),
    )
    if attrs["mode"] == "max":
        pooled = reduce.max(cells * used, axis=(2, 4))
    else:
        each = transform.reshape(tensor.maximum(rows_taken * columns_taken, one), (count, 1, 1, 1))
        pooled = reduce.sum(cells * used, axis=(2, 4)) / each
    return transform.transpose(pooled, (0, 3, 1, 2))


def _roi_pool_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Each bin's gradient shared equally among its largest pixels."""
    data, rois = call.args
    attrs, sizes = call.attrs, shape_of(data)[2:]
    owners = _images(transform.squeeze(_column(rois, 0), 1), shape_of(data)[0])
    images = take(data, owners, 0)
    masks = [_bins(rois, axis, sizes[axis], attrs) for axis in range(2)]
    total: Expr | None = None
    for i, j in np.ndindex(*attrs["pooled_size"]):
        there = transform.expand_dims(_field(masks[0], i), 2) * transform.expand_dims(_field(masks[1], j), 1)
        cell = [_along(_along(value, 2, i, i + 1), 3, j, j + 1) for value in (call, g)]
        dtype = element_type(data)
        hit = tensor.cast(tensor.equal(images, cell[0]), str(dtype)) * transform.expand_dims(there, 1)
        many = tensor.maximum(reduce.sum(hit, axis=(2, 3), keepdims=True), number(1, data))
        part = hit * (cell[1] / many)
        total = part if total is None else total + part
    assert total is not None
    return [scatter_nd(tensor.zeros_like(data), transform.expand_dims(owners, 0), total, "add"), None]


def _field(data: Expr, index: int) -> Expr:
    return transform.squeeze(_along(data, 1, index, index + 1), 1)


def _bins(rois: Expr, axis: int, size: int, attrs: Attrs) -> Expr:
    """[R, bins, size]: 1 for the pixels that are in a bin along one axis."""
    bins = attrs["pooled_size"][axis]
    begin, end = (
        transform.expand_dims(tensor.round(_column(rois, k) * number(attrs["spatial_scale"], rois)), 2)
        for k in (2 - axis, 4 - axis)
    )
    step = tensor.maximum(end - begin + number(1, rois), number(1, rois)) / number(bins, rois)
    index, pixel = _steps(bins, rois, (1, bins, 1)), _steps(size, rois, (1, 1, size))
    first = tensor.floor(index * step) + begin
    last = tensor.ceil((index + number(1, rois)) * step) + begin
    inside = tensor.logical_and(tensor.greater_equal(pixel, first), tensor.less(pixel, last))
    return tensor.cast(inside, str(element_type(rois)))


# --------------------------------------------------------------------------------------- moved and displaced windows
def _dilation2d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, weight = args
    top, left, bottom, right = attrs["padding"]
    dtype = element_type(data)
    assert dtype is not None
    padded = nn.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), pad_value=dtype.extremes()[0])
    _, kh, kw = shape_of(weight)
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilations"]
    height, width = shape_of(data)[2] + top + bottom, shape_of(data)[3] + left + right
    rows, columns = (height - (kh - 1) * dh - 1) // sh, (width - (kw - 1) * dw - 1) // sw
    best: Expr | None = None
    for y, x in np.ndindex(kh, kw):
        seen = _along(_along(padded, 2, y * dh, y * dh + rows * sh + 1, sh), 3, x * dw, x * dw + columns * sw + 1, sw)
        part = seen + _along(_along(weight, 1, y, y + 1), 2, x, x + 1)
        best = part if best is None else tensor.maximum(best, part)
    assert best is not None
    return best


def _deformable_conv2d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, offset, weight = args
    n, channels = shape_of(data)[:2]
    outputs, each, kh, kw = shape_of(weight)
    oh, ow = shape_of(offset)[2:]
    shared, groups = channels // attrs["deformable_groups"], attrs["groups"]
    moved = transform.reshape(offset, (n, attrs["deformable_groups"], kh * kw, 2, oh * ow))
    columns = []
    for d in range(attrs["deformable_groups"]):
        positions = []
        for axis in range(2):
            tap = np.arange((kh, kw)[axis]) * attrs["dilation"][axis] - attrs["padding"][axis]
            start = np.arange((oh, ow)[axis]) * attrs["strides"][axis]
            taps = tap.repeat(kw) if axis == 0 else np.tile(tap, kh)
            starts = start.repeat(ow) if axis == 0 else np.tile(start, oh)
            dtype = element_type(data)
            assert dtype is not None
            fixed = Constant((taps[:, None] + starts).astype(dtype.numpy).reshape(1, -1))
            own = _along(_along(moved, 1, d, d + 1), 3, axis, axis + 1)
            positions.append(transform.reshape(own, (n, kh * kw * oh * ow)) + fixed)
        part = _along(data, 1, d * shared, (d + 1) * shared)
        columns.append(sampled(part, None, positions[0], positions[1], "bilinear", zeros=True))
    taken = transform.reshape(transform.concatenate(columns, axis=2), (n, kh * kw, oh * ow, groups, each))
    kernel = transform.reshape(weight, (groups, outputs // groups, each, kh * kw))
    found = einsum([taken, kernel], "nkpgc,gock->ngop")
    return transform.reshape(found, (n, outputs, oh, ow))


def _correlation(args: Sequence[Expr], attrs: Attrs) -> Expr:
    top, left, bottom, right = attrs["padding"]
    first, second = (nn.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))) for x in args)
    size, reach, step, grid = (attrs[k] for k in ("kernel_size", "max_displacement", "stride1", "stride2"))
    extents = shape_of(args[0])[2] + top + bottom, shape_of(args[0])[3] + left + right
    radius, border = reach // grid, reach + (size - 1) // 2
    spans = [(-(-(extent - 2 * border) // step) - 1) * step + size for extent in extents]
    found = []
    for dy, dx in np.ndindex(2 * radius + 1, 2 * radius + 1):
        y, x = reach + (dy - radius) * grid, reach + (dx - radius) * grid
        a = _along(_along(first, 2, reach, reach + spans[0]), 3, reach, reach + spans[1])
        b = _along(_along(second, 2, y, y + spans[0]), 3, x, x + spans[1])
        value = a * b if attrs["is_multiply"] else tensor.abs(a - b)
        found.append(nn.avg_pool2d(reduce.mean(value, axis=(1,), keepdims=True), size, step))
    return transform.concatenate(found, axis=1)


_PARTS: dict[str, Expansion] = {
    "image.grid_sample": _grid_sample,
    "image.crop_and_resize": _crop_and_resize,
    "image.dilation2d": _dilation2d,
    "vision.roi_align": _roi_align,
    "nn.deformable_conv2d": _deformable_conv2d,
    "nn.correlation": _correlation,
}


def _enter(name: str, expression: Expansion) -> None:
    set_gradient(name, lambda call, g: gradient_of_parts(call, g, expression))


for _name, _expression in _PARTS.items():
    _enter(_name, _expression)
set_gradient("vision.roi_pool", _roi_pool_gradient)
