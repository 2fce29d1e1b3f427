"""Operators of onnxruntime's own domain com.microsoft that exported and optimized models use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.frontend.builders.functions import gelu
from tilewright.frontend.idioms import cast, constant, slice_axis, swap_axes
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.nn import convert_conv, convert_gemm, matmul
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.recurrent import convert_quantized_lstm
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import qnn


# -------------------------------------------------------------------------------------------------- activations
def _biased_gelu(node: OnnxNode, approximate: bool = False) -> Expr:
    return gelu(node[0] + node[1] if node.has(1) else node[0], approximate)


converts.functions({
    "Gelu BiasGelu": in_float32(lambda node: _biased_gelu(node)),
    "FastGelu": in_float32(lambda node: _biased_gelu(node, approximate=True)),
    "QuickGelu": in_float32(lambda node: node[0] * op.sigmoid(node[0] * float(node.attr("alpha", 1.702)))),
    "DynamicQuantizeLSTM": convert_quantized_lstm,
}, domain=MICROSOFT)  # fmt: skip


_ACTIVATIONS: dict[str, Callable[[Expr, list[float]], Expr]] = {
    "Relu": lambda x, p: op.nn.relu(x), "Tanh": lambda x, p: op.tanh(x), "Sigmoid": lambda x, p: op.sigmoid(x),
    "LeakyRelu": lambda x, p: op.nn.leaky_relu(x, alpha=p[0] if p else 0.01),
    "Clip": lambda x, p: op.clip(x, a_min=p[0], a_max=p[1]),
    "HardSigmoid": lambda x, p: op.clip(x * p[0] + p[1], a_min=0.0, a_max=1.0),
}  # fmt: skip


@converts("FusedConv", domain=MICROSOFT)
def convert_fused_conv(node: OnnxNode) -> Expr:
    result = convert_conv(node)
    if node.has(3):
        result = result + node[3]
    name = node.attr("activation")
    parameters = [float(value) for value in node.attr("activation_params") or []]
    if not name:
        return result
    return _ACTIVATIONS[node.choice("activation", None, tuple(_ACTIVATIONS))](result, parameters)


@converts("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def convert_fused_matmul(node: OnnxNode, alpha: float = 1.0) -> Expr:
    """alpha A' B' with either operand transposed in its last axes, or in its batch axes."""
    node.choice("transBatchA", 0, (0,))
    node.choice("transBatchB", 0, (0,))
    left, right = (
        swap_axes(node[index]) if node.attr(name, 0) and node.rank(index) > 1 else node[index]
        for index, name in enumerate(("transA", "transB"))
    )
    product = matmul(node, left, right)
    return product if alpha == 1 else product * alpha


@converts("FusedGemm", domain=MICROSOFT)
def convert_fused_gemm(node: OnnxNode, activation_alpha: float = 0.01, activation_beta: float = 0.0) -> Expr:
    parameters = [activation_alpha, activation_beta]
    result = convert_gemm(node)
    return _ACTIVATIONS[node.choice("activation", "Relu", tuple(_ACTIVATIONS))](result, parameters)


# ------------------------------------------------------------------------------------------------ normalizations
def _layer_norm(node: OnnxNode, x: Expr, gamma: Expr, beta: Expr | None, epsilon: float) -> Expr:
    shift = constant(np.zeros(node.shape(gamma)), node.dtype(x)) if beta is None else beta
    return op.nn.layer_norm(x, gamma, shift, axis=node.rank(x) - 1, epsilon=epsilon)


def _rms_norm(node: OnnxNode, x: Expr, gamma: Expr, epsilon: float) -> Expr:
    """x / sqrt(mean of squares + epsilon) * gamma over the last axis."""
    squares = op.mean(x * x, axis=(node.rank(x) - 1,), keepdims=True)
    return x / op.sqrt(squares + epsilon) * gamma


def _skip_sum(node: OnnxNode, bias: int) -> Expr:
    total = node[0] + node[1]
    return total + node[bias] if node.has(bias) else total


def _with_sum(node: OnnxNode, result: Expr, total: Expr) -> list[Expr | None]:
    """The outputs of a skip normalization: the fourth is the sum that was normalized."""
    if node.wants(1) or node.wants(2):
        node.unsupported("its outputs mean and inverse deviation")
    return [result, None, None, total]


@converts("SkipLayerNormalization", domain=MICROSOFT)
@in_float32
def convert_skip_layer_normalization(node: OnnxNode, epsilon: float = 1e-12) -> list[Expr | None]:
    total = _skip_sum(node, 4)
    beta = node[3] if node.has(3) else None
    return _with_sum(node, _layer_norm(node, total, node[2], beta, epsilon), total)


@converts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
@in_float32
def convert_skip_simplified_layer_normalization(node: OnnxNode, epsilon: float = 1e-12) -> list[Expr | None]:
    total = _skip_sum(node, 3)
    return _with_sum(node, _rms_norm(node, total, node[2], epsilon), total)


@converts("SimplifiedLayerNormalization")
@converts("SimplifiedLayerNormalization", domain=MICROSOFT)
@in_float32
def convert_simplified_layer_normalization(node: OnnxNode) -> list[Expr]:
    if node.named_axis(-1) != node.rank() - 1:
        node.unsupported("an axis that is not the last")
    return [_rms_norm(node, node[0], node[1], float(node.attr("epsilon", 1e-5)))]


@converts("EmbedLayerNormalization", domain=MICROSOFT)
@in_float32
def convert_embed_layer_normalization(node: OnnxNode) -> list[Expr | None]:
    """Word, position and segment embeddings added up and normalized; and how many tokens the mask leaves."""
    tables = [node[index] if node.has(index) else None for index in range(2, 7)]
    return embedded(node, tables, mask=7, positions=8 if node.has(8) else None)


def embedded(node: OnnxNode, tables: Sequence[Expr | None], mask: int, positions: int | None) -> list[Expr | None]:
    """The outputs of an `EmbedLayerNormalization` with these tables: words, positions, segments, gamma and beta.

    `mask` and `positions` are numbers of inputs.
    """
    words, indices, segments, gamma, beta = tables
    assert words is not None and indices is not None and gamma is not None
    (batch, length) = node.shape()
    total: Expr = op.take(words, node[0], axis=0, mode="clip")
    if positions is not None:
        total = total + op.take(indices, node[positions], axis=0, mode="clip")
    else:
        total = total + slice_axis(indices, 0, 0, length)
    if node.has(1) and segments is not None:
        total = total + op.take(segments, node[1], axis=0, mode="clip")
    result = _layer_norm(node, total, gamma, beta, float(node.attr("epsilon", 1e-12)))
    node.ignore("mask_index_type")
    if node.has(mask):
        counts = op.sum(cast(node[mask], "int32"), axis=(1,), keepdims=False)
    else:
        counts = constant(np.zeros(batch), "int32")
    return [result, counts, total]


@converts("QEmbedLayerNormalization", domain=MICROSOFT)
def convert_qembed_layer_normalization(node: OnnxNode) -> list[Expr | None]:
    """`EmbedLayerNormalization` of quantized tables, normalization included."""
    tables: list[Expr | None] = []
    for index in range(2, 7):
        zero = cast(node[index + 11], "int32") if node.has(index + 11) else constant(0, "int32")
        real = node.has(index) and node.has(index + 6)
        tables.append(qnn.dequantize(node[index], node[index + 6], zero) if real else None)
    return embedded(node, tables, mask=7, positions=None)[:2]


# -------------------------------------------------------------------------------------------------- small helpers
@converts("ExpandDims", domain=MICROSOFT)
def convert_expand_dims(node: OnnxNode) -> Expr:
    axis = int(node.static(1, "axis").reshape(-1)[0])
    return op.expand_dims(node[0], axis=node.axis(axis, node.rank() + 1), num_newaxis=1)
