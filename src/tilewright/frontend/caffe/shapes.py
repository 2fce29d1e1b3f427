"""Layers that move elements, and those that reduce axes."""

from __future__ import annotations

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions
from tilewright.frontend.builders.elements import reshaped, split_axis
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.builders.window_rules import repeated_pixels
from tilewright.frontend.caffe.node import CaffeNode, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Concat")
def convert_concat(node: CaffeNode) -> Expr:
    """Along `axis`, once called concat_dim."""
    param = node.layer.concat_param
    axis = int(param.concat_dim) if param.has("concat_dim") else param.axis
    return idioms.concatenate(node.given(), node.axis(axis))


@converts("Slice")
def convert_slice(node: CaffeNode) -> list[Expr]:
    """In parts of one size, or at the points that are given."""
    param = node.layer.slice_param
    axis = node.axis(int(param.slice_dim) if param.has("slice_dim") else param.axis)
    points = [int(point) for point in param.slice_point]
    if not points:
        return split_axis(node, node[0], axis, len(node.tops))
    sizes = np.diff([0, *points, node.shape()[axis]]).tolist()
    if len(sizes) != len(node.tops) or min(sizes) < 1:
        node.bad(f"slice points {points} of {node.shape()[axis]} elements for {len(node.tops)} results")
    return split_axis(node, node[0], axis, sizes)


@converts("Flatten")
def convert_flatten(node: CaffeNode) -> Expr:
    """The axes from `axis` to `end_axis` as one."""
    param, shape = node.layer.flatten_param, node.shape()
    begin, end = node.axis(param.axis), node.axis(param.end_axis)
    if begin > end:
        node.bad(f"axis {begin} stands behind end_axis {end}")
    return idioms.reshape(node[0], (*shape[:begin], idioms.product(shape[begin : end + 1]), *shape[end + 1 :]))


@converts("Reshape")
def convert_reshape(node: CaffeNode) -> Expr:
    """Extents of 0 stay, and one of -1 is what is left."""
    param, shape = node.layer.reshape_param, node.shape()
    dims = [int(extent) for extent in param.shape.dim]
    begin = param.axis if param.axis >= 0 else len(shape) + param.axis + 1
    end = len(shape) if param.num_axes == -1 else begin + param.num_axes
    if not 0 <= begin <= end <= len(shape) or any(extent < -1 for extent in dims) or dims.count(-1) > 1:
        node.bad(f"shape {dims} in place of the axes {begin} to {end} of {list(shape)}")
    return reshaped(node, node[0], (*shape[:begin], *dims, *shape[end:]))


@converts("Permute")
def convert_permute(node: CaffeNode) -> Expr:
    """Axes in another order; those that are not named follow in theirs."""
    order = [node.axis(int(axis)) for axis in node.layer.permute_param.order]
    if len(set(order)) != len(order):
        node.bad(f"order {order} names an axis twice")
    return idioms.transpose(node[0], [*order, *[axis for axis in range(node.rank()) if axis not in order]])


@converts("Crop")
def convert_crop(node: CaffeNode) -> Expr:
    """As large as the second input from `axis` on."""
    param, data = node.layer.crop_param, node[0]
    first = node.axis(param.axis)
    offsets = [int(offset) for offset in param.offset] or [0]
    count = node.rank() - first
    if len(offsets) not in (1, count):
        node.bad(f"{len(offsets)} offsets for {count} axes")
    offsets = offsets * count if len(offsets) == 1 else offsets
    for axis, offset in zip(range(first, node.rank()), offsets):
        size, extent = node.shape(1)[axis], node.shape(0)[axis]
        if offset + size > extent:
            node.bad(f"{size} elements from {offset} on of {extent}")
        data = idioms.slice_axis(data, axis, offset, offset + size)
    return data


@converts("Tile")
def convert_tile(node: CaffeNode) -> Expr:
    """Repeated along an axis."""
    param = node.layer.tile_param
    axis = node.axis(param.axis)
    if not 1 <= param.tiles < 1 << 20:
        node.bad(f"tiles={param.tiles}")
    return op.tile(node[0], reps=tuple(param.tiles if position == axis else 1 for position in range(node.rank())))


@converts("Reduction")
def convert_reduction(node: CaffeNode) -> Expr:
    """All axes from `axis` on."""
    param, data = node.layer.reduction_param, node[0]
    axes = tuple(range(node.axis(param.axis), node.rank()))
    name = {"ASUM": "l1", "SUMSQ": "sum_square", "MEAN": "mean"}.get(param.operation, "sum")
    return functions.linear(REDUCTIONS[name](data, axis=axes, keepdims=False), param.coeff)


@converts("ArgMax")
def convert_argmax(node: CaffeNode) -> Expr:
    """The positions of the greatest, their values, or both, as floats."""
    param, data = node.layer.argmax_param, node[0]
    batch = node.shape()[0]
    along_axis = param.has("axis")
    axis = node.axis(param.axis) if along_axis else 1
    if not along_axis:
        data = idioms.flatten(data)
    if not 1 <= param.top_k <= idioms.shape_of(data)[axis]:
        node.bad(f"top_k={param.top_k} of {idioms.shape_of(data)[axis]} elements")
    found = op.topk(data, k=int(param.top_k), axis=axis, ret_type="both", dtype="int32")
    values, positions = found[0], idioms.cast(found[1], "float32")
    if along_axis:
        return values if param.out_max_val else positions
    count = int(param.top_k)
    if not param.out_max_val:
        return idioms.reshape(positions, (batch, 1, count))
    return idioms.concatenate([idioms.reshape(part, (batch, 1, count)) for part in (positions, values)], 1)


@converts("Interp")
def convert_interp(node: CaffeNode) -> Expr:
    """Linear interpolation whose corners stay where they are."""
    param = node.layer.interp_param
    _batch, _channels, *extents = node.fixed()
    data = node[0]
    padded = []
    for axis, extent in enumerate(extents, 2):
        if param.pad_beg > 0 or param.pad_end > 0:
            node.unsupported("padding is not supported")
        data = idioms.slice_axis(data, axis, -param.pad_beg, extent + param.pad_end)
        padded.append(extent + param.pad_beg + param.pad_end)
    if param.has("height") or param.has("width"):
        size = [param.height, param.width]
    else:
        if param.shrink_factor < 1 or param.zoom_factor < 1:
            node.bad(f"zoom_factor={param.zoom_factor} and shrink_factor={param.shrink_factor}")
        small = [(extent - 1) // param.shrink_factor + 1 for extent in padded]
        size = [extent + (extent - 1) * (param.zoom_factor - 1) for extent in small]
    if min(*size, *padded) < 1 or max(size) > 1 << 16:
        node.bad(f"an image of {padded} as one of {size}")
    return op.image.resize2d(data, size=tuple(size), method="linear", coordinate_transformation_mode="align_corners")


@converts("Upsample")
def convert_upsample(node: CaffeNode) -> Expr:
    """Every pixel repeated."""
    param = node.layer.upsample_param
    if len(node.inputs) > 1:
        node.unsupported("pixels put where maxima were (a second input) are not supported")
    _, _, height, width = node.fixed()
    factors = [param.scale_h or param.scale, param.scale_w or param.scale]
    size = (param.upsample_h or height * factors[0], param.upsample_w or width * factors[1])
    if min(size) < 1 or max(size) > 1 << 16:
        node.bad(f"an image of {size}")
    return repeated_pixels(node[0], size)


@converts("ContinuationIndicator")
def convert_continuation(node: CaffeNode) -> Expr:
    """Ones but for the first step."""
    steps, batch = node.fixed()[:2]
    marks = np.ones((steps, batch), np.float32)
    marks[0] = 0
    return idioms.constant(marks)


def _softmax(node: CaffeNode) -> Expr:
    """Probabilities; of the loss, which needs labels, what it is taken of."""
    return op.nn.softmax(node[0], axis=node.axis(node.layer.softmax_param.axis))


converts.functions({
    "Softmax": _softmax, "SoftmaxWithLoss": _softmax, "Silence": lambda node: [],
    # items of the batch by their numbers
    "BatchReindex": lambda node: op.take(node[0], idioms.cast(node[1], "int32"), axis=0),
})  # fmt: skip
