"""Layers of Core ML networks that move elements: shapes, slices, joins, padding, resizing, gathering."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.frontend.builders.elements import split_axis
from tilewright.frontend.coreml.network_node import LayerNode, layers, operation
from tilewright.frontend.coreml.shapes import resized
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, full, reshape, slice_axis, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Elements that a constant made by a layer may have.
_MOST = 1 << 28


def _extents(node: LayerNode, values: Sequence[Any]) -> list[int]:
    shape = [int(value) for value in values]
    if min(shape, default=0) < 0 or prod(shape) > _MOST:
        node.bad(f"it makes an array of {shape}")
    return shape


def _scatter_mode(node: LayerNode) -> str:
    return str(node.p.mode).removeprefix("SCATTER_").lower()


def _count(node: LayerNode) -> int:
    """The number of elements that topK keeps."""
    count = int(node.static(1, "number of elements").reshape(-1)[0]) if node.has(1) else int(node.p.K)
    if not 0 < count <= node.shape()[node.axis(int(node.p.axis))]:
        node.bad(f"it takes {count} of {list(node.shape())}")
    return count


@layers("reshape")
def convert_reshape(node: LayerNode) -> Expr:
    """To [C, H, W] or [S, C, H, W]; in the order of channels last where that is requested."""
    target = [int(extent) for extent in node.p.targetShape]
    if node.rank() != 5 or len(target) not in (3, 4):
        node.bad(f"it reshapes data of {list(node.shape())} to {target}; five axes to three or four")
    steps, batch = node.shape()[:2]
    steps, target = (target[0], target[1:]) if len(target) == 4 else (steps, target)
    if node.p.mode != "CHANNEL_LAST":
        return reshape(node[0], (steps, batch, *target))
    last = transpose(node[0], (0, 1, 3, 4, 2))
    channels, height, width = target
    return transpose(reshape(last, (steps, batch, height, width, channels)), (0, 1, 4, 2, 3))


@layers("flatten")
def convert_flatten(node: LayerNode) -> Expr:
    data, lead = node.folded()
    if node.p.mode == "CHANNEL_LAST":
        data = transpose(data, (0, 2, 3, 1))
    shape = node.shape(data)
    return node.unfolded(reshape(data, (shape[0], prod(shape[1:]), 1, 1)), lead)


@layers("permute")
def convert_permute(node: LayerNode) -> Expr:
    """Of sequence, channels, height and width; the batch stays."""
    order = [int(axis) for axis in node.p.axis]
    if node.rank() != 5 or sorted(order) != [0, 1, 2, 3]:
        node.bad(f"it permutes {list(node.shape())} by {order}; five axes are needed")
    positions = (0, 2, 3, 4)
    return transpose(node[0], [positions[order[0]], 1, *(positions[axis] for axis in order[1:])])


# Layers that are operations of ML programs with parameters of the same names.
layers.functions({layer: operation(name) for layer, name in {
    "flattenTo2D": "flatten2d", "expandDims": "expand_dims", "getShape": "shape", "concatND": "concat",
    "splitND": "split", "stack": "stack", "tile": "tile", "gather": "gather", "gatherAlongAxis": "gather_along_axis",
    "gatherND": "gather_nd", "softmaxND": "softmax", "gelu": "gelu", "clampedReLU": "clamped_relu",
}.items()})  # fmt: skip
layers.functions({
    "transpose": operation("transpose", perm="axes"),
    **dict.fromkeys(("reshapeStatic", "rankPreservingReshape"), operation("reshape", shape="targetShape")),
    "reshapeLike": lambda node: reshape(node[0], node.shape(1)),
    "squeeze": operation("squeeze", axes=lambda node: None if node.p.squeezeAll else list(node.p.axes)),
    # joins and slices
    "concat": lambda node: concatenate(node.given(), 0 if node.p.sequenceConcat else node.rank() - 3),
    "split": lambda node: split_axis(node, node[0], node.rank() - 3, int(node.p.nOutputs)),
    "sequenceRepeat": operation(
        "tile", reps=lambda node: [int(node.p.nRepetitions) or 1] + [1] * (node.rank() - 1)
    ),
    "sliceStatic": operation(
        "slice_by_index", begin="beginIds", end="endIds", stride="strides", begin_mask="beginMasks",
        end_mask="endMasks", squeeze_mask="squeezeMasks",
    ),
    "slidingWindows": operation(
        "sliding_windows", size="windowSize", stride=lambda node: int(node.p.step) or 1
    ),
    "reverse": operation(
        "reverse", axes=lambda node: [axis for axis, turned in enumerate(node.p.reverseDim) if turned]
    ),
    # scattering and order
    "scatterND": operation("scatter_nd", mode=_scatter_mode),
    "scatterAlongAxis": operation("scatter_along_axis", mode=_scatter_mode),
    "topK": operation("topk", k=_count, ascending="useBottomK"),
    "argSort": operation("argsort", ascending=lambda node: not node.p.descending),
})  # fmt: skip


@layers("slice")
def convert_slice(node: LayerNode) -> Expr:
    p = node.p
    axis = node.rank() + {"CHANNEL_AXIS": -3, "HEIGHT_AXIS": -2, "WIDTH_AXIS": -1}.get(p.axis, -3)
    extent = node.shape()[axis]
    begin, end = (int(value) + (extent if value < 0 else 0) for value in (p.startIndex, p.endIndex))
    end += 1 if p.endIndex < 0 else 0  # the last one counts when counted from the back
    step = int(p.stride) or 1
    if not 0 <= begin < end <= extent:
        node.bad(f"it takes {p.startIndex} to {p.endIndex} of {extent}")
    return slice_axis(node[0], axis, begin, end, step)


@layers("sliceBySize")
def convert_slice_by_size(node: LayerNode) -> Expr:
    """Inputs: data, where the slice begins."""
    axis, size = node.axis(int(node.p.axis)), int(node.p.size)
    extent = node.shape()[axis]
    if not 0 <= size <= extent:
        node.bad(f"it takes {size} of {extent}")
    first = reshape(cast(node[1], "int32"), ())
    first = op.where(first < 0, first + extent, first)
    return op.take(node[0], constant(np.arange(size), "int32") + first, axis=axis, mode="clip")


# ------------------------------------------------------------------------------------------- padding, images, resizing
def _edges(node: LayerNode, amounts: Any) -> list[tuple[int, int]]:
    edges = [(int(edge.startEdgeSize), int(edge.endEdgeSize)) for edge in amounts.borderAmounts]
    if len(edges) not in (0, 2):
        node.bad(f"it has {len(edges)} pairs of edges; two are needed")
    return edges or [(0, 0), (0, 0)]


@layers("padding")
def convert_padding(node: LayerNode) -> Expr:
    p = node.p
    pads = [(0, 0)] * (node.rank() - 2) + _edges(node, p.paddingAmounts)
    mode = "reflect" if p.has("reflection") else "edge" if p.has("replication") else "constant"
    return op.nn.pad(node[0], pad_width=pads, pad_value=p.constant.value, pad_mode=mode)


@layers("constantPad")
def convert_constant_pad(node: LayerNode) -> Expr:
    """Pairs of numbers for the last axes; or the extents wanted, where one of each pair is not 0."""
    amounts = [int(value) for value in node.p.padAmounts]
    if len(amounts) % 2 or len(amounts) > 2 * node.rank():
        node.bad(f"paddings {amounts} of {node.rank()} axes")
    pairs = list(zip(amounts[::2], amounts[1::2]))
    pads = [(0, 0)] * (node.rank() - len(pairs)) + pairs
    if node.p.padToGivenOutputSizeMode:
        pads = [
            (max(before - extent, 0), 0) if before else (0, max(behind - extent, 0))
            for (before, behind), extent in zip(pads, node.fixed())
        ]
    return op.nn.pad(node[0], pad_width=pads, pad_value=node.p.value)


@layers("crop")
def convert_crop(node: LayerNode) -> Expr:
    """Edges cut off, or a part as large as the second input, from an offset on."""
    rank, shape = node.rank(), node.shape()
    if node.has(1):
        first = [int(value) for value in node.p.offset] or [0, 0]
        ends = [begin + extent for begin, extent in zip(first, node.shape(1)[-2:])]
    else:
        edges = _edges(node, node.p.cropAmounts)
        first = [edge[0] for edge in edges]
        ends = [extent - edge[1] for extent, edge in zip(shape[-2:], edges)]
    if any(not 0 <= b < e <= extent for b, e, extent in zip(first, ends, shape[-2:])):
        node.bad(f"it cuts {first} to {ends} out of {list(shape)}")
    made = slice_axis(node[0], rank - 2, first[0], ends[0])
    return slice_axis(made, rank - 1, first[1], ends[1])


@layers("upsample")
def convert_upsample(node: LayerNode) -> Expr:
    p = node.p
    factors = [float(value) for value in (*p.scalingFactor, *p.fractionalScalingFactor)] or [1.0, 1.0]
    if len(factors) != 2 or min(factors) <= 0:
        node.bad(f"it is upsampled by {factors}")
    if p.mode == "NN":
        if any(factor != int(factor) for factor in factors):
            node.unsupported(f"the nearest element, upsampled by {factors}")
        made = node[0]
        for axis, factor in enumerate(factors, node.rank() - 2):
            made = op.repeat(made, repeats=int(factor), axis=axis) if factor != 1 else made
        return made
    modes = {"ALIGN_CORNERS_TRUE": "align_corners", "ALIGN_CORNERS_FALSE": "half_pixel"}
    size = [int(np.floor(extent * factor)) for extent, factor in zip(node.shape()[-2:], factors)]
    return resized(node[0], size, modes.get(p.linearUpsampleMode, "asymmetric"))


@layers("resizeBilinear")
def convert_resize_bilinear(node: LayerNode) -> Expr:
    size = [int(extent) for extent in node.p.targetSize] or [1, 1]
    modes = {
        "STRICT_ALIGN_ENDPOINTS_MODE": "align_corners", "ALIGN_ENDPOINTS_MODE": "align_corners",
        "UPSAMPLE_MODE": "asymmetric",
    }  # fmt: skip
    method = node.p.mode.samplingMethod
    if method not in modes:
        node.unsupported(f"sampling by {method}")
    if method == "ALIGN_ENDPOINTS_MODE" and 1 in size:
        node.unsupported("an axis of one element with aligned ends")
    return resized(node[0], size, modes[method])


@layers("reorganizeData")
def convert_reorganize(node: LayerNode) -> Expr:
    data, lead = node.folded()
    block = int(node.p.blockSize)
    if block < 2:
        node.bad(f"blocks of {block}")
    if node.p.mode == "SPACE_TO_DEPTH":
        return node.unfolded(op.nn.space_to_depth(data, block_size=block), lead)
    mode = "CRD" if node.p.mode == "PIXEL_SHUFFLE" else "DCR"
    return node.unfolded(op.nn.depth_to_space(data, block_size=block, mode=mode), lead)


# ----------------------------------------------------------------------------------------- constants and broadcasting
@layers("loadConstant", "loadConstantND")
def convert_load_constant(node: LayerNode) -> Expr:
    shape = _extents(node, node.p.shape)
    data = constant(node.weights("data", shape))
    return reshape(data, (1, 1, *shape)) if node.operator == "loadConstant" and len(shape) == 3 else data


@layers("fillLike", "fillStatic")
def convert_fill(node: LayerNode) -> Expr:
    like_other = node.operator == "fillLike"
    shape = list(node.shape()) if like_other else _extents(node, node.p.targetShape)
    return full(node.p.value, shape, "float32")


@layers("broadcastToLike", "broadcastToStatic")
def convert_broadcast(node: LayerNode) -> Expr:
    like_other = node.operator == "broadcastToLike"
    return broadcast_to(node[0], node.shape(1) if like_other else _extents(node, node.p.targetShape))


@layers("rangeStatic")
def convert_range(node: LayerNode) -> Expr:
    p = node.p
    step = p.stepSizeValue or 1.0
    count = np.ceil((p.endValue - p.startValue) / step)
    if not 0 <= count <= _MOST:
        node.bad(f"it counts from {p.startValue} to {p.endValue} by {p.stepSizeValue}")
    return constant(p.startValue + np.arange(int(count)) * step)


@layers("oneHot")
def convert_one_hot(node: LayerNode) -> Expr:
    p = node.p
    return op.one_hot(
        cast(node[0], "int32"), constant(p.onValue), constant(p.offValue), depth=int(p.oneHotVectorSize),
        axis=node.axis(int(p.axis), node.rank() + 1), dtype="float32",
    )  # fmt: skip
