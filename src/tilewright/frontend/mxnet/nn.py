"""Convolutions, products, pooling, normalization, recurrent layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.normalization import batch_normalized, group_normalized, normalized, scaled_over
from tilewright.frontend.builders.product import linear
from tilewright.frontend.builders.recurrent_layers import gate_count, known_modes, recurrent_layers
from tilewright.frontend.builders.window_rules import biased, counts_upwards, repeated_pixels, transposed_sizes
from tilewright.frontend.builders.windows import convolution, pool, transposed_convolution
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def _window(node: MxnetNode) -> tuple[list[int], list[int], list[int], list[int]]:
    """Kernel, strides, padding and dilation."""
    kernel = node.numbers("kernel")
    count = len(kernel)
    strides, dilation = (
        node.numbers("stride", [1] * count) or [1] * count,
        node.numbers("dilate", [1] * count) or [1] * count,
    )
    pad = node.numbers("pad", [0] * count) or [0] * count
    if not len(strides) == len(dilation) == len(pad) == count or min(*kernel, *strides, *dilation) < 1 or min(pad) < 0:
        node.bad(f"kernel {kernel}, stride {strides}, pad {pad} and dilate {dilation}")
    if str(node.attr("layout", "NCHW")).endswith("C"):
        node.unsupported(f"the layout {node.attr('layout')} is not supported")
    return kernel, strides, pad, dilation


def _bias(node: MxnetNode, no_bias: bool = False) -> Expr | None:
    return None if node.flag("no_bias", no_bias) or not node.has(2) else node[2]


@converts("Convolution", "Convolution_v1")
def convert_convolution(node: MxnetNode, x: Expr, weight: Expr, num_group: int = 1) -> Expr:
    _, strides, pad, dilation = _window(node)
    return biased(convolution(x, weight, strides, idioms.pads(pad, pad), dilation, num_group), _bias(node))


@converts("Deconvolution")
def convert_deconvolution(node: MxnetNode, x: Expr, weight: Expr, num_group: int = 1) -> Expr:
    """`adj` adds to the result, `target_shape` is its size and replaces the padding."""
    kernel, strides, pad, dilation = _window(node)
    none = [0] * len(kernel)
    adjust, target = node.numbers("adj", none) or none, node.numbers("target_shape", [0])
    if any(target):
        whole = transposed_sizes(node.fixed()[2:], kernel, strides, (none, none), dilation)
        total = [extent - want for extent, want in zip(whole, target)]
        adjust, pad = [value % 2 for value in total], [(value + 1) // 2 for value in total]
        if min(pad) < 0:
            node.bad(f"target_shape={target} is larger than its input makes")
    made = transposed_convolution(x, weight, strides, idioms.pads(pad, pad), dilation, num_group, adjust)
    return biased(made, _bias(node, no_bias=True))


@converts("FullyConnected")
def convert_fully_connected(node: MxnetNode, data: Expr, flatten_: bool = True) -> Expr:
    """All axes behind the batch, or the last one alone, times a matrix."""
    return linear(data, node[1], _bias(node), 1 if flatten_ else -1)


@converts("Pooling", "Pooling_v1")
def convert_pooling(
    node: MxnetNode, data: Expr, pool_type: str = "max", global_pool: bool = False, pooling_convention: str = "valid",
    count_include_pad: bool = True,
) -> Expr:  # fmt: skip
    """Windows; by the convention `full` they may reach behind the data."""
    if global_pool:
        axes = tuple(range(2, node.rank()))
        function: Any = {"max": op.max, "avg": op.mean, "sum": op.sum}.get(pool_type)
        if function is None:
            node.unsupported(f"pool_type={pool_type} of all is not supported")
        return function(data, axis=axes, keepdims=True)
    kernel, strides, pad, _ = _window(node)
    counts = None
    if pooling_convention == "same":
        counts = [math.ceil(extent / step) for extent, step in zip(node.fixed()[2:], strides)]
    elif pooling_convention != "valid":
        counts = counts_upwards(node, node.fixed()[2:], kernel, strides, (pad, pad))
    if pool_type == "max":
        return pool(data, "max", kernel, strides, pad, counts, pad)
    if pool_type == "avg":
        return pool(data, "mean", kernel, strides, pad, counts, pad, padding_counts=count_include_pad)
    if pool_type != "sum" or counts is not None:
        node.unsupported(f"pool_type={pool_type} by the convention {pooling_convention} is not supported")
    means = pool(data, "mean", kernel, strides, pad, None, pad, padding_counts=True)
    return means * float(np.prod(kernel))


@converts("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm")
def convert_batch_norm(node: MxnetNode, x: Expr, axis: Axis = 1, eps: float = 1e-3, fix_gamma: bool = True) -> Expr:
    """By the statistics of training; with `fix_gamma`, which is the default, the factor is 1."""
    gamma, beta, mean, variance = (node[index] for index in range(1, 5))
    return idioms.cast(
        batch_normalized(x, (mean, variance, None if fix_gamma else gamma, beta), eps, axis), node.dtype()
    )


@converts("InstanceNorm", "GroupNorm")
def convert_group_norm(node: MxnetNode, x: Expr, weight: Expr, bias: Expr, num_groups: int = 1) -> Expr:
    """Over each channel, or each group of them."""
    channels = node.shape()[1]
    groups, usual = (num_groups, 1e-5) if node.operator == "GroupNorm" else (channels, 1e-3)
    if idioms.shape_of(weight)[0] != channels:  # factors of groups, as some versions store them
        node.unsupported("factors of groups are not supported")
    return group_normalized(node, x, groups, float(node.attr("eps", usual)), weight, bias)


@converts("L2Normalization")
def convert_l2_normalization(node: MxnetNode, x: Expr, mode: str = "instance", eps: float = 1e-10) -> Expr:
    rank = node.rank()
    axes = {"instance": tuple(range(1, rank)), "channel": (1,), "spatial": tuple(range(2, rank))}.get(mode)
    if axes is None:
        node.bad(f"mode={mode}")
    return x / op.sqrt(op.sum(x * x, axis=axes, keepdims=True) + eps)


@converts("LRN")
def convert_lrn(x: Expr, nsize: int, knorm: float = 2.0, alpha: float = 1e-4, beta: float = 0.75) -> Expr:
    return op.nn.lrn(x, size=nsize, axis=1, bias=knorm, alpha=alpha, beta=beta)


@converts("UpSampling")
def convert_upsampling(node: MxnetNode, scale: int) -> Expr:
    """Every pixel repeated."""
    if str(node.needed("sample_type")) != "nearest" or len(node.inputs) != 1:
        node.unsupported("learned and joined upsampling is not supported")
    (_, _, height, width) = node.fixed()
    return repeated_pixels(node[0], (height * scale, width * scale))


@converts("_contrib_BilinearResize2D")
def convert_bilinear(node: MxnetNode) -> Expr:
    """Linear interpolation whose corners stay where they are."""
    _, _, height, width = node.fixed()
    size = [int(node.attr("height", 1)), int(node.attr("width", 1))]
    if node.attr("scale_height") is not None:
        size = [int(height * float(node.attr("scale_height"))), int(width * float(node.needed("scale_width")))]
    if str(node.attr("mode", "size")) != "size" or min(size) < 1:
        node.unsupported(f"mode={node.attr('mode')} with the size {size} is not supported")
    mode = "align_corners" if node.flag("align_corners", True) else "half_pixel"
    return op.image.resize2d(node[0], size=tuple(size), method="linear", coordinate_transformation_mode=mode)


@converts("_contrib_AdaptiveAvgPooling2D")
def convert_adaptive(node: MxnetNode) -> Expr:
    size = node.numbers("output_size", [1]) or [1]
    return op.nn.adaptive_avg_pool2d(node[0], output_size=tuple(size * 2 if len(size) == 1 else size))


@converts("ROIPooling")
def convert_roi_pooling(node: MxnetNode, x: Expr, weight: Expr, spatial_scale: float) -> Expr:
    size = tuple(node.numbers("pooled_size"))
    return op.vision.roi_pool(x, weight, pooled_size=size, spatial_scale=spatial_scale)


@converts("RNN")
def convert_rnn(
    node: MxnetNode, x: Expr, weight: Expr, mode: str, state_size: int, num_layers: int, bidirectional: bool = False
) -> list[Expr]:
    """Layers in one or both directions, whose weights are one vector: all matrices, then all biases."""
    if mode not in known_modes() or node.attr("projection_size") is not None:
        node.unsupported(f"mode={mode}, or a projection, is not supported")
    directions = 2 if bidirectional else 1
    if not isinstance(weight, Constant):
        node.unsupported("its parameters are computed at run time")
    weights = _split_weights(node, mode, state_size, num_layers, directions)
    states = [
        _state(node, index, num_layers * directions, state_size) for index in range(2, 4 if mode == "lstm" else 3)
    ]
    return recurrent_layers(mode, x, weights, states, num_layers)


def _state(node: MxnetNode, index: int, count: int, hidden: int) -> Expr:
    """A state to begin with; Gluon's zeros have 0 for an unknown batch."""
    shape, batch = node.shape(index), node.shape()[1]
    if list(shape) == [count, 0, hidden] and batch != 0:
        return op.zeros(shape=(count, batch, hidden), dtype=node.dtype())
    return node[index]


def _split_weights(node: MxnetNode, mode: str, hidden: int, layers: int, directions: int) -> list[list[Expr]]:
    """Of each layer and direction: matrices of the input and of the state, then their biases."""
    vector, at = node.static(1, "parameters").reshape(-1), 0
    rows = gate_count(mode) * hidden
    width = node.fixed()[2]
    found: list[list[Expr]] = [[] for _ in range(layers * directions)]

    def take(*shape: int) -> Expr:
        nonlocal at
        count = math.prod(shape)
        if at + count > vector.size:
            node.bad(f"{vector.size} parameters are fewer than its {layers} layers of {hidden} units take")
        at += count
        return Constant(vector[at - count : at].reshape(shape))

    for index, one in enumerate(found):
        inputs = width if index < directions else hidden * directions
        one += [take(rows, inputs), take(rows, hidden)]
    for one in found:
        one += [take(rows), take(rows)]
    return found


@converts("_rnn_param_concat")
def convert_rnn_parameters(node: MxnetNode, dim: Axis = 1) -> Expr:
    """The weights of Gluon's recurrent layers, one behind the other, as RNN takes them."""
    parts = [node.static(index, "parameters") for index in range(len(node.given()))]
    return Constant(np.concatenate(parts, dim))


@converts("SequenceMask")
def convert_sequence_mask(
    node: MxnetNode, use_sequence_length: bool = False, value: float = 0.0, axis: int = 0
) -> Expr:
    if not use_sequence_length:
        return node[0]
    return op.sequence_mask(node[0], idioms.cast(node[1], "int32"), mask_value=value, axis=axis)


@converts("SequenceReverse")
def convert_sequence_reverse(node: MxnetNode, axis: int = 0, use_sequence_length: bool = False) -> Expr:
    """Each sequence of [T, B, …] turned around, as far as it is long; the rest stays."""
    if axis:
        node.unsupported("an axis of steps other than the first")
    if not use_sequence_length:
        return op.reverse(node[0], axis=0)
    return op.reverse_sequence(node[0], idioms.cast(node[1], "int32"), seq_axis=0, batch_axis=1)


@converts("SequenceLast")
def convert_sequence_last(node: MxnetNode, axis: int = 0, use_sequence_length: bool = False) -> Expr:
    """The last step of each sequence, [B, …] of [T, B, …] or, with axis 1, of [B, T, …]."""
    data = node[0] if axis == 0 else idioms.move_axis(node[0], 0, 1)
    steps, batch = idioms.shape_of(data)[:2]
    if not use_sequence_length:
        return idioms.index_axis(data, 0, steps - 1)
    positions = idioms.cast(node[1], "int32") - 1
    wide = op.expand_dims(idioms.reshape(positions, (1, batch)), axis=2, num_newaxis=idioms.rank_of(data) - 2)
    return op.squeeze(op.gather(data, 0, idioms.broadcast_to(wide, (1, *idioms.shape_of(data)[1:]))), axis=(0,))


converts.schemas({
    "LayerNorm": lambda x, weight, bias, axis=-1, eps=1e-5: scaled_over(
        normalized(x, (axis,), eps), (axis,), weight, bias
    ),
    "Embedding": lambda x, weight: op.take(weight, idioms.cast(x, "int32"), axis=0),
})  # fmt: skip
converts.functions({
    "_contrib_div_sqrt_dim": lambda node: node[0] * float(node.fixed()[-1]) ** -0.5,
    "space_to_depth": lambda node: op.nn.space_to_depth(node[0], block_size=int(node.needed("block_size"))),
    "depth_to_space": lambda node: op.nn.depth_to_space(
        node[0], block_size=int(node.needed("block_size")), mode="DCR"
    ),
})  # fmt: skip


# ---- Attention as GluonNLP writes it: heads of queries, keys and values beside each other in a product
def _part(node: MxnetNode, index: int, position: int, parts: int) -> Expr:
    """[batch * heads, length, width]: one of the `parts` of each head of input `index` [length, batch, all]."""
    heads = int(node.needed("heads"))
    length, batch, width = node.shape(index)
    if heads < 1 or width % (heads * parts):
        node.bad(f"{width} numbers are no {parts} parts of {heads} heads")
    split = idioms.reshape(node[index], (length, batch, heads, parts, width // (heads * parts)))
    turned = idioms.transpose(idioms.index_axis(split, 3, position), (1, 2, 0, 3))
    return idioms.reshape(turned, (batch * heads, length, width // (heads * parts)))


def _mixed(node: MxnetNode, values: Expr) -> Expr:
    """[length, batch, heads * width] of scores [batch * heads, length, other length] and values."""
    heads, batch = int(node.needed("heads")), node.shape(0)[1]
    made = op.nn.batch_matmul(node[1], values, transpose_b=False)
    length, width = node.shape(made)[1:]
    split = idioms.reshape(made, (batch, heads, length, width))
    return idioms.reshape(idioms.transpose(split, (2, 0, 1, 3)), (length, batch, heads * width))


@converts("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def convert_scores(node: MxnetNode) -> Expr:
    """Queries times keys, of one input or of two."""
    both = node.operator == "_contrib_interleaved_matmul_selfatt_qk"
    queries, keys = _part(node, 0, 0, 3 if both else 1), _part(node, 0, 1, 3) if both else _part(node, 1, 0, 2)
    return op.nn.batch_matmul(queries * node.shape(queries)[2] ** -0.5, keys, transpose_b=True)


converts.functions({
    # scores times values, of one input or of another
    "_contrib_interleaved_matmul_selfatt_valatt": lambda node: _mixed(node, _part(node, 0, 2, 3)),
    "_contrib_interleaved_matmul_encdec_valatt": lambda node: _mixed(node, _part(node, 0, 1, 2)),
})  # fmt: skip
