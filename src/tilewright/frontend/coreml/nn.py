"""Convolutions, products, pooling, normalization, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.normalization import batch_normalized, instance_normalized, normalized, scaled_over
from tilewright.frontend.builders.product import linear, matmul
from tilewright.frontend.builders.recurrent_layers import recurrent_layers
from tilewright.frontend.builders.window_rules import Edges, biased, counts_upwards, same_edges, transposed_sizes
from tilewright.frontend.builders.windows import convolution, pool, transposed_convolution
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.signature import Axes, Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _window(node: MilNode, extents: tuple[Any, ...], size: Sequence[Any]) -> tuple[list[int], Edges, list[int]]:
    """Strides, padding and dilation over data of these extents; what is left out is one number for every axis."""
    count, kind = len(size), node.attribute("pad_type") or "valid"
    strides, dilation = node.numbers("strides", [1] * count), node.numbers("dilations", [1] * count)
    pad = node.numbers("pad", [0] * (2 * count)) if kind == "custom" else [0] * (2 * count)
    if kind not in ("valid", "custom", "same", "same_lower") or len(pad) != 2 * count or min(pad) < 0:
        node.bad(f"pad_type={kind} and pad={pad} over {count} axes")
    if kind.startswith("same"):
        return strides, same_edges(node, extents, size, strides, dilation, kind == "same_lower"), dilation
    return strides, (pad[::2], pad[1::2]), dilation


@converts("conv")
def convert_conv(node: MilNode, x: Expr, weight: Expr, bias: Expr | None = None, groups: int = 1) -> Expr:
    """Over 1, 2 or 3 axes, with groups and dilation."""
    strides, edges, dilation = _window(node, idioms.shape_of(x)[2:], idioms.shape_of(weight)[2:])
    return biased(convolution(x, weight, strides, idioms.pads(*edges), dilation, groups), bias)


@converts("conv_transpose")
def convert_conv_transpose(
    node: MilNode, x: Expr, weight: Expr, bias: Expr | None = None, pad_type: str = "valid", groups: int = 1,
    output_shape: Ints | None = None,
) -> Expr:  # fmt: skip
    """The transposed convolution; `output_shape` says which of several sizes its result has."""
    extents, size = idioms.shape_of(x)[2:], idioms.shape_of(weight)[2:]
    strides, edges, dilation = _window(node, extents, size)
    if pad_type in ("same", "same_lower"):  # stride times as large as the data
        excess = [max((k - 1) * d + 1 - s, 0) for k, d, s in zip(size, dilation, strides)]
        edges = [total // 2 for total in excess], [total - total // 2 for total in excess]
    more = None
    if output_shape is not None:
        made = transposed_sizes(extents, size, strides, edges, dilation)
        more = [want - got for want, got in zip(output_shape[-len(size) :], made)]
        if any(value < 0 or value >= max(s, 1) for value, s in zip(more, strides)):
            node.bad(f"output_shape={output_shape}, and {made} follows from its input")
    return biased(transposed_convolution(x, weight, strides, idioms.pads(*edges), dilation, groups, more), bias)


@converts("avg_pool", "max_pool", "l2_pool")
def convert_pool(
    node: MilNode, x: Expr, kernel_sizes: Ints, ceil_mode: bool = False, exclude_padding_from_average: bool = False
) -> Expr:
    """Means, maxima and lengths of windows."""
    extents = idioms.shape_of(x)[2:]
    strides, edges, _ = _window(node, extents, kernel_sizes)
    before, behind = edges
    counts = None
    if ceil_mode:
        counts = counts_upwards(node, extents, kernel_sizes, strides, edges, inside=True)
    lengths = node.operator == "l2_pool"
    made = pool(
        x * x if lengths else x, "max" if node.operator == "max_pool" else "mean", kernel_sizes, strides, before,
        counts, behind, padding_counts=lengths or not exclude_padding_from_average,
    )  # fmt: skip
    return op.sqrt(made * float(np.prod(kernel_sizes))) if lengths else made


converts.schemas({
    "linear": lambda x, weight, bias=None: linear(x, weight, bias),
    # of the last two axes; a vector is a row on the left and a column on the right
    "matmul": lambda x, y, transpose_x=False, transpose_y=False: matmul(x, y, transpose_x, transpose_y),
    "instance_norm": lambda x, gamma=None, beta=None, epsilon=1e-5: instance_normalized(x, gamma, beta, epsilon),
})  # fmt: skip


@converts("einsum")
def convert_einsum(node: MilNode, equation: str) -> Expr:
    return op.einsum(node.listed("values"), equation=equation)


@converts("local_response_norm")
def convert_local_response_norm(x: Expr, size: int, k: float = 1.0, alpha: float = 1e-4, beta: float = 0.75) -> Expr:
    return op.nn.lrn(x, size=size, axis=1, bias=k, alpha=alpha, beta=beta)


@converts("batch_norm")
def convert_batch_norm(
    x: Expr, mean: Expr, variance: Expr, gamma: Expr | None = None, beta: Expr | None = None, epsilon: float = 1e-5
) -> Expr:
    """By given means and variances, with factors and addends a channel."""
    statistics = [
        None if value is None else idioms.cast(value, idioms.dtype_of(x)) for value in (mean, variance, gamma, beta)
    ]
    return batch_normalized(x, statistics, epsilon)


@converts("layer_norm")
def convert_layer_norm(
    x: Expr, gamma: Expr | None = None, beta: Expr | None = None, axes: Axes | None = None, epsilon: float = 1e-5
) -> Expr:
    over = axes or range(idioms.rank_of(x))
    return scaled_over(normalized(x, over, epsilon), over, gamma, beta)


@converts("l2_norm")
def convert_l2_norm(x: Expr, epsilon: float = 1e-6) -> Expr:
    """Divided by the length over the last three axes."""
    axes = tuple(range(max(idioms.rank_of(x) - 3, 0), idioms.rank_of(x)))
    squares = op.sum(x * x, axis=axes, keepdims=True)
    return x * op.rsqrt(squares + epsilon)


#: PyTorch's gates, which `recurrent_layers` takes, by their position in MIL: input, forget, output, cell; reset, new,
#: update.
_ORDER = {"lstm": (0, 1, 3, 2), "gru": (0, 2, 1), "rnn": (0,)}
_ACTIVATIONS = {
    "lstm": ("recurrent_activation", "cell_activation", "activation"),
    "gru": ("recurrent_activation", "activation"),
    "rnn": ("activation",),
}


@converts("lstm", "gru", "rnn")
def convert_recurrent(
    node: MilNode, x: Expr, initial_h: Expr, weight_hh: Expr, direction: str = "forward", output_sequence: bool = False
) -> list[Expr]:
    """All steps or the last one, then the last states."""
    kind = node.operator
    for name in _ACTIVATIONS[kind]:
        usual = "sigmoid" if name == "recurrent_activation" else "tanh"
        if node.attribute(name) not in (None, usual):
            node.unsupported(f"{name}={node.attribute(name)} is not supported")
    if node.has_arg("peephole") or node.has_arg("clip") or node.has_arg("input_bias"):
        node.unsupported("peepholes, clipping and biases of the input are not supported")
    suffixes = ("", "_back") if direction == "bidirectional" else ("",)
    count, hidden, batch = len(suffixes), idioms.shape_of(weight_hh)[1], idioms.shape_of(x)[1]

    def gates(name: str) -> Expr:
        parts = [idioms.slice_axis(node.arg(name), 0, gate * hidden, (gate + 1) * hidden) for gate in _ORDER[kind]]
        return idioms.concatenate(parts, 0)

    names = ("weight_ih", "weight_hh", "bias")
    weights = [[gates(name + suffix) for name in names if node.has_arg(name + suffix)] for suffix in suffixes]
    initial = [initial_h, node.arg("initial_c")] if kind == "lstm" else [initial_h]
    states = [idioms.transpose(idioms.reshape(state, (batch, count, hidden)), (1, 0, 2)) for state in initial]
    every, *last = recurrent_layers("rnn_tanh" if kind == "rnn" else kind, x, weights, states, 1)
    ends = [idioms.reshape(idioms.transpose(state, (1, 0, 2)), (batch, count * hidden)) for state in last]
    return [every if output_sequence else idioms.reshape(ends[0], (1, batch, count * hidden)), *ends]


@converts("constexpr_blockwise_shift_scale")
def convert_blockwise(node: MilNode) -> Expr:
    """Weights kept in fewer bits, with a scale and an offset for each block of them."""
    data, scale = node.array("data"), node.array("scale")
    blocks = [extent // count for extent, count in zip(data.shape, scale.shape)]
    if data.ndim != scale.ndim or any(e % c for e, c in zip(data.shape, scale.shape)):
        node.bad(f"scales of shape {list(scale.shape)} for data of {list(data.shape)}")

    def spread(values: np.ndarray) -> np.ndarray:
        for axis, block in enumerate(blocks):
            values = values.repeat(block, axis)
        return values

    moved = data.astype(np.float32)
    if node.has_arg("offset"):
        moved = moved - spread(node.array("offset").astype(np.float32))
    return idioms.constant(moved * spread(scale.astype(np.float32)), str(scale.dtype))
