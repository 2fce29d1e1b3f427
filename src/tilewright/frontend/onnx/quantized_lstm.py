"""DynamicQuantizeLSTM (com.microsoft): ONNX's LSTM whose weights W and R are integers with a scale and zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.onnx.build import constant
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.recurrent import convert_recurrent
from tilewright.relay.ir.expr import Expr


def convert(node: OnnxNode) -> list[Expr]:
    """The layer in real numbers: W and R, stored [directions, inputs, gates], dequantized and transposed.

    Inputs: X, W, R, B, lengths, initial h and c, peepholes, W scale and zero point, R scale and zero point.
    """
    weights = [constant(_real(node, index, scale).transpose(0, 2, 1), "float32") for index, scale in ((1, 8), (2, 10))]
    inputs: list[Any] = [node.inputs[0], *weights, *node.inputs[3:8]]
    plain = OnnxNode(_as_lstm(node.proto), node.label, node.span, 14, inputs, node.importer, node.env, node.opsets)
    node.ignore(*[entry.name for entry in node.proto.attribute])
    return convert_recurrent(plain)


def _as_lstm(proto: Any) -> Any:
    copy = type(proto)()
    copy.CopyFrom(proto)
    copy.op_type, copy.domain = "LSTM", ""
    return copy


def _real(node: OnnxNode, weight: int, scale: int) -> np.ndarray:
    """Integer weights [directions, inputs, gates] as real numbers; scales by direction or by gate."""
    values = node.static(weight, "weights").astype(np.float32)
    factor, zero = (
        node.static(scale, "scale").astype(np.float32),
        node.static(scale + 1, "zero point").astype(np.float32),
    )
    spread = [part.reshape(part.shape[0], 1, -1) if part.size > 1 else part.reshape(-1) for part in (factor, zero)]
    return (values - spread[1]) * spread[0]
