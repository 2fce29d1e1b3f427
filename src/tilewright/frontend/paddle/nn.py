"""Convolutions, products, pooling, normalization, resizing, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions, window_rules
from tilewright.frontend.builders.normalization import (
    batch_normalized,
    group_normalized,
    instance_normalized,
    normalized,
    scaled_over,
)
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.builders.recurrent_layers import gate_count, known_modes, recurrent_layers
from tilewright.frontend.builders.sliding import adaptive_pool
from tilewright.frontend.builders.windows import convolution, pool, transposed_convolution
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.frontend.signature import Axis, Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _is_last(node: PaddleNode, name: str = "data_format") -> bool:
    """True where channels are the last axis."""
    return str(node.attrs.get(name, node.attrs.get("data_layout", "NCHW"))).endswith("C")


def _first(x: Expr, last: bool) -> Expr:
    return idioms.channels_first(x) if last else x


def _back(x: Expr, last: bool) -> Expr:
    return idioms.channels_last(x) if last else x


def _padding(node: PaddleNode, extents: Sequence[Any], size: Ints, strides: Ints, dilation: Ints) -> window_rules.Edges:
    """(before, behind) of each spatial axis."""
    how, count = node.attrs.get("padding_algorithm", "EXPLICIT"), len(size)
    if how == "SAME":
        return window_rules.same_edges(node, extents, size, strides, dilation)
    given = [0] * count if how == "VALID" else [int(value) for value in node.attr("paddings", [0] * count)]
    if len(given) not in (count, 2 * count):
        node.bad(f"paddings={given} over {count} axes")
    return (given, given) if len(given) == count else (given[::2], given[1::2])


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
    size = [int(extent) for extent in idioms.shape_of(weight)[2:]]
    strides, dilation, groups = _window(node, len(size))
    edges = _padding(node, idioms.shape_of(x)[2:], size, strides, dilation)
    made = convolution(x, weight, strides, idioms.pads(*edges), dilation, groups)
    return _back(window_rules.biased(made, node[2] if node.has(2) else None), last)


@converts("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def convert_transposed(node: PaddleNode) -> Expr:
    """Filters are [C, O / groups, …]; `output_size` or `output_padding` says which of several sizes comes out."""
    last = _is_last(node)
    x, weight = _first(node[0], last), node[1]
    size, extents = [int(extent) for extent in idioms.shape_of(weight)[2:]], idioms.shape_of(x)[2:]
    strides, dilation, groups = _window(node, len(size))
    edges = _padding(node, extents, size, strides, dilation)
    more = [int(value) for value in node.attrs.get("output_padding") or []] or None
    wanted = node.numbers(2, "output_size", [])
    if wanted:
        made = window_rules.transposed_sizes(extents, size, strides, edges, dilation)
        more = [want - got for want, got in zip(wanted, made)]
    if more and any(value < 0 or value >= step for value, step in zip(more, strides)):
        node.bad(f"{more} elements more than follow from its input")
    return _back(transposed_convolution(x, weight, strides, idioms.pads(*edges), dilation, groups, more), last)


@converts("pool2d", "pool3d", "max_pool2d_with_index")
def convert_pool(node: PaddleNode) -> Expr:
    """Windows of a size, or as many as are requested."""
    last = _is_last(node)
    x = _first(node[0], last)
    kind = "max" if node.attrs.get("pooling_type", "max") == "max" else "mean"
    extents = idioms.shape_of(x)[2:]
    size = node.numbers(1, "kernel_size" if "kernel_size" in node.attrs else "ksize")
    size = size * len(extents) if len(size) == 1 else size
    if node.attrs.get("global_pooling") or (node.attrs.get("adaptive") and set(size) == {1}):
        axes = tuple(range(2, idioms.rank_of(x)))
        return _back((op.max if kind == "max" else op.mean)(x, axis=axes, keepdims=True), last)
    if node.attrs.get("adaptive"):
        return adaptive_pool("max" if kind == "max" else "avg", node[0], size, last)
    strides = [int(value) for value in node.attr("strides", [1] * len(size))]
    if len(size) != len(extents) or min(*size, *strides) < 1:
        node.bad(f"windows of {size} by {strides} over {len(extents)} axes")
    before, behind = edges = _padding(node, extents, size, strides, [1] * len(size))
    counts = window_rules.counts_upwards(node, extents, size, strides, edges) if node.attrs.get("ceil_mode") else None
    counted = not node.attrs.get("exclusive", True)
    return _back(pool(x, kind, size, strides, before, counts, behind, padding_counts=counted), last)


@converts("batch_norm", "batch_norm_", "sync_batch_norm_")
def convert_batch_norm(
    node: PaddleNode, x: Expr, mean: Expr, variance: Expr, scale: Expr | None = None, bias: Expr | None = None,
    epsilon: float = 1e-5,
) -> Expr:  # fmt: skip
    """By the statistics of training."""
    axis = idioms.rank_of(x) - 1 if _is_last(node) else 1
    return idioms.cast(batch_normalized(x, (mean, variance, scale, bias), epsilon, axis), idioms.dtype_of(x))


@converts("layer_norm")
def convert_layer_norm(
    node: PaddleNode, x: Expr, scale: Expr | None = None, bias: Expr | None = None, begin_norm_axis: Axis = 1,
    epsilon: float = 1e-5,
) -> Expr:  # fmt: skip
    axes = tuple(range(begin_norm_axis, node.rank()))
    return scaled_over(normalized(x, axes, epsilon), axes, scale, bias)


@converts("group_norm")
def convert_group_norm(
    node: PaddleNode, data: Expr, scale: Expr | None = None, bias: Expr | None = None, groups: int = 1,
    epsilon: float = 1e-5,
) -> Expr:  # fmt: skip
    last = _is_last(node)
    return _back(group_normalized(node, _first(data, last), groups, epsilon, scale, bias), last)


def _transposes(node: PaddleNode, name: str) -> bool:
    """True where an operand is to be transposed, by the names that versions have given that."""
    names = (f"transpose_{name}", f"trans_{name}", f"transpose_{name.upper()}")
    return any(bool(node.attrs.get(one)) for one in names)


@converts("matmul", "bmm", "mv")
def convert_matmul(node: PaddleNode) -> Expr:
    """The product of the last two axes; a vector is a row on the left and a column on the right."""
    made = matmul(node[0], node[1], _transposes(node, "x"), _transposes(node, "y"))
    return functions.linear(made, float(node.attrs.get("alpha", 1)))


@converts("addmm")
def convert_addmm(node: PaddleNode) -> Expr:
    """beta * input + alpha * x y."""
    made = op.nn.matmul(node[1], node[2]) * float(node.attrs.get("alpha", 1.0))
    return node[0] * float(node.attrs.get("beta", 1.0)) + made


@converts("old_mul")
def convert_old_mul(x: Expr, y: Expr, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Expr:
    """The product of two tensors as matrices, split after so many axes."""
    split, other = x_num_col_dims, y_num_col_dims
    return idioms.reshape(
        op.nn.matmul(idioms.as_matrix(x, split), idioms.as_matrix(y, other)),
        (*idioms.shape_of(x)[:split], *idioms.shape_of(y)[other:]),
    )


converts.schemas({
    "instance_norm": lambda x, scale=None, bias=None, epsilon=1e-5: instance_normalized(x, scale, bias, epsilon),
    "swish": lambda x, beta=1.0: x * op.sigmoid(functions.linear(x, beta)),
    # rows of a table; those of `padding_idx` are zero as they are stored
    "embedding": lambda x, weight: op.take(weight, idioms.cast(x, "int32"), axis=0),
})  # fmt: skip


@converts("nearest_interp", "bilinear_interp", "bicubic_interp", "linear_interp")
def convert_interpolation(node: PaddleNode) -> Expr:
    """Images of another size, given as a number, a factor, or a tensor."""
    last = _is_last(node, "data_format" if "data_format" in node.attrs else "data_layout")
    x = _first(node[0], last)
    if idioms.rank_of(x) != 4:
        node.unsupported(f"interpolation of {idioms.rank_of(x) - 2} axes is not supported")
    size = _size(node, x)
    corners, mode = bool(node.attrs.get("align_corners", True)), int(node.attrs.get("align_mode", 1))
    if node.operator == "nearest_interp" and not corners:
        return _back(window_rules.repeated_pixels(x, size), last)
    half = not corners and (mode == 0 or node.operator == "bicubic_interp")
    how: dict[str, Any] = {"method": "cubic", "cubic_alpha": -0.75} if node.operator == "bicubic_interp" else {}
    how["coordinate_transformation_mode"] = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    if node.operator == "nearest_interp":
        how |= {"method": "nearest_neighbor", "rounding_method": "round"}
    return _back(op.image.resize2d(x, size=tuple(size), **{"method": "linear", **how}), last)


def _size(node: PaddleNode, x: Expr) -> list[int]:
    if node.has(1):
        return node.numbers(1, "out_size")
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return node.numbers(2, "size_tensor")
    factors = [float(value) for value in np.reshape(node.attrs.get("scale") or [], -1)]
    if factors and factors[0] > 0:
        extents = window_rules.known(node, idioms.shape_of(x)[2:], "a factor")
        return [math.floor(extent * factor) for extent, factor in zip(extents, factors * 2)]
    size = [int(node.attr("out_h", -1)), int(node.attr("out_w", -1))]
    if min(size) < 1:
        node.bad(f"an image of {size}")
    return size


@converts("pixel_shuffle")
def convert_pixel_shuffle(node: PaddleNode, x: Expr, upscale_factor: int = 1) -> Expr:
    last = _is_last(node)
    return _back(op.nn.depth_to_space(_first(x, last), block_size=upscale_factor, mode="CRD"), last)


@converts("rnn")
def convert_rnn(node: PaddleNode) -> list[Expr | list[Expr]]:
    """Steps, the first states and the weights (all matrices, then all biases) to every output and the last states.

    Today's programs have a result that is not used in inference before the states.
    """
    mode = str(node.attr("mode")).lower()
    layers, hidden = int(node.attr("num_layers")), int(node.attr("hidden_size"))
    if mode not in known_modes():
        node.unsupported(f"mode={node.attr('mode')} is not supported")
    if node.has(3):
        node.unsupported("sequences of their own lengths are not supported")
    if node.attr("dropout_prob", 0.0) and not node.attr("is_test", False):
        node.unsupported("dropout in training is not supported")
    directions = 2 if node.attr("is_bidirec", False) else 1
    (data,), parts = node.listed(0), node.listed(2)
    if len(parts) != 4 * layers * directions or any(
        idioms.shape_of(part)[0] != gate_count(mode) * hidden for part in parts
    ):
        node.bad(f"{len(parts)} weights for {layers} layers of {hidden} units in {directions} directions")
    half = len(parts) // 2
    weights = [
        (*parts[position : position + 2], *parts[half + position : half + position + 2])
        for position in range(0, half, 2)
    ]
    made, *states = recurrent_layers(mode, data, weights, node.listed(1), layers)
    return [made, *states] if node.by_name else [made, data, *states]
