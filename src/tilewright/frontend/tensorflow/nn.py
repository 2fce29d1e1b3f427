"""Matrix products, convolutions, pooling, normalization and what networks end with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders import sliding
from tilewright.frontend.builders.product import einsum, matmul
from tilewright.frontend.idioms import cast, channels_first, channels_last, one_hot, shape_of, transpose
from tilewright.frontend.tensorflow.dilation import dilated
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Blocked
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def convert_matmul(node: TfNode) -> Expr:
    names = ("transpose_a", "transpose_b") if node.operator == "MatMul" else ("adj_x", "adj_y")
    return matmul(node[0], node[1], *(node.attr(name, False) for name in names))


# ------------------------------------------------------------------------------------------------------------- windows
def _spatial(node: TfNode, values: Sequence[int], data: int = 0) -> tuple[int, ...]:
    """Of numbers for all axes of input `data` those of the spatial ones."""
    if not values:
        return (1,) * (node.rank(data) - 2)
    return tuple(values[1:-1] if node.last else values[2:])


def _padding(node: TfNode) -> Any:
    """SAME or VALID, or (before, behind) for each spatial axis."""
    padding = str(node.attr("padding", "")).lower()
    if padding == "explicit":
        pads = np.asarray(node.attr("explicit_paddings", [])).reshape(-1, 2).tolist()
        return tuple(map(tuple, pads[1:-1] if node.last else pads[2:]))
    if padding not in ("same", "valid"):
        node.bad(f"padding {padding!r}")
    return padding


def _window(node: TfNode, size: Sequence[Any]) -> sliding.Window:
    given = node.attr("dilations", []) or [1] * node.rank()
    apart = [node.dilation.get(axis, one) for axis, one in enumerate(given)]
    return sliding.Window(tuple(size), _spatial(node, node.attr("strides", [])), _spatial(node, apart), _padding(node))


@converts("Conv2D", "Conv3D", "Conv")
def convert_convolution(node: TfNode) -> Expr | Blocked:
    blocked = dilated(node)
    if blocked is not None:
        return blocked
    kernel = node[1]
    size = shape_of(kernel)[:-2]
    channels = node.shape()[-1 if node.last else 1]
    taken = shape_of(kernel)[-2]
    if not isinstance(channels, int) or channels % taken:
        node.bad(f"its kernel takes {taken} channels, the data has {channels}")
    return sliding.convolution(
        node[0], sliding.channel_kernel(kernel), _window(node, size), channels // taken, node.last
    )


@converts("DepthwiseConv2dNative", "DepthwiseConv2D")
def convert_depthwise(node: TfNode) -> Expr | Blocked:
    blocked = dilated(node)
    if blocked is not None:
        return blocked
    kernel = node[1]
    return sliding.convolution(
        node[0], sliding.depthwise_kernel(kernel), _window(node, shape_of(kernel)[:2]), shape_of(kernel)[2], node.last
    )


@converts("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def convert_backprop(node: TfNode) -> Expr:
    """A transposed convolution: the result has the sizes in the first input, cut as the forward one pads."""
    data, kernel = node[2], node[1]
    size = tuple(int(extent) for extent in shape_of(kernel)[:-2])
    whole = node.dims(0, "output shape")
    extents = whole[1:-1] if node.last else whole[2:]
    strides, dilation = (_spatial(node, node.attr(name, []), 2) for name in ("strides", "dilations"))
    shape = sliding.Window(size, strides, dilation, _padding(node))
    given = shape_of(data)[1:-1] if node.last else shape_of(data)[2:]
    cut = []
    for axis, (extent, here) in enumerate(zip(extents, given)):
        reach = (size[axis] - 1) * dilation[axis] + 1
        if isinstance(extent, int) and isinstance(here, int):
            before = shape.pads(extents)[axis][0]
            cut.append((before, (here - 1) * strides[axis] + reach - extent - before))
        else:
            total = max(reach - strides[axis], 0) if shape.padding == "same" else -max(strides[axis] - reach, 0)
            cut.append((total // 2, total - total // 2) if total >= 0 else (0, total))
    return sliding.transposed_convolution(data, sliding.channel_kernel(kernel), shape, cut, 1, node.last)


@converts("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2")
def convert_pool(node: TfNode) -> Expr:
    if node.operator == "MaxPoolV2":
        size, strides = (node.ints(index, "window") for index in (1, 2))
    else:
        size, strides = node.attr("ksize", []), node.attr("strides", [])
    if any(one != 1 for one in (size[0], strides[0], size[-1 if node.last else 1])):
        node.unsupported("windows over samples or channels")
    shape = sliding.Window(_spatial(node, size), _spatial(node, strides), (1,) * (len(size) - 2), _padding(node))
    return sliding.pool("max" if node.operator.startswith("Max") else "avg", node[0], shape, node.last)


def _rated(node: TfNode, size: Sequence[int]) -> sliding.Window:
    strides, rates = (tuple(node.attr(name, [])[1:-1]) for name in ("strides", "rates"))
    return sliding.Window(tuple(size), strides, rates, _padding(node))


@converts("Dilation2D")
def convert_dilation(node: TfNode) -> Expr:
    window = _rated(node, shape_of(node[1])[:2])
    (top, bottom), (left, right) = window.pads(node.shape()[1:3])
    made = op.image.dilation2d(
        channels_first(node[0]), transpose(node[1], (2, 0, 1)), strides=window.strides, dilations=window.dilation,
        padding=(top, left, bottom, right),
    )  # fmt: skip
    return channels_last(made)


# ------------------------------------------------------------------------------------------------------- normalization
@converts("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def convert_batch_norm(node: TfNode) -> list[Expr]:
    """In training the variance that is handed on is that of the population: divided by one less than there are."""
    data = cast(node[0], "float32")
    axis = node.rank() - 1 if node.last else 1
    if node.attr("is_training", True):
        axes = tuple(one for one in range(node.rank()) if one != axis)
        mean = op.mean(data, axis=axes)
        apart = data - op.mean(data, axis=axes, keepdims=True)
        variance = op.mean(apart * apart, axis=axes)
        count = op.sum(op.ones_like(data), axis=axes)
        others = op.maximum(count - 1, 1)
        left = [mean, variance * count / others]
        share = node.attr("exponential_avg_factor", 1.0)
        if share != 1:
            left = [old * (1 - share) + new * share for old, new in zip((node[3], node[4]), left)]
    else:
        mean, variance = node[3], node[4]
        left = [mean, variance]
    made = op.nn.batch_norm(data, node[1], node[2], mean, variance, axis=axis, epsilon=node.attr("epsilon", 1e-4))
    return [cast(made[0], node.dtype()), *left, mean, variance, mean]


@converts("LRN")
def convert_lrn(node: TfNode) -> Expr:
    radius = node.attr("depth_radius", 5)
    size = 2 * radius + 1
    made = op.nn.lrn(
        channels_first(node[0]), size=size, axis=1, bias=node.attr("bias", 1.0), alpha=node.attr("alpha", 1.0) * size,
        beta=node.attr("beta", 0.5),
    )  # fmt: skip
    return channels_last(made)


converts.functions({
    "ExtractImagePatches": lambda node: sliding.patches(node[0], _rated(node, node.attr("ksizes", [])[1:-1])),
    "L2Loss": lambda node: op.sum(node[0] * node[0]) * 0.5,
    "Softmax": lambda node: op.nn.softmax(node[0], axis=node.rank() - 1),
    "LogSoftmax": lambda node: op.nn.log_softmax(node[0], axis=node.rank() - 1),
    "Einsum": lambda node: einsum(node.attr("equation", ""), node.given()),
})  # fmt: skip


@converts("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def convert_cross_entropy(node: TfNode) -> list[Expr]:
    logs, truth = op.nn.log_softmax(node[0], axis=1), node[1]
    if node.operator.startswith("Sparse"):
        truth = one_hot(truth, node.shape()[1], node.dtype())
    loss = -op.sum(truth * logs, axis=(1,))
    return [loss, op.exp(logs) - truth]


# -------------------------------------------------------------------------------------------------------- quantization
@converts("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def convert_fake_quant(node: TfNode) -> Expr:
    """Numbers rounded to so many steps between two ends, which are moved so that 0 is a step."""
    low: Any
    high: Any
    if node.operator == "FakeQuantWithMinMaxArgs":
        low, high = np.float32(node.attr("min", -6.0)), np.float32(node.attr("max", 6.0))
    else:
        low, high = node.static(1, "range").astype("float32"), node.static(2, "range").astype("float32")
    least, most = int(node.attr("narrow_range", False)), (1 << node.attr("num_bits", 8)) - 1
    scale = (high - low) / np.float32(most - least)
    zero = np.clip(np.floor(least - low / scale + np.float32(0.5)), least, most).astype("float32")
    low, high = (least - zero) * scale, (most - zero) * scale
    bounded = op.minimum(op.maximum(node[0], low), high)
    return op.floor((bounded - low) * (1 / scale) + 0.5) * scale + low
