"""Operations that move elements: shapes, slices, joins, gathering and scattering, images."""

from __future__ import annotations

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import elements
from tilewright.frontend.builders.elements import split_axis
from tilewright.frontend.builders.sliding import unshuffled
from tilewright.frontend.builders.window_rules import known, repeated_pixels
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.signature import Axis, Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("reshape")
def convert_reshape(node: GraphNode, x: Expr, shape: Ints) -> Expr:
    return elements.reshaped(node, x, shape)


@converts("expand_dims")
def convert_expand_dims(node: GraphNode, x: Expr, axes: Ints) -> Expr:
    rank = idioms.rank_of(x) + len(axes)
    return idioms.with_axes(x, [node.axis(axis, rank) for axis in axes])


@converts("squeeze")
def convert_squeeze(node: GraphNode, x: Expr, axes: Ints | None = None) -> Expr:
    return idioms.without_axes(x, [node.axis(axis) for axis in axes or ()])


@converts("transpose")
def convert_transpose(node: GraphNode, x: Expr, perm: Ints) -> Expr:
    order = [node.axis(axis) for axis in perm]
    if sorted(order) != list(range(idioms.rank_of(x))):
        node.bad(f"it permutes {idioms.rank_of(x)} axes by {perm}")
    return idioms.transpose(x, order)


@converts("flatten2d")
def convert_flatten(node: GraphNode, x: Expr, axis: int = 1) -> Expr:
    axis = axis + idioms.rank_of(x) if axis < 0 else axis
    if not 0 <= axis <= idioms.rank_of(x):
        node.bad(f"it divides {idioms.rank_of(x)} axes at axis {axis}")
    return idioms.as_matrix(x, axis)


@converts("concat")
def convert_concat(node: GraphNode, *values: Expr, axis: int, interleave: bool = False) -> Expr:
    """Along an axis; interleaved, one element of each in turn."""
    axis, shape = node.axis(axis, idioms.rank_of(values[0])), list(idioms.shape_of(values[0]))
    if not interleave:
        return idioms.concatenate(values, axis)
    shape[axis] *= len(values)
    return idioms.reshape(op.stack(values, axis=axis + 1), shape)


@converts("stack")
def convert_stack(node: GraphNode, *values: Expr, axis: int) -> Expr:
    return op.stack(values, axis=node.axis(axis, idioms.rank_of(values[0]) + 1))


@converts("split")
def convert_split(
    node: GraphNode, x: Expr, axis: Axis, num_splits: int = 0, split_sizes: Ints | None = None
) -> list[Expr]:
    """Into parts of one size, or of those that are given."""
    return split_axis(node, x, axis, split_sizes or num_splits)


@converts("slice_by_index")
def convert_slice_by_index(
    node: GraphNode, x: Expr, begin: Ints, end: Ints, stride: Ints | None = None, begin_mask: Ints | None = None,
    end_mask: Ints | None = None, squeeze_mask: Ints | None = None,
) -> Expr:  # fmt: skip
    """As Python slices, with masks for what is left out or taken away."""
    strides, none = stride or [1] * len(begin), [0] * len(begin)
    if not len(begin) == len(end) == len(strides) == idioms.rank_of(x) or 0 in strides:
        node.bad(f"begin {begin}, end {end} and stride {stride} of {idioms.rank_of(x)} axes")
    first, last, one = begin_mask or none, end_mask or none, squeeze_mask or none
    for axis in range(idioms.rank_of(x)):
        if one[axis]:
            position = begin[axis] + idioms.shape_of(x)[axis] if begin[axis] < 0 else begin[axis]
            x = idioms.slice_axis(x, axis, position, position + 1)
        else:
            bounds = (None if first[axis] else begin[axis], None if last[axis] else end[axis])
            x = elements.python_slice(x, axis, *bounds, strides[axis])
    dropped = tuple(axis for axis in range(len(begin)) if one[axis])
    return op.squeeze(x, axis=dropped) if dropped else x


@converts("slice_by_size")
def convert_slice_by_size(x: Expr, begin: Ints, size: Ints) -> Expr:
    """`size` elements from `begin` on; -1 takes all that follow."""
    for axis, (low, count) in enumerate(zip(begin, size, strict=True)):
        extent = idioms.shape_of(x)[axis]
        low = low + extent if low < 0 else low
        x = idioms.slice_axis(x, axis, low, extent if count == -1 else low + count)
    return x


@converts("slice_update")
def convert_slice_update(node: MilNode, x: Expr, update: Expr, begin: Ints, end: Ints) -> Expr:
    """A slice replaced."""
    stride = node.numbers("stride", [1] * len(begin))
    masks = [node.array(f"{name}_mask", [False] * len(begin)).reshape(-1) for name in ("begin", "end", "squeeze")]
    if masks[2].any() or min(stride) < 1:
        node.unsupported("axes taken away and steps backwards are not supported")
    bounds = [
        slice(None if masks[0][i] else begin[i], None if masks[1][i] else end[i], stride[i]).indices(
            idioms.shape_of(x)[i]
        )
        for i in range(len(begin))
    ]
    low, high, step = zip(*bounds)
    return op.strided_set(x, update, begin=low, end=high, strides=step)


@converts("reverse")
def convert_reverse(node: GraphNode, x: Expr, axes: Ints | None = None) -> Expr:
    return elements.reversed_axes(x, map(node.axis, range(idioms.rank_of(x)) if axes is None else axes))


@converts("reverse_sequence")
def convert_reverse_sequence(x: Expr, lengths: Expr, seq_axis: int, batch_axis: int = 0) -> Expr:
    return op.reverse_sequence(x, idioms.cast(lengths, "int32"), seq_axis=seq_axis, batch_axis=batch_axis)


@converts("tile")
def convert_tile(node: GraphNode, x: Expr, reps: Ints) -> Expr:
    if len(reps) != idioms.rank_of(x) or min(reps, default=1) < 1:
        node.bad(f"it repeats {idioms.rank_of(x)} axes by {reps}")
    return op.tile(x, reps=tuple(reps))


@converts("pad")
def convert_pad(node: MilNode, x: Expr, pad: Ints, mode: str = "constant", constant_val: float = 0.0) -> Expr:
    """With a number, mirrored, or with the values at the border."""
    pairs = list(zip(pad[::2], pad[1::2]))
    widths = [(0, 0)] * (idioms.rank_of(x) - len(pairs)) + pairs
    if len(widths) != idioms.rank_of(x) or min(pad, default=0) < 0:
        node.bad(f"pad={pad} of {idioms.rank_of(x)} axes")
    return elements.padded(node, x, widths, mode, constant_val)


def _not_batched(node: GraphNode, batch_dims: int) -> None:
    if batch_dims:
        node.unsupported("batch_dims is not supported")


@converts("gather")
def convert_gather(node: GraphNode, x: Expr, indices: Expr, axis: Axis = 0, batch_dims: int = 0) -> Expr:
    """Elements along an axis; negative positions count from the end."""
    _not_batched(node, batch_dims)
    return op.take(x, elements.from_front(indices, idioms.shape_of(x)[axis]), axis=axis)


@converts("gather_nd")
def convert_gather_nd(node: GraphNode, x: Expr, indices: Expr, batch_dims: int = 0) -> Expr:
    _not_batched(node, batch_dims)
    return elements.gather_nd(x, idioms.cast(indices, "int32"))


def _mode(node: GraphNode, mode: str) -> str:
    """The combination of updates, in Relay's terms."""
    if mode not in ("update", "add", "mul", "min", "max"):
        node.unsupported(f"mode={mode} is not supported")
    return mode


@converts("scatter_along_axis")
def convert_scatter_along_axis(
    node: GraphNode, data: Expr, indices: Expr, updates: Expr, axis: Axis = 0, mode: str = "add"
) -> Expr:
    positions = elements.from_front(indices, idioms.shape_of(data)[axis])
    return op.scatter_elements(data, positions, updates, axis=axis, reduction=_mode(node, mode))


@converts("one_hot")
def convert_one_hot(node: MilNode, indices: Expr, one_hot_vector_size: int, axis: int = -1) -> Expr:
    on, off = node.array("on_value", 1), node.array("off_value", 0)
    dtype = str(on.dtype) if node.has_arg("on_value") else "int32"
    depth = one_hot_vector_size
    if not 0 < depth < 1 << 24:
        node.bad(f"one_hot_vector_size={depth}")
    return op.one_hot(
        indices, idioms.constant(on.reshape(()), dtype), idioms.constant(off.reshape(()), dtype), depth=depth,
        axis=axis, dtype=dtype,
    )  # fmt: skip


@converts("range_1d")
def convert_range(node: MilNode) -> Expr:
    start, end, step = (node.number(name) for name in ("start", "end", "step"))
    if step == 0 or abs((end - start) / step) > 1 << 24:
        node.bad(f"from {start} to {end} by {step}")
    return idioms.constant(np.arange(start, end, step), str(node.array("start").dtype))


converts.schemas({
    "band_part": lambda x, lower=-1, upper=-1: elements.band(x, lower, upper),
    "gather_along_axis": lambda x, indices, axis=0: op.gather(
        x, axis=axis, indices=elements.from_front(indices, idioms.shape_of(x)[axis])
    ),
    "scatter_nd": lambda node, data, indices, updates, mode="add": elements.scatter_nd(
        data, idioms.cast(indices, "int32"), updates, _mode(node, mode)
    ),
    "topk": lambda x, k=1, axis=-1, ascending=False: idioms.outputs(
        op.topk(x, k=k, axis=axis, is_ascend=ascending, dtype="int32")
    ),
    "argsort": lambda x, axis=-1, ascending=False: op.argsort(x, axis=axis, is_ascend=ascending, dtype="int32"),
    # the extents, which must be known when the model is imported
    "shape": lambda node, x: idioms.constant(known(node, idioms.shape_of(x), "the shape"), "int32"),
})  # fmt: skip
converts.functions({
    "depth_to_space": lambda node: op.nn.depth_to_space(
        node.arg(), block_size=node.number("block_size"), mode="DCR"
    ),
    "pixel_shuffle": lambda node: op.nn.depth_to_space(
        node.arg(), block_size=node.number("upscale_factor"), mode="CRD"
    ),
    "pixel_unshuffle": lambda node: unshuffled(node.arg(), node.number("downscale_factor")),
    "space_to_depth": lambda node: op.nn.space_to_depth(node.arg(), block_size=node.number("block_size")),
    "non_zero": lambda node: op.argwhere(node.arg()),
    # the probabilities stand for the label of the largest as well: text is no tensor
    "classify": lambda node: [node.arg("probabilities")] * 2,
})  # fmt: skip


@converts("space_to_batch", "batch_to_space")
def convert_space_to_batch(node: MilNode, x: Expr, block_shape: Ints) -> Expr:
    """Blocks of the image as items of the batch, and back."""
    edges = "paddings" if node.operator == "space_to_batch" else "crops"
    pairs = [tuple(map(int, pair)) for pair in node.array(edges).reshape(-1, 2)]
    last = idioms.channels_last(x)
    if node.operator == "space_to_batch":
        return idioms.channels_first(op.nn.space_to_batch_nd(last, block_shape=block_shape, paddings=pairs))
    return idioms.channels_first(op.nn.batch_to_space_nd(last, block_shape=block_shape, crops=pairs))


@converts("sliding_windows")
def convert_sliding_windows(node: GraphNode, x: Expr, axis: Axis, size: int, stride: int = 1) -> Expr:
    return elements.windows_along(node, x, axis, size, stride)


@converts("upsample_nearest_neighbor", "upsample_bilinear")
def convert_upsample(
    node: MilNode, x: Expr, scale_factor_height: float = 1, scale_factor_width: float = 1, align_corners: bool = True
) -> Expr:
    """Images some times as large."""
    factors = (scale_factor_height, scale_factor_width)
    size = [int(np.floor(extent * factor)) for extent, factor in zip(idioms.shape_of(x)[-2:], factors)]
    if node.operator == "upsample_nearest_neighbor":
        return resized(x, size, "")
    half = bool(node.number("half_pixel_centers", not align_corners))
    return resized(x, size, "align_corners" if align_corners else "half_pixel" if half else "asymmetric")


_SAMPLING = {
    "STRICT_ALIGN_CORNERS": "align_corners", "ALIGN_CORNERS": "align_corners", "UNALIGN_CORNERS": "half_pixel",
    "DEFAULT": "asymmetric", "OFFSET_CORNERS": "half_pixel",
}  # fmt: skip


@converts("resize_nearest_neighbor", "resize_bilinear")
def convert_resize(
    node: MilNode, x: Expr, target_size_height: int, target_size_width: int, sampling_mode: str = "DEFAULT"
) -> Expr:
    """Images of a given size."""
    if node.operator == "resize_bilinear" and sampling_mode not in _SAMPLING:
        node.unsupported(f"sampling_mode={sampling_mode} is not supported")
    mode = _SAMPLING[sampling_mode] if node.operator == "resize_bilinear" else ""
    return resized(x, [target_size_height, target_size_width], mode)


def resized(x: Expr, size: list[int], mode: str) -> Expr:
    """[…, C, H, W] interpolated, or with pixels repeated; axes in front of the last three are one batch."""
    shape = idioms.shape_of(x)
    data = idioms.reshape(x, (idioms.product(shape[:-3]), *shape[-3:])) if len(shape) != 4 else x
    made: Expr = (
        op.image.resize2d(data, size=tuple(size), method="linear", coordinate_transformation_mode=mode)
        if mode else repeated_pixels(data, size)
    )  # fmt: skip
    return idioms.reshape(made, (*shape[:-2], *size))


@converts("crop")
def convert_crop(node: MilNode) -> Expr:
    """Borders cut off."""
    x = node.arg()
    for axis, name in ((-2, "crop_height"), (-1, "crop_width")):
        before, behind = node.numbers(name)
        position = idioms.rank_of(x) + axis
        x = idioms.slice_axis(x, position, before, idioms.shape_of(x)[position] - behind)
    return x


@converts("reshape_like")
def convert_reshape_like(node: MilNode) -> Expr:
    """In the shape of another tensor."""
    references = node.listed("ref_tensors")
    if len(references) != 1 or idioms.dtype_of(node.arg()) == "bool":
        node.unsupported("parts of several shapes are not supported")
    return idioms.reshape(node.arg(), idioms.shape_of(references[0]))
