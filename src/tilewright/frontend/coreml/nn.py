"""Convolutions, products, pooling, normalization, recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders.normalization import normalized, scaled_over
from tilewright.frontend.builders.windows import convolution, pool, same_padding, transposed_convolution, window_count
from tilewright.frontend.coreml.math import product
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.idioms import cast, constant, dtype_of, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.signature import Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem


def _padding(node: MilNode, extents: tuple[Any, ...], size: list[int], strides: list[int], dilation: list[int]) -> Any:
    """(before, behind) of each spatial axis."""
    kind = node.text("pad_type", "valid")
    if kind == "valid":
        return [0] * len(size), [0] * len(size)
    if kind == "custom":
        pad = node.numbers("pad", [0] * (2 * len(size)))
        if len(pad) != 2 * len(size) or min(pad) < 0:
            node.bad(f"pad={pad} over {len(size)} axes")
        return pad[::2], pad[1::2]
    if kind not in ("same", "same_lower"):
        node.bad(f"pad_type={kind}")
    if not all(isinstance(extent, int) for extent in extents):
        node.unsupported(f"pad_type={kind} with symbolic dimensions is not supported")
    pairs = [same_padding(*one) for one in zip(extents, size, strides, dilation)]
    if kind == "same_lower":
        pairs = [(behind, before) for before, behind in pairs]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _biased(node: MilNode, made: Expr) -> Expr:
    return op.nn.bias_add(made, node.arg("bias"), axis=1) if node.has_arg("bias") else made


@converts("conv")
def convert_conv(node: MilNode, x: Expr, weight: Expr, groups: int = 1) -> Expr:
    """Over 1, 2 or 3 axes, with groups and dilation."""
    count = rank_of(x) - 2
    size = [int(extent) for extent in shape_of(weight)[2:]]
    strides, dilation = node.numbers("strides", [1] * count), node.numbers("dilations", [1] * count)
    before, behind = _padding(node, shape_of(x)[2:], size, strides, dilation)
    made = convolution(x, weight, strides, (*before, *behind), dilation, groups)
    return _biased(node, made)


@converts("conv_transpose")
def convert_conv_transpose(node: MilNode, x: Expr, weight: Expr, pad_type: str = "valid", groups: int = 1) -> Expr:
    """The transposed convolution; `output_shape` says which of several sizes its result has."""
    count = rank_of(x) - 2
    size = [int(extent) for extent in shape_of(weight)[2:]]
    strides, dilation = node.numbers("strides", [1] * count), node.numbers("dilations", [1] * count)
    extents = shape_of(x)[2:]
    if pad_type in ("same", "same_lower"):
        if not all(isinstance(extent, int) for extent in extents):
            node.unsupported(f"pad_type={pad_type} with symbolic dimensions is not supported")
        excess = [max((k - 1) * d + 1 - s, 0) for k, d, s in zip(size, dilation, strides)]
        halves = [(total // 2, total - total // 2) for total in excess]
        before, behind = [pair[0] for pair in halves], [pair[1] for pair in halves]
    else:
        before, behind = _padding(node, extents, size, strides, dilation)
    more = None
    if node.has_arg("output_shape"):
        wanted = node.numbers("output_shape")[-count:]
        made = [
            (e - 1) * s + (k - 1) * d + 1 - a - b
            for e, s, k, d, a, b in zip(extents, strides, size, dilation, before, behind)
        ]
        more = [want - got for want, got in zip(wanted, made)]
        if any(value < 0 or value >= max(s, 1) for value, s in zip(more, strides)):
            node.bad(f"output_shape={wanted}, and {made} follows from its input")
    return _biased(node, transposed_convolution(x, weight, strides, (*before, *behind), dilation, groups, more))


@converts("avg_pool", "max_pool", "l2_pool")
def convert_pool(
    node: MilNode, x: Expr, kernel_sizes: Ints, ceil_mode: bool = False, exclude_padding_from_average: bool = False
) -> Expr:
    """Means, maxima and lengths of windows."""
    size = kernel_sizes
    strides = node.numbers("strides", [1] * len(size))
    before, behind = _padding(node, shape_of(x)[2:], size, strides, [1] * len(size))
    counts = None
    if ceil_mode:
        extents = shape_of(x)[2:]
        if not all(isinstance(extent, int) for extent in extents):
            node.unsupported("ceil_mode with symbolic dimensions is not supported")
        counts = [
            window_count(e, k, s, a, b, True, inside=True)
            for e, k, s, a, b in zip(extents, size, strides, before, behind)
        ]
    if node.operator == "max_pool":
        return pool(x, "max", size, strides, before, counts, behind)
    counted = node.operator == "l2_pool" or not exclude_padding_from_average
    if node.operator == "avg_pool":
        return pool(x, "mean", size, strides, before, counts, behind, padding_counts=counted)
    squares = pool(x * x, "mean", size, strides, before, counts, behind, padding_counts=True)
    return op.sqrt(squares * float(np.prod(size)))


@converts("linear")
def convert_linear(node: MilNode) -> Expr:
    """x times a transposed matrix."""
    x, weight = node.arg(), node.arg("weight")
    outer, inner = shape_of(x)[:-1], shape_of(x)[-1]
    units = shape_of(weight)[0]
    made: Expr = op.nn.dense(reshape(x, (-1, inner)) if len(outer) == 0 else _rows(x), weight)
    if node.has_arg("bias"):
        made = op.nn.bias_add(made, node.arg("bias"), axis=1)
    return reshape(made, (*outer, units))


def _rows(x: Expr) -> Expr:
    shape = shape_of(x)
    count = shape[0]
    for extent in shape[1:-1]:
        count = count * extent
    return reshape(x, (count, shape[-1]))


@converts("matmul")
def convert_matmul(node: MilNode) -> Expr:
    """The matrix product of the last two axes; a vector is a row on the left and a column on the right."""
    x, y = node.arg("x"), node.arg("y")
    flags = [bool(node.number(f"transpose_{name}", False)) for name in "xy"]
    rows, columns = rank_of(x) == 1, rank_of(y) == 1
    x = reshape(x, (1, *shape_of(x))) if rows else x
    y = reshape(y, (*shape_of(y), 1)) if columns else y
    made = product(x, y, flags[0] and not rows, flags[1] and not columns)
    shape = shape_of(made)
    kept = (*shape[:-2], *([] if rows else [shape[-2]]), *([] if columns else [shape[-1]]))
    return reshape(made, kept)


@converts("einsum")
def convert_einsum(node: MilNode, equation: str) -> Expr:
    return op.einsum(node.listed("values"), equation=equation)


@converts("batch_norm")
def convert_batch_norm(node: MilNode, x: Expr, epsilon: float = 1e-5) -> Expr:
    """By given means and variances, with factors and addends a channel."""
    dtype = dtype_of(x)
    spread = (shape_of(x)[1], *[1] * (rank_of(x) - 2))
    mean, variance = (cast(node.arg(name), dtype) for name in ("mean", "variance"))
    factor: Expr = op.rsqrt(variance + epsilon)
    if node.has_arg("gamma"):
        factor = factor * cast(node.arg("gamma"), dtype)
    shift: Expr = -(mean * factor)
    if node.has_arg("beta"):
        shift = shift + cast(node.arg("beta"), dtype)
    return x * reshape(factor, spread) + reshape(shift, spread)


@converts("instance_norm")
def convert_instance_norm(x: Expr, gamma: Expr | None = None, beta: Expr | None = None, epsilon: float = 1e-5) -> Expr:
    return scaled_over(normalized(x, tuple(range(2, rank_of(x))), epsilon), (1,), gamma, beta)


@converts("layer_norm")
def convert_layer_norm(
    node: MilNode, x: Expr, gamma: Expr | None = None, beta: Expr | None = None, epsilon: float = 1e-5
) -> Expr:
    return scaled_over(normalized(x, node.axes(), epsilon), node.axes(), gamma, beta)


@converts("l2_norm")
def convert_l2_norm(x: Expr, epsilon: float = 1e-6) -> Expr:
    """Divided by the length over the last three axes."""
    axes = tuple(range(max(rank_of(x) - 3, 0), rank_of(x)))
    squares = op.sum(x * x, axis=axes, keepdims=True)
    return x * op.rsqrt(squares + epsilon)


@converts("local_response_norm")
def convert_local_response_norm(x: Expr, size: int, k: float = 1.0, alpha: float = 1e-4, beta: float = 0.75) -> Expr:
    return op.nn.lrn(x, size=size, axis=1, bias=k, alpha=alpha, beta=beta)


def _gates(values: Expr, order: tuple[int, ...], hidden: int) -> Expr:
    parts = [slice_axis(values, 0, gate * hidden, (gate + 1) * hidden) for gate in order]
    return parts[0] if len(parts) == 1 else op.concatenate(parts, axis=0)


#: Gates in the order of Relay's layers, by their position in MIL: input, forget, output, cell; reset, new, update.
_ORDER = {"lstm": (0, 2, 1, 3), "gru": (2, 0, 1), "rnn": (0,)}
_ACTIVATIONS = {
    "lstm": ("recurrent_activation", "cell_activation", "activation"),
    "gru": ("recurrent_activation", "activation"),
    "rnn": ("activation",),
}
_LAYERS: dict[str, Any] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn": op.nn.rnn}


@converts("lstm", "gru", "rnn")
def convert_recurrent(
    node: MilNode, x: Expr, initial_h: Expr, weight_hh: Expr, direction: str = "forward", output_sequence: bool = False
) -> list[Expr]:
    """All steps or the last one, then the last states."""
    kind = node.operator
    for name in _ACTIVATIONS[kind]:
        usual = "sigmoid" if name == "recurrent_activation" else "tanh"
        if node.text(name, usual) != usual:
            node.unsupported(f"{name}={node.text(name)} is not supported")
    if node.has_arg("peephole") or node.has_arg("clip") or node.has_arg("input_bias"):
        node.unsupported("peepholes, clipping and biases of the input are not supported")
    both = direction == "bidirectional"
    suffixes = ("", "_back") if both else ("",)
    hidden = shape_of(weight_hh)[1]
    steps, batch, width = shape_of(x)
    order = _ORDER[kind]
    given, recurrent = [], []
    for suffix in suffixes:
        gates: Expr = op.nn.dense(
            reshape(x, (steps * batch, width)), _gates(node.arg(f"weight_ih{suffix}"), order, hidden)
        )
        if node.has_arg(f"bias{suffix}"):
            gates = op.nn.bias_add(gates, _gates(node.arg(f"bias{suffix}"), order, hidden), axis=1)
        given.append(reshape(gates, (steps, batch, len(order) * hidden)))
        recurrent.append(_gates(node.arg(f"weight_hh{suffix}"), order, hidden))
    states = [_by_direction(state, len(suffixes), hidden) for state in
              ([initial_h, node.arg("initial_c")] if kind == "lstm" else [initial_h])]  # fmt: skip
    options: dict[str, Any] = {"direction": direction}
    if kind == "gru":
        options["linear_before_reset"] = True
    joined = given[0] if len(given) == 1 else op.concatenate(given, axis=2)
    layer = _LAYERS[kind](joined, op.stack(recurrent, axis=0), *states, **options)
    every: Expr = op.transpose(TupleGetItem(layer, 0), axes=(0, 2, 1, 3))
    every = reshape(every, (steps, batch, len(suffixes) * hidden))
    ends = [_from_directions(TupleGetItem(layer, index + 1), batch, hidden) for index in range(len(states))]
    if not output_sequence:
        every = reshape(ends[0], (1, batch, len(suffixes) * hidden))
    return [every, *ends]


def _by_direction(state: Expr, count: int, hidden: int) -> Expr:
    """[batch, directions * hidden] as [directions, batch, hidden]."""
    batch = shape_of(state)[0]
    return op.transpose(reshape(state, (batch, count, hidden)), axes=(1, 0, 2))


def _from_directions(state: Expr, batch: int, hidden: int) -> Expr:
    count = shape_of(state)[0]
    return reshape(op.transpose(state, axes=(1, 0, 2)), (batch, count * hidden))


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
    return constant(moved * spread(scale.astype(np.float32)), str(scale.dtype))
