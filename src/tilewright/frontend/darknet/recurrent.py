"""Recurrent layers: a run is one step, whose states are inputs and outputs of the model.

Weights stand in the order of the maintained fork (https://github.com/AlexeyAB/darknet): for a GRU those of the input
first, for an LSTM those of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.darknet.nn import Layer, connected, convolution
from tilewright.frontend.darknet.node import DarknetNode, converts
from tilewright.frontend.idioms import shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _products(node: DarknetNode, names: Sequence[str], inputs: int, units: int) -> list[Layer]:
    """The next matrices of the weights, without activation."""
    return [connected(node, inputs, units, name, "linear") for name in names]


def _sizes(node: DarknetNode) -> tuple[Expr, int, int]:
    """The input, its size, and the number of units."""
    data = node.flat()
    (inputs,) = node.known(shape_of(data)[1])
    return data, inputs, node.section.integer("output", 1, 1)


@converts("rnn")
def convert_rnn(node: DarknetNode) -> Expr:
    """[rnn]: the state is a layer of the input and one of the state before; a third makes the result."""
    section = node.section
    data, inputs, units = _sizes(node)
    hidden = section.integer("hidden", units, 1)
    activation = section.text("activation", "logistic")
    inner = {0: activation, 1: "logistic", 2: "loggy"}.get(section.integer("logistic", 0), activation)
    layers = [
        connected(node, inputs, hidden, "units of the input", activation),
        connected(node, hidden, hidden, "units of the state", inner),
        connected(node, hidden, units, "units of the result", activation),
    ]
    return _step(node, data, layers, (shape_of(data)[0], hidden))


@converts("crnn")
def convert_crnn(node: DarknetNode) -> Expr:
    """[crnn]: as [rnn], by convolutions."""
    section, data = node.section, node.image()
    channels, height, width = node.known(*shape_of(data)[1:])
    hidden, units = section.integer("hidden", 1, 1), section.integer("output", 1, 1)
    layers = [
        convolution(node, channels, hidden, "filters of the input"),
        convolution(node, hidden, hidden, "filters of the state"),
        convolution(node, hidden, units, "filters of the result"),
    ]
    return _step(node, data, layers, (shape_of(data)[0], hidden, height, width))


def _step(node: DarknetNode, data: Expr, layers: Sequence[Layer], shape: Sequence[object]) -> Expr:
    name = f"{node.name}.state"
    before = node.states.begin(name, shape)
    state = layers[0](data) + layers[1](before)
    if node.section.integer("shortcut", 0):
        state = before + state
    node.states.results[name] = state
    return layers[2](state)


@converts("gru")
def convert_gru(node: DarknetNode) -> Expr:
    """[gru]: the new memory goes through the logistic function, unless `tanh` says otherwise."""
    data, inputs, units = _sizes(node)
    input_z, input_r, input_h = _products(node, ("z of the input", "r of the input", "h of the input"), inputs, units)
    state_z, state_r, state_h = _products(node, ("z of the state", "r of the state", "h of the state"), units, units)
    name = f"{node.name}.state"
    state = node.states.begin(name, (shape_of(data)[0], units))
    update = op.sigmoid(input_z(data) + state_z(state))
    reset = op.sigmoid(input_r(data) + state_r(state))
    memory = input_h(data) + state_h(reset * state)
    memory = op.tanh(memory) if node.section.integer("tanh", 0) else op.sigmoid(memory)
    kept = (1 - update) * memory
    node.states.results[name] = result = update * state + kept
    return result


@converts("lstm")
def convert_lstm(node: DarknetNode) -> Expr:
    """[lstm]"""
    data, inputs, units = _sizes(node)
    shape = (shape_of(data)[0], units)
    of_state = _products(node, [f"{gate} of the state" for gate in "figo"], units, units)
    of_input = _products(node, [f"{gate} of the input" for gate in "figo"], inputs, units)
    hidden_name, cell_name = f"{node.name}.state", f"{node.name}.cell"
    hidden, cell = node.states.begin(hidden_name, shape), node.states.begin(cell_name, shape)
    forget, enter, memory, out = (w(hidden) + u(data) for w, u in zip(of_state, of_input))
    kept = op.sigmoid(forget) * cell
    node.states.results[cell_name] = cell = kept + op.sigmoid(enter) * op.tanh(memory)
    node.states.results[hidden_name] = result = op.sigmoid(out) * op.tanh(cell)
    return result
