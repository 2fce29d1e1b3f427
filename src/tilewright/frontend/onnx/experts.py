"""Mixtures of experts of onnxruntime's domain: each token goes through the few networks that a router picks.

All experts are computed for every token here, and weighed with what the router says, which is 0 for those not picked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.functions import gelu
from tilewright.frontend.onnx.build import cast, constant, reshape
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.quantize import code_bits
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_ACTIVATIONS: dict[str, Callable[[OnnxNode, Expr], Expr]] = {
    "relu": lambda node, x: op.nn.relu(x),
    "gelu": lambda _node, x: gelu(x, approximate=True),
    "silu": lambda node, x: op.nn.silu(x),
    "identity": lambda node, x: x,
}


@converts("MoE", domain=MICROSOFT)
def convert_moe(node: OnnxNode) -> Expr:
    """act(x W1' + b1) [* (x W3' + b3)] W2' + b2 of the picked experts, weighed by the router's probabilities."""
    return _mixture(node, [(node[2], 3), (node[4], 5), (node[6] if node.has(6) else None, 7)])


@converts("QMoE", domain=MICROSOFT)
def convert_qmoe(node: OnnxNode) -> Expr:
    """`MoE` with weights of 4 or 8 bits and a scale for each output of each expert; unpacked when compiling."""
    if any(node.has(index) for index in range(11, len(node.inputs))):
        node.unsupported("zero points of the experts' weights")
    bits = int(node.attr("expert_weight_bits", 4))
    node.choice("block_size", 0, (0,))
    weights = [_unpacked(node, index, bits) if node.has(index) else None for index in (2, 5, 8)]
    return _mixture(node, list(zip(weights, (4, 7, 10), strict=True)))


def _unpacked(node: OnnxNode, index: int, bits: int) -> Expr:
    packed, scales = node.static(index, "weights"), node.static(index + 1, "scales")
    if bits not in (4, 8):
        node.unsupported(f"attribute expert_weight_bits={bits}; supported: 4, 8")
    codes = code_bits(packed.reshape(-1, packed.shape[-1]), bits).reshape(*packed.shape[:-1], -1)
    values = (codes.astype(np.float32) - float(1 << (bits - 1))) * scales.astype(np.float32)[..., None]
    return constant(values, node.dtype())


def _mixture(node: OnnxNode, layers: list[tuple[Expr | None, int]]) -> Expr:
    """The mixture of experts with three layers of weights, each [experts, out, in] and its bias by input number."""
    (first, first_bias), (second, second_bias), (gate, gate_bias) = layers
    assert first is not None and second is not None
    activation = _ACTIVATIONS[node.choice("activation_type", "relu", tuple(_ACTIVATIONS))]
    node.choice("use_sparse_mixer", 0, (0,))
    node.ignore("swiglu_fusion", "swiglu_limit", "activation_alpha", "activation_beta")
    shape = node.shape()
    tokens, experts = node.shape(1)
    flat = reshape(node, node[0], (1, tokens, shape[-1]))
    data = op.broadcast_to(flat, shape=(experts, tokens, shape[-1]))
    inner = activation(node, _layer(node, data, first, first_bias))
    if gate is not None:
        inner = op.multiply(inner, _layer(node, data, gate, gate_bias))
    result = _layer(node, inner, second, second_bias)
    weights = reshape(node, op.transpose(_routed(node), axes=(1, 0)), (experts, tokens, 1))
    mixed = op.sum(op.multiply(result, weights), axis=(0,), keepdims=False)
    return reshape(node, mixed, shape)


def _layer(node: OnnxNode, data: Expr, weight: Expr, bias: int) -> Expr:
    """[experts, tokens, out]."""
    product = op.nn.batch_matmul(data, weight)
    return op.add(product, op.expand_dims(node[bias], axis=1)) if node.has(bias) else product


def _routed(node: OnnxNode) -> Expr:
    """[tokens, experts]: the probabilities of the `k` most likely experts of each token, 0 for the others."""
    tokens, experts = node.shape(1)
    count = int(node.attr("k", 1))
    chances = op.nn.softmax(cast(node, node[1], "float32"), axis=-1)
    best = op.topk(chances, k=count, axis=-1, ret_type="indices", dtype="int32")
    places = constant(np.arange(experts).reshape(1, 1, -1), "int32")
    picked = op.any(op.equal(reshape(node, best, (tokens, count, 1)), places), axis=(1,))
    chances = op.where(picked, chances, constant(0.0, "float32"))
    if node.attr("normalize_routing_weights", 0):
        chances = op.divide(chances, op.sum(chances, axis=(1,), keepdims=True))
    return cast(node, chances, node.dtype())
