"""Between real numbers and quantized ones, and from one scale to another."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.idioms import along, cast, constant, dtype_of, round_half_away
from tilewright.frontend.tflite.fixed_point import finish, multiply, rescaling
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


@converts("QUANTIZE")
def convert_quantize(node: Node) -> Expr:
    wanted, dtype = node.output_quantization(), node.output().dtype
    if node.dtype() == "float32":
        scale, zero = (along(part, wanted.axis, node.rank()) for part in (wanted.scale, wanted.zero_point))
        low, high = DType(dtype).limits()
        codes = round_half_away(node[0] / scale) + zero
        return cast(op.clip(codes, int(low), int(high)), dtype)
    given = node.input_quantization()
    factor = rescaling(given, wanted)
    value = cast(node[0], "int32") - given.zero
    return finish(node, multiply(value, *factor), "NONE")


@converts("DEQUANTIZE")
def convert_dequantize(node: Node) -> Expr:
    dtype = node.output().dtype
    if dtype_of(node[0]) in ("float16", "bfloat16", "float32"):
        return cast(node[0], dtype)
    given = node.input_quantization()
    zero = along(given.zero_point, given.axis, node.rank(), "int32")
    return cast(cast(node[0], "int32") - zero, "float32") * along(given.scale, given.axis, node.rank())


@converts("FAKE_QUANT")
def convert_fake_quant(node: Node) -> Expr:
    """Floats to the nearest of 2^num_bits levels between `min` and `max`, moved so that zero is one of them."""
    bits = int(node.option("num_bits"))
    low, high = np.float32(node.option("min")), np.float32(node.option("max"))
    least, most = np.float32(1 if node.option("narrow_range", False) else 0), np.float32((1 << bits) - 1)
    scale = (high - low) / (most - least)
    from_low = least - low / scale
    zero = least if from_low < least else most if from_low > most else np.float32(np.floor(from_low + 0.5))
    nudged_low, nudged_high = (least - zero) * scale, (most - zero) * scale
    inverse = np.float32(1) / scale
    clamped = op.minimum(op.maximum(node[0], nudged_low), nudged_high)
    steps = (clamped - nudged_low) * inverse
    return round_half_away(steps) * scale + nudged_low


@converts("DENSIFY")
def convert_densify(node: Node) -> Expr:
    """The constant that the file holds sparse; it was spread when it was read."""
    return constant(node.static(0, "sparse tensor"), node.output().dtype)
