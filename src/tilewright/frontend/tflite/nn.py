"""Convolutions and matrix products: float, integer with exact scaling of the sums, and hybrid of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.sliding import Window
from tilewright.frontend.builders.window_rules import biased, transposed_sizes
from tilewright.frontend.builders.windows import covered_by_windows
from tilewright.frontend.tflite.activation import activated, fused_activation
from tilewright.frontend.tflite.fixed_point import (
    activation_range,
    finish,
    multiply,
    multiply_once,
    multiply_wide,
    quantize_multipliers,
)
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim

_INTEGERS = ("int8", "uint8", "int16")


def paddings(node: Node, sizes: Sequence[Any], kernel: Sequence[int], strides: Any, dilation: Any) -> tuple[int, ...]:
    """The padding of the spatial axes by the option `padding`: first before all of them, then behind."""
    if min((*strides, *dilation)) < 1:
        node.bad(f"strides {list(strides)} and dilations {list(dilation)} should be positive")
    window = Window(tuple(kernel), tuple(strides), tuple(dilation), node.choice("padding", ("SAME", "VALID")).lower())
    before, behind = zip(*window.pads(sizes))
    return (*before, *behind)


def is_integer(node: Node) -> bool:
    """True where input and weights are both integers."""
    return node.dtype() in _INTEGERS and node.dtype(1) in _INTEGERS


def scaled_sums(node: Node, sums: Expr, axis: int, bias: Expr | None, data: int = 0) -> Expr:
    """Sums of products as the output: bias added, scaled for each channel of `axis`, the fused activation applied."""
    given, weights, wanted = node.input_quantization(data), node.input_quantization(1), node.output_quantization()
    once = node.name == "FULLY_CONNECTED"
    if node.name == "BATCH_MATMUL" or (node.dtype(data) == "uint8" and not once):
        # the product of the scales is rounded to float32 first
        factor: Any = np.float64(given.scale[0] * weights.scale[0]) / np.float64(wanted.scale[0])
    else:
        factor = np.float64(given.scale[0]) * weights.scale.astype(np.float64) / np.float64(wanted.scale[0])
    multipliers, shifts = quantize_multipliers(factor)
    if bias is not None:
        sums = op.nn.bias_add(sums, idioms.cast(bias, str(node.dtype(sums))), axis=axis)
    shape = (
        [-1 if position == axis else 1 for position in range(len(idioms.shape_of(sums)))]
        if multipliers.size > 1
        else ()
    )
    multipliers, shifts = multipliers.reshape(shape), shifts.reshape(shape)
    scale = multiply_once if once else multiply_wide if node.dtype(sums) == "int64" else multiply
    return finish(node, scale(sums, multipliers, shifts), fused_activation(node))


def sum_type(node: Node, bias: int, data: int = 0) -> str:
    """The accumulator type of an integer product: 64 bits for inputs of 16 bits, unless its bias has 32."""
    wide = node.dtype(data) == "int16" and not (node.has(bias) and node.dtype(bias) == "int32")
    return "int64" if wide else "int32"


def _convolved(node: Node, data: Expr, weight: Expr, window: dict[str, Any], groups: int, bias: int) -> Expr:
    """Integer sums of a convolution [N, C, H, W], zero points taken off."""
    given, weights = node.input_quantization(), node.input_quantization(1)
    kind = sum_type(node, bias)
    if kind == "int64":
        # of products of 16 and 8 bits so many fit 32
        narrow = "int32" if int(np.prod(idioms.shape_of(weight)[1:])) < 1 << 8 else "int64"
        return idioms.cast(
            op.nn.conv2d(idioms.cast(data, narrow), idioms.cast(weight, narrow), groups=groups, **window), "int64"
        )
    if node.dtype() == "int16":
        return op.nn.conv2d(idioms.cast(data, kind), idioms.cast(weight, kind), groups=groups, **window)
    return op.qnn.conv2d(
        data, weight, given.zero, weights.zero, given.step, weights.step,
        groups=groups, **window,
    )  # fmt: skip


def _convolution(node: Node, data: Expr, weight: Expr, groups: int) -> Expr:
    """A convolution of `data` [N, H, W, C] with `weight` [O, I, KH, KW]."""
    height, width = idioms.shape_of(weight)[2:]
    strides = (node.option("stride_h"), node.option("stride_w"))
    dilation = (node.option("dilation_h_factor", 1), node.option("dilation_w_factor", 1))
    pads = paddings(node, node.shape()[1:3], (height, width), strides, dilation)
    window: dict[str, Any] = {"strides": strides, "padding": pads, "dilation": dilation}
    data = idioms.channels_first(data)
    bias = node[2] if node.has(2) else None
    if is_integer(node):
        sums = _convolved(node, data, weight, window, groups, 2)
        return idioms.channels_last(scaled_sums(node, sums, 1, bias))
    if node.is_quantized(1):
        result: Expr = _hybrid_convolution(node, data, weight, window, groups)
    else:
        result = op.nn.conv2d(data, idioms.cast(weight, node.dtype()), groups=groups, **window)
    return idioms.channels_last(activated(node, biased(result, bias)))


@converts("CONV_2D")
def convert_conv2d(node: Node) -> Expr:
    if node.rank() != 4 or node.rank(1) != 4:
        node.bad("it takes data and weights of four dimensions")
    channels, taken = node.shape()[3], node.shape(1)[3]
    if taken < 1 or channels % taken:
        node.bad(f"its weights take {taken} channels, the data has {channels}")
    return _convolution(node, node[0], idioms.transpose(node[1], (0, 3, 1, 2)), channels // taken)


@converts("DEPTHWISE_CONV_2D")
def convert_depthwise_conv2d(node: Node) -> Expr:
    if node.rank() != 4 or node.rank(1) != 4:
        node.bad("it takes data and weights of four dimensions")
    channels, filters = node.shape()[3], node.shape(1)[3]
    if node.shape(1)[0] != 1 or filters % channels:
        node.bad(f"weights {list(node.shape(1))} over {channels} channels")
    data = node[0] if filters == channels else op.repeat(node[0], repeats=filters // channels, axis=3)
    return _convolution(node, data, idioms.transpose(node[1], (3, 0, 1, 2)), filters)


# ------------------------------------------------------------------------------------------------------- hybrid
def quantized_rows(data: Expr, axes: Sequence[int], asymmetric: bool) -> tuple[Expr, Expr, Expr]:
    """Floats as int32 numbers of 8 bits, with the scale and zero point of each row: what is reduced along `axes`.

    As in the kernels, to the last bit: a code is a float times the reciprocal of the scale, rounded by adding a half
    and cutting off before the zero point is added. (The kernels round halves otherwise on Arm, and in the last elements
    of a row, behind the last eight.)
    """
    high = op.max(data, axis=axes, keepdims=True)
    low = op.min(data, axis=axes, keepdims=True)
    zero, one = idioms.like(0, data), idioms.like(1, data)
    if not asymmetric:
        reach = op.maximum(op.abs(low), op.abs(high))
        empty = op.equal(reach, zero)
        scale = op.where(empty, one, reach / 127)
        factor = op.where(empty, zero, 127 / reach)
        codes = op.clip(_cut_off(data * factor), -127, 127)
        return idioms.cast(codes, "int32"), scale, idioms.constant(0, "int32")
    low, high = op.minimum(low, zero), op.maximum(high, zero)
    empty = op.equal(low, high)
    scale = op.where(empty, one, (high - low) / 255)
    below, above = low / scale, high / scale
    nearer = 128 + op.abs(below) < 127 + op.abs(above)
    offset = op.where(nearer, -128 - below, 127 - above)
    offset = op.where(empty, zero, idioms.round_half_away(op.clip(offset, -128, 127)))
    steps = _cut_off(data * (one / scale))
    codes = op.clip(offset + steps, -128, 127)
    return idioms.cast(codes, "int32"), scale, idioms.cast(offset, "int32")


def _cut_off(value: Expr) -> Expr:
    """Floats as whole numbers: cut off after a half was added, which is another number just below a half."""
    half = op.where(value < 0, idioms.like(-0.5, value), idioms.like(0.5, value))
    return op.trunc(value + half)


def weight_scales(node: Node, index: int, shape: Sequence[int]) -> Expr:
    """The scales of input `index`, one or one a channel, in `shape`."""
    scale = node.input_quantization(index).scale
    return idioms.constant(scale.reshape(()) if scale.size == 1 else scale.reshape(shape), "float32")


def hybrid_product(node: Node, data: Expr, weight: Expr, index: int, product: Callable[[Expr, Expr], Expr]) -> Expr:
    """Floats against integer weights, input `index`: rows quantized by their own ranges, sums scaled back."""
    asymmetric = bool(node.option("asymmetric_quantize_inputs", False))
    codes, scale, zero = quantized_rows(data, (len(idioms.shape_of(data)) - 1,), asymmetric)
    sums = idioms.cast(product(codes - zero, idioms.cast(weight, "int32")), "float32")
    return sums * (scale * weight_scales(node, index, (1, -1)))


def _hybrid_convolution(node: Node, data: Expr, weight: Expr, window: dict[str, Any], groups: int) -> Expr:
    """Float data against integer weights: each image quantized by its own range, sums in integers, scaled back.

    Scales that are all the same count as one, but not of a depthwise convolution, which always takes a zero point. What
    is multiplied first is as in the kernels.
    """
    scales, depthwise = node.input_quantization(1).scale, node.name == "DEPTHWISE_CONV_2D"
    several = bool((scales != scales.flat[0]).any())
    codes, scale, zero = quantized_rows(data, (1, 2, 3), several or depthwise)
    sums = idioms.cast(op.nn.conv2d(codes - zero, idioms.cast(weight, "int32"), groups=groups, **window), "float32")
    weights = weight_scales(node, 1, (1, -1, 1, 1))
    if several and not depthwise:
        return sums * weights * scale
    return sums * (scale * weights)


# ----------------------------------------------------------------------------------------------------- products
@converts("FULLY_CONNECTED")
def convert_fully_connected(node: Node) -> Expr:
    if int(node.option("weights_format", 0)):
        node.unsupported("shuffled weights")
    if node.rank(1) != 2:
        node.bad(f"its weights have {node.rank(1)} dimensions; two are needed")
    units, depth = node.shape(1)
    shape = node.shape()
    rows = as_dim(idioms.product(shape) // depth) if depth else 0
    if as_dim(rows * depth) != idioms.product(shape):
        node.bad(f"input {list(shape)} does not divide into rows of {depth}")
    keep = bool(node.option("keep_num_dims", False))
    data = idioms.reshape(node[0], (rows, depth))
    bias = node[2] if node.has(2) else None
    result = _product(node, data, node[1], bias)
    return idioms.reshape(result, (*shape[:-1], units)) if keep else result


def _product(node: Node, data: Expr, weight: Expr, bias: Expr | None) -> Expr:
    """Rows of `data` times `weight` [units, depth], biased and activated."""
    if is_integer(node):
        given, weights = node.input_quantization(), node.input_quantization(1)
        if node.dtype() == "int16":
            kind = "int64" if idioms.shape_of(weight)[1] >= 1 << 8 else "int32"
            sums: Expr = op.nn.dense(idioms.cast(data, kind), _less(idioms.cast(weight, kind), weights.zero))
            sums = idioms.cast(sums, sum_type(node, 2))
        else:
            sums = op.qnn.dense(data, weight, given.zero, weights.zero, given.step, weights.step)
        return scaled_sums(node, sums, 1, bias)
    if node.is_quantized(1) and node.dtype() == "float32":
        result = hybrid_product(node, data, weight, 1, op.nn.dense)
    else:
        result = op.nn.dense(data, idioms.cast(weight, node.dtype()))
    return activated(node, biased(result, bias))


def _less(value: Expr, zero: int) -> Expr:
    return value - zero if zero else value


@converts("BATCH_MATMUL")
def convert_batch_matmul(node: Node) -> Expr:
    left, right = node[0], node[1]
    a, b = node.shape(), node.shape(1)
    if min(len(a), len(b)) < 2:
        node.bad(f"it takes matrices, not {list(a)} and {list(b)}")
    if node.option("adj_x", False):
        left = idioms.swap_axes(left)
    if not node.option("adj_y", False):
        right = idioms.swap_axes(right)  # the product takes [columns, depth]
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    rows, depth = idioms.shape_of(left)[-2:]
    columns = idioms.shape_of(right)[-2]
    left = op.reshape(op.broadcast_to(left, shape=(*lead, rows, depth)), newshape=(-1, rows, depth))
    right = op.reshape(op.broadcast_to(right, shape=(*lead, columns, depth)), newshape=(-1, columns, depth))
    shape = (*lead, rows, columns)
    if is_integer(node):
        return idioms.reshape(_integer_matmul(node, left, right), shape)
    if node.is_quantized(1) and node.dtype() == "float32":
        return idioms.reshape(hybrid_product(node, left, right, 1, op.nn.batch_matmul), shape)
    return idioms.reshape(op.nn.batch_matmul(left, right), shape)


def _integer_matmul(node: Node, left: Expr, right: Expr) -> Expr:
    given, weights = node.input_quantization(), node.input_quantization(1)
    kind = "int64" if node.dtype() == "int16" else "int32"
    sums = op.nn.batch_matmul(_less(idioms.cast(left, kind), given.zero), _less(idioms.cast(right, kind), weights.zero))
    return scaled_sums(node, sums, 0, None)


# ------------------------------------------------------------------------------------------- transposed, and 3-D
@converts("TRANSPOSE_CONV")
def convert_transpose_conv(node: Node) -> Expr:
    """Inputs: output shape, weights [O, KH, KW, I], data [N, H, W, I], bias."""
    weight, strides = idioms.transpose(node[1], (3, 0, 1, 2)), (node.option("stride_h"), node.option("stride_w"))
    data, window = _transposed_window(node, weight, strides)
    bias = node[3] if node.has(3) else None
    if node.dtype(2) in _INTEGERS:
        return idioms.channels_last(_integer_transpose(node, data, weight, window, bias))
    made = op.nn.conv2d_transpose(data, idioms.cast(weight, node.dtype(2)), **window)
    return idioms.channels_last(activated(node, biased(made, bias)))


def _transposed_window(node: Node, weight: Expr, strides: tuple[int, ...]) -> tuple[Expr, dict[str, Any]]:
    """Data with its channels first, and the window that makes a result of the shape that input 0 is."""
    wanted, data = node.ints(0, "output shape"), idioms.channels_first(node[2])
    kernel, count = idioms.shape_of(weight)[2:], len(strides)
    if len(wanted) != count + 2 or min(strides) < 1:
        node.bad(f"output shape {wanted}, strides {list(strides)}")
    pads = paddings(node, wanted[1:-1], kernel, strides, (1,) * count)
    made = transposed_sizes(
        idioms.shape_of(data)[2:], kernel, strides, (list(pads[:count]), list(pads[count:])), [1] * count
    )
    extra = [want - got for want, got in zip(wanted[1:-1], made)]
    pads = (*pads[:count], *[pads[count + axis] - min(extra[axis], 0) for axis in range(count)])
    return data, {"strides": strides, "padding": pads, "output_padding": tuple(max(e, 0) for e in extra)}


def _integer_transpose(node: Node, data: Expr, weight: Expr, window: dict[str, Any], bias: Expr | None) -> Expr:
    kind, given, weights = sum_type(node, 3, 2), node.input_quantization(2), node.input_quantization(1)
    left, right = _less(idioms.cast(data, kind), given.zero), _less(idioms.cast(weight, kind), weights.zero)
    return scaled_sums(node, op.nn.conv2d_transpose(left, right, **window), 1, bias, 2)


@converts("CONV_3D")
def convert_conv3d(node: Node) -> Expr:
    """Weights [KD, KH, KW, I, O]."""
    weight = idioms.transpose(node[1], (4, 3, 0, 1, 2))
    strides = tuple(node.option(f"stride_{axis}") for axis in "dhw")
    dilation = tuple(node.option(f"dilation_{axis}_factor", 1) for axis in "dhw")
    pads = paddings(node, node.shape()[1:4], idioms.shape_of(weight)[2:], strides, dilation)
    groups = node.shape()[4] // idioms.shape_of(weight)[1]
    result: Expr = op.nn.conv3d(
        idioms.channels_first(node[0]), weight, strides=strides, padding=pads, dilation=dilation, groups=groups
    )
    return idioms.channels_last(activated(node, biased(result, node[2] if node.has(2) else None)))


@converts("CONV_3D_TRANSPOSE")
def convert_conv3d_transpose(node: Node) -> Expr:
    """Inputs: output shape, weights [KD, KH, KW, O, I], data, bias."""
    weight = idioms.transpose(node[1], (4, 3, 0, 1, 2))
    data, window = _transposed_window(node, weight, tuple(node.option(f"stride_{axis}") for axis in "dhw"))
    made = biased(op.nn.conv3d_transpose(data, weight, **window), node[3] if node.has(3) else None)
    return idioms.channels_last(activated(node, made))


# ------------------------------------------------------------------------------------------------- Pooling over windows
def _window(node: Node) -> dict[str, Any]:
    size = (node.option("filter_height"), node.option("filter_width"))
    strides = (node.option("stride_h"), node.option("stride_w"))
    if node.rank() != 4 or min(size) < 1:
        node.bad(f"a window of {list(size)} over data of shape {list(node.shape())}")
    pads = paddings(node, node.shape()[1:3], size, strides, (1, 1))
    return {"pool_size": size, "strides": strides, "padding": pads}


@converts("MAX_POOL_2D")
def convert_max_pool(node: Node) -> Expr:
    pooled = idioms.channels_last(op.nn.max_pool2d(idioms.channels_first(node[0]), **_window(node)))
    if not node.is_quantized():
        return activated(node, pooled)
    low, high = activation_range(node, fused_activation(node))
    return op.clip(pooled, low, high)


@converts("AVERAGE_POOL_2D")
def convert_average_pool(node: Node) -> Expr:
    window = _window(node)
    if not node.is_quantized():
        return activated(node, idioms.channels_last(op.nn.avg_pool2d(idioms.channels_first(node[0]), **window)))
    sums = _sums(idioms.channels_first(node[0]), window)
    size, strides, before = window["pool_size"], window["strides"], window["padding"][:2]
    covered = covered_by_windows(node.shape()[1:3], size, strides, before, idioms.shape_of(sums)[2:], (0, 0), (0, 0))
    count = np.maximum(covered, 1)[None, None].astype(np.int32)
    half = op.where(sums > 0, idioms.constant(count // 2, "int32"), idioms.constant(-(count // 2), "int32"))
    low, high = activation_range(node, fused_activation(node))
    return idioms.channels_last(idioms.cast(op.clip((sums + half) / count, low, high), node.dtype()))


def _sums(data: Expr, window: dict[str, Any]) -> Expr:
    """int32 sums over the windows of [N, C, H, W]: a convolution of each channel with ones."""
    channels = idioms.shape_of(data)[1]
    ones = idioms.constant(np.ones((channels, 1, *window["pool_size"])), "int32")
    return op.nn.conv2d(
        idioms.cast(data, "int32"), ones, strides=window["strides"], padding=window["padding"], groups=channels
    )


@converts("L2_POOL_2D")
def convert_l2_pool(node: Node) -> Expr:
    data = idioms.channels_first(node[0])
    return activated(node, idioms.channels_last(op.sqrt(op.nn.avg_pool2d(data * data, **_window(node)))))
