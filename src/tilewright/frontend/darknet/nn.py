"""Layers with weights: convolutions, products, batch normalization, learned constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.builders.sliding import Window, channel_patches
from tilewright.frontend.builders.window_rules import repeated_pixels
from tilewright.frontend.builders.windows import pool
from tilewright.frontend.darknet.activation import activated
from tilewright.frontend.darknet.node import DarknetNode, converts
from tilewright.frontend.idioms import concatenate, constant, reshape, scale_shift, shape_of, slice_axis, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim

#: What is added to variances. Darknet and its forks have 1e-6, outside of the root, and 1e-5, inside; OpenCV has this.
_EPSILON = 1e-6

Layer = Callable[[Expr], Expr]


def _normalization(node: DarknetNode, count: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift of the batch normalization whose scales, means and variances come next."""
    scales, mean, variance = (node.take(f"{part} of {what}", count) for part in ("scales", "means", "variances"))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = scales / np.sqrt(np.maximum(variance, 0) + _EPSILON)
        return scale, -mean * scale


def _padding(node: DarknetNode, size: int) -> int:
    return size // 2 if node.section.integer("pad", 0) else node.section.integer("padding", 0)


def _refuse_training_kinds(node: DarknetNode) -> None:
    """Raises `UnsupportedError` for options that change what a convolution computes and are not converted."""
    for name in ("binary", "xnor", "bin_output", "antialiasing", "share_index", "coordconv", "reverse"):
        if node.section.number(name, 0):
            node.unsupported(f"the option {name} is not supported")
    if node.section.number("flipped", 0):
        node.unsupported("weights that are stored transposed (flipped=1) are not supported")


def convolution(node: DarknetNode, channels: int, filters: int, what: str, activation: str | None = None) -> Layer:
    """The next convolution of the weights, by the options of the section, as a function of its input."""
    section = node.section
    _refuse_training_kinds(node)
    size, groups = section.integer("size", (node.section.kind == "crnn" and 3) or 1, 1), section.integer("groups", 1, 1)
    stride = section.integer("stride", 1, 1)
    strides = (section.integer("stride_y", stride, 1), section.integer("stride_x", stride, 1))
    dilation = 1 if size == 1 else section.integer("dilation", 1, 1)
    padding = _padding(node, size) * dilation
    if channels % groups or filters % groups:
        node.bad(f"{channels} channels and {filters} filters do not make {groups} groups")
    normalized = section.integer("batch_normalize", 0)
    biases = node.take(f"biases of {what}", filters)
    scale = shift = None
    if normalized:
        scale, shift = _normalization(node, filters, what)
    weights = node.take(what, filters, channels // groups, size, size)

    def apply(data: Expr) -> Expr:
        made: Expr = op.nn.conv2d(
            data, constant(weights), strides=strides, padding=(padding,) * 4, dilation=(dilation,) * 2, groups=groups
        )
        made = scale_shift(made, scale, biases if shift is None else biases + shift)
        return activated(node, made, activation or section.text("activation", "logistic"))

    return apply


@converts("convolutional", "conv")
def convert_convolutional(node: DarknetNode) -> Expr:
    """[convolutional]"""
    data = node.image()
    (channels,) = node.known(shape_of(data)[1])
    return convolution(node, channels, node.section.integer("filters", 1, 1), "filters")(data)


@converts("deconvolutional", "deconv")
def convert_deconvolutional(node: DarknetNode) -> Expr:
    """[deconvolutional]: the padding takes away from the borders of the result."""
    section, data = node.section, node.image()
    (channels,) = node.known(shape_of(data)[1])
    filters, size, stride = (
        section.integer(name, default, 1) for name, default in (("filters", 1), ("size", 1), ("stride", 1))
    )
    padding = _padding(node, size)
    biases = node.take("biases", filters)
    scale, shift = _normalization(node, filters, "filters") if section.integer("batch_normalize", 0) else (None, 0)
    weights = node.take("filters", channels, filters, size, size)
    made = op.nn.conv2d_transpose(data, constant(weights), strides=(stride, stride), padding=(padding,) * 4)
    return activated(node, scale_shift(made, scale, biases + shift), section.text("activation", "logistic"))


def connected(node: DarknetNode, inputs: int, units: int, what: str, activation: str) -> Layer:
    """The next matrix of the weights as a function of [batch, inputs]."""
    biases = node.take(f"biases of {what}", units)
    if node.weights.transposed:
        weights = node.take(what, inputs, units).T
    else:
        weights = node.take(what, units, inputs)
    scale = None
    if node.section.integer("batch_normalize", 0):
        scale, shift = _normalization(node, units, what)
        biases = biases + shift

    def apply(data: Expr) -> Expr:
        made = scale_shift(op.nn.dense(data, constant(weights)), scale, biases)
        return activated(node, made, activation)

    return apply


@converts("connected", "conn")
def convert_connected(node: DarknetNode) -> Expr:
    """[connected]"""
    data = node.flat()
    (inputs,) = node.known(shape_of(data)[1])
    units = node.section.integer("output", 1, 1)
    return connected(node, inputs, units, "units", node.section.text("activation", "logistic"))(data)


@converts("local")
def convert_local(node: DarknetNode) -> Expr:
    """[local]: a convolution with filters of its own at every position."""
    section, data = node.section, node.image()
    batch, channels, height, width = shape_of(data)
    filters, size, stride = (section.integer(name, 1, 1) for name in ("filters", "size", "stride"))
    pad = section.integer("pad", 0)
    channels, height, width = node.known(channels, height, width)
    rows, columns = ((extent - (1 if pad else size)) // stride + 1 for extent in (height, width))
    if min(rows, columns) < 1:
        node.bad(f"filters of {size} are larger than the image, {height} x {width}")
    biases = node.take("biases", filters, rows, columns)
    weights = node.take("filters", rows * columns, filters, channels * size * size)
    reach = [(count - 1) * stride + size for count in (rows, columns)]
    behind = [max(need - extent - pad, 0) for need, extent in zip(reach, (height, width))]
    edges = tuple((pad, extra) for extra in behind)
    windows = channel_patches(data, Window((size, size), (stride, stride), (1, 1), edges))
    windows = slice_axis(slice_axis(windows, 2, 0, rows), 3, 0, columns)
    columns_of = reshape(windows, (batch, channels * size * size, rows * columns))
    made: Expr = op.nn.batch_matmul(transpose(columns_of, (2, 0, 1)), constant(weights))  # [positions, batch, filters]
    made = reshape(transpose(made, (1, 2, 0)), (batch, filters, rows, columns))
    return activated(node, made + biases[None], section.text("activation", "logistic"))


@converts("batchnorm")
def convert_batchnorm(node: DarknetNode) -> Expr:
    """[batchnorm]: a normalization of its own."""
    data = node.image()
    (channels,) = node.known(shape_of(data)[1])
    biases = node.take("biases", channels)
    scale, shift = _normalization(node, channels, "channels")
    return scale_shift(data, scale, biases + shift)


# ------------ Layers that look at windows of the image or move its elements: pooling, resizing, cutting out, reordering
def _pooled(node: DarknetNode, kind: str) -> Expr:
    """Maxima or means of windows; Darknet pads by `size - 1` in all, the smaller half before, and counts no padding."""
    section, data = node.section, node.image()
    stride = section.integer("stride", 1, 1)
    strides = (section.integer("stride_y", stride, 1), section.integer("stride_x", stride, 1))
    size = section.integer("size", stride, 1)
    padding = section.integer("padding", size - 1)
    extents = shape_of(data)[2:]
    if any(isinstance(extent, int) and extent + padding < size for extent in extents):
        node.bad(f"windows of {size} are larger than the image, {extents}")
    before = padding // 2
    return pool(data, kind, (size, size), strides, (before, before), behind=(padding - before, padding - before))


@converts("maxpool", "max")
def convert_maxpool(node: DarknetNode) -> Expr:
    """[maxpool], over windows or, with `maxpool_depth`, over channels."""
    section, data = node.section, node.image()
    if section.integer("antialiasing", 0):
        node.unsupported("the option antialiasing is not supported")
    if section.integer("maxpool_depth", 0):
        count, channels = section.integer("out_channels", 1, 1), shape_of(data)[1]
        parts = [
            op.max(slice_axis(data, 1, first, channels, count), axis=(1,), keepdims=True) for first in range(count)
        ]
        return concatenate(parts, 1)
    return _pooled(node, "max")


@converts("upsample")
def convert_upsample(node: DarknetNode) -> Expr:
    """[upsample]: every pixel `stride` times in each direction; with a negative stride, the sums of such squares."""
    data = node.image()
    stride, scale = int(node.section.number("stride", 2)), node.section.number("scale", 1)
    if stride == 0:
        node.bad("stride=0")
    if stride > 0:
        height, width = shape_of(data)[2:]
        size = (as_dim(height * stride), as_dim(width * stride))
        made = repeated_pixels(data, size)
    else:
        made = op.nn.avg_pool2d(data, pool_size=(-stride, -stride), strides=(-stride, -stride))
        scale *= stride * stride
    return made if scale == 1 else made * scale


@converts("reorg")
def convert_reorg(node: DarknetNode) -> Expr:
    """[reorg] as Darknet has always computed it: elements are counted as if the image had the shape of the result."""
    data = node.image()
    stride = node.section.integer("stride", 1, 1)
    if node.section.integer("flatten", 0) or node.section.integer("extra", 0):
        node.unsupported("the options flatten and extra are not supported")
    batch, channels, height, width = shape_of(data)
    small = channels // (stride * stride)
    if channels % (stride * stride):
        node.bad(f"{channels} channels do not divide by {stride * stride}")
    if node.section.integer("reverse", 0):
        return op.nn.depth_to_space(data, block_size=stride, mode="DCR")
    if height % stride or width % stride:
        node.bad(f"an image of {height} x {width} does not divide by {stride}")
    wide = reshape(data, (batch, small, as_dim(height * stride), as_dim(width * stride)))
    made = op.nn.space_to_depth(wide, block_size=stride)
    return reshape(made, (batch, as_dim(channels * stride * stride), height // stride, width // stride))


@converts("reorg3d")
def convert_reorg3d(node: DarknetNode) -> Expr:
    """[reorg3d]: squares of pixels become channels, or the other way round with `reverse`."""
    data = node.image()
    stride = node.section.integer("stride", 1, 1)
    if node.section.integer("reverse", 0):
        return op.nn.depth_to_space(data, block_size=stride, mode="DCR")
    return op.nn.space_to_depth(data, block_size=stride)


@converts("crop")
def convert_crop(node: DarknetNode) -> Expr:
    """[crop]: the middle of the image, from 0 … 1 to -1 … 1 unless `noadjust` is given."""
    data = node.image()
    for axis, name in ((2, "crop_height"), (3, "crop_width")):
        size, extent = node.section.integer(name, 1, 1), shape_of(data)[axis]
        (extent,) = node.known(extent)
        if size > extent:
            node.bad(f"{name}={size} of an image of {extent}")
        begin = (extent - size) // 2
        data = slice_axis(data, axis, begin, begin + size)
    if node.section.integer("noadjust", 0):
        return data
    return data * 2 - 1


@converts("normalization", "lrn")
def convert_normalization(node: DarknetNode) -> Expr:
    """[normalization]: local response normalization over channels."""
    size, number = node.section.integer("size", 5, 1), node.section.number
    alpha, beta = number("alpha", 1e-4) * size, number("beta", 0.75)
    return op.nn.lrn(node.image(), size=size, axis=1, bias=number("kappa", 1), alpha=alpha, beta=beta)


def _constants(node: DarknetNode) -> Expr:
    """[implicit]: learned constants, whatever the input is."""
    atoms, filters = node.section.integer("atoms", 1, 1), node.section.integer("filters", 128, 1)
    return constant(node.take("values", 1, atoms, filters, 1).reshape(1, -1, 1, 1))


converts.functions({
    "implicit": _constants,
    # the mean of each channel, and of what a window covers of the image
    **dict.fromkeys(("avgpool", "avg"), lambda node: op.nn.global_avg_pool2d(node.image())),
    **dict.fromkeys(("local_avgpool", "local_avg"), lambda node: _pooled(node, "mean")),
})  # fmt: skip
