"""LSTM in integers: data and weights of 8 bits, gates and cell of 16 bits, sums scaled twice as the kernels do.

A gate is two sums of products, each scaled to Q3.12 (or the gate's own scale) and held to 16 bits, and a table of all
its numbers; the cell is a product with the forget gate plus one with the input gate, each rounded on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant, index_axis
from tilewright.frontend.tflite.fixed_point import (
    divide_by_power,
    looked_up,
    multiply,
    quantize_multiplier,
    sigmoid_16,
    tanh_16,
)
from tilewright.frontend.tflite.model import Quantization
from tilewright.frontend.tflite.node import Node
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_OUTPUT_STATE, _CELL_STATE, _PROJECTION, _NORMS = 18, 19, 16, 20
_INT16 = (-(1 << 15), (1 << 15) - 1)


def convert_integer_lstm(node: Node, rows: Expr, steps: int) -> Expr:
    """Results [T, B, width] of `rows` [T, B, width] of int8; the states are kept."""
    layer = _IntegerLstm(node)
    hidden, cell = node[_OUTPUT_STATE], cast(node[_CELL_STATE], "int32")
    fresh = {gate: layer.fresh(gate, rows) for gate in layer.gates}
    found = []
    for position in range(steps):
        hidden, cell = layer.step({gate: index_axis(value, 0, position) for gate, value in fresh.items()}, hidden, cell)
        found.append(hidden)
    node.keep(_OUTPUT_STATE, hidden)
    node.keep(_CELL_STATE, cast(cell, "int16"))
    return op.stack(found, axis=0)


class _IntegerLstm:
    def __init__(self, node: Node) -> None:
        self.node = node
        if node.dtype() != "int8" or len(node.operator.intermediates) > 5:
            node.unsupported(f"an LSTM of {node.dtype()} with {len(node.operator.intermediates)} intermediates")
        if node.has(_NORMS + _FORGET):
            node.unsupported("the normalization of an LSTM in integers")
        if node.has(_PROJECTION) and node.has(9 + 2):
            # the reference kernel takes the projection's width for the cell's there
            node.unsupported("peepholes with a projection in integers")
        self.coupled = not node.has(1 + _INPUT)
        self.gates = [_FORGET, _CELL, _OUTPUT] if self.coupled else [_INPUT, _FORGET, _CELL, _OUTPUT]
        self.cell_exponent = round(math.log2(self._scale(_CELL_STATE)))
        if 2.0**self.cell_exponent != self._scale(_CELL_STATE) or not -15 <= self.cell_exponent <= -9:
            node.unsupported(
                f"a cell of scale {self._scale(_CELL_STATE)}; powers of two from 2^-15 to 2^-9 are supported"
            )
        self.hidden = self._hidden()

    def _scale(self, index: int) -> np.float32:
        return np.float32(self.node.input_quantization(index).step)

    def _zero(self, index: int) -> int:
        return self.node.input_quantization(index).zero

    def _hidden(self) -> Quantization:
        """The quantization of the projection's input, or of the result where there is none."""
        positions = self.node.operator.intermediates
        if len(positions) < 5:
            return self.node.input_quantization(_OUTPUT_STATE)
        found = self.node.graph.tensors[positions[4]].quantization
        return self.node.input_quantization(_OUTPUT_STATE) if found is None else found

    def fresh(self, gate: int, rows: Expr) -> Expr:
        """A gate's product with the data of all steps, in 16 bits."""
        return self._product(rows, 0, 1 + gate, 12 + gate)

    def _product(self, data: Expr, source: int, weight: int, bias: int | None) -> Expr:
        """Rows times the weights of an input, Q3.12, as int32; the input `source` says how they are quantized."""
        factor = np.float32(self._scale(weight) * self._scale(source)) / np.float32(2.0**-12)
        return op.clip(
            multiply(self._sums(data, self._zero(source), weight, bias), *quantize_multiplier(float(factor))), *_INT16
        )

    def _sums(self, data: Expr, zero: int, weight: int, bias: int | None) -> Expr:
        node = self.node
        shape = node.shape(data)
        matrix = node.static(weight, "weights").astype(np.int64)
        added = -zero * matrix.sum(axis=1)
        if bias is not None and node.has(bias):
            added = added + node.static(bias, "bias").astype(np.int64)
        flat = op.reshape(data, newshape=(-1, shape[-1]))
        sums = op.nn.dense(cast(flat, "int32"), constant(matrix, "int32"))
        sums = sums + added
        return op.reshape(sums, newshape=(*shape[:-1], matrix.shape[0]))

    def step(self, fresh: dict[int, Expr], hidden: Expr, cell: Expr) -> tuple[Expr, Expr]:
        """(the result as int8, the cell as int32) behind one step."""
        forget = self._gate(_FORGET, fresh, hidden, cell)
        candidate = self._gate(_CELL, fresh, hidden, cell)
        let_in = _INT16[1] - forget if self.coupled else self._gate(_INPUT, fresh, hidden, cell)
        kept = _narrow(divide_by_power(forget * cell, 15))
        added = _narrow(divide_by_power(let_in * candidate, 30 + self.cell_exponent))
        after = op.clip(kept + added, *_INT16)
        clip = float(self.node.option("cell_clip", 0.0))
        if clip > 0:
            most = int(np.clip(np.float32(clip) / self._scale(_CELL_STATE), -32768.0, 32767.0))
            after = op.clip(after, -most, most)
        gate = self._gate(_OUTPUT, fresh, hidden, after)
        bits = 15 + self.cell_exponent
        return self._result(gate * _looked_up(after, lambda codes: tanh_16(codes, bits))), after

    def _gate(self, gate: int, fresh: dict[int, Expr], hidden: Expr, cell: Expr) -> Expr:
        value = self._product(hidden, _OUTPUT_STATE, 5 + gate, None)
        value = op.clip(fresh[gate] + value, *_INT16)
        peephole = 9 + (0, 1, -1, 2)[gate]
        if gate != _CELL and self.node.has(peephole):
            factor = np.float32(2.0**self.cell_exponent * self._scale(peephole)) / np.float32(2.0**-12)
            product = cast(self.node[peephole], "int32") * cell
            value = op.clip(multiply(product, *quantize_multiplier(float(factor))) + value, *_INT16)
        return _looked_up(value, lambda codes: tanh_16(codes, 3) if gate == _CELL else sigmoid_16(codes, 3))

    def _result(self, product: Expr) -> Expr:
        """A gate times the cell's function, Q0.30, as the result, through the projection where there is one."""
        factor = np.float32(2.0**-15 / float(self.hidden.scale[0]) * 2.0**-15)
        value = multiply(product, *quantize_multiplier(float(factor)))
        # the kernels take the zero point off what they project
        zero = -self.hidden.zero if self.node.has(_PROJECTION) else self.hidden.zero
        value = cast(op.clip(value + zero, -128, 127), "int8")
        if not self.node.has(_PROJECTION):
            return value
        scale = np.float32(self._scale(_PROJECTION) * self.hidden.scale[0]) / self._scale(_OUTPUT_STATE)
        sums = self._sums(value, zero, _PROJECTION, _PROJECTION + 1)
        value = multiply(sums, *quantize_multiplier(float(scale)))
        value = op.clip(value + self._zero(_OUTPUT_STATE), -128, 127)
        clip = float(self.node.option("proj_clip", 0.0))
        if clip > 0:
            most = int(np.clip(np.float32(clip) / self._scale(_OUTPUT_STATE), -128.0, 127.0))
            value = op.clip(value, -most, most)
        return cast(value, "int8")


def _narrow(value: Expr) -> Expr:
    """The low 16 bits, as C casts."""
    return cast(cast(value, "int16"), "int32")


def _looked_up(value: Expr, function: Callable[[np.ndarray], Any]) -> Expr:
    """int32 numbers of 16 bits through the table of `function`."""
    table = function(np.arange(_INT16[0], _INT16[1] + 1, dtype=np.int64))
    return looked_up(table, value - _INT16[0])
