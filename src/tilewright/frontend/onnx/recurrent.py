"""LSTM, GRU and RNN: the product of all steps' inputs with W, then one recurrent operator over the steps.

The product with the inputs does not depend on the state, so it is one `dense` over all steps and directions, with every
bias that can be added ahead of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import broadcast_to, cast, constant, slice_axis
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.node import OnnxNode, reshape, sized, transpose
from tilewright.frontend.onnx.quantize import dynamically_quantized
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem
from tilewright.runtime.host_ops.recurrent import DIRECTIONS, activations_of
from tilewright.topi.recurrent import Activation

_LAYERS: dict[str, Callable[..., Expr]] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn": op.nn.rnn}


@dataclass(frozen=True)
class LayerWeights:
    """The products of a layer: `product` returns rows [M, width] times W, [M, directions * gates * hidden]; `recurrent`
    is R as the layer takes it, with its operands in `options`.
    """

    product: Callable[[Expr], Expr]
    recurrent: Expr
    options: Mapping[str, Expr]


@converts("LSTM", "GRU", "RNN")
def convert_recurrent(node: OnnxNode) -> list[Expr]:
    """Outputs Y (steps, directions, batch, hidden), Y_h and, for an LSTM, Y_c (directions, batch, hidden)."""
    dtype = _working(node)
    if not is_static((*node.shape(1), *node.shape(2))):
        node.unsupported("weights of symbolic sizes")
    directions, rows, width = node.shape(1)
    weight = reshape(node, cast(node[1], dtype), (directions * rows, width))
    return recurrent_layer(
        node, LayerWeights(lambda data: op.nn.dense(data, weight, units=directions * rows), cast(node[2], dtype), {})
    )


def _working(node: OnnxNode) -> str:
    return "float32" if node.dtype().is_half else str(node.dtype())


def recurrent_layer(node: OnnxNode, weights: LayerWeights) -> list[Expr]:
    """`convert_recurrent` with the products of `weights`; of the node's W and R only the shapes are read."""
    kind = node.op_type.lower()
    batch_first = bool(node.attr("layout", 0))
    dtype = _working(node)
    if node.rank() != 3:
        raise ModelError(f"{node.label}: it takes [steps, batch, width], not an input of shape {list(node.shape())}")
    data = transpose(cast(node[0], dtype), (1, 0, 2) if batch_first else (0, 1, 2))
    direction = node.choice("direction", "forward", tuple(DIRECTIONS))
    node.ignore("output_sequence")
    steps, batch, _ = node.shape(data)
    hidden = int(node.attr("hidden_size", node.shape(2)[2]))
    late = kind == "gru" and bool(node.attr("linear_before_reset", 0))
    shape = (len(DIRECTIONS[direction]), batch, hidden)
    inputs = [_gate_inputs(node, data, kind, hidden, late, weights), weights.recurrent]
    inputs += [_initial(node, index, shape, batch_first, dtype) for index in ((5, 6) if kind == "lstm" else (5,))]
    options: dict[str, Any] = {
        "direction": direction,
        "activations": _activations(node, kind, len(DIRECTIONS[direction])),
        "clip": float(node.attr("clip", 0.0) or 0.0),
        "lengths": _lengths(node, steps),
        **weights.options,
    }
    if kind == "lstm":
        options["input_forget"] = bool(node.attr("input_forget", 0))
        options["peephole"] = cast(node[7], dtype) if node.has(7) else None
    if kind == "gru":
        options["linear_before_reset"] = late
        biased = late and node.has(3)
        options["bias"] = slice_axis(cast(node[3], dtype), 1, 5 * hidden, 6 * hidden) if biased else None
    layer = _LAYERS[kind](*inputs, **options)
    outputs: list[Expr] = [TupleGetItem(layer, index) for index in range(3 if kind == "lstm" else 2)]
    if batch_first:
        outputs = [transpose(outputs[0], (2, 0, 1, 3)), *[transpose(value, (1, 0, 2)) for value in outputs[1:]]]
    return [cast(value, node.dtype()) for value in outputs]


def _gate_inputs(node: OnnxNode, data: Expr, kind: str, hidden: int, late: bool, weights: LayerWeights) -> Expr:
    """x W plus every bias that can be added ahead of the state: (steps, batch, directions * gates * hidden)."""
    steps, batch, width = node.shape(data)
    directions, rows, _ = node.shape(1)
    dtype = node.dtype(data)
    product = weights.product(reshape(node, data, (steps * batch, width)))
    if node.has(3):
        both = cast(node[3], dtype)
        ahead, recurrent = (slice_axis(both, 1, half * rows, (half + 1) * rows) for half in (0, 1))
        if late:  # The candidate's recurrent bias is gated, so the layer adds it.
            kept = np.ones((1, rows))
            kept[:, 2 * hidden :] = 0
            recurrent = recurrent * constant(kept, dtype)
        product = op.nn.bias_add(product, reshape(node, ahead + recurrent, (directions * rows,)), axis=1)
    return reshape(node, product, (steps, batch, directions * rows))


def _initial(node: OnnxNode, index: int, shape: tuple[int, Any, int], batch_first: bool, dtype: str) -> Expr:
    """A first state (directions, batch, hidden), zeros where the node has none."""
    if node.has(index):
        given = transpose(cast(node[index], dtype), (1, 0, 2) if batch_first else (0, 1, 2))
        given = sized(node, sized(node, given, 0, shape[0]), 2, shape[2])
        if isinstance(shape[1], int):
            return sized(node, given, 1, shape[1])
        # A state of one sample, in a model whose batch varies, is that of every sample; others are as many as samples.
        return broadcast_to(given, shape)
    if isinstance(shape[1], int):
        return constant(np.zeros(shape), dtype)
    return broadcast_to(constant(np.zeros((shape[0], 1, shape[2])), dtype), shape)


def _lengths(node: OnnxNode, steps: Any) -> Expr | None:
    """The steps of each sequence; None where all are known to have every step."""
    if not node.has(4):
        return None
    known = node.array(4)
    if known is not None and isinstance(steps, int) and (known == steps).all():
        return None
    return cast(node[4], "int32")


def _activations(node: OnnxNode, kind: str, directions: int) -> list[Activation]:
    """The activation functions of all directions."""
    alphas, betas = node.attr("activation_alpha") or (), node.attr("activation_beta") or ()
    try:
        return [Activation(*one) for one in activations_of(kind, directions, node.attr("activations"), alphas, betas)]
    except ValueError as error:
        node.unsupported(str(error))


# --------- DynamicQuantizeLSTM (com.microsoft): ONNX's LSTM whose weights W and R are bytes with a scale and zero point
def convert_quantized_lstm(node: OnnxNode) -> list[Expr]:
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
    centred = cast(codes, "int32") - cast(zero, "int32")
    units = weights.scale.size
    product = op.nn.dense(centred, constant(weights.codes.reshape(units, -1), "int32"), units=units)
    if weights.zero.any():
        rows = op.sum(centred, axis=[1], keepdims=True)
        product = product - rows * constant(weights.zero.reshape(1, -1), "int32")
    factor = scale * constant(weights.scale.reshape(1, -1), "float32")
    return cast(product, "float32") * factor


def _as_lstm(proto: Any) -> Any:
    copy = type(proto)()
    copy.CopyFrom(proto)
    copy.op_type, copy.domain = "LSTM", ""
    return copy
