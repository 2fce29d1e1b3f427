"""Sampling of images at fractional coordinates: grids, boxes, regions, deformed windows, and morphological dilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.shapes import conv_output
from tilewright.topi.transform import injective
from tilewright.topi.util import clamped, constant_shape, lowest

Read = Callable[[Any, Any], Any]


def _number(value: Any, like: Any) -> Any:
    """A number, or an extent that is an expression, in the type of `like`."""
    return value.astype(like.dtype) if isinstance(value, tir.Expr) else tir.const(value, like.dtype)


def _wide(position: Any) -> Any:
    """A position in float32 at least: half floats cannot tell pixels apart."""
    return position.astype("float32") if position.dtype in ("float16", "bfloat16") else position


def _index(value: Any, size: Any) -> Any:
    """A position, fractional or not, as an index within 0 … size - 1; NaN as 0, since it has no integer."""
    above = tir.select(value > _number(0, value), value, _number(0, value))
    return tir.minimum(above, _number(size - 1, value)).astype("int32")


def _inside(position: Any, size: Any) -> Any:
    return tir.all(
        tir.greater_equal(position, _number(0, position)), tir.less_equal(position, _number(size - 1, position))
    )


def taps(position: Any, method: str) -> list[tuple[Any, Any]]:
    """(whole position, weight) of the pixels that interpolation along one axis at `position` reads."""
    if method == "nearest":
        return [(tir.round(position), _number(1, position))]
    base = tir.floor(position)
    t = position - base
    one = _number(1, position)
    if method == "bilinear":
        return [(base, one - t), (base + one, t)]
    a = -0.75

    def near(u: Any) -> Any:
        return (u * _number(a + 2, u) - _number(a + 3, u)) * u * u + _number(1, u)

    def far(u: Any) -> Any:
        return ((u * _number(a, u) - _number(5 * a, u)) * u + _number(8 * a, u)) * u - _number(4 * a, u)

    weights = [far(t + one), near(t), near(one - t), far(_number(2, position) - t)]
    return [(base + _number(k - 1, position), weight) for k, weight in enumerate(weights)]


def interpolate(read: Read, y: Any, x: Any, size: Sequence[Any], method: str, zeros: bool) -> Any:
    """The value at (y, x), by `read(row, column)`; beside the image 0 (`zeros`) or the nearest pixel."""
    total: Any = None
    for row, row_weight in taps(y, method):
        for column, column_weight in taps(x, method):
            value = read(_index(row, size[0]), _index(column, size[1]))
            weight = (row_weight * column_weight).astype(value.dtype)
            part = value * weight
            if zeros:
                inside = tir.all(_inside(row, size[0]), _inside(column, size[1]))
                part = tir.select(inside, part, tir.const(0, value.dtype))
            total = part if total is None else total + part
    return total


def _reflected(position: Any, size: int, align_corners: bool) -> Any:
    """`position` mirrored at the image's ends until it lies within."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return _number(0, position)
    distance = tir.abs(position - _number(low, position))
    flips = tir.floor(distance / _number(span, position))
    rest = distance - flips * _number(span, position)
    even = tir.eq(flips - tir.floor(flips * _number(0.5, position)) * _number(2, position), _number(0, position))
    return tir.select(even, rest, _number(span, position) - rest) + _number(low, position)


def grid_sample(data: Tensor, grid: Tensor, method: str, padding_mode: str, align_corners: bool) -> Tensor:
    """`data` [N, C, H, W] at the positions `grid` [N, 2, OH, OW] (x, y in -1 … 1)."""
    n, c, h, w = constant_shape(data)
    _, _, oh, ow = constant_shape(grid)

    def position(g: Any, size: int) -> Any:
        half = _number(0.5, g)
        scaled = (g + _number(1, g)) * _number(size - 1, g) * half
        if not align_corners:
            scaled = ((g + _number(1, g)) * _number(size, g) - _number(1, g)) * half
        if padding_mode == "border":
            return tir.minimum(tir.maximum(scaled, _number(0, g)), _number(size - 1, g))
        if padding_mode == "reflection":
            mirrored = _reflected(scaled, size, align_corners)
            return tir.minimum(tir.maximum(mirrored, _number(0, g)), _number(size - 1, g))
        return scaled

    def body(b: Any, ch: Any, i: Any, j: Any) -> Any:
        y, x = position(_wide(grid(b, 1, i, j)), h), position(_wide(grid(b, 0, i, j)), w)
        return interpolate(lambda r, s: data(b, ch, r, s), y, x, (h, w), method, padding_mode == "zeros")

    return injective((n, c, oh, ow), body, "grid_sample")


def crop_and_resize(
    data: Tensor, boxes: Tensor, owners: Tensor, size: Sequence[int], method: str, outside: float
) -> Tensor:
    """Boxes [M, 4] (y1, x1, y2, x2 of 0 … 1) of the images `owners` [M] of `data` NCHW, each resized to `size`."""
    n, c, h, w = constant_shape(data)

    def position(box: Any, first: int, index: Any, count: int, extent: int) -> Any:
        start, end = _wide(boxes(box, first)), _wide(boxes(box, first + 2))
        if count == 1:
            return (start + end) * _number(0.5 * (extent - 1), start)
        # divided last, so that a box that ends where the image does has its last position there, not beyond
        along = index.astype(start.dtype)
        mixed = (_number(count - 1, start) - along) * start + along * end
        return mixed * _number(extent - 1, start) / _number(count - 1, start)

    def body(box: Any, ch: Any, i: Any, j: Any) -> Any:
        y, x = position(box, 0, i, size[0], h), position(box, 1, j, size[1], w)
        owner = _index(owners(box), n)
        value = interpolate(lambda r, s: data(owner, ch, r, s), y, x, (h, w), method, False)
        return tir.select(tir.all(_inside(y, h), _inside(x, w)), value, tir.const(outside, data.dtype))

    return injective((constant_shape(boxes)[0], c, *size), body, "crop_and_resize")


def dilation2d(
    data: Tensor, weight: Tensor, strides: Sequence[int], padding: Sequence[int], dilations: Sequence[int]
) -> Tensor:
    """max over each window of `data` [N, C, H, W] + `weight` [C, KH, KW]; what lies beside the image does not count."""
    n, c, h, w = constant_shape(data)
    _, *size = constant_shape(weight)
    out = [
        conv_output(extent, k, strides[i], padding[i], padding[i + 2], dilations[i])
        for i, (extent, k) in enumerate(zip((h, w), size))
    ]
    ky, kx = te.reduce_axis((0, size[0]), name="kh"), te.reduce_axis((0, size[1]), name="kw")
    never = tir.const(lowest(data.dtype), data.dtype)

    def body(b: Any, ch: Any, i: Any, j: Any) -> Any:
        y = i * strides[0] + ky.var * dilations[0] - padding[0]
        x = j * strides[1] + kx.var * dilations[1] - padding[1]
        inside = tir.all(y >= 0, tir.less(y, h), x >= 0, tir.less(x, w))
        row, column = clamped(y, h), clamped(x, w)
        return te.max(tir.select(inside, data(b, ch, row, column) + weight(ch, ky, kx), never), axis=[ky, kx])

    return te.compute((n, c, *out), body, name="T_dilation2d", tag=tag.COMM_REDUCE)


class _Samples:
    """Samples in the bins of regions [R, 5] (image, x1, y1, x2, y2): up to `most` along each side of a bin count."""

    def __init__(
        self, data: Tensor, rois: Tensor, size: Sequence[int], scale: float, ratio: int, aligned: bool = False
    ) -> None:
        self.data, self.rois, self.size, self.scale, self.ratio = data, rois, size, scale, ratio
        self.aligned = aligned
        extents = data.shape[2:]
        self.most = [ratio] * 2 if ratio > 0 else [-(-extent // bins) + 1 for extent, bins in zip(extents, size)]
        self.axes = [te.reduce_axis((0, most), name=name) for most, name in zip(self.most, ("sy", "sx"))]

    def side(self, region: Any, i: int) -> tuple[Any, Any, Any]:
        """(start, length of a bin, number of samples in a bin) of a region along H (`i` = 0) or W."""
        start, end = (_wide(self.rois(region, k)) for k in (2 - i, 4 - i))
        start, end = start * _number(self.scale, start), end * _number(self.scale, end)
        length = end - start if self.aligned else tir.maximum(end - start, _number(1, start))
        length = length / _number(self.size[i], start)
        start = start - _number(0.5, start) if self.aligned else start
        if self.ratio > 0:
            return start, length, _number(self.ratio, start)
        return start, length, tir.minimum(tir.ceil(length), _number(self.most[i], start))

    def value(self, region: Any, ch: Any, i: Any, j: Any) -> tuple[Any, Any]:
        """The image at a sample of bin (i, j), 0 beside it, and whether the sample counts."""
        n, _, h, w = self.data.shape
        (y0, height, rows), (x0, width, columns) = self.side(region, 0), self.side(region, 1)
        half, (sy, sx) = _number(0.5, y0), self.axes
        y = y0 + i.astype(y0.dtype) * height + (sy.var.astype(y0.dtype) + half) * height / rows
        x = x0 + j.astype(x0.dtype) * width + (sx.var.astype(x0.dtype) + half) * width / columns
        owner = _index(_wide(self.rois(region, 0)), n)
        row, column = (tir.minimum(tir.maximum(v, _number(0, v)), _number(e - 1, v)) for v, e in ((y, h), (x, w)))
        value = interpolate(lambda r, s: self.data(owner, ch, r, s), row, column, (h, w), "bilinear", False)
        beside = tir.any(*[tir.any(v < _number(-1, v), v > _number(e, v)) for v, e in ((y, h), (x, w))])
        counts = tir.all(sy.var.astype(y0.dtype) < rows, sx.var.astype(x0.dtype) < columns)
        return tir.select(beside, tir.const(0, self.data.dtype), value), counts

    def reduced(self, reducer: Any, neutral: float, *indices: Any) -> Any:
        """All samples of a bin that count, by `reducer`, whose `neutral` number stands for the others."""
        value, counts = self.value(*indices)
        return reducer(tir.select(counts, value, tir.const(neutral, self.data.dtype)), axis=self.axes)


def roi_align(
    data: Tensor,
    rois: Tensor,
    size: Sequence[int],
    scale: float,
    ratio: int,
    mode: str,
    aligned: bool = False,
) -> Tensor:
    """The mean or maximum of samples in each of `size` bins of regions [R, 5] (image, x1, y1, x2, y2).

    `ratio` samples along each side of a bin; 0 or less takes as many as the bin is pixels long. `aligned` coordinates
    count from corners of pixels, and regions may then be shorter than one.
    """
    samples = _Samples(data, rois, size, scale, ratio, aligned)
    shape = (rois.shape[0], data.shape[1], *size)
    if mode == "max":
        low = float("-inf")
        return te.compute(shape, lambda *i: samples.reduced(te.max, low, *i), name="T_roi_align", tag=tag.COMM_REDUCE)
    sums = te.compute(shape, lambda *i: samples.reduced(te.sum, 0, *i), name="roi_sum", tag=tag.COMM_REDUCE)

    def mean(region: Any, ch: Any, i: Any, j: Any) -> Any:
        rows, columns = samples.side(region, 0)[2], samples.side(region, 1)[2]
        return sums(region, ch, i, j) / tir.maximum(rows * columns, _number(1, rows)).astype(data.dtype)

    return te.compute(shape, mean, name="T_roi_align", tag=tag.ELEMWISE)


def roi_pool(data: Tensor, rois: Tensor, size: Sequence[int], scale: float) -> Tensor:
    """The largest pixel in each of `size` bins of regions [R, 5] (image, x1, y1, x2, y2); 0 for an empty bin."""
    n, c, h, w = constant_shape(data)
    ky, kx = te.reduce_axis((0, h), name="y"), te.reduce_axis((0, w), name="x")

    def edges(region: Any, first: int, index: Any, bins: int) -> tuple[Any, Any]:
        start, end = (_wide(rois(region, k)) for k in (first, first + 2))
        start, end = tir.round(start * _number(scale, start)), tir.round(end * _number(scale, end))
        length = tir.maximum(end - start + _number(1, start), _number(1, start)) / _number(bins, start)
        position = index.astype(start.dtype)
        low = tir.floor(position * length) + start
        high = tir.ceil((position + _number(1, position)) * length) + start
        return low, high

    lowest = tir.const(float("-inf"), data.dtype)

    def body(region: Any, ch: Any, i: Any, j: Any) -> Any:
        (top, bottom), (left, right) = edges(region, 2, i, size[0]), edges(region, 1, j, size[1])
        y, x = ky.var.astype(top.dtype), kx.var.astype(top.dtype)
        owner = _index(_wide(rois(region, 0)), n)
        inside = tir.all(y >= top, y < bottom, x >= left, x < right)
        return te.max(tir.select(inside, data(owner, ch, ky, kx), lowest), axis=[ky, kx])

    shape = (constant_shape(rois)[0], c, *size)
    found = te.compute(shape, body, name="roi_max", tag=tag.COMM_REDUCE)
    return te.compute(
        shape,
        lambda *i: tir.select(tir.eq(found(*i), lowest), tir.const(0, data.dtype), found(*i)),
        name="T_roi_pool",
        tag=tag.ELEMWISE,
    )


def deformable_conv2d(data: Tensor, offset: Tensor, weight: Tensor, attrs: Any) -> Tensor:
    """Convolution whose taps read `data` at positions moved by `offset` [N, DG·KH·KW·2, OH, OW] (y, x of each tap)."""
    n, c, h, w = constant_shape(data)
    o, icg, kh, kw = constant_shape(weight)
    oh, ow = constant_shape(offset)[2:]
    strides, padding, dilation = attrs["strides"], attrs["padding"], attrs["dilation"]
    per_offset, per_group = c // attrs["deformable_groups"], o // attrs["groups"]
    rc, ry, rx = (te.reduce_axis((0, e), name=name) for e, name in ((icg, "ic"), (kh, "kh"), (kw, "kw")))

    def sampled(b: Any, ch: Any, ky: Any, kx: Any, i: Any, j: Any) -> Any:
        first = ((ch // per_offset * kh + ky) * kw + kx) * 2
        y, x = _wide(offset(b, first, i, j)), _wide(offset(b, first + 1, i, j))
        y = y + (i * strides[0] + ky * dilation[0] - padding[0]).astype(y.dtype)
        x = x + (j * strides[1] + kx * dilation[1] - padding[1]).astype(x.dtype)
        return interpolate(lambda r, s: data(b, ch, r, s), y, x, (h, w), "bilinear", True)

    def body(b: Any, f: Any, i: Any, j: Any) -> Any:
        value = sampled(b, f // per_group * icg + rc.var, ry.var, rx.var, i, j)
        return te.sum(value * weight(f, rc, ry, rx), axis=[rc, ry, rx])

    return te.compute((n, o, oh, ow), body, name="T_deformable_conv2d", tag=tag.COMM_REDUCE)


def correlation(a: Tensor, b: Tensor, attrs: Any) -> Tensor:
    """Products (or distances) of windows of `a` with windows of `b` at every displacement, meant over the window."""
    n, c, h, w = constant_shape(a)
    size, reach = attrs["kernel_size"], attrs["max_displacement"]
    step, grid_step = attrs["stride1"], attrs["stride2"]
    top, left, bottom, right = attrs["padding"]
    border, radius = reach + (size - 1) // 2, reach // grid_step
    side = 2 * radius + 1
    oh, ow = (-(-(extent + p + q - 2 * border) // step) for extent, p, q in ((h, top, bottom), (w, left, right)))
    rc, ry, rx = (te.reduce_axis((0, e), name=name) for e, name in ((c, "ic"), (size, "kh"), (size, "kw")))

    def read(x: Tensor, image: Any, y: Any, column: Any) -> Any:
        inside = tir.all(y >= 0, tir.less(y, h), column >= 0, tir.less(column, w))
        row, position = clamped(y, h), clamped(column, w)
        return tir.select(inside, x(image, rc, row, position), tir.const(0, x.dtype))

    def body(image: Any, q: Any, i: Any, j: Any) -> Any:
        y, x = i * step + reach - top + ry.var, j * step + reach - left + rx.var
        dy, dx = (q // side - radius) * grid_step, (q % side - radius) * grid_step
        first, second = read(a, image, y, x), read(b, image, y + dy, x + dx)
        value = first * second if attrs["is_multiply"] else tir.abs(first - second)
        return te.sum(value, axis=[rc, ry, rx])

    shape = (n, side * side, oh, ow)
    total = te.compute(shape, body, name="correlated", tag=tag.COMM_REDUCE)
    count = tir.const(size * size * c, a.dtype)
    return te.compute(shape, lambda *i: total(*i) / count, name="T_correlation", tag=tag.ELEMWISE)
