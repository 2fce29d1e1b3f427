"""Normalization layers at inference."""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import TensorProto

from tilewright.frontend.builders.reductions import p_norm
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode, reshape, widening_nothing
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("BatchNormalization")
def convert_batch_normalization(
    node: OnnxNode, training_mode: int = 0, spatial: int = 1, epsilon: float = 1e-5
) -> list[Expr]:
    """(x - mean) / sqrt(var + epsilon) * scale + bias with stored statistics, or in training those of the batch."""
    if training_mode:
        return _trained_batch_norm(node)
    if spatial == 0:
        node.unsupported("attribute spatial=0")
    normalized = op.nn.batch_norm(node[0], node[1], node[2], node[3], node[4], axis=1, epsilon=epsilon)
    return [normalized[0]]


def _trained_batch_norm(node: OnnxNode) -> list[Expr]:
    """By the statistics of this batch, and the running ones moved towards them."""
    epsilon, momentum = float(node.attr("epsilon", 1e-5)), float(node.attr("momentum", 0.9))
    rank, channels = node.rank(), node.shape()[1]
    axes = tuple(axis for axis in range(rank) if axis != 1)
    mean = op.mean(node[0], axis=axes, keepdims=True)
    centred = node[0] - mean
    variance = op.mean(centred * centred, axis=axes, keepdims=True)
    wide = (channels, *(1,) * (rank - 2))
    normalized = centred / op.sqrt(variance + epsilon)
    scaled = normalized * reshape(node, node[1], wide) + reshape(node, node[2], wide)
    outputs: list[Expr] = [scaled]
    for old, new in ((node[3], mean), (node[4], variance)):
        flat = cast(reshape(node, new, (channels,)), node.dtype(old))
        kept = old * momentum
        outputs.append(kept + flat * (1 - momentum))
    return outputs


@converts("LayerNormalization", since=17)
@partial(in_float32, statistics=(1, 2))
def convert_layer_normalization(node: OnnxNode, epsilon: float = 1e-5) -> list[Expr]:
    """Normalization over all axes from `axis` on; Mean and InvStdDev, of `stash_type`, only if used."""
    shape, axis = node.shape(), node.named_axis(-1)
    fixed = is_static([*shape[axis:], *node.shape(1), *(node.shape(2) if node.has(2) else ())])
    outputs = [(_normalized_rows if fixed else _normalized)(node, axis, epsilon)]
    if node.wants(1) or node.wants(2):
        stash = dtype_of(int(node.attr("stash_type", TensorProto.FLOAT)), node.label)
        mean, deviation = _statistics(node, node[0], tuple(range(axis, len(shape))), epsilon)
        inverse = 1 / deviation
        outputs += [cast(mean, stash), cast(inverse, stash)]
    return outputs


def _normalized_rows(node: OnnxNode, axis: int, epsilon: float) -> Expr:
    """The data with all axes from `axis` on as one, normalized by one operator."""
    shape, full = node.shape(), tuple(node.shape()[axis:])
    inner = int(np.prod(full, dtype=np.int64))
    rows = reshape(node, node[0], (*shape[:axis], inner))
    gamma = reshape(node, _spread(node, node[1], full), (inner,))
    bias = _spread(node, node[2], full) if node.has(2) else constant(np.zeros(full), node.dtype())
    beta = reshape(node, bias, (inner,))
    return reshape(node, op.nn.layer_norm(rows, gamma, beta, axis=axis, epsilon=epsilon), shape)


def _normalized(node: OnnxNode, axis: int, epsilon: float) -> Expr:
    """The same step by step, where sizes are symbolic."""
    mean, deviation = _statistics(node, node[0], tuple(range(axis, node.rank())), epsilon)
    wide = cast(node[0], node.dtype(mean))
    scaled = cast((wide - mean) / deviation, node.dtype())
    scaled = scaled * widening_nothing(node, node[1], node.shape()[axis:])
    return scaled + widening_nothing(node, node[2], node.shape()[axis:]) if node.has(2) else scaled


def _spread(node: OnnxNode, value: Expr, shape: tuple[int, ...]) -> Expr:
    return value if node.shape(value) == shape else op.broadcast_to(value, shape=shape)


def _statistics(node: OnnxNode, data: Expr, axes: tuple[int, ...], epsilon: float) -> tuple[Expr, Expr]:
    """Mean and sqrt(variance + epsilon) over `axes`, which keep extent 1; of 16-bit floats in float32."""
    data = cast(data, "float32") if node.dtype(data).itemsize < 4 else data
    mean = op.mean(data, axis=axes, keepdims=True)
    centred = data - mean
    variance = op.mean(centred * centred, axis=axes, keepdims=True)
    return mean, op.sqrt(variance + epsilon)


converts.functions({
    "InstanceNormalization": in_float32(
        lambda node: op.nn.instance_norm(node[0], node[1], node[2], axis=1, epsilon=float(node.attr("epsilon", 1e-5)))
    ),
})  # fmt: skip


@converts("GroupNormalization", since=18)
@in_float32
def convert_group_normalization(node: OnnxNode, num_groups: int, epsilon: float = 1e-5) -> Expr:
    """Statistics over groups of channels; scale and bias count groups in opset 18 and channels from 21 on."""
    channels = node.shape()[1]
    scale, bias = node[1], node[2]
    if node.opset < 21:
        scale, bias = (op.repeat(value, repeats=channels // num_groups, axis=0) for value in (scale, bias))
    return op.nn.group_norm(node[0], scale, bias, num_groups=num_groups, axis=1, epsilon=epsilon)


@converts("MeanVarianceNormalization", since=9)
@in_float32
def convert_mean_variance_normalization(node: OnnxNode) -> Expr:
    """(x - mean) / (deviation + 1e-9) over axes; not by the mean of squares as ONNX defines it, for that cancels."""
    axes = tuple(axis % node.rank() for axis in node.attr("axes") or (0, 2, 3))
    mean, deviation = _statistics(node, node[0], axes, 0.0)
    return (node[0] - mean) / (deviation + 1e-9)


@converts("LpNormalization")
@in_float32
def convert_lp_normalization(node: OnnxNode) -> Expr:
    """x over its 1- or 2-norm along an axis; zero for a zero norm."""
    norm = p_norm(node[0], (node.named_axis(-1),), node.choice("p", 2, (1, 2)), True)
    return node[0] / op.where(op.equal(norm, 0), 1, norm)


@converts("LRN")
@in_float32
def convert_lrn(x: Expr, size: int, bias: float = 1.0, alpha: float = 1e-4, beta: float = 0.75) -> Expr:
    """x / (bias + alpha * mean of squares over `size` neighbouring channels) ^ beta; outside channels count as zero."""
    return op.nn.lrn(x, size=size, axis=1, bias=bias, alpha=alpha, beta=beta)
