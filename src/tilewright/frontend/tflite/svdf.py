"""SVDF, a dense layer over time as products of vectors: a filter of the data each, then one over its last results.

Nakkiran et al., Compressing deep neural networks using a rank-constrained topology (Interspeech 2015).
"""

from __future__ import annotations

from math import prod

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast, concatenate, constant, reshape, slice_axis
from tilewright.frontend.tflite.activation import activate, fused_activation
from tilewright.frontend.tflite.fixed_point import multiply, quantize_multiplier, scalar_scale, zero_point
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.recurrent import product
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_BIAS, _STATE = 3, 4


@converts("SVDF")
def convert_svdf(node: Node) -> Expr:
    """Inputs: data [B, width], filters of the data, filters over time [filters, memory], bias, state."""
    filters, memory = node.shape(2)
    rank = int(node.option("rank"))
    if rank < 1 or filters % rank or prod(node.shape(_STATE)) != node.shape()[0] * filters * memory:
        raise ModelError(
            f"{node.label}: {filters} filters of rank {rank} over a memory of {memory}, state {node.shape(_STATE)}"
        )
    integer = node.is_quantized()
    newest = _filtered(node) if integer else product(node, node[0], 1)
    state = reshape(node[_STATE], (node.shape()[0], filters, memory))
    state = concatenate([slice_axis(state, 2, 0, memory - 1), op.expand_dims(newest, axis=2)], 2)
    result = _over_time(node, cast(state, "int32") if integer else state, rank)
    # the place of the newest is free at first: results move on by one step
    zeros = constant(0, node.dtype(_STATE))
    free = op.full(zeros, shape=(node.shape()[0], filters, 1), dtype=node.dtype(_STATE))
    node.keep(_STATE, reshape(concatenate([slice_axis(state, 2, 1, memory), free], 2), node.shape(_STATE)))
    return result


def _filtered(node: Node) -> Expr:
    """What the filters make of int8 data, scaled to the state's int16."""
    data, weight, state = (node.input_quantization(index) for index in (0, 1, _STATE))
    centred = op.subtract(cast(node[0], "int32"), constant(zero_point(data), "int32"))
    sums = op.nn.dense(centred, cast(node[1], "int32"))
    factor = quantize_multiplier(scalar_scale(data) * scalar_scale(weight) / scalar_scale(state))
    return cast(op.clip(multiply(sums, *factor), -(1 << 15), (1 << 15) - 1), "int16")


def _over_time(node: Node, state: Expr, rank: int) -> Expr:
    """The filters over time [B, filters, memory] summed in groups of `rank`, biased, as the output."""
    batch, filters, memory = node.shape(state)
    integer = node.is_quantized()
    if integer:
        weight = cast(node[2], "int32")
    elif node.is_quantized(2):
        weight = op.multiply(cast(node[2], "float32"), constant(scalar_scale(node.input_quantization(2))))
    else:
        weight = node[2]
    products = reshape(op.multiply(state, weight), (batch, filters // rank, rank * memory))
    result: Expr = op.sum(products, axis=(2,))
    if node.has(_BIAS):
        result = op.add(result, node[_BIAS])
    if not integer:
        return activate(node, result, fused_activation(node))
    scales = [scalar_scale(node.input_quantization(index)) for index in (_STATE, 2)]
    wanted = node.output_quantization()
    result = multiply(result, *quantize_multiplier(scales[0] * scales[1] / scalar_scale(wanted)))
    return cast(op.clip(op.add(result, constant(zero_point(wanted), "int32")), -128, 127), "int8")
