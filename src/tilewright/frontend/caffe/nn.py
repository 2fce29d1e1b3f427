"""Layers with weights, and windows: convolutions, products, pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.elements import shuffled_channels
from tilewright.frontend.builders.product import linear
from tilewright.frontend.builders.sliding import Window, channel_patches
from tilewright.frontend.builders.windows import convolution, pool, transposed_convolution, window_count
from tilewright.frontend.caffe.node import CaffeNode, converts
from tilewright.frontend.messages import Record
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _spatial(node: CaffeNode, param: Record, name: str, default: int, count: int, required: bool = False) -> list[int]:
    """A parameter of a window for each spatial axis: from `name_h` and `name_w`, one number for all, or a list."""
    short = {"kernel_size": "kernel"}.get(name, name)
    if count == 2 and (param.has(f"{short}_h") or param.has(f"{short}_w")):
        return [int(getattr(param, f"{short}_h")), int(getattr(param, f"{short}_w"))]
    given = [int(value) for value in getattr(param, name)]
    if not given and required:
        node.bad(f"it states no {name}")
    values = given or [default]
    values = values * count if len(values) == 1 else values
    if len(values) != count or any(not 0 <= value < 1 << 16 for value in values):
        node.bad(f"{name}={given} over {count} axes")
    return values


def _window(node: CaffeNode, param: Record, count: int) -> tuple[list[int], list[int], list[int], list[int]]:
    kernel = _spatial(node, param, "kernel_size", 0, count, required=True)
    strides = _spatial(node, param, "stride", 1, count)
    dilation = _spatial(node, param, "dilation", 1, count)
    if min(*kernel, *strides, *dilation) < 1:
        node.bad(f"kernel {kernel}, strides {strides} and dilation {dilation} must be positive")
    return kernel, strides, _spatial(node, param, "pad", 0, count), dilation


def _groups(node: CaffeNode, channels: Any, filters: int) -> int:
    groups = node.layer.convolution_param.group
    if node.operator in ("DepthwiseConvolution", "ConvolutionDepthwise"):
        groups = channels
    if not isinstance(channels, int) or groups < 1 or filters < 1 or channels % groups or filters % groups:
        node.bad(f"{channels} channels and {filters} filters do not make {groups} groups")
    return int(groups)


@converts("Convolution", "DepthwiseConvolution", "ConvolutionDepthwise", "Deconvolution")
def convert_convolution(node: CaffeNode) -> Any:
    """The same filters on every input, a result each."""
    param, transposed = node.layer.convolution_param, node.operator == "Deconvolution"
    results, filters = [], int(param.num_output)
    for data in node.given():
        shape = idioms.shape_of(data)
        if len(shape) < 3:
            node.bad(f"its input has {len(shape)} axes")
        if node.axis(param.axis, len(shape)) != 1:
            node.unsupported(f"channels at axis {param.axis} of {len(shape)} are not supported")
        kernel, strides, pad, dilation = _window(node, param, len(shape) - 2)
        groups = _groups(node, shape[1], filters)
        rows, columns = (shape[1], filters) if transposed else (filters, shape[1])
        weights = idioms.constant(node.blob(0, rows, columns // groups, *kernel))
        convolve = transposed_convolution if transposed else convolution
        made = convolve(data, weights, strides, idioms.pads(pad, pad), dilation, groups)
        biases = node.blob(1, filters, what="biases") if param.bias_term else None
        results.append(idioms.scale_shift(made, None, biases))
    return results


@converts("InnerProduct")
def convert_inner_product(node: CaffeNode) -> Expr:
    """All axes from `axis` on times a matrix."""
    param = node.layer.inner_product_param
    axis = node.axis(param.axis)
    inner = idioms.product(node.shape()[axis:])
    units = int(param.num_output)
    if not isinstance(inner, int):
        node.unsupported("its weights depend on a symbolic dimension; fix its size with input_shapes")
    matrix = node.blob(0, inner, units).T if param.transpose else node.blob(0, units, inner)
    bias = idioms.constant(node.blob(1, units, what="biases")) if param.bias_term else None
    return linear(node[0], idioms.constant(matrix), bias, axis)


@converts("Embed")
def convert_embed(node: CaffeNode) -> Expr:
    """Rows of a table."""
    param = node.layer.embed_param
    table = node.blob(0, int(param.input_dim), int(param.num_output))
    if param.bias_term:
        table = table + node.blob(1, int(param.num_output), what="biases")
    return op.take(idioms.constant(table), idioms.cast(node[0], "int32"), axis=0)


@converts("Pooling")
def convert_pooling(node: CaffeNode) -> Expr:
    """Windows that may reach behind the image; those that would begin behind it are left out."""
    param, data = node.layer.pooling_param, node[0]
    if len(node.tops) > 1:
        node.unsupported("the positions of maxima (a second result) are not supported")
    if node.rank() != 4:
        node.bad(f"its input has {node.rank()} axes")
    extents = node.shape()[2:]
    if param.global_pooling:
        if param.pool == "AVE":
            return op.nn.global_avg_pool2d(data)
        if param.pool == "MAX":
            return op.nn.global_max_pool2d(data)
        kernel, strides, pad = list(node.fixed()[2:]), [1, 1], [0, 0]
    else:
        kernel, strides, pad = (_pair(node, param, name) for name in ("kernel_size", "stride", "pad"))
    if min(*kernel, *strides) < 1 or any(p >= k for p, k in zip(pad, kernel)):
        node.bad(f"kernel {kernel}, strides {strides} and padding {pad}")
    ceil = param.round_mode == "CEIL" and param.ceil_mode
    node.fixed(0, "sizes of images")
    counts = [
        window_count(extent, k, s, p, p, ceil, inside=max(pad) > 0)
        for extent, k, s, p in zip(extents, kernel, strides, pad)
    ]
    if param.pool == "MAX":
        return pool(data, "max", kernel, strides, pad, counts)
    means = pool(data, "mean", kernel, strides, pad, counts, padding_counts=True)
    if param.pool == "AVE":
        return means
    return pool(data * data, "mean", kernel, strides, pad, counts, padding_counts=True) / means


def _pair(node: CaffeNode, param: Record, name: str) -> list[int]:
    short = {"kernel_size": "kernel"}.get(name, name)
    pair = [
        getattr(param, f"{short}_{axis}") if param.has(f"{short}_{axis}") else getattr(param, name) for axis in "hw"
    ]
    if any(not 0 <= value < 1 << 16 for value in pair):
        node.bad(f"{name}={pair}")
    return [int(value) for value in pair]


@converts("SPP")
def convert_spp(node: CaffeNode) -> Expr:
    """Spatial pyramid pooling: 1, 4, 16 … windows over the image, each level flattened."""
    param, data = node.layer.spp_param, node[0]
    extents = node.fixed()[2:]
    if not 1 <= param.pyramid_height <= 16 or param.pool == "STOCHASTIC":
        node.unsupported(f"a pyramid of {param.pyramid_height} levels of {param.pool} is not supported")
    levels = []
    for level in range(param.pyramid_height):
        bins = 1 << level
        kernel = [-(-extent // bins) for extent in extents]
        pad = [(size * bins - extent + 1) // 2 for size, extent in zip(kernel, extents)]
        counts = [window_count(e, k, k, p, p, True, inside=max(pad) > 0) for e, k, p in zip(extents, kernel, pad)]
        levels.append(idioms.flatten(pool(data, "max" if param.pool == "MAX" else "mean", kernel, kernel, pad, counts,
                                   padding_counts=True)))  # fmt: skip
    return idioms.concatenate(levels, 1)


@converts("Im2col")
def convert_im2col(node: CaffeNode) -> Expr:
    """Windows as channels: [N, C * kernel, rows, columns]."""
    kernel, strides, pad, dilation = _window(node, node.layer.convolution_param, node.rank() - 2)
    if node.rank() != 4 or np.prod(kernel) > 1 << 12:
        node.unsupported(f"windows of {kernel} are not supported")
    return channel_patches(node[0], Window(tuple(kernel), tuple(strides), tuple(dilation), tuple(zip(pad, pad))))


@converts("LSTM", "RNN")
def convert_recurrent(node: CaffeNode) -> Any:
    """Steps unrolled; where the second input is 0, a sequence begins anew."""
    param = node.layer.recurrent_param
    steps, batch, *rest = node.fixed()
    units, inner = int(param.num_output), int(np.prod(rest, dtype=object))
    if param.expose_hidden or len(node.inputs) > 3:
        node.unsupported("states as inputs and results (expose_hidden) are not supported")
    wide = units * 4 if node.operator == "LSTM" else units
    given = op.nn.dense(idioms.reshape(node[0], (steps * batch, inner)), idioms.constant(node.blob(0, wide, inner)))
    sums = idioms.reshape(idioms.scale_shift(given, None, node.blob(1, wide)), (steps, batch, wide))
    if node.has(2):
        still = idioms.flatten(node[2])
        extra = op.nn.dense(still, idioms.constant(node.blob(2, wide, idioms.shape_of(still)[1])))
        sums = sums + idioms.reshape(extra, (1, batch, wide))
    rest_of = node.blobs[3 if node.has(2) else 2 :]
    cont = idioms.reshape(idioms.cast(node[1], "float32"), (steps, batch, 1))
    body = _lstm_step if node.operator == "LSTM" else _rnn_step
    state: tuple[Expr, ...] = (idioms.constant(np.zeros((batch, units))), idioms.constant(np.zeros((batch, units))))
    results = []
    for step in range(steps):
        kept = idioms.reshape(idioms.slice_axis(cont, 0, step, step + 1), (batch, 1))
        value, state = body(
            node, idioms.reshape(idioms.slice_axis(sums, 0, step, step + 1), (batch, wide)), kept, state, rest_of
        )
        results.append(idioms.reshape(value, (1, batch, units)))
    return idioms.concatenate(results, 0)


def _lstm_step(node: CaffeNode, given: Expr, kept: Expr, state: Any, blobs: list[np.ndarray]) -> tuple[Expr, Any]:
    hidden, cell = state
    units = idioms.shape_of(hidden)[1]
    gates = given + op.nn.dense(hidden * kept, idioms.constant(blobs[0].reshape(4 * units, units)))
    i, f, o, g = (idioms.slice_axis(gates, 1, position * units, (position + 1) * units) for position in range(4))
    forgotten = op.sigmoid(f) * kept * cell
    cell = forgotten + op.sigmoid(i) * op.tanh(g)
    hidden = op.sigmoid(o) * op.tanh(cell)
    return hidden, (hidden, cell)


def _rnn_step(node: CaffeNode, given: Expr, kept: Expr, state: Any, blobs: list[np.ndarray]) -> tuple[Expr, Any]:
    hidden = state[0]
    units = idioms.shape_of(hidden)[1]
    inner = given + op.nn.dense(hidden * kept, idioms.constant(blobs[0].reshape(units, units)))
    hidden = op.tanh(inner)
    out = op.nn.dense(hidden, idioms.constant(blobs[1].reshape(units, units)))
    return op.tanh(idioms.scale_shift(out, None, blobs[2].reshape(units))), (hidden, state[1])


@converts("MVN")
def convert_mvn(node: CaffeNode) -> Expr:
    """Mean 0 and, unless it says otherwise, variance 1 of each channel or of all."""
    param = node.layer.mvn_param
    axes = tuple(range(1 if param.across_channels else 2, node.rank()))
    centred = node[0] - op.mean(node[0], axis=axes, keepdims=True)
    if not param.normalize_variance:
        return centred
    return centred / (op.sqrt(op.mean(centred * centred, axis=axes, keepdims=True)) + param.eps)


converts.functions(
    {"ShuffleChannel": lambda node: shuffled_channels(node, node[0], int(node.layer.shuffle_channel_param.group))}
)
