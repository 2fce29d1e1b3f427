"""LSTM, GRU and RNN, unrolled over their static number of steps.

The product of the inputs with W does not depend on the state, so it is taken out of the loop: one `dense` over all
steps. What remains per step is one `dense` of the state with R (two for a GRU that applies the reset gate first) and
elementwise work. All steps are alike, so they compile to one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.frontend.onnx import activation
from tilewright.frontend.onnx.build import (
    concatenate,
    constant,
    index_axis,
    reshape,
    scalar_like,
    slice_axis,
    transpose,
)
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.expr import Expr

Activation = Callable[[Expr], Expr]
Step = Callable[["Layer", Expr, Expr, "Expr | None"], "tuple[Expr, Expr | None]"]

_DEFAULT_ALPHA = {
    "LeakyRelu": 0.01,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "ThresholdedRelu": 1.0,
    "ScaledTanh": 1.0,
    "Affine": 1.0,
}
_DEFAULT_BETA = {"HardSigmoid": 0.5, "ScaledTanh": 1.0, "Affine": 0.0}
_TAKES_ALPHA, _TAKES_BETA = frozenset(_DEFAULT_ALPHA), frozenset(_DEFAULT_BETA)


@dataclass(frozen=True)
class Layer:
    """One direction of a recurrent node: recurrent weights, biases that stay inside the loop, and activations."""

    node: OnnxNode
    hidden: int
    recurrent: list[Expr]  # one (gates * hidden, hidden), or that of the gates and that of the candidate apart
    bias: Expr | None  # what must be added to the recurrent product before it is gated, (hidden,)
    peephole: list[Expr]
    activations: list[Activation]
    linear_before_reset: bool
    couple_gates: bool

    def gate(self, value: Expr, index: int) -> Expr:
        """Columns of gate `index` of a (batch, gates * hidden) expression."""
        return slice_axis(self.node, value, 1, index * self.hidden, (index + 1) * self.hidden)

    def project(self, state: Expr, block: int = 0) -> Expr:
        """`state` times one block of the recurrent weights."""
        rows = self.recurrent[block]
        return op.nn.dense(state, rows, units=self.node.shape(rows)[0])


def _rnn_step(layer: Layer, inputs: Expr, hidden: Expr, _: Expr | None) -> tuple[Expr, Expr | None]:
    """h' = f(x W + h R + b)."""
    return layer.activations[0](op.add(inputs, layer.project(hidden))), None


def _lstm_step(layer: Layer, inputs: Expr, hidden: Expr, cell: Expr | None) -> tuple[Expr, Expr | None]:
    """Gates in ONNX order: input, output, forget, candidate."""
    assert cell is not None
    squash, candidate, output = layer.activations
    gates = op.add(inputs, layer.project(hidden))

    def peep(index: int, state: Expr) -> Expr:
        gate = layer.gate(gates, index)
        return op.add(gate, op.multiply(layer.peephole[index], state)) if layer.peephole else gate

    into = squash(peep(0, cell))
    forget = op.subtract(scalar_like(layer.node, 1, into), into) if layer.couple_gates else squash(peep(2, cell))
    fresh = op.add(op.multiply(forget, cell), op.multiply(into, candidate(layer.gate(gates, 3))))
    return op.multiply(squash(peep(1, fresh)), output(fresh)), fresh


def _gru_step(layer: Layer, inputs: Expr, hidden: Expr, _: Expr | None) -> tuple[Expr, Expr | None]:
    """Gates in ONNX order: update, reset, candidate. The reset gate acts on the state or on its product (opset 3)."""
    squash, candidate = layer.activations
    projected = layer.project(hidden)
    update = squash(op.add(layer.gate(inputs, 0), layer.gate(projected, 0)))
    reset = squash(op.add(layer.gate(inputs, 1), layer.gate(projected, 1)))
    if layer.linear_before_reset:
        inner = layer.gate(projected, 2)
        inner = inner if layer.bias is None else op.add(inner, layer.bias)
        proposal = candidate(op.add(layer.gate(inputs, 2), op.multiply(reset, inner)))
    else:
        proposal = candidate(op.add(layer.gate(inputs, 2), layer.project(op.multiply(reset, hidden), 1)))
    return op.add(proposal, op.multiply(update, op.subtract(hidden, proposal))), None


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent cell: gate count, default activations and step."""

    gates: int
    activations: tuple[str, ...]
    step: Step


_CELLS = {
    "RNN": Cell(1, ("Tanh",), _rnn_step),
    "LSTM": Cell(4, ("Sigmoid", "Tanh", "Tanh"), _lstm_step),
    "GRU": Cell(3, ("Sigmoid", "Tanh"), _gru_step),
}


@converts(*_CELLS)
def convert_recurrent(node: OnnxNode) -> list[Expr]:
    """Outputs Y (steps, directions, batch, hidden), Y_h and, for an LSTM, Y_c (directions, batch, hidden)."""
    cell = _CELLS[node.op_type]
    batch_first = bool(node.attr("layout", 0))
    data = transpose(node[0], (1, 0, 2)) if batch_first else node[0]
    steps, batch, _ = node.shape(data)
    _check_lengths(node, steps)
    node.ignore("output_sequence")
    direction = node.choice("direction", "forward", ("forward", "reverse", "bidirectional"))
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    functions = _activations(node, cell, len(backward))
    results = []
    for index, reverse in enumerate(backward):
        count = len(cell.activations)
        layer = _layer(node, cell, index, functions[index * count : (index + 1) * count])
        inputs = _projected_inputs(node, cell, layer, data, index)
        hidden = _initial(node, 5, index, (batch, layer.hidden), batch_first)
        state = _initial(node, 6, index, (batch, layer.hidden), batch_first) if node.op_type == "LSTM" else None
        results.append(_unroll(cell, layer, inputs, steps, reverse, hidden, state))
    return _gather_outputs(node, results, batch_first)


def _check_lengths(node: OnnxNode, steps: int) -> None:
    if node.has(4):
        lengths = node.static(4, "sequence_lens")
        if (lengths != steps).any():
            node.unsupported(f"sequence_lens {lengths.tolist()}; every sequence must have all {steps} steps")


def _activations(node: OnnxNode, cell: Cell, directions: int) -> list[Activation]:
    """The activation functions of all directions; alphas and betas are handed out to those that take one, in order."""
    names = node.attr("activations") or list(cell.activations) * directions
    alphas, betas = list(node.attr("activation_alpha") or []), list(node.attr("activation_beta") or [])
    limit = node.attr("clip")
    functions = []
    for index, name in enumerate(names):
        alpha = alphas.pop(0) if alphas and name in _TAKES_ALPHA else _DEFAULT_ALPHA.get(name, 0.0)
        beta = betas.pop(0) if betas and name in _TAKES_BETA else _DEFAULT_BETA.get(name, 0.0)
        function = _activation(node, name, alpha, beta)
        of_cell = node.op_type == "LSTM" and index % 3 == 2  # onnxruntime does not clip the cell state
        functions.append(function if of_cell else _clipped(function, limit))
    return functions


def _clipped(function: Activation, limit: float | None) -> Activation:
    return function if not limit else lambda x: function(op.clip(x, a_min=-float(limit), a_max=float(limit)))


def _activation(node: OnnxNode, name: str, alpha: float, beta: float) -> Activation:
    def scaled(x: Expr, factor: float) -> Expr:
        return op.multiply(x, scalar_like(node, factor, x))

    table: dict[str, Activation] = {
        "Sigmoid": op.sigmoid,
        "Tanh": op.tanh,
        "Relu": op.nn.relu,
        "Softplus": lambda x: activation.softplus(node, x),
        "Softsign": lambda x: activation.softsign(node, x),
        "HardSigmoid": lambda x: activation.hard_sigmoid(node, x, alpha, beta),
        "LeakyRelu": lambda x: activation.leaky_relu(node, x, alpha),
        "ThresholdedRelu": lambda x: activation.thresholded_relu(node, x, alpha),
        "Elu": lambda x: activation.elu(node, x, alpha),
        "ScaledTanh": lambda x: scaled(op.tanh(scaled(x, beta)), alpha),
        "Affine": lambda x: op.add(scaled(x, alpha), scalar_like(node, beta, x)),
    }
    if name not in table:
        node.unsupported(f"activation {name!r}; supported: {', '.join(table)}")
    return table[name]


def _layer(node: OnnxNode, cell: Cell, direction: int, functions: list[Activation]) -> Layer:
    hidden = int(node.attr("hidden_size", node.shape(2)[2]))
    late = node.op_type == "GRU" and bool(node.attr("linear_before_reset", 0))
    bias = None
    if late and node.has(3):
        bias = slice_axis(node, index_axis(node, node[3], 0, direction), 0, 5 * hidden, 6 * hidden)
    peephole = []
    if node.op_type == "LSTM" and node.has(7):
        row = index_axis(node, node[7], 0, direction)
        peephole = [slice_axis(node, row, 0, gate * hidden, (gate + 1) * hidden) for gate in range(3)]
    weights = [index_axis(node, node[2], 0, direction)]
    if node.op_type == "GRU" and not late:
        weights = [slice_axis(node, weights[0], 0, *rows) for rows in ((0, 2 * hidden), (2 * hidden, 3 * hidden))]
    return Layer(
        node,
        hidden,
        weights,
        bias,
        peephole,
        functions,
        late,
        node.op_type == "LSTM" and bool(node.attr("input_forget", 0)),
    )


def _projected_inputs(node: OnnxNode, cell: Cell, layer: Layer, data: Expr, direction: int) -> Expr:
    """x W plus every bias that can be added ahead of the loop, for all steps: (steps, batch, gates * hidden)."""
    steps, batch, width = node.shape(data)
    columns = cell.gates * layer.hidden
    flat = reshape(node, data, (steps * batch, width))
    product = op.nn.dense(flat, index_axis(node, node[1], 0, direction), units=columns)
    if node.has(3):
        both = index_axis(node, node[3], 0, direction)
        early, recurrent = (slice_axis(node, both, 0, half * columns, (half + 1) * columns) for half in (0, 1))
        if layer.linear_before_reset:  # The candidate's recurrent bias is gated, so it stays inside the loop.
            kept = np.ones(columns)
            kept[2 * layer.hidden :] = 0
            recurrent = op.multiply(recurrent, constant(kept, node.dtype(recurrent)))
        product = op.nn.bias_add(product, op.add(early, recurrent), axis=1)
    return reshape(node, product, (steps, batch, columns))


def _initial(node: OnnxNode, index: int, direction: int, shape: tuple[int, int], batch_first: bool) -> Expr:
    if not node.has(index):
        return constant(np.zeros(shape), node.dtype())
    return index_axis(node, node[index], 1 if batch_first else 0, direction)


def _unroll(
    cell: Cell, layer: Layer, inputs: Expr, steps: int, reverse: bool, hidden: Expr, state: Expr | None
) -> tuple[list[Expr], Expr | None]:
    """The hidden state after each step, in order of time, and the last cell state."""
    history = []
    for step in reversed(range(steps)) if reverse else range(steps):
        hidden, state = cell.step(layer, index_axis(layer.node, inputs, 0, step), hidden, state)
        history.append(hidden)
    return history[::-1] if reverse else history, state


def _gather_outputs(node: OnnxNode, results: list[tuple[list[Expr], Expr | None]], batch_first: bool) -> list[Expr]:
    backward = node.attr("direction", "forward") == "reverse"
    last = [history[0] if backward or index == 1 else history[-1] for index, (history, _) in enumerate(results)]
    # Each direction is joined over time, (steps, batch, hidden); directions then become axis 1.
    sequences = [op.expand_dims(_stacked(history), axis=1, num_newaxis=1) for history, _ in results]
    outputs = [concatenate(sequences, 1), _stacked(last)]
    if results[0][1] is not None:
        outputs.append(_stacked([state for _, state in results if state is not None]))
    if batch_first:
        outputs = [transpose(outputs[0], (2, 0, 1, 3)), *[transpose(value, (1, 0, 2)) for value in outputs[1:]]]
    return outputs


def _stacked(values: list[Expr]) -> Expr:
    return concatenate([op.expand_dims(value, axis=0, num_newaxis=1) for value in values], 0)
