"""Pooling over windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast, channels_first, channels_last, constant, shape_of
from tilewright.frontend.tflite.activation import activated, fused_activation
from tilewright.frontend.tflite.fixed_point import activation_range
from tilewright.frontend.tflite.nn import paddings
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _window(node: Node) -> dict[str, Any]:
    size = (node.option("filter_height"), node.option("filter_width"))
    strides = (node.option("stride_h"), node.option("stride_w"))
    if node.rank() != 4 or min(size) < 1:
        raise ModelError(f"{node.label}: a window of {list(size)} over data of shape {list(node.shape())}")
    return {
        "pool_size": size,
        "strides": strides,
        "padding": paddings(node, node.shape()[1:3], size, strides, (1, 1)),
    }


@converts("MAX_POOL_2D")
def convert_max_pool(node: Node) -> Expr:
    pooled = channels_last(op.nn.max_pool2d(channels_first(node[0]), **_window(node)))
    if not node.is_quantized():
        return activated(node, pooled)
    low, high = activation_range(node, fused_activation(node))
    return op.clip(pooled, low, high)


@converts("AVERAGE_POOL_2D")
def convert_average_pool(node: Node) -> Expr:
    window = _window(node)
    if not node.is_quantized():
        return activated(node, channels_last(op.nn.avg_pool2d(channels_first(node[0]), **window)))
    sums, count = _sums(channels_first(node[0]), window), _counts(node, window)
    half = op.where(
        op.greater(sums, constant(0, "int32")), constant(count // 2, "int32"), constant(-(count // 2), "int32")
    )
    low, high = activation_range(node, fused_activation(node))
    return channels_last(
        cast(op.clip(op.divide(op.add(sums, half), constant(count, "int32")), low, high), node.dtype())
    )


def _sums(data: Expr, window: dict[str, Any]) -> Expr:
    """int32 sums over the windows of [N, C, H, W]: a convolution of each channel with ones."""
    channels = shape_of(data)[1]
    ones = constant(np.ones((channels, 1, *window["pool_size"])), "int32")
    return op.nn.conv2d(
        cast(data, "int32"), ones, strides=window["strides"], padding=window["padding"], groups=channels
    )


def _counts(node: Node, window: dict[str, Any]) -> np.ndarray:
    """How many elements of the data each window covers, [1, 1, H, W]."""
    before, behind = window["padding"][:2], window["padding"][2:]
    rows = []
    for axis, size in enumerate(node.shape()[1:3]):
        reach, stride = window["pool_size"][axis], window["strides"][axis]
        begins = np.arange((size + before[axis] + behind[axis] - reach) // stride + 1) * stride - before[axis]
        rows.append(np.minimum(begins + reach, size) - np.maximum(begins, 0))
    return np.maximum(rows[0][:, None] * rows[1][None, :], 1)[None, None].astype(np.int32)


@converts("L2_POOL_2D")
def convert_l2_pool(node: Node) -> Expr:
    data = channels_first(node[0])
    return activated(node, channels_last(op.sqrt(op.nn.avg_pool2d(op.multiply(data, data), **_window(node)))))
