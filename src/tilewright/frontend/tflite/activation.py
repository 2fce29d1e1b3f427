"""Activation functions, fused ones among them. On quantized tensors most are tables of all their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import broadcast_to
from tilewright.frontend.tflite import fixed_point
from tilewright.frontend.tflite.node import Node, converts
from tilewright.frontend.tflite.schema import ACTIVATIONS
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def fused_activation(node: Node) -> str:
    """The activation that the operator applies to its result."""
    return node.choice("fused_activation_function", ACTIVATIONS, default=0)


def activated(node: Node, value: Expr) -> Expr:
    """`value`, not quantized, behind the operator's fused activation."""
    return activate(node, value, fused_activation(node))


def activate(node: Node, value: Expr, name: str) -> Expr:
    """`value`, not quantized, behind the activation `name` of the schema."""
    if name == "NONE":
        return value
    if name == "TANH":
        return op.tanh(value)
    if name == "SIGN_BIT":
        node.unsupported("the fused activation SIGN_BIT")
    return clamp(value, *_LIMITS[name])


_LIMITS: dict[str, tuple[float, float]] = {
    "RELU": (0, math.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1),
}  # fmt: skip


def clamp(value: Expr, low: float, high: float) -> Expr:
    """`value` between `low` and `high`, which may be infinite."""
    if math.isinf(high):
        return op.maximum(value, low)
    return op.clip(value, low, high)


@converts("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def convert_relu(node: Node) -> Expr:
    low, high = _LIMITS[node.name]
    if not node.is_quantized():
        return clamp(node[0], low, high)
    given, wanted = node.input_quantization(), node.output_quantization()
    factor = fixed_point.rescaling(given, wanted, np.float32)
    least, most = (
        1 << 20 if math.isinf(end) else wanted.zero + int(fixed_point.round_array(np.float32(end) / wanted.scale[0]))
        for end in (low, high)
    )
    return fixed_point.by_table(
        node, lambda codes: np.clip(wanted.zero + fixed_point.multiply_array(codes - given.zero, *factor), least, most)
    )


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x))).astype(np.float32)


def _gelu(approximate: bool) -> Callable[[np.ndarray], np.ndarray]:
    if approximate:
        return lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    erf = np.vectorize(math.erf)
    return lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))


#: Which entries of the kernels' table are above the whole part, as bits, and which by two: no rule of rounding says it.
_ABOVE = 0x83E0E18CCDA556CE0E56228133DF58CAC8DDD8BE63DFFF5DFFFFFFFFFFFFFF56
_ABOVE_BY_TWO = (28, 29, 33, 35, 43)
#: sigmoid(i / 24) in 16 bits, between whose entries the kernels interpolate.
_SIGMOID_TABLE = np.array(
    [math.floor(65536 / (1 + math.exp(-i / 24))) + (_ABOVE >> i & 1) + (i in _ABOVE_BY_TWO) for i in range(256)]
)


def _scaled_16(node: Node, factor: float) -> tuple[int, int]:
    """(multiplier, left shift) that bring an input of 16 bits to steps of 1 / 4096 * factor."""
    scale = node.input_quantization().step
    exponent = math.log2(scale)
    if exponent == int(exponent) and exponent >= -12:
        shift = (12 if factor == 3.0 else 15 - 3) + int(exponent)
        return 0, shift
    multiplier, left = float(np.float32(scale) * np.float32(4096) * np.float32(factor)), 0
    while multiplier <= 32767.0 / 2.0 and left <= 30:
        left, multiplier = left + 1, multiplier * 2
    return int(multiplier), left


def _interpolated(node: Node, codes: np.ndarray, widen: int) -> tuple[np.ndarray, np.ndarray]:
    """The table at |code| scaled to steps of 1/512 of an entry, and its step there."""
    multiplier, left = _scaled_16(node, 3.0)
    if multiplier == 0:
        multiplier, left = 3 << left, 0
    rounding = (1 << (left - 1)) if left > 0 else 0
    scaled = (codes * multiplier + rounding) >> left
    magnitude = np.abs(scaled)
    position = magnitude >> widen
    inside = np.minimum(position, 254)
    low, high = _SIGMOID_TABLE[inside], _SIGMOID_TABLE[inside + 1]
    rest = magnitude & ((1 << widen) - 1)
    value = np.where(position >= 255, 0x7FFF << (1 + widen), (low << widen) + rest * (high - low))
    return scaled, value


def _sigmoid_16(node: Node, codes: np.ndarray) -> np.ndarray:
    scaled, value = _interpolated(node, codes, 9)
    rounding = np.where(scaled >= 0, 1 << 9, (1 << 25) + (1 << 9) - 1)
    return np.where(scaled >= 0, value + rounding, rounding - value) >> 10


def _tanh_16(node: Node, codes: np.ndarray) -> np.ndarray:
    scaled, value = _interpolated(node, codes, 8)
    value = np.where(np.abs(scaled) >> 8 >= 255, 0xFFFF << 8, value) - (1 << 23)
    return np.where(scaled >= 0, value + (1 << 7), -value + (1 << 7) - 1) >> 8


@converts("GELU")
def convert_gelu(node: Node) -> Expr:
    approximate = bool(node.option("approximate", False))
    return (
        fixed_point.real_table(node, _gelu(approximate))
        if node.is_quantized()
        else functions.gelu(node[0], approximate)
    )


@converts("LEAKY_RELU")
def convert_leaky_relu(node: Node) -> Expr:
    alpha = float(node.option("alpha"))
    if not node.is_quantized():
        return functions.leaky_relu(node[0], alpha)
    given, wanted = node.input_quantization(), node.output_quantization()
    same = fixed_point.rescaling(given, wanted, np.float32)
    scaled = float(np.float32(given.step) * np.float32(alpha) / np.float32(wanted.step))
    below = fixed_point.quantize_multiplier(abs(scaled))

    def entry(x: np.ndarray) -> np.ndarray:
        slope = fixed_point.multiply_array(x, below[0] if scaled >= 0 else -below[0], below[1])
        return np.where(x >= 0, fixed_point.multiply_array(x, *same), slope)

    return fixed_point.centred_table(node, entry)


@converts("HARD_SWISH")
def convert_hard_swish(node: Node) -> Expr:
    if node.is_quantized():
        return fixed_point.by_table(node, partial(_hard_swish, node))
    return functions.hard_silu(node[0])


def _hard_swish(node: Node, codes: np.ndarray) -> np.ndarray:
    """In 16 bits: the input at a finer scale times a gate of Q15, each product rounded."""
    given, wanted = node.input_quantization(), node.output_quantization()
    hires = np.float32(given.scale[0]) * np.float32(1 / 128)
    to_output, output_shift = _q15(float(hires) / float(wanted.scale[0]))
    to_gate, gate_shift = _q15(float(hires) / (3.0 / 32768.0))
    fine = (codes - given.zero) << 7
    scaled = fixed_point.high_half(fine, to_output)
    gate = fine
    if gate_shift > 0:
        gate = np.clip(gate << (gate_shift - 1), -32768, 32767)
    gate = fixed_point.high_half(gate, to_gate)
    if gate_shift > 0:
        gate = np.clip(gate << 1, -32768, 32767)
    if gate_shift < 0:
        gate = fixed_point.divide_by_power_array(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    doubled = gate * scaled
    product = np.clip(np.where(doubled >= 0, doubled >> 15, -(-doubled >> 15)), -32768, 32767)
    return fixed_point.divide_by_power_array(product, -output_shift) + wanted.zero


def _q15(real: float) -> tuple[int, int]:
    """`quantize_multiplier` with a multiplier of 16 bits."""
    fixed, shift = fixed_point.quantize_multiplier(real)
    return min((fixed + (1 << 15)) >> 16, 32767), shift


@converts("PRELU")
def convert_prelu(node: Node) -> Expr:
    if not node.is_quantized():
        return op.where(node[0] >= 0, node[0], node[0] * node[1])
    given, slope, wanted = node.input_quantization(), node.input_quantization(1), node.output_quantization()
    same = fixed_point.rescaling(given, wanted, np.float32)
    product = float(np.float32(given.step) * np.float32(slope.step)) / wanted.step
    below = fixed_point.quantize_multiplier(product)
    x, a = fixed_point.centred(node, 0), fixed_point.centred(node, 1)
    rising = fixed_point.multiply(x, *same)
    falling = fixed_point.multiply(x * (broadcast_to(a, node.shape()) if node.shape(1) != node.shape() else a), *below)
    value = op.where(x >= 0, rising, falling)
    return fixed_point.finish(node, value, "NONE")


def unary(function: Callable[[Expr], Expr], table: Callable[[np.ndarray], Any] | None = None) -> Callable[[Node], Expr]:
    """A converter of an element-wise function of floats; on quantized tensors through a table, where there is one."""

    def convert(node: Node) -> Expr:
        if not node.is_quantized() or node.dtype() != node.output().dtype:
            return function(node[0])
        if table is None:
            node.unsupported("quantized tensors")
        return fixed_point.real_table(node, table)

    return convert


def _by_kernels(
    function: Callable[[Expr], Expr], of_16_bits: Callable[[Node, np.ndarray], np.ndarray],
    table: Callable[[np.ndarray], np.ndarray],
) -> Callable[[Node], Expr]:  # fmt: skip
    """As `unary`, with a kernel of its own for 16 bits."""

    def convert(node: Node) -> Expr:
        if node.is_quantized() and node.dtype() == "int16":
            return fixed_point.by_table(node, partial(of_16_bits, node))
        return fixed_point.real_table(node, table) if node.is_quantized() else function(node[0])

    return convert


converts.functions({
    "LOGISTIC": _by_kernels(op.sigmoid, _sigmoid_16, _sigmoid), "TANH": _by_kernels(op.tanh, _tanh_16, np.tanh),
    "ELU": unary(functions.elu, lambda x: np.where(x < 0, np.expm1(x), x)),
})  # fmt: skip
