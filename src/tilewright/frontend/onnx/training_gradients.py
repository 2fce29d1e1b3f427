"""Operators of the graphs that onnxruntime-training writes (training_model.onnx): losses, gradients, accumulation.

A gradient takes that of the result first, then what the operator took, or returned, and returns those of its inputs.
Most are the adjoints of the operator itself, in variables of its own, for one value may be several of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.functions import gelu
from tilewright.frontend.idioms import constant
from tilewright.frontend.onnx.nn import convolve
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.pooling import average_pool, windows
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.relay.op.gradients.adjoint import adjoints


def _pulled_back(gradient: Expr, values: Sequence[Expr], forward: Callable[..., Expr]) -> list[Expr]:
    """The gradients of `values`, where `gradient` is that of `forward(*values)`."""
    own = [Var(f"x{number}", tensor_type_of(value)) for number, value in enumerate(values)]
    seed = Var("g", tensor_type_of(gradient))
    for var, value in zip((*own, seed), (*values, gradient), strict=True):
        var.set_inferred_type(tensor_type_of(value))
    stand_for = dict[Expr, Expr](zip((*own, seed), (*values, gradient), strict=True))
    return [substitute(found, stand_for) for found in adjoints(forward(*own), own, seed)]


def _declared_shape(node: OnnxNode) -> tuple[int, ...]:
    """The shape that the model declares for the result, where no input has it."""
    found = node.declared(node.proto.output[0])
    if not isinstance(found, TensorType) or not found.is_static:
        node.unsupported(f"a result, {node.proto.output[0]!r}, whose shape the model does not declare")
    return tuple(int(size) for size in found.shape)


# -------------------------------------------------------------------------------------------------- element by element
converts.functions({
    "ReluGrad": lambda node: _pulled_back(node[0], [node[1]], op.nn.relu),
    "SigmoidGrad": lambda node: node[0] * node[1] * (1 - node[1]),
    "TanhGrad": lambda node: node[0] * (1 - node[1] * node[1]),
    "GeluGrad": lambda node: _pulled_back(node[0], [node[1]], gelu),
    "FastGeluGrad": lambda node: _pulled_back(node[0], [node[1]], lambda x: gelu(x, approximate=True)),
    "BiasGeluGrad_dX": lambda node: _pulled_back(node[0], [node[1] + node[2]], gelu),
    "BiasFastGeluGrad_dX": lambda node: _pulled_back(
        node[0], [node[1] + node[2]], lambda x: gelu(x, approximate=True)
    ),
}, domain=MICROSOFT)  # fmt: skip


@converts("DropoutGrad", domain=MICROSOFT)
def convert_dropout_grad(node: OnnxNode) -> Expr:
    """The gradient where the mask is true, over the share that is kept."""
    ratio = float(node.static(2, "ratio").reshape(())) if node.has(2) else 0.5
    if node.has(3) and not bool(node.static(3, "training_mode").reshape(())):
        ratio = 0.0
    return op.where(node[1], node[0] / (1 - ratio), op.zeros_like(node[0]))


@converts("SoftmaxGrad", "SoftmaxGrad_13", "LogSoftmaxGrad", "LogSoftmaxGrad_13", domain=MICROSOFT)
def convert_softmax_grad(node: OnnxNode) -> Expr:
    """By the result; without _13 all axes from `axis` on are one."""
    newest = node.op_type.endswith("_13")
    axis = node.named_axis(-1 if newest else 1)
    axes = (axis,) if newest else tuple(range(axis, node.rank()))
    if node.op_type.startswith("Log"):
        return node[0] - op.exp(node[1]) * op.sum(node[0], axis=axes, keepdims=True)
    return (node[0] - op.sum(node[0] * node[1], axis=axes, keepdims=True)) * node[1]


# ------------------------------------------------------------------------------------------------------------- losses
def _loss(node: OnnxNode, scores: Expr, labels: Expr, first: int) -> Callable[[Expr], Expr]:
    """The cross entropy as a function of scores [N, C, …]; input `first` are weights, the next a class to ignore."""
    node.ignore("output_type")
    reduction = node.choice("reduction", "mean", ("mean", "sum", "none"))
    given = node.attr("ignore_index", -100)
    ignored = int(node.static(first + 1, "ignore_index").reshape(())) if node.has(first + 1) else int(given)
    classes, dtype = node.shape(scores)[1], node.dtype(scores)
    weights = node[first] if node.has(first) else constant(np.ones(classes), dtype)
    return lambda x: op.nn.nll_loss(op.nn.log_softmax(x, axis=1), labels, weights, reduction, ignored)


@converts("SoftmaxCrossEntropyLossInternal", domain=MICROSOFT)
def convert_softmax_cross_entropy_loss(node: OnnxNode) -> list[Expr]:
    """The loss, and the logarithms of the probabilities."""
    return [_loss(node, node[0], node[1], 2)(node[0]), op.nn.log_softmax(node[0], axis=1)]


@converts("SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad", domain=MICROSOFT)
def convert_softmax_cross_entropy_loss_grad(node: OnnxNode) -> Expr:
    """By the logarithms of the probabilities, which are scores of the same probabilities."""
    if node.has(5):
        node.unsupported("a bias of the gradient")
    (found,) = _pulled_back(node[0], [node[1]], _loss(node, node[1], node[2], 3))
    return found


# ------------------------------------------------------------------------------------------- convolutions and poolings
@converts("ConvGrad", domain=MICROSOFT)
def convert_conv_grad(node: OnnxNode) -> list[Expr]:
    """Of the images, the kernels and the bias."""
    found = _pulled_back(node[0], [node[1], node[2]], lambda x, w: convolve(node, x, w))
    axes = tuple(axis for axis in range(node.rank()) if axis != 1)
    return [*found, op.sum(node[0], axis=axes)]


@converts("MaxPoolGrad", domain=MICROSOFT)
def convert_max_pool_grad(node: OnnxNode) -> Expr:
    """Each gradient added to the element that its index names, among all elements of the images."""
    node.ignore("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode", "storage_order")
    shape = _declared_shape(node)
    empty = constant(np.zeros(int(np.prod(shape))), node.dtype())
    indices, gradients = (op.reshape(node[index], newshape=(-1,)) for index in (1, 0))
    return reshape(node, op.scatter_elements(empty, indices, gradients, 0, "add"), shape)


@converts("AveragePoolGrad", domain=MICROSOFT)
def convert_average_pool_grad(node: OnnxNode) -> Expr:
    """The same share of each gradient to all elements of its window."""
    shape = _declared_shape(node)
    found = windows(node, shape[2:], node.require("kernel_shape"))
    empty = op.zeros(shape, str(node.dtype()))
    return _pulled_back(node[0], [empty], lambda x: average_pool(node, x, found))[0]


# ------------------------------------------------------------------------------------------------------ normalizations
@converts("LayerNormalizationGrad", domain=MICROSOFT)
def convert_layer_normalization_grad(node: OnnxNode) -> list[Expr]:
    """Of the data, scale and bias, by the mean and the inverse of the deviation of each row."""
    node.ignore("epsilon")
    axis = node.named_axis(-1, node.rank(1))
    return _normalization_grad(node, tuple(range(axis, node.rank(1))), node[2], node[3], node[4], tuple(range(axis)))


@converts("BatchNormInternal", domain=MICROSOFT)
def convert_batch_norm_internal(node: OnnxNode, training_mode: int = 1, epsilon: float = 1e-5) -> list[Expr]:
    """The normalized data, running mean and variance, then the mean and the inverse of the deviation of this batch."""
    if not training_mode:
        node.unsupported("attribute training_mode=0")
    wide, axes = _of_channels(node, 0)
    mean = op.mean(node[0], axis=axes, keepdims=True)
    centred = node[0] - mean
    variance = op.mean(centred * centred, axis=axes, keepdims=True)
    inverse, kept = 1 / op.sqrt(variance + epsilon), float(node.attr("momentum", 0.9))
    flat = [reshape(node, value, (node.shape()[1],)) for value in (mean, variance, inverse)]
    running = [node[3 + i] * kept + flat[i] * (1 - kept) for i in range(2)]
    result = centred * inverse * reshape(node, node[1], wide) + reshape(node, node[2], wide)
    return [result, *running, flat[0], flat[2]]


@converts("BatchNormalizationGrad", domain=MICROSOFT)
def convert_batch_normalization_grad(node: OnnxNode) -> list[Expr]:
    """Of the data, scale and bias, by the mean and the inverse of the deviation of the batch."""
    node.ignore("epsilon", "momentum", "training_mode")
    wide, axes = _of_channels(node, 1)
    scale, mean, inverse = (reshape(node, node[index], wide) for index in (2, 3, 4))
    return _normalization_grad(node, axes, scale, mean, inverse, axes)


def _of_channels(node: OnnxNode, data: int) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The shape of one number a channel beside an input [N, C, …], and the axes of all others."""
    rank = node.rank(data)
    return (node.shape(data)[1], *(1,) * (rank - 2)), tuple(axis for axis in range(rank) if axis != 1)


def _normalization_grad(
    node: OnnxNode, axes: tuple[int, ...], scale: Expr, mean: Expr, inverse: Expr, others: tuple[int, ...]
) -> list[Expr]:
    """The gradients where data are normalized over `axes`, and scale and bias are the same along the axes `others`."""
    normalized = (node[1] - mean) * inverse
    flow = node[0] * scale
    even, along = (op.mean(value, axis=axes, keepdims=True) for value in (flow, flow * normalized))
    sums = [op.sum(value, axis=others) for value in (node[0] * normalized, node[0])]
    return [inverse * (flow - even - normalized * along), *sums]


# --------------------------------------------------------------------------------------------- indices and accumulation
@converts("GatherGrad", domain=MICROSOFT)
def convert_gather_grad(node: OnnxNode) -> Expr:
    """Each gradient added to the slice that its index names; input 0 is the shape of all."""
    empty = op.zeros(tuple(node.ints(0, "shape")), str(node.dtype(2)))
    axis = node.named_axis(0, node.rank(empty))
    return _pulled_back(node[2], [empty], lambda x: op.take(x, node[1], axis=axis, mode="from_back"))[0]


@converts("ReduceSumTraining", domain=MICROSOFT)
def convert_reduce_sum_training(node: OnnxNode, keepdims: bool = True, noop_with_empty_axes: bool = False) -> Expr:
    """The sum over axes, which are an input."""
    axes = node.ints(1, "axes")
    if not axes and noop_with_empty_axes:
        return node[0]
    return op.sum(node[0], axis=tuple(node.axes(axes or range(node.rank()), node.rank())), keepdims=keepdims)


@converts("InPlaceAccumulator", domain=MICROSOFT)
def convert_in_place_accumulator(node: OnnxNode) -> Expr:
    """The sum so far and the value, which is left out where input 2 is false."""
    total = node[0] + op.cast(node[1], str(node.dtype()))
    return op.where(node[2], total, node[0]) if node.has(2) else total


@converts("InPlaceAccumulatorV2", domain=MICROSOFT)
def convert_in_place_accumulator_v2(node: OnnxNode) -> list[Expr]:
    """True, and the sum so far and the value, or the value alone where input 2 is true."""
    value = op.cast(node[1], str(node.dtype()))
    total = node[0] + value
    return [constant(np.ones(1), "bool"), op.where(node[2], value, total) if node.has(2) else total]
