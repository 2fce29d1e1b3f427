"""DynamicQuantizeLSTM (com.microsoft): ONNX's LSTM whose weights W and R are bytes with a scale and zero point.

The inputs of all steps become bytes by the range that they have together, the state of each step by that of the whole
batch; both products are of bytes, with sums in int32. So does onnxruntime on one thread: with more it gives each thread
rows of the batch, and their state a range of its own (1e-3 apart after three layers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontend.onnx.build import cast, constant
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.quantize import dynamically_quantized
from tilewright.frontend.onnx.recurrent import LayerWeights, recurrent_layer
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def convert(node: OnnxNode) -> list[Expr]:
    """The layer with products of bytes; W and R are stored [directions, inputs, gates * hidden].

    Inputs: X, W, R, B, lengths, initial h and c, peepholes, W scale and zero point, R scale and zero point.
    """
    w, r = _Bytes.of(node, 1, 8), _Bytes.of(node, 2, 10)
    inputs: list[Any] = [node.inputs[0], *(constant(x.codes, "int8") for x in (w, r)), *node.inputs[3:8]]
    plain = OnnxNode(_as_lstm(node.proto), node.label, node.span, 14, inputs, node.importer, node.env, node.opsets)
    node.ignore(*[entry.name for entry in node.proto.attribute])
    options = {"scale": constant(r.scale, "float32"), "columns": constant(r.columns, "int32")}
    if r.zero.any():
        options["zero"] = constant(r.zero, "int32")
    return recurrent_layer(
        plain, LayerWeights(lambda data: _product(plain, data, w), constant(r.codes, "int8"), options)
    )


@dataclass(frozen=True)
class _Bytes:
    """Weights that stand for (codes - zero) * scale: int8 [D, G * H, inputs], the others [D, G * H]."""

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """The sum of the codes less the zero point, [D, G * H]."""
        return self.codes.sum(axis=2, dtype=np.int64) - self.zero * self.codes.shape[2]

    @staticmethod
    def of(node: OnnxNode, weight: int, scale: int) -> _Bytes:
        """Input `weight`, whose scale and zero point, by direction or unit of a gate, are input `scale` and after."""
        values = node.static(weight, "weights").transpose(0, 2, 1)
        shift = 128 if values.dtype == np.uint8 else 0
        numbers = []
        for index, name in ((scale, "scale"), (scale + 1, "zero point")):
            given = node.static(index, name)
            given = given.reshape(-1, 1) if given.size in (1, values.shape[0]) else given
            numbers.append(np.broadcast_to(given, values.shape[:2]))
        codes = (values.astype(np.int16) - shift).astype(np.int8)
        return _Bytes(codes, numbers[0].astype(np.float32), numbers[1].astype(np.int64) - shift)


def _product(node: OnnxNode, data: Expr, weights: _Bytes) -> Expr:
    """Rows [M, width] times W, float32 [M, D * G * H]."""
    codes, scale, zero = dynamically_quantized(node, data)
    centred = op.subtract(cast(node, codes, "int32"), cast(node, zero, "int32"))
    units = weights.scale.size
    product = op.nn.dense(centred, constant(weights.codes.reshape(units, -1), "int32"), units=units)
    if weights.zero.any():
        rows = op.sum(centred, axis=[1], keepdims=True)
        product = op.subtract(product, op.multiply(rows, constant(weights.zero.reshape(1, -1), "int32")))
    factor = op.multiply(scale, constant(weights.scale.reshape(1, -1), "float32"))
    return op.multiply(cast(node, product, "float32"), factor)


def _as_lstm(proto: Any) -> Any:
    copy = type(proto)()
    copy.CopyFrom(proto)
    copy.op_type, copy.domain = "LSTM", ""
    return copy
