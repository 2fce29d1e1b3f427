"""Layers that look at windows of the image or move its elements: pooling, resizing, cutting out, reordering."""

from __future__ import annotations

from tilewright.frontend.darknet.node import DarknetNode
from tilewright.frontend.darknet.registry import converts
from tilewright.frontend.idioms import concatenate, like, reshape, shape_of, slice_axis, transpose
from tilewright.frontend.windows import pool
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim


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


@converts("local_avgpool", "local_avg")
def convert_local_avgpool(node: DarknetNode) -> Expr:
    """[local_avgpool]: the mean of what a window covers of the image."""
    return _pooled(node, "mean")


@converts("avgpool", "avg")
def convert_avgpool(node: DarknetNode) -> Expr:
    """[avgpool]: the mean of each channel."""
    return op.nn.global_avg_pool2d(node.image())


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
        made = op.image.resize2d(
            data, size=size, method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        )  # fmt: skip
    else:
        made = op.nn.avg_pool2d(data, pool_size=(-stride, -stride), strides=(-stride, -stride))
        scale *= stride * stride
    return made if scale == 1 else op.multiply(made, like(scale, made))


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
        split = reshape(data, (batch, stride, stride, small, height, width))
        made = transpose(split, (0, 3, 4, 1, 5, 2))
        return reshape(made, (batch, small, as_dim(height * stride), as_dim(width * stride)))
    if height % stride or width % stride:
        node.bad(f"an image of {height} x {width} does not divide by {stride}")
    split = reshape(data, (batch, small, height, stride, width, stride))
    made = transpose(split, (0, 3, 5, 1, 2, 4))
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
    return op.subtract(op.multiply(data, like(2, data)), like(1, data))


@converts("normalization", "lrn")
def convert_normalization(node: DarknetNode) -> Expr:
    """[normalization]: local response normalization over channels."""
    section = node.section
    size, alpha = section.integer("size", 5, 1), section.number("alpha", 1e-4)
    return op.nn.lrn(
        node.image(), size=size, axis=1, bias=section.number("kappa", 1), alpha=alpha * size,
        beta=section.number("beta", 0.75),
    )  # fmt: skip
