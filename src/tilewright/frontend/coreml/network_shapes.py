"""Layers of Core ML networks that move elements: shapes, slices, joins, padding, resizing, gathering."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.frontend.coreml.network_node import LayerNode, layers
from tilewright.frontend.idioms import (
    broadcast_to,
    cast,
    concatenate,
    constant,
    full,
    outputs,
    reshape,
    slice_axis,
    transpose,
)
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem

#: Elements that a constant made by a layer may have.
_MOST = 1 << 28


def _extents(node: LayerNode, values: Sequence[Any]) -> list[int]:
    shape = [int(value) for value in values]
    if min(shape, default=0) < 0 or prod(shape) > _MOST:
        node.bad(f"it makes an array of {shape}")
    return shape


# -------------------------------------------------------------------------------------------------------------- shapes
@layers("reshape")
def convert_reshape(node: LayerNode) -> Expr:
    """To [C, H, W] or [S, C, H, W]; in the order of channels last where that is asked for."""
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


@layers("flattenTo2D")
def convert_flatten_to_2d(node: LayerNode) -> Expr:
    shape, axis = node.fixed(), int(node.p.axis)
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis <= len(shape):
        node.bad(f"it divides {list(shape)} at axis {axis}")
    return reshape(node[0], (prod(shape[:axis]), prod(shape[axis:])))


@layers("permute")
def convert_permute(node: LayerNode) -> Expr:
    """Of sequence, channels, height and width; the batch stays."""
    order = [int(axis) for axis in node.p.axis]
    if node.rank() != 5 or sorted(order) != [0, 1, 2, 3]:
        node.bad(f"it permutes {list(node.shape())} by {order}; five axes are needed")
    positions = (0, 2, 3, 4)
    return transpose(node[0], [positions[order[0]], 1, *(positions[axis] for axis in order[1:])])


@layers("transpose")
def convert_transpose(node: LayerNode) -> Expr:
    order = [int(axis) for axis in node.p.axes]
    if sorted(order) != list(range(node.rank())):
        node.bad(f"it permutes {list(node.shape())} by {order}")
    return transpose(node[0], order)


@layers("reshapeStatic", "rankPreservingReshape", "reshapeLike")
def convert_reshape_to(node: LayerNode) -> Expr:
    """To a shape in which -1 is what is left, and of a rank that stays 0 is the extent there."""
    if node.operator == "reshapeLike":
        return reshape(node[0], node.shape(1))
    shape = [int(extent) for extent in node.p.targetShape]
    if node.operator == "rankPreservingReshape":
        shape = [own if extent == 0 else extent for extent, own in zip(shape, node.shape())]
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        node.bad(f"it reshapes to {shape}")
    return op.reshape(node[0], newshape=tuple(shape))


@layers("squeeze")
def convert_squeeze(node: LayerNode) -> Expr:
    axes = [node.axis(int(axis)) for axis in node.p.axes]
    if node.p.squeezeAll:
        axes = [axis for axis, extent in enumerate(node.shape()) if extent == 1]
    if any(node.shape()[axis] != 1 for axis in axes):
        node.bad(f"it takes away the axes {axes} of {list(node.shape())}")
    return op.squeeze(node[0], axis=tuple(axes)) if axes else node[0]


@layers("expandDims")
def convert_expand_dims(node: LayerNode) -> Expr:
    rank = node.rank() + len(node.p.axes)
    axes = {node.axis(int(axis), rank) for axis in node.p.axes}
    own = iter(node.shape())
    return reshape(node[0], [1 if axis in axes else next(own) for axis in range(rank)])


@layers("getShape")
def convert_get_shape(node: LayerNode) -> Expr:
    return constant(np.asarray(node.fixed()))


# --------------------------------------------------------------------------------------------------- joins and slices
@layers("concat")
def convert_concat(node: LayerNode) -> Expr:
    """Along the channels, or the sequence."""
    return concatenate(node.given(), 0 if node.p.sequenceConcat else node.rank() - 3)


@layers("concatND")
def convert_concat_nd(node: LayerNode) -> Expr:
    axis, values = node.axis(int(node.p.axis)), node.given()
    if not node.p.interleave:
        return concatenate(values, axis)
    shape = list(node.shape())
    shape[axis] *= len(values)
    return reshape(op.stack(values, axis=axis + 1), shape)


@layers("split", "splitND")
def convert_split(node: LayerNode) -> list[Expr]:
    p = node.p
    if node.operator == "split":
        axis, count, sizes = node.rank() - 3, int(p.nOutputs), []
    else:
        axis, count, sizes = node.axis(int(p.axis)), int(p.numSplits), [int(size) for size in p.splitSizes]
    extent = node.shape()[axis]
    if sizes:
        if sum(sizes) != extent:
            node.bad(f"it divides {extent} into {sizes}")
        return outputs(op.split(node[0], indices_or_sections=tuple(np.cumsum(sizes)[:-1].tolist()), axis=axis))
    if count < 1 or extent % count:
        node.bad(f"it divides {extent} into {count} parts")
    return outputs(op.split(node[0], indices_or_sections=count, axis=axis))


@layers("stack")
def convert_stack(node: LayerNode) -> Expr:
    return op.stack(node.given(), axis=node.axis(int(node.p.axis), node.rank() + 1))


@layers("sequenceRepeat", "tile")
def convert_repeat(node: LayerNode) -> Expr:
    if node.operator == "sequenceRepeat":
        counts = [int(node.p.nRepetitions) or 1] + [1] * (node.rank() - 1)
    else:
        counts = [int(count) for count in node.p.reps]
    if len(counts) != node.rank() or min(counts, default=1) < 1:
        node.bad(f"it repeats {list(node.shape())} by {counts}")
    return op.tile(node[0], reps=tuple(counts))


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


@layers("sliceStatic")
def convert_slice_static(node: LayerNode) -> Expr:
    p, shape = node.p, node.fixed()
    begin, end, strides = ([int(value) for value in values] for values in (p.beginIds, p.endIds, p.strides))
    if not len(begin) == len(end) == len(strides) == len(shape) or 0 in strides:
        node.bad(f"it takes {begin} to {end} by {strides} of {list(shape)}")
    masks = [list(values) or [False] * len(shape) for values in (p.beginMasks, p.endMasks, p.squeezeMasks)]
    positions = []
    for axis, extent in enumerate(shape):
        if masks[2][axis]:
            positions.append(np.arange(extent)[begin[axis] : (begin[axis] + 1) or None])
            continue
        first = None if masks[0][axis] else begin[axis]
        last = None if masks[1][axis] else end[axis]
        positions.append(np.arange(extent)[slice(first, last, strides[axis])])
    made = node[0]
    for axis, found in enumerate(positions):
        if len(found) != shape[axis] or (found[1:] < found[:-1]).any():
            made = op.take(made, constant(found, "int32"), axis=axis, mode="fast")
    squeezed = tuple(axis for axis in range(len(shape)) if masks[2][axis])
    return op.squeeze(made, axis=squeezed) if squeezed else made


@layers("sliceBySize")
def convert_slice_by_size(node: LayerNode) -> Expr:
    """Inputs: data, where the slice begins."""
    axis, size = node.axis(int(node.p.axis)), int(node.p.size)
    extent = node.shape()[axis]
    if not 0 <= size <= extent:
        node.bad(f"it takes {size} of {extent}")
    first = reshape(cast(node[1], "int32"), ())
    first = op.where(first < constant(0, "int32"), first + constant(extent, "int32"), first)
    return op.take(node[0], constant(np.arange(size), "int32") + first, axis=axis, mode="clip")


@layers("slidingWindows")
def convert_sliding_windows(node: LayerNode) -> Expr:
    p, axis = node.p, node.axis(int(node.p.axis))
    size, step, extent = int(p.windowSize), int(p.step) or 1, node.shape()[axis]
    if not 0 < size <= extent:
        node.bad(f"windows of {size} of {extent}")
    positions = np.arange(0, extent - size + 1, step)[:, None] + np.arange(size)
    return op.take(node[0], constant(positions, "int32"), axis=axis, mode="fast")


@layers("reverse")
def convert_reverse(node: LayerNode) -> Expr:
    made = node[0]
    for axis, turned in enumerate(node.p.reverseDim):
        made = op.reverse(made, axis=node.axis(axis)) if turned else made
    return made


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
    data, lead = node.folded()
    p = node.p
    factors = [float(value) for value in (*p.scalingFactor, *p.fractionalScalingFactor)] or [1.0, 1.0]
    if len(factors) != 2 or min(factors) <= 0:
        node.bad(f"it is upsampled by {factors}")
    size = [int(np.floor(extent * factor)) for extent, factor in zip(node.shape(data)[2:], factors)]
    if p.mode == "NN":
        if any(factor != int(factor) for factor in factors):
            node.unsupported(f"the nearest element, upsampled by {factors}")
        made: Expr = data
        for axis, factor in enumerate(factors):
            made = op.repeat(made, repeats=int(factor), axis=2 + axis) if factor != 1 else made
        return node.unfolded(made, lead)
    if p.linearUpsampleMode == "ALIGN_CORNERS_TRUE":
        mode = "align_corners"
    elif p.linearUpsampleMode == "ALIGN_CORNERS_FALSE":
        mode = "half_pixel"
    else:
        mode = "asymmetric"
    made = op.image.resize2d(data, size=tuple(size), method="linear", coordinate_transformation_mode=mode)
    return node.unfolded(made, lead)


@layers("resizeBilinear")
def convert_resize_bilinear(node: LayerNode) -> Expr:
    data, lead = node.folded()
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
    made = op.image.resize2d(data, size=tuple(size), method="linear", coordinate_transformation_mode=modes[method])
    return node.unfolded(made, lead)


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


# ------------------------------------------------------------------------------------------------ gathering and order
@layers("gather", "gatherAlongAxis")
def convert_gather(node: LayerNode) -> Expr:
    axis = node.axis(int(node.p.axis))
    positions = _counted(node, cast(node[1], "int32"), axis)
    if node.operator == "gather":
        return op.take(node[0], positions, axis=axis, mode="clip")
    return op.gather(node[0], axis, positions)


def _counted(node: LayerNode, positions: Expr, axis: int) -> Expr:
    """Places counted from the front."""
    extent = node.shape()[axis]
    return op.where(positions < constant(0, "int32"), positions + constant(extent, "int32"), positions)


@layers("gatherND", "scatterND")
def convert_nd(node: LayerNode) -> Expr:
    """Inputs of gathering: data, positions; of scattering: data, positions, updates."""
    positions = cast(node[1], "int32")
    rank = node.rank(positions)
    positions = transpose(positions, (rank - 1, *range(rank - 1)))
    if node.operator == "gatherND":
        return op.gather_nd(node[0], positions)
    return op.scatter_nd(node[0], positions, node[2], mode=_scatter_mode(node))


def _scatter_mode(node: LayerNode) -> str:
    modes = {
        "SCATTER_UPDATE": "update", "SCATTER_ADD": "add", "SCATTER_MUL": "mul", "SCATTER_MAX": "max",
        "SCATTER_MIN": "min",
    }  # fmt: skip
    if node.p.mode not in modes:
        node.unsupported(f"scattering by {node.p.mode}")
    return modes[node.p.mode]


@layers("scatterAlongAxis")
def convert_scatter_along_axis(node: LayerNode) -> Expr:
    """Inputs: data, positions, updates."""
    axis, mode = node.axis(int(node.p.axis)), _scatter_mode(node)
    shape = node.shape(2)
    coordinates = [
        _counted(node, cast(node[1], "int32"), axis) if position == axis
        else broadcast_to(
            constant(np.arange(extent).reshape([-1 if i == position else 1 for i in range(len(shape))]), "int32"), shape
        )
        for position, extent in enumerate(shape)
    ]  # fmt: skip
    return op.scatter_nd(node[0], op.stack(coordinates, axis=0), node[2], mode=mode)


@layers("topK")
def convert_top_k(node: LayerNode) -> list[Expr]:
    """Results: the largest, or smallest, and their positions."""
    axis, count = node.axis(int(node.p.axis)), int(node.p.K)
    if node.has(1):
        known = node.inputs[1]
        if not isinstance(known, Constant):
            node.unsupported("a number of elements that is computed at run time")
        count = int(known.data.reshape(-1)[0])
    if not 0 < count <= node.shape()[axis]:
        node.bad(f"it takes {count} of {node.shape()[axis]}")
    call = op.topk(node[0], k=count, axis=axis, ret_type="both", is_ascend=bool(node.p.useBottomK), dtype="int32")
    return [TupleGetItem(call, 0), cast(TupleGetItem(call, 1), "float32")]


@layers("argSort")
def convert_argsort(node: LayerNode) -> Expr:
    axis = node.axis(int(node.p.axis))
    return cast(op.argsort(node[0], axis=axis, is_ascend=not node.p.descending, dtype="int32"), "float32")
