"""Operations that move elements: shapes, slices, joins, gathering and scattering, images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders.slicing import split_axis
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.idioms import (
    cast,
    concatenate,
    constant,
    dtype_of,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
    transpose,
)
from tilewright.frontend.signature import Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem


@converts("reshape")
def convert_reshape(node: MilNode, x: Expr, shape: Ints) -> Expr:
    """0 keeps an extent, -1 is what is left."""
    if any(extent == 0 and position >= rank_of(x) for position, extent in enumerate(shape)):
        node.bad(f"shape {shape} keeps an axis that its input lacks")
    return op.reshape(
        x, newshape=tuple(shape_of(x)[position] if extent == 0 else extent for position, extent in enumerate(shape))
    )


@converts("expand_dims")
def convert_expand_dims(node: MilNode, x: Expr, axes: Ints) -> Expr:
    rank = rank_of(x) + len(axes)
    positions = {node.axis(axis, rank) for axis in axes}
    extents = iter(shape_of(x))
    return reshape(x, [1 if position in positions else next(extents) for position in range(rank)])


@converts("squeeze")
def convert_squeeze(node: MilNode) -> Expr:
    axes = node.axes() if node.has_arg("axes") else tuple(a for a, e in enumerate(shape_of(node.arg())) if e == 1)
    return op.squeeze(node.arg(), axis=axes) if axes else node.arg()


@converts("transpose")
def convert_transpose(node: MilNode) -> Expr:
    return transpose(node.arg(), [node.axis(axis, rank_of(node.arg())) for axis in node.numbers("perm")])


@converts("flatten2d")
def convert_flatten(x: Expr, axis: int = 1) -> Expr:
    axis = axis + rank_of(x) if axis < 0 else axis
    return reshape(x, (product(shape_of(x)[:axis]), product(shape_of(x)[axis:])))


@converts("concat")
def convert_concat(node: MilNode, interleave: bool = False) -> Expr:
    """Along an axis; interleaved, one element of each in turn."""
    values = node.listed("values")
    axis = node.axis(node.number("axis"), rank_of(values[0]))
    if not interleave:
        return concatenate(values, axis)
    stacked = op.stack(values, axis=axis + 1)
    shape = shape_of(values[0])
    return reshape(stacked, (*shape[:axis], shape[axis] * len(values), *shape[axis + 1 :]))


@converts("stack")
def convert_stack(node: MilNode) -> Expr:
    values = node.listed("values")
    return op.stack(values, axis=node.axis(node.number("axis"), rank_of(values[0]) + 1))


@converts("split")
def convert_split(node: MilNode, x: Expr, axis: int) -> list[Expr]:
    """Into parts of one size, or of those that are given."""
    sizes = node.numbers("split_sizes") if node.has_arg("split_sizes") else int(node.number("num_splits"))
    return split_axis(node, x, node.axis(axis, rank_of(x)), sizes)


@converts("slice_by_index")
def convert_slice_by_index(node: MilNode, x: Expr, begin: Ints, end: Ints) -> Expr:
    """As Python slices, with masks for what is left out or taken away."""
    count = len(begin)
    stride = node.numbers("stride", [1] * count)
    masks = {name: node.array(f"{name}_mask", [False] * count).reshape(-1) for name in ("begin", "end", "squeeze")}
    if not len(end) == len(stride) == count == rank_of(x) or 0 in stride:
        node.bad(f"begin {begin}, end {end} and stride {stride} of {rank_of(x)} axes")
    dropped = []
    for axis in range(count):
        extent = shape_of(x)[axis]
        if masks["squeeze"][axis]:
            position = begin[axis] + extent if begin[axis] < 0 else begin[axis]
            x = slice_axis(x, axis, position, position + 1)
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
def convert_slice_by_size(x: Expr, begin: Ints, size: Ints) -> Expr:
    """`size` elements from `begin` on; -1 takes all that follow."""
    for axis, (low, count) in enumerate(zip(begin, size, strict=True)):
        extent = shape_of(x)[axis]
        low = low + extent if low < 0 else low
        x = slice_axis(x, axis, low, extent if count == -1 else low + count)
    return x


@converts("slice_update")
def convert_slice_update(node: MilNode, x: Expr, update: Expr, begin: Ints, end: Ints) -> Expr:
    """A slice replaced."""
    stride = node.numbers("stride", [1] * len(begin))
    masks = [node.array(f"{name}_mask", [False] * len(begin)).reshape(-1) for name in ("begin", "end", "squeeze")]
    if masks[2].any() or min(stride) < 1:
        node.unsupported("axes taken away and steps backwards are not supported")
    bounds = [
        slice(None if masks[0][i] else begin[i], None if masks[1][i] else end[i], stride[i]).indices(shape_of(x)[i])
        for i in range(len(begin))
    ]
    low, high, step = zip(*bounds)
    return op.strided_set(x, update, begin=low, end=high, strides=step)


@converts("reverse")
def convert_reverse(node: MilNode) -> Expr:
    x = node.arg()
    for axis in node.axes():
        x = op.reverse(x, axis=axis)
    return x


@converts("reverse_sequence")
def convert_reverse_sequence(x: Expr, lengths: Expr, seq_axis: int, batch_axis: int = 0) -> Expr:
    return op.reverse_sequence(x, cast(lengths, "int32"), seq_axis=seq_axis, batch_axis=batch_axis)


@converts("tile")
def convert_tile(x: Expr, reps: Ints) -> Expr:
    return op.tile(x, reps=tuple(reps))


@converts("shape")
def convert_shape(node: MilNode) -> Expr:
    """The extents, which must be known when the model is imported."""
    shape = shape_of(node.arg())
    if not all(isinstance(extent, int) for extent in shape):
        node.unsupported(f"the shape {list(map(str, shape))} is open")
    return constant(shape, "int32")


@converts("pad")
def convert_pad(node: MilNode, x: Expr, pad: Ints, mode: str = "constant", constant_val: float = 0.0) -> Expr:
    """With a number, mirrored, or with the values at the border."""
    pairs = list(zip(pad[::2], pad[1::2]))
    widths = [(0, 0)] * (rank_of(x) - len(pairs)) + pairs
    if len(widths) != rank_of(x) or min(pad, default=0) < 0:
        node.bad(f"pad={pad} of {rank_of(x)} axes")
    if mode == "constant":
        return op.nn.pad(x, pad_width=tuple(widths), pad_value=constant_val)
    if mode == "reflect":
        return op.nn.mirror_pad(x, pad_width=tuple(widths), mode="REFLECT")
    if mode != "replicate":
        node.bad(f"mode={mode}")
    return op.nn.pad(x, pad_width=tuple(widths), pad_mode="edge")


@converts("gather")
def convert_gather(node: MilNode) -> Expr:
    """Elements along an axis; negative positions count from the end."""
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
    return op.where(indices < 0, indices + extent, indices)


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
def convert_one_hot(node: MilNode, indices: Expr, one_hot_vector_size: int, axis: int = -1) -> Expr:
    on, off = node.array("on_value", 1), node.array("off_value", 0)
    dtype = str(on.dtype) if node.has_arg("on_value") else "int32"
    depth = one_hot_vector_size
    if not 0 < depth < 1 << 24:
        node.bad(f"one_hot_vector_size={depth}")
    return op.one_hot(
        indices, constant(on.reshape(()), dtype), constant(off.reshape(()), dtype), depth=depth,
        axis=axis, dtype=dtype,
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
def convert_band_part(x: Expr, lower: int = -1, upper: int = -1) -> Expr:
    """Zeros but for the diagonals between `lower` below and `upper` above; -1 keeps all of them."""
    rows, columns = shape_of(x)[-2:]
    offset = np.arange(columns)[None] - np.arange(rows)[:, None]
    kept = ((lower < 0) | (-offset <= lower)) & ((upper < 0) | (offset <= upper))
    return op.where(constant(kept, "bool"), x, 0)


@converts("depth_to_space", "pixel_shuffle")
def convert_depth_to_space(node: MilNode) -> Expr:
    name, mode = ("block_size", "DCR") if node.operator == "depth_to_space" else ("upscale_factor", "CRD")
    return op.nn.depth_to_space(node.arg(), block_size=int(node.number(name)), mode=mode)


@converts("space_to_depth")
def convert_space_to_depth(x: Expr, block_size: int) -> Expr:
    return op.nn.space_to_depth(x, block_size=block_size)


@converts("pixel_unshuffle")
def convert_pixel_unshuffle(x: Expr, downscale_factor: int) -> Expr:
    """Squares of pixels as neighbouring channels."""
    factor = downscale_factor
    batch, channels, height, width = shape_of(x)
    split = reshape(x, (batch, channels, height // factor, factor, width // factor, factor))
    moved = transpose(split, (0, 1, 3, 5, 2, 4))
    return reshape(moved, (batch, channels * factor * factor, height // factor, width // factor))


@converts("space_to_batch", "batch_to_space")
def convert_space_to_batch(node: MilNode, x: Expr, block_shape: Ints) -> Expr:
    """Blocks of the image as items of the batch, and back."""
    edges = "paddings" if node.operator == "space_to_batch" else "crops"
    pairs = [tuple(map(int, pair)) for pair in node.array(edges).reshape(-1, 2)]
    last = transpose(x, (0, *range(2, rank_of(x)), 1))
    if node.operator == "space_to_batch":
        made = op.nn.space_to_batch_nd(last, block_shape=block_shape, paddings=pairs)
    else:
        made = op.nn.batch_to_space_nd(last, block_shape=block_shape, crops=pairs)
    return transpose(made, (0, rank_of(x) - 1, *range(1, rank_of(x) - 1)))


@converts("sliding_windows")
def convert_sliding_windows(node: MilNode, x: Expr, size: int, stride: int = 1) -> Expr:
    """Windows of an axis, side by side on a new one before it."""
    axis = node.axis(node.number("axis"), rank_of(x))
    count = (shape_of(x)[axis] - size) // stride + 1
    if size < 1 or stride < 1 or count < 1:
        node.bad(f"windows of {size} of {shape_of(x)[axis]} elements")
    positions = np.arange(count)[:, None] * stride + np.arange(size)[None]
    return op.take(x, constant(positions, "int32"), axis=axis)


def _image_size(node: MilNode, names: tuple[str, str]) -> list[float]:
    return [float(node.number(name, 1)) for name in names]


@converts("upsample_nearest_neighbor", "upsample_bilinear")
def convert_upsample(node: MilNode, x: Expr, align_corners: bool = True) -> Expr:
    """Images some times as large."""
    factors = _image_size(node, ("scale_factor_height", "scale_factor_width"))
    size = [int(np.floor(extent * factor)) for extent, factor in zip(shape_of(x)[-2:], factors)]
    if node.operator == "upsample_nearest_neighbor":
        return _resized(x, size, "nearest_neighbor", "asymmetric", "floor")
    half = bool(node.number("half_pixel_centers", not align_corners))
    return _resized(x, size, "linear", "align_corners" if align_corners else "half_pixel" if half else "asymmetric", "")


@converts("resize_nearest_neighbor", "resize_bilinear")
def convert_resize(
    node: MilNode, x: Expr, target_size_height: int, target_size_width: int, sampling_mode: str = "DEFAULT"
) -> Expr:
    """Images of a given size."""
    size = [target_size_height, target_size_width]
    if node.operator == "resize_nearest_neighbor":
        return _resized(x, size, "nearest_neighbor", "asymmetric", "floor")
    mode = sampling_mode
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
        position = rank_of(x) + axis
        x = slice_axis(x, position, before, shape_of(x)[position] - behind)
    return x


@converts("non_zero")
def convert_non_zero(x: Expr) -> Expr:
    """The coordinates of what is not zero, one row each."""
    return op.argwhere(x)


@converts("reshape_like")
def convert_reshape_like(node: MilNode) -> Expr:
    """In the shape of another tensor."""
    references = node.listed("ref_tensors")
    if len(references) != 1 or dtype_of(node.arg()) == "bool":
        node.unsupported("parts of several shapes are not supported")
    return reshape(node.arg(), shape_of(references[0]))


@converts("classify")
def convert_classify(node: MilNode) -> list[Expr]:
    """The probabilities, which stand for the label of the largest as well: text is no tensor."""
    return [node.arg("probabilities")] * 2
