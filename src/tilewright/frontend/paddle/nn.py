"""Convolutions, products, pooling, normalization, resizing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend.builders.normalization import normalized, scaled_over
from tilewright.frontend.builders.windows import convolution, pool, same_padding, transposed_convolution, window_count
from tilewright.frontend.idioms import (
    broadcast_to,
    cast,
    dtype_of,
    product,
    rank_of,
    reshape,
    shape_of,
    transpose,
)
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _is_last(node: PaddleNode, name: str = "data_format") -> bool:
    """True where channels are the last axis."""
    return str(node.attrs.get(name, node.attrs.get("data_layout", "NCHW"))).endswith("C")


def _first(x: Expr, last: bool) -> Expr:
    return transpose(x, (0, rank_of(x) - 1, *range(1, rank_of(x) - 1))) if last else x


def _back(x: Expr, last: bool) -> Expr:
    return transpose(x, (0, *range(2, rank_of(x)), 1)) if last else x


def _padding(
    node: PaddleNode, extents: tuple[Any, ...], size: list[int], strides: list[int], dilation: list[int]
) -> tuple[list[int], list[int]]:
    """(before, behind) of each spatial axis."""
    how, count = node.attrs.get("padding_algorithm", "EXPLICIT"), len(size)
    if how == "VALID":
        return [0] * count, [0] * count
    if how == "SAME":
        if not all(isinstance(extent, int) for extent in extents):
            node.unsupported("padding SAME with symbolic dimensions; give the shapes of the inputs")
        pairs = [same_padding(*one) for one in zip(extents, size, strides, dilation)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    given = [int(value) for value in node.attr("paddings", [0] * count)]
    if len(given) == count:
        return given, given
    if len(given) != 2 * count:
        node.bad(f"paddings={given} over {count} axes")
    return given[::2], given[1::2]


def _window(node: PaddleNode, count: int) -> tuple[list[int], list[int], int]:
    strides = [int(value) for value in node.attr("strides", [1] * count)]
    dilation = [int(value) for value in node.attr("dilations", [1] * count)]
    if len(strides) != count or len(dilation) != count or min(*strides, *dilation) < 1:
        node.bad(f"strides={strides} and dilations={dilation} over {count} axes")
    return strides, dilation, int(node.attrs.get("groups") or 1)


@converts("conv2d", "depthwise_conv2d", "conv3d")
def convert_convolution(node: PaddleNode) -> Expr:
    """Filters are [O, C / groups, …] whatever the layout of the data."""
    last = _is_last(node)
    x, weight = _first(node[0], last), node[1]
    size = [int(extent) for extent in shape_of(weight)[2:]]
    strides, dilation, groups = _window(node, len(size))
    before, behind = _padding(node, shape_of(x)[2:], size, strides, dilation)
    made = convolution(x, weight, strides, (*before, *behind), dilation, groups)
    if node.has(2):
        made = op.nn.bias_add(made, node[2], axis=1)
    return _back(made, last)


@converts("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def convert_transposed(node: PaddleNode) -> Expr:
    """Filters are [C, O / groups, …]; `output_size` or `output_padding` says which of several sizes comes out."""
    last = _is_last(node)
    x, weight = _first(node[0], last), node[1]
    size, extents = [int(extent) for extent in shape_of(weight)[2:]], shape_of(x)[2:]
    strides, dilation, groups = _window(node, len(size))
    before, behind = _padding(node, extents, size, strides, dilation)
    more = [int(value) for value in node.attrs.get("output_padding") or []] or None
    wanted = node.numbers(2, "output_size", [])
    if wanted:
        made = [(e - 1) * s + (k - 1) * d + 1 - a - b
                for e, s, k, d, a, b in zip(extents, strides, size, dilation, before, behind)]  # fmt: skip
        more = [want - got for want, got in zip(wanted, made)]
    if more and any(value < 0 or value >= step for value, step in zip(more, strides)):
        node.bad(f"{more} elements more than follow from its input")
    return _back(transposed_convolution(x, weight, strides, (*before, *behind), dilation, groups, more), last)


_ADAPTIVE: dict[tuple[str, int], Any] = {
    ("max", 2): op.nn.adaptive_max_pool2d,
    ("mean", 2): op.nn.adaptive_avg_pool2d,
    ("max", 3): op.nn.adaptive_max_pool3d,
    ("mean", 3): op.nn.adaptive_avg_pool3d,
}


@converts("pool2d", "pool3d", "max_pool2d_with_index")
def convert_pool(node: PaddleNode) -> Expr:
    """Windows of a size, or as many as are asked for."""
    last = _is_last(node)
    x = _first(node[0], last)
    kind = "max" if node.attrs.get("pooling_type", "max") == "max" else "mean"
    extents = shape_of(x)[2:]
    name = "kernel_size" if "kernel_size" in node.attrs else "ksize"
    size = node.numbers(1, name)
    size = size * len(extents) if len(size) == 1 else size
    if node.attrs.get("global_pooling") or (node.attrs.get("adaptive") and set(size) == {1}):
        axes = tuple(range(2, rank_of(x)))
        return _back((op.max if kind == "max" else op.mean)(x, axis=axes, keepdims=True), last)
    if node.attrs.get("adaptive"):
        return _back(_ADAPTIVE[kind, len(extents)](x, output_size=tuple(size)), last)
    strides = [int(value) for value in node.attr("strides", [1] * len(size))]
    if len(size) != len(extents) or min(*size, *strides) < 1:
        node.bad(f"windows of {size} by {strides} over {len(extents)} axes")
    before, behind = _padding(node, extents, size, strides, [1] * len(size))
    counts = None
    if node.attrs.get("ceil_mode"):
        if not all(isinstance(extent, int) for extent in extents):
            node.unsupported("ceil_mode with symbolic dimensions; give the shapes of the inputs")
        counts = [
            window_count(e, k, s, a, b, True, inside=False)
            for e, k, s, a, b in zip(extents, size, strides, before, behind)
        ]
    counted = not node.attrs.get("exclusive", True)
    return _back(pool(x, kind, size, strides, before, counts, behind, padding_counts=counted), last)


@converts("batch_norm", "batch_norm_", "sync_batch_norm_")
def convert_batch_norm(node: PaddleNode, epsilon: float = 1e-5) -> Expr:
    """By the statistics of training."""
    x, axis = node[0], node.rank() - 1 if _is_last(node) else 1
    mean, variance = node[1], node[2]
    factor: Expr = op.rsqrt(variance + epsilon)
    if node.has(3):
        factor = factor * node[3]
    shift: Expr = -(mean * factor)
    if node.has(4):
        shift = shift + node[4]
    spread = [shape_of(x)[axis] if position == axis else 1 for position in range(rank_of(x))]
    factor, shift = (cast(reshape(value, spread), dtype_of(x)) for value in (factor, shift))
    return x * factor + shift


@converts("layer_norm")
def convert_layer_norm(
    node: PaddleNode, x: Expr, scale: Expr | None = None, bias: Expr | None = None, begin_norm_axis: Axis = 1,
    epsilon: float = 1e-5,
) -> Expr:  # fmt: skip
    axes = tuple(range(begin_norm_axis, node.rank()))
    return scaled_over(normalized(x, axes, epsilon), axes, scale, bias)


@converts("instance_norm")
def convert_instance_norm(x: Expr, scale: Expr | None = None, bias: Expr | None = None, epsilon: float = 1e-5) -> Expr:
    return scaled_over(normalized(x, tuple(range(2, rank_of(x))), epsilon), (1,), scale, bias)


@converts("group_norm")
def convert_group_norm(
    node: PaddleNode, data: Expr, scale: Expr | None = None, bias: Expr | None = None, groups: int = 1,
    epsilon: float = 1e-5,
) -> Expr:  # fmt: skip
    last = _is_last(node)
    x = _first(data, last)
    shape = shape_of(x)
    if groups < 1 or shape[1] % groups:
        node.bad(f"{shape[1]} channels do not make {groups} groups")
    split = reshape(x, (shape[0], groups, product((shape[1] // groups, *shape[2:]))))
    made = reshape(normalized(split, (2,), epsilon), shape)
    return _back(scaled_over(made, (1,), scale, bias), last)


def _transposes(node: PaddleNode, name: str) -> bool:
    """True where an operand is to be transposed, by the names that versions have given that."""
    names = (f"transpose_{name}", f"trans_{name}", f"transpose_{name.upper()}")
    return any(bool(node.attrs.get(one)) for one in names)


@converts("matmul", "bmm", "mv")
def convert_matmul(node: PaddleNode) -> Expr:
    """The product of the last two axes; a vector is a row on the left and a column on the right."""
    x, y = node[0], node[1]
    flags = [_transposes(node, name) for name in "xy"]
    rows, columns = rank_of(x) == 1, rank_of(y) == 1
    x = reshape(x, (1, *shape_of(x))) if rows else x
    y = reshape(y, (*shape_of(y), 1)) if columns else y
    made = _product(x, y, flags[0] and not rows, flags[1] and not columns)
    if "alpha" in node.attrs and node.attrs["alpha"] != 1:
        made = made * float(node.attrs["alpha"])
    shape = shape_of(made)
    return reshape(made, (*shape[:-2], *([] if rows else [shape[-2]]), *([] if columns else [shape[-1]])))


def _product(x: Expr, y: Expr, transpose_x: bool, transpose_y: bool) -> Expr:
    if rank_of(y) == 2:
        x = transpose(x, (*range(rank_of(x) - 2), rank_of(x) - 1, rank_of(x) - 2)) if transpose_x else x
        flat = reshape(x, (product(shape_of(x)[:-1]), shape_of(x)[-1]))
        made = op.nn.dense(flat, y) if transpose_y else op.nn.matmul(flat, y)
        return reshape(made, (*shape_of(x)[:-1], shape_of(made)[1]))
    rank = max(rank_of(x), rank_of(y))
    pairs = [(1,) * (rank - rank_of(value)) + tuple(shape_of(value)) for value in (x, y)]
    outer = [b if isinstance(a, int) and a == 1 else a for a, b in zip(pairs[0][:-2], pairs[1][:-2])]
    flats = [
        reshape(broadcast_to(reshape(value, pair), (*outer, *pair[-2:])), (product(outer), *pair[-2:]))
        for value, pair in zip((x, y), pairs)
    ]
    made = op.nn.batch_matmul(flats[0], flats[1], transpose_a=transpose_x, transpose_b=transpose_y)
    return reshape(made, (*outer, *shape_of(made)[1:]))


@converts("addmm")
def convert_addmm(node: PaddleNode) -> Expr:
    """beta * input + alpha * x y."""
    made = op.nn.matmul(node[1], node[2]) * float(node.attrs.get("alpha", 1.0))
    return node[0] * float(node.attrs.get("beta", 1.0)) + made


@converts("old_mul")
def convert_old_mul(x: Expr, y: Expr, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Expr:
    """The product of two tensors as matrices, split after so many axes."""
    split, other = x_num_col_dims, y_num_col_dims
    left = reshape(x, (product(shape_of(x)[:split]), product(shape_of(x)[split:])))
    right = reshape(y, (product(shape_of(y)[:other]), product(shape_of(y)[other:])))
    return reshape(op.nn.matmul(left, right), (*shape_of(x)[:split], *shape_of(y)[other:]))


@converts("embedding")
def convert_embedding(x: Expr, weight: Expr) -> Expr:
    """Rows of a table; those of `padding_idx` are zero as they are stored."""
    return op.take(weight, cast(x, "int32"), axis=0)


@converts("nearest_interp", "bilinear_interp", "bicubic_interp", "linear_interp")
def convert_interpolation(node: PaddleNode) -> Expr:
    """Images of another size, given as a number, a factor, or a tensor."""
    last = _is_last(node, "data_format" if "data_format" in node.attrs else "data_layout")
    x = _first(node[0], last)
    if rank_of(x) != 4:
        node.unsupported(f"interpolation of {rank_of(x) - 2} axes is not supported")
    size = _size(node, x)
    corners, mode = bool(node.attrs.get("align_corners", True)), int(node.attrs.get("align_mode", 1))
    if node.operator == "nearest_interp":
        transformation = "align_corners" if corners else "asymmetric"
        how = {"method": "nearest_neighbor", "coordinate_transformation_mode": transformation}
        how["rounding_method"] = "round" if corners else "floor"
    else:
        half = not corners and (mode == 0 or node.operator == "bicubic_interp")
        transformation = "align_corners" if corners else "half_pixel" if half else "asymmetric"
        method = "cubic" if node.operator == "bicubic_interp" else "linear"
        how = {"method": method, "coordinate_transformation_mode": transformation}
        if method == "cubic":
            how["cubic_alpha"] = -0.75  # type: ignore[assignment]
    return _back(op.image.resize2d(x, size=tuple(size), **how), last)  # type: ignore[arg-type]


def _size(node: PaddleNode, x: Expr) -> list[int]:
    if node.has(1):
        return node.numbers(1, "out_size")
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return node.numbers(2, "size_tensor")
    factors = [float(value) for value in np.reshape(node.attrs.get("scale") or [], -1)]
    if factors and factors[0] > 0:
        extents = shape_of(x)[2:]
        if not all(isinstance(extent, int) for extent in extents):
            node.unsupported("a factor of symbolic extents; give the shapes of the inputs")
        factors = factors * 2 if len(factors) == 1 else factors
        return [math.floor(extent * factor) for extent, factor in zip(extents, factors)]
    size = [int(node.attr("out_h", -1)), int(node.attr("out_w", -1))]
    if min(size) < 1:
        node.bad(f"an image of {size}")
    return size


@converts("pixel_shuffle")
def convert_pixel_shuffle(node: PaddleNode, x: Expr, upscale_factor: int = 1) -> Expr:
    last = _is_last(node)
    return _back(op.nn.depth_to_space(_first(x, last), block_size=upscale_factor, mode="CRD"), last)
