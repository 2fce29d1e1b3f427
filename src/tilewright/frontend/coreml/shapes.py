"""Operations that move elements: shapes, slices, joins, gathering and scattering, images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.frontend.coreml.node import MilNode
from tilewright.frontend.coreml.registry import converts
from tilewright.frontend.idioms import (
    cast,
    concatenate,
    constant,
    dtype_of,
    like,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
    transpose,
)
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem


@converts("reshape")
def convert_reshape(node: MilNode) -> Expr:
    """0 keeps an extent, -1 is what is left."""
    x, shape = node.arg(), node.numbers("shape")
    if any(extent == 0 and place >= rank_of(x) for place, extent in enumerate(shape)):
        node.bad(f"shape {shape} keeps an axis that its input lacks")
    return op.reshape(
        x, newshape=tuple(shape_of(x)[place] if extent == 0 else extent for place, extent in enumerate(shape))
    )


@converts("expand_dims")
def convert_expand_dims(node: MilNode) -> Expr:
    x, axes = node.arg(), node.numbers("axes")
    rank = rank_of(x) + len(axes)
    places = {node.axis(axis, rank) for axis in axes}
    extents = iter(shape_of(x))
    return reshape(x, [1 if place in places else next(extents) for place in range(rank)])


@converts("squeeze")
def convert_squeeze(node: MilNode) -> Expr:
    axes = node.axes() if node.has_arg("axes") else tuple(a for a, e in enumerate(shape_of(node.arg())) if e == 1)
    return op.squeeze(node.arg(), axis=axes) if axes else node.arg()


@converts("transpose")
def convert_transpose(node: MilNode) -> Expr:
    return transpose(node.arg(), [node.axis(axis, rank_of(node.arg())) for axis in node.numbers("perm")])


@converts("flatten2d")
def convert_flatten(node: MilNode) -> Expr:
    x, axis = node.arg(), node.number("axis", 1)
    axis = axis + rank_of(x) if axis < 0 else axis
    return reshape(x, (product(shape_of(x)[:axis]), product(shape_of(x)[axis:])))


@converts("concat")
def convert_concat(node: MilNode) -> Expr:
    """Along an axis; interleaved, one element of each in turn."""
    values = node.listed("values")
    axis = node.axis(node.number("axis"), rank_of(values[0]))
    if not bool(node.number("interleave", False)):
        return concatenate(values, axis)
    stacked = op.stack(values, axis=axis + 1)
    shape = shape_of(values[0])
    return reshape(stacked, (*shape[:axis], shape[axis] * len(values), *shape[axis + 1 :]))


@converts("stack")
def convert_stack(node: MilNode) -> Expr:
    values = node.listed("values")
    return op.stack(values, axis=node.axis(node.number("axis"), rank_of(values[0]) + 1))


@converts("split")
def convert_split(node: MilNode) -> list[Expr]:
    """Into parts of one size, or of those that are given."""
    x = node.arg()
    axis = node.axis(node.number("axis"), rank_of(x))
    extent = shape_of(x)[axis]
    if node.has_arg("split_sizes"):
        sizes = node.numbers("split_sizes")
    else:
        count = int(node.number("num_splits"))
        if count < 1 or extent % count:
            node.bad(f"{extent} elements do not make {count} parts")
        sizes = [extent // count] * count
    bounds = np.cumsum([0, *sizes])
    if min(sizes) < 0 or bounds[-1] != extent:
        node.bad(f"parts of {sizes} of {extent} elements")
    return [slice_axis(x, axis, int(low), int(high)) for low, high in itertools.pairwise(bounds)]


@converts("slice_by_index")
def convert_slice_by_index(node: MilNode) -> Expr:
    """As Python slices, with masks for what is left out or taken away."""
    x = node.arg()
    begin, end = node.numbers("begin"), node.numbers("end")
    count = len(begin)
    stride = node.numbers("stride", [1] * count)
    masks = {name: node.array(f"{name}_mask", [False] * count).reshape(-1) for name in ("begin", "end", "squeeze")}
    if not len(end) == len(stride) == count == rank_of(x) or 0 in stride:
        node.bad(f"begin {begin}, end {end} and stride {stride} of {rank_of(x)} axes")
    dropped = []
    for axis in range(count):
        extent = shape_of(x)[axis]
        if masks["squeeze"][axis]:
            place = begin[axis] + extent if begin[axis] < 0 else begin[axis]
            x = slice_axis(x, axis, place, place + 1)
            dropped.append(axis)
            continue
        first = None if masks["begin"][axis] else begin[axis]
        last = None if masks["end"][axis] else end[axis]
        if first is None and last is None and stride[axis] == 1:
            continue
        if not isinstance(extent, int):
            node.unsupported(f"a slice of the open axis {axis} is not supported")
        low, high, step = slice(first, last, stride[axis]).indices(extent)
        x = op.strided_slice(x, begin=(low,), end=(high if high >= 0 else -extent - 1,), strides=(step,), axes=(axis,))
    return op.squeeze(x, axis=tuple(dropped)) if dropped else x


@converts("slice_by_size")
def convert_slice_by_size(node: MilNode) -> Expr:
    """`size` elements from `begin` on; -1 takes all that follow."""
    x, begin, size = node.arg(), node.numbers("begin"), node.numbers("size")
    for axis, (low, count) in enumerate(zip(begin, size, strict=True)):
        extent = shape_of(x)[axis]
        low = low + extent if low < 0 else low
        x = slice_axis(x, axis, low, extent if count == -1 else low + count)
    return x


@converts("slice_update")
def convert_slice_update(node: MilNode) -> Expr:
    """A slice replaced."""
    x = node.arg()
    begin, end = node.numbers("begin"), node.numbers("end")
    stride = node.numbers("stride", [1] * len(begin))
    masks = [node.array(f"{name}_mask", [False] * len(begin)).reshape(-1) for name in ("begin", "end", "squeeze")]
    if masks[2].any() or min(stride) < 1:
        node.unsupported("axes taken away and steps backwards are not supported")
    bounds = [
        slice(None if masks[0][i] else begin[i], None if masks[1][i] else end[i], stride[i]).indices(shape_of(x)[i])
        for i in range(len(begin))
    ]
    low, high, step = zip(*bounds)
    return op.strided_set(x, node.arg("update"), begin=low, end=high, strides=step)


@converts("reverse")
def convert_reverse(node: MilNode) -> Expr:
    x = node.arg()
    for axis in node.axes():
        x = op.reverse(x, axis=axis)
    return x


@converts("reverse_sequence")
def convert_reverse_sequence(node: MilNode) -> Expr:
    return op.reverse_sequence(
        node.arg(), cast(node.arg("lengths"), "int32"), seq_axis=int(node.number("seq_axis")),
        batch_axis=int(node.number("batch_axis", 0)),
    )  # fmt: skip


@converts("tile")
def convert_tile(node: MilNode) -> Expr:
    return op.tile(node.arg(), reps=tuple(node.numbers("reps")))


@converts("shape")
def convert_shape(node: MilNode) -> Expr:
    """The extents, which must be known when the model is imported."""
    shape = shape_of(node.arg())
    if not all(isinstance(extent, int) for extent in shape):
        node.unsupported(f"the shape {list(map(str, shape))} is open")
    return constant(shape, "int32")


@converts("pad")
def convert_pad(node: MilNode) -> Expr:
    """With a number, mirrored, or with the values at the border."""
    x, pad, mode = node.arg(), node.numbers("pad"), node.text("mode", "constant")
    pairs = list(zip(pad[::2], pad[1::2]))
    widths = [(0, 0)] * (rank_of(x) - len(pairs)) + pairs
    if len(widths) != rank_of(x) or min(pad, default=0) < 0:
        node.bad(f"pad={pad} of {rank_of(x)} axes")
    if mode == "constant":
        return op.nn.pad(x, pad_width=tuple(widths), pad_value=float(node.number("constant_val", 0.0)))
    if mode == "reflect":
        return op.nn.mirror_pad(x, pad_width=tuple(widths), mode="REFLECT")
    if mode != "replicate":
        node.bad(f"mode={mode}")
    return op.nn.pad(x, pad_width=tuple(widths), pad_mode="edge")


@converts("gather")
def convert_gather(node: MilNode) -> Expr:
    """Elements along an axis; negative places count from the end."""
    x = node.arg()
    axis = node.axis(node.number("axis", 0), rank_of(x))
    if node.number("batch_dims", 0):
        node.unsupported("batch_dims is not supported")
    return op.take(x, _positive(node.arg("indices"), shape_of(x)[axis]), axis=axis)


def _positive(indices: Expr, extent: Any) -> Expr:
    indices = cast(indices, "int32")
    if isinstance(indices, Constant) and (indices.data >= 0).all():
        return indices
    if not isinstance(extent, int):
        return indices
    return op.where(op.less(indices, like(0, indices)), op.add(indices, like(extent, indices)), indices)


@converts("gather_along_axis")
def convert_gather_along_axis(node: MilNode) -> Expr:
    x = node.arg()
    axis = node.axis(node.number("axis", 0), rank_of(x))
    return op.gather(x, axis=axis, indices=_positive(node.arg("indices"), shape_of(x)[axis]))


@converts("gather_nd")
def convert_gather_nd(node: MilNode) -> Expr:
    """Elements by all their coordinates, the last axis of the indices."""
    if node.number("batch_dims", 0):
        node.unsupported("batch_dims is not supported")
    indices = cast(node.arg("indices"), "int32")
    rank = rank_of(indices)
    return op.gather_nd(node.arg(), transpose(indices, (rank - 1, *range(rank - 1))))


_MODES = {"update": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converts("scatter_along_axis")
def convert_scatter_along_axis(node: MilNode) -> Expr:
    data, mode = node.arg("data"), node.text("mode", "add")
    if mode not in _MODES:
        node.unsupported(f"mode={mode} is not supported")
    axis = node.axis(node.number("axis", 0), rank_of(data))
    indices = _positive(node.arg("indices"), shape_of(data)[axis])
    return op.scatter_elements(data, indices, node.arg("updates"), axis=axis, reduction=_MODES[mode])


@converts("scatter_nd")
def convert_scatter_nd(node: MilNode) -> Expr:
    mode, indices = node.text("mode", "add"), cast(node.arg("indices"), "int32")
    if mode not in ("update", "add"):
        node.unsupported(f"mode={mode} is not supported")
    rank = rank_of(indices)
    return op.scatter_nd(
        node.arg("data"), transpose(indices, (rank - 1, *range(rank - 1))), node.arg("updates"), mode=mode
    )


@converts("one_hot")
def convert_one_hot(node: MilNode) -> Expr:
    on, off = node.array("on_value", 1), node.array("off_value", 0)
    dtype = str(on.dtype) if node.has_arg("on_value") else "int32"
    depth = int(node.number("one_hot_vector_size"))
    if not 0 < depth < 1 << 24:
        node.bad(f"one_hot_vector_size={depth}")
    return op.one_hot(
        node.arg("indices"), constant(on.reshape(()), dtype), constant(off.reshape(()), dtype), depth=depth,
        axis=int(node.number("axis", -1)), dtype=dtype,
    )  # fmt: skip


@converts("topk")
def convert_topk(node: MilNode) -> list[Expr]:
    x = node.arg()
    axis = node.axis(node.number("axis", -1), rank_of(x))
    found = op.topk(
        x, k=int(node.number("k", 1)), axis=axis, is_ascend=bool(node.number("ascending", False)), dtype="int32"
    )
    return [TupleGetItem(found, 0), TupleGetItem(found, 1)]


@converts("argsort")
def convert_argsort(node: MilNode) -> Expr:
    axis = node.axis(node.number("axis", -1), rank_of(node.arg()))
    return op.argsort(node.arg(), axis=axis, is_ascend=bool(node.number("ascending", False)), dtype="int32")


@converts("range_1d")
def convert_range(node: MilNode) -> Expr:
    start, end, step = (node.number(name) for name in ("start", "end", "step"))
    if step == 0 or abs((end - start) / step) > 1 << 24:
        node.bad(f"from {start} to {end} by {step}")
    return constant(np.arange(start, end, step), str(node.array("start").dtype))


@converts("band_part")
def convert_band_part(node: MilNode) -> Expr:
    """Zeros but for the diagonals between `lower` below and `upper` above; -1 keeps all of them."""
    x = node.arg()
    lower, upper = node.number("lower", -1), node.number("upper", -1)
    rows, columns = shape_of(x)[-2:]
    offset = np.arange(columns)[None] - np.arange(rows)[:, None]
    kept = ((lower < 0) | (-offset <= lower)) & ((upper < 0) | (offset <= upper))
    return op.where(constant(kept, "bool"), x, like(0, x))


@converts("depth_to_space", "pixel_shuffle")
def convert_depth_to_space(node: MilNode) -> Expr:
    name, mode = ("block_size", "DCR") if node.operator == "depth_to_space" else ("upscale_factor", "CRD")
    return op.nn.depth_to_space(node.arg(), block_size=int(node.number(name)), mode=mode)


@converts("space_to_depth")
def convert_space_to_depth(node: MilNode) -> Expr:
    return op.nn.space_to_depth(node.arg(), block_size=int(node.number("block_size")))


@converts("pixel_unshuffle")
def convert_pixel_unshuffle(node: MilNode) -> Expr:
    """Squares of pixels as neighbouring channels."""
    x, factor = node.arg(), int(node.number("downscale_factor"))
    batch, channels, height, width = shape_of(x)
    split = reshape(x, (batch, channels, height // factor, factor, width // factor, factor))
    moved = transpose(split, (0, 1, 3, 5, 2, 4))
    return reshape(moved, (batch, channels * factor * factor, height // factor, width // factor))


@converts("space_to_batch", "batch_to_space")
def convert_space_to_batch(node: MilNode) -> Expr:
    """Blocks of the image as items of the batch, and back."""
    x, block = node.arg(), node.numbers("block_shape")
    edges = "paddings" if node.operator == "space_to_batch" else "crops"
    pairs = [tuple(map(int, pair)) for pair in node.array(edges).reshape(-1, 2)]
    last = transpose(x, (0, *range(2, rank_of(x)), 1))
    if node.operator == "space_to_batch":
        made = op.nn.space_to_batch_nd(last, block_shape=block, paddings=pairs)
    else:
        made = op.nn.batch_to_space_nd(last, block_shape=block, crops=pairs)
    return transpose(made, (0, rank_of(x) - 1, *range(1, rank_of(x) - 1)))


@converts("sliding_windows")
def convert_sliding_windows(node: MilNode) -> Expr:
    """Windows of an axis, side by side on a new one before it."""
    x = node.arg()
    axis = node.axis(node.number("axis"), rank_of(x))
    size, stride = int(node.number("size")), int(node.number("stride", 1))
    count = (shape_of(x)[axis] - size) // stride + 1
    if size < 1 or stride < 1 or count < 1:
        node.bad(f"windows of {size} of {shape_of(x)[axis]} elements")
    places = np.arange(count)[:, None] * stride + np.arange(size)[None]
    return op.take(x, constant(places, "int32"), axis=axis)


def _image_size(node: MilNode, names: tuple[str, str]) -> list[float]:
    return [float(node.number(name, 1)) for name in names]


@converts("upsample_nearest_neighbor", "upsample_bilinear")
def convert_upsample(node: MilNode) -> Expr:
    """Images some times as large."""
    x = node.arg()
    factors = _image_size(node, ("scale_factor_height", "scale_factor_width"))
    size = [int(np.floor(extent * factor)) for extent, factor in zip(shape_of(x)[-2:], factors)]
    if node.operator == "upsample_nearest_neighbor":
        return _resized(x, size, "nearest_neighbor", "asymmetric", "floor")
    corners = bool(node.number("align_corners", True))
    half = bool(node.number("half_pixel_centers", not corners))
    return _resized(x, size, "linear", "align_corners" if corners else "half_pixel" if half else "asymmetric", "")


@converts("resize_nearest_neighbor", "resize_bilinear")
def convert_resize(node: MilNode) -> Expr:
    """Images of a given size."""
    x = node.arg()
    size = [int(node.number("target_size_height")), int(node.number("target_size_width"))]
    if node.operator == "resize_nearest_neighbor":
        return _resized(x, size, "nearest_neighbor", "asymmetric", "floor")
    mode = node.text("sampling_mode", "DEFAULT")
    known = {"STRICT_ALIGN_CORNERS": "align_corners", "ALIGN_CORNERS": "align_corners", "UNALIGN_CORNERS": "half_pixel",
             "DEFAULT": "asymmetric", "OFFSET_CORNERS": "half_pixel"}  # fmt: skip
    if mode not in known:
        node.unsupported(f"sampling_mode={mode} is not supported")
    return _resized(x, size, "linear", known[mode], "")


def _resized(x: Expr, size: list[int], method: str, mode: str, rounding: str) -> Expr:
    """[…, C, H, W] resized; axes in front of the last three are one batch."""
    shape = shape_of(x)
    data = reshape(x, (product(shape[:-3]), *shape[-3:])) if len(shape) != 4 else x
    made: Expr = op.image.resize2d(
        data, size=tuple(size), method=method, coordinate_transformation_mode=mode, rounding_method=rounding
    )
    return reshape(made, (*shape[:-2], *size))


@converts("crop")
def convert_crop(node: MilNode) -> Expr:
    """Borders cut off."""
    x = node.arg()
    for axis, name in ((-2, "crop_height"), (-1, "crop_width")):
        before, behind = node.numbers(name)
        place = rank_of(x) + axis
        x = slice_axis(x, place, before, shape_of(x)[place] - behind)
    return x


@converts("non_zero")
def convert_non_zero(node: MilNode) -> Expr:
    """The coordinates of what is not zero, one row each."""
    return op.argwhere(node.arg())


@converts("reshape_like")
def convert_reshape_like(node: MilNode) -> Expr:
    """In the shape of another tensor."""
    references = node.listed("ref_tensors")
    if len(references) != 1 or dtype_of(node.arg()) == "bool":
        node.unsupported("parts of several shapes are not supported")
    return reshape(node.arg(), shape_of(references[0]))


@converts("cond")
def convert_cond(node: MilNode) -> list[Expr]:
    """One of two blocks, of a condition that is known, or of values that both have been computed for."""
    assert node.block is not None
    pred = node.arg("pred")
    if isinstance(pred, Constant):
        return list(node.block(0 if bool(pred.data) else 1, []))
    branches = [node.block(index, []) for index in range(2)]
    return [op.where(pred, yes, no) for yes, no in zip(*branches, strict=True)]
