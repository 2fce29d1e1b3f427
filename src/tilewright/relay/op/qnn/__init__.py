"""Operators on quantized tensors: integers `q` that stand for the real numbers `scale * (q - zero_point)`.

Importing this package registers them. They are composites: the pass `expand_operators` spells them out in plain
operators before anything else is done to a graph, so they have no compute of their own, and take part in fusion as
what they became.

Rounding is to the nearest integer, ties to even, as in ONNX; `requantize` offers the classic ways as well.
"""

from tilewright.relay.op.qnn.arithmetic import add, concatenate, mul, subtract
from tilewright.relay.op.qnn.products import batch_matmul, conv1d, conv2d, conv2d_transpose, conv3d, dense
from tilewright.relay.op.qnn.quantize import (
    dequantize,
    quantize,
    requantize,
    simulated_dequantize,
    simulated_quantize,
)

__all__ = [
    "add",
    "batch_matmul",
    "concatenate",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "dense",
    "dequantize",
    "mul",
    "quantize",
    "requantize",
    "simulated_dequantize",
    "simulated_quantize",
    "subtract",
]
