"""Recurrent layers in floats, or hybrid: float data against weights of 8 bits. One direction or both, over many steps.

A layer multiplies the inputs of all steps at once; what depends on the state is written out step by step, but for an
LSTM without projection and normalization, which is one operator. States are variables of the model.

LSTM: Hochreiter and Schmidhuber (1997) with peepholes and projection as in Sak, Senior and Beaufays (2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.frontend.builders.normalization import normalized
from tilewright.frontend.builders.recurrent_layers import unrolled
from tilewright.frontend.idioms import cast, concatenate, constant, index_axis, outputs, reshape, slice_axis, transpose
from tilewright.frontend.tflite.activation import activate, fused_activation
from tilewright.frontend.tflite.fixed_point import multiply, quantize_multiplier
from tilewright.frontend.tflite.nn import hybrid_product, weight_scales
from tilewright.frontend.tflite.node import Node, converts
from tilewright.frontend.tflite.quantized_lstm import convert_integer_lstm
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.topi.recurrent import Activation

#: Steps that are written out one after the other, at most.
MOST_STEPS = 512
_KNOWN = {"TANH": Activation("Tanh"), "RELU": Activation("Relu"), "NONE": Activation("Affine", 1.0, 0.0)}
#: The gates by their order in the operators' inputs.
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_EPSILON = 1e-8


@dataclass(frozen=True)
class Sequence:
    """Rows of all steps [T, B, width], and back."""

    rows: Expr
    time_major: bool

    @classmethod
    def of(cls, node: Node, value: Expr, time_major: bool) -> Sequence:
        """Of an input [T, B, width], or [B, T, width]."""
        if len(node.shape(value)) != 3:
            node.bad(f"it takes data of three dimensions, not {list(node.shape(value))}")
        return cls(value if time_major else transpose(value, (1, 0, 2)), time_major)

    def steps(self, node: Node) -> int:
        """The number of steps, which must be known and not too large to be unrolled."""
        count = node.shape(self.rows)[0]
        if not isinstance(count, int) or not 0 < count <= MOST_STEPS:
            node.unsupported(f"{count} steps written out; from 1 to {MOST_STEPS} are supported")
        return count

    def back(self, rows: Expr) -> Expr:
        """Results [T, B, width] as the operator returns them."""
        return rows if self.time_major else transpose(rows, (1, 0, 2))


def product(node: Node, data: Expr, index: int) -> Expr:
    """Rows […, width] times the weights [units, width] of input `index`, which may be of 8 bits."""
    shape = node.shape(data)
    if node.rank(index) != 2 or node.shape(index)[1] != shape[-1]:
        node.bad(f"weights {list(node.shape(index))} over rows of {shape[-1]}")
    flat = reshape(data, (-1, shape[-1])) if len(shape) != 2 else data
    if node.is_quantized(index):
        result = hybrid_product(node, flat, node[index], index, op.nn.dense)
    else:
        result = op.nn.dense(flat, node[index])
    return reshape(result, (*shape[:-1], node.shape(index)[0]))


def floats(node: Node, index: int) -> Expr:
    """A vector of weights as floats."""
    if not node.is_quantized(index):
        return node[index]
    return cast(node[index], "float32") * weight_scales(node, index, (-1,))


# ------------------------------------------------------------------------------------------------------------- plain
@converts("RNN")
def convert_rnn(node: Node) -> Expr:
    """Inputs: data [B, width], weights, recurrent weights, bias, state."""
    fresh = op.nn.bias_add(product(node, node[0], 1), node[3], axis=1) + product(node, node[4], 2)
    result = activate(node, fresh, fused_activation(node))
    node.keep(4, result)
    return result


@converts("UNIDIRECTIONAL_SEQUENCE_RNN")
def convert_sequence_rnn(node: Node) -> Expr:
    data = Sequence.of(node, node[0], bool(node.option("time_major", False)))
    return data.back(_rnn(node, data, 1, None, backwards=False))


@converts("BIDIRECTIONAL_SEQUENCE_RNN")
def convert_both_rnns(node: Node) -> list[Expr]:
    """Inputs: data, weights 1-4 forwards and 5-8 backwards, further data 9 with its weights 10 and 11."""
    time_major = bool(node.option("time_major", False))
    data = Sequence.of(node, node[0], time_major)
    aside = Sequence.of(node, node[9], time_major) if node.has(9) else None
    crossed = aside is not None and node.has(10)
    forth = _rnn(node, data, 1, (aside, 10) if crossed else None, backwards=False)
    below = aside if aside is not None and not crossed else data
    back = _rnn(node, below, 5, (aside, 11) if crossed else None, backwards=True)
    return _both(node, data, forth, back)


def _both(node: Node, data: Sequence, forth: Expr, back: Expr) -> list[Expr]:
    if node.option("merge_outputs", False):
        return [data.back(concatenate([forth, back], 2))]
    return [data.back(forth), data.back(back)]


def _rnn(node: Node, data: Sequence, first: int, aside: Any, backwards: bool) -> Expr:
    """Results [T, B, units] of the weights from input `first` on, the state behind them."""
    fresh: Expr = product(node, data.rows, first) + node[first + 2]
    if aside is not None:
        fresh = fresh + product(node, aside[0].rows, aside[1])
    function = fused_activation(node)

    def step(position: int, states: list[Expr]) -> list[Expr]:
        both = index_axis(fresh, 0, position) + product(node, states[0], first + 1)
        return [activate(node, both, function)]

    rows, states = unrolled(data.steps(node), step, [node[first + 3]], backwards)
    node.keep(first + 3, states[0])
    return rows


# -------------------------------------------------------------------------------------------------------------- LSTM
@dataclass(frozen=True)
class Layout:
    """The positions of an LSTM's inputs: `weights` is that of the input gate, `states` those of output and cell.

    `norms` is that of the coefficients of the input gate's normalization, `aside` that of weights over further data.
    """

    weights: int = 1
    states: tuple[int, int] = (18, 19)
    norms: int | None = 20
    aside: int | None = None

    def recurrent(self, gate: int) -> int:
        """The recurrent weights of a gate."""
        return self.weights + 4 + gate

    def peephole(self, gate: int) -> int:
        """The weights from the cell to a gate, of which the cell itself has none."""
        return self.weights + 8 + (0, 1, -1, 2)[gate]

    def bias(self, gate: int) -> int:
        """The bias of a gate."""
        return self.weights + 11 + gate

    @property
    def projection(self) -> int:
        """The weights of the projection; its bias is behind them."""
        return self.weights + 15


class FloatLstm:
    """One direction over floats; `gates` are those there are: without an input gate it lets in what it forgets."""

    def __init__(self, node: Node, layout: Layout) -> None:
        self.node, self.layout = node, layout
        self.coupled = not node.has(layout.weights + _INPUT)
        self.gates = [_FORGET, _CELL, _OUTPUT] if self.coupled else [_INPUT, _FORGET, _CELL, _OUTPUT]
        self.normalized = layout.norms is not None and node.has(layout.norms + _FORGET)
        self.projected = node.has(layout.projection)
        self.function = fused_activation(node)
        self.cell_clip = float(node.option("cell_clip", 0.0))
        self.projection_clip = float(node.option("proj_clip", 0.0))

    def run(self, data: Sequence, aside: Sequence | None, backwards: bool) -> Expr:
        """Results [T, B, width]; the states are kept."""
        states = [self.node[index] for index in self.layout.states]
        rows, after = (self._fused if self._is_plain() else self._written_out)(data, aside, states, backwards)
        for index, state in zip(self.layout.states, after):
            self.node.keep(index, state)
        return rows

    def fresh(self, gate: int, data: Sequence, aside: Sequence | None) -> Expr:
        """A gate's product with the inputs of all steps, its bias added unless it comes behind a normalization."""
        result = product(self.node, data.rows, self.layout.weights + gate)
        if aside is not None and self.layout.aside is not None:
            result = result + product(self.node, aside.rows, self.layout.aside + gate)
        return result if self.normalized else result + self.node[self.layout.bias(gate)]

    def _has_peephole(self) -> bool:
        return self.node.has(self.layout.peephole(_OUTPUT))

    def _is_plain(self) -> bool:
        """True if the operator `nn.lstm` computes it."""
        weights = [self.layout.recurrent(gate) for gate in self.gates]
        return (
            not (self.normalized or self.projected or self.cell_clip > 0)
            and self.function in _KNOWN
            and not any(self.node.is_quantized(index) for index in weights)
        )

    def _fused(self, data: Sequence, aside: Sequence | None, states: list[Expr], backwards: bool) -> Any:
        node, layout = self.node, self.layout
        fresh = {gate: self.fresh(gate, data, aside) for gate in self.gates}
        recurrent = {gate: node[layout.recurrent(gate)] for gate in self.gates}
        peephole = None
        from_cell = {g: floats(node, layout.peephole(g)) for g in self.gates if g != _CELL and self._has_peephole()}
        if self.coupled:  # 1 - sigmoid(x) is sigmoid(-x): what is let in is what is not forgotten
            for parts in (fresh, recurrent, from_cell):
                if _FORGET in parts:
                    parts[_INPUT] = -parts[_FORGET]
        order = (_INPUT, _OUTPUT, _FORGET, _CELL)
        if from_cell:
            peephole = op.expand_dims(concatenate([from_cell[gate] for gate in order[:3]], 0), axis=0)
        function = _KNOWN[self.function]
        call = op.nn.lstm(
            concatenate([fresh[gate] for gate in order], 2),
            op.expand_dims(concatenate([recurrent[gate] for gate in order], 0), axis=0),
            op.expand_dims(states[0], axis=0), op.expand_dims(states[1], axis=0), peephole=peephole,
            direction="reverse" if backwards else "forward", activations=[Activation("Sigmoid"), function, function],
        )  # fmt: skip
        rows, hidden, cell = outputs(call)
        return op.squeeze(rows, axis=(1,)), [op.squeeze(value, axis=(0,)) for value in (hidden, cell)]

    def _written_out(self, data: Sequence, aside: Sequence | None, states: list[Expr], backwards: bool) -> Any:
        fresh = {gate: self.fresh(gate, data, aside) for gate in self.gates}

        def step(position: int, states: list[Expr]) -> list[Expr]:
            return self._step({gate: index_axis(rows, 0, position) for gate, rows in fresh.items()}, *states)

        return unrolled(data.steps(self.node), step, states, backwards)

    def _step(self, fresh: dict[int, Expr], hidden: Expr, cell: Expr) -> list[Expr]:
        node = self.node

        def gate(which: int, cell: Expr) -> Expr:
            value: Expr = fresh[which] + product(node, hidden, self.layout.recurrent(which))
            if which != _CELL and self._has_peephole():
                value = value + floats(node, self.layout.peephole(which)) * cell
            if self.normalized:
                assert self.layout.norms is not None
                value = (
                    normalized(value, (1,), _EPSILON) * node[self.layout.norms + which] + node[self.layout.bias(which)]
                )
            return activate(node, value, self.function) if which == _CELL else op.sigmoid(value)

        forget = gate(_FORGET, cell)
        let_in = 1 - forget if self.coupled else gate(_INPUT, cell)
        after = forget * cell + let_in * gate(_CELL, cell)
        if self.cell_clip > 0:
            after = op.clip(after, -self.cell_clip, self.cell_clip)
        result = gate(_OUTPUT, after) * activate(node, after, self.function)
        return [self._projection(result) if self.projected else result, after]

    def _projection(self, result: Expr) -> Expr:
        position = self.layout.projection
        result = product(self.node, result, position)
        if self.node.has(position + 1):
            result = result + self.node[position + 1]
        clip = self.projection_clip
        return op.clip(result, -clip, clip) if clip > 0 else result


@converts("UNIDIRECTIONAL_SEQUENCE_LSTM")
def convert_sequence_lstm(node: Node) -> Expr:
    data = Sequence.of(node, node[0], bool(node.option("time_major", False)))
    if node.option("diagonal_recurrent_tensors", False):
        node.unsupported("diagonal recurrent weights")
    if node.is_quantized():
        return data.back(convert_integer_lstm(node, data.rows, data.steps(node)))
    return data.back(FloatLstm(node, Layout()).run(data, None, backwards=False))


@converts("BIDIRECTIONAL_SEQUENCE_LSTM")
def convert_both_lstms(node: Node) -> list[Expr]:
    """Inputs: data, weights from 1 on forwards and 18 on backwards, four states, further data with its weights."""
    if node.is_quantized():
        node.unsupported("quantized data")
    time_major = bool(node.option("time_major", True))
    data = Sequence.of(node, node[0], time_major)
    aside = Sequence.of(node, node[39], time_major) if node.has(39) else None
    crossed = aside is not None and node.has(41)
    ahead = Layout(1, (35, 36), None, 40 if crossed else None)
    behind = Layout(18, (37, 38), None, 44 if crossed else None)
    forth = FloatLstm(node, ahead).run(data, aside if crossed else None, backwards=False)
    below = aside if aside is not None and not crossed else data
    back = FloatLstm(node, behind).run(below, aside if crossed else None, backwards=True)
    return _both(node, data, forth, back)


@converts("LSTM")
def convert_lstm(node: Node) -> list[Expr] | Expr:
    """One step: the full form, or the basic one of five inputs, whose state comes in and goes out."""
    if node.choice("kernel_type", ("FULL", "BASIC"), default=0) == "BASIC":
        return _basic_lstm(node)
    rows = op.expand_dims(node[0], axis=0)
    if node.is_quantized():
        return index_axis(convert_integer_lstm(node, rows, 1), 0, 0)
    return index_axis(FloatLstm(node, Layout()).run(Sequence(rows, True), None, backwards=False), 0, 0)


def _basic_lstm(node: Node) -> list[Expr]:
    """Inputs: data, last result, weights of all gates over both, biases, last cell."""
    if node.dtype() != "float32":
        node.unsupported("the basic form on integers")
    both = concatenate([node[0], node[1]], 1)
    gates = op.nn.bias_add(op.nn.dense(both, node[2]), node[3], axis=1)
    let_in, candidate, forget, out = outputs(op.split(gates, indices_or_sections=4, axis=1))
    cell = op.sigmoid(forget) * node[4] + op.sigmoid(let_in) * op.tanh(candidate)
    return [op.sigmoid(out) * op.tanh(cell), cell, both, gates]


# SVDF, a dense layer over time as products of vectors: a filter of the data each, then one over its last results.
_BIAS, _STATE = 3, 4


@converts("SVDF")
def convert_svdf(node: Node) -> Expr:
    """Inputs: data [B, width], filters of the data, filters over time [filters, memory], bias, state."""
    filters, memory = node.shape(2)
    rank = int(node.option("rank"))
    if rank < 1 or filters % rank or prod(node.shape(_STATE)) != node.shape()[0] * filters * memory:
        node.bad(f"{filters} filters of rank {rank} over a memory of {memory}, state {node.shape(_STATE)}")
    integer = node.is_quantized()
    newest = _filtered(node) if integer else product(node, node[0], 1)
    state = reshape(node[_STATE], (node.shape()[0], filters, memory))
    state = concatenate([slice_axis(state, 2, 0, memory - 1), op.expand_dims(newest, axis=2)], 2)
    result = _over_time(node, cast(state, "int32") if integer else state, rank)
    # the position of the newest is free at first: results move on by one step
    zeros = constant(0, node.dtype(_STATE))
    free = op.full(zeros, shape=(node.shape()[0], filters, 1), dtype=node.dtype(_STATE))
    node.keep(_STATE, reshape(concatenate([slice_axis(state, 2, 1, memory), free], 2), node.shape(_STATE)))
    return result


def _filtered(node: Node) -> Expr:
    """The filters' products with int8 data, scaled to the state's int16."""
    data, weight, state = (node.input_quantization(index) for index in (0, 1, _STATE))
    centred = cast(node[0], "int32") - data.zero
    sums = op.nn.dense(centred, cast(node[1], "int32"))
    factor = quantize_multiplier(data.step * weight.step / state.step)
    return cast(op.clip(multiply(sums, *factor), -(1 << 15), (1 << 15) - 1), "int16")


def _over_time(node: Node, state: Expr, rank: int) -> Expr:
    """The filters over time [B, filters, memory] summed in groups of `rank`, biased, as the output."""
    batch, filters, memory = node.shape(state)
    integer = node.is_quantized()
    if integer:
        weight = cast(node[2], "int32")
    elif node.is_quantized(2):
        weight = cast(node[2], "float32") * node.input_quantization(2).step
    else:
        weight = node[2]
    products = reshape(state * weight, (batch, filters // rank, rank * memory))
    result: Expr = op.sum(products, axis=(2,))
    if node.has(_BIAS):
        result = result + node[_BIAS]
    if not integer:
        return activate(node, result, fused_activation(node))
    scales = [node.input_quantization(index).step for index in (_STATE, 2)]
    wanted = node.output_quantization()
    result = multiply(result, *quantize_multiplier(scales[0] * scales[1] / wanted.step))
    return cast(op.clip(result + wanted.zero, -128, 127), "int8")
