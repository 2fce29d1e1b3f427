"""LSTM, GRU and RNN layers, and single steps of them."""

from __future__ import annotations

from tilewright.frontend.idioms import shape_of, slice_axis, transpose
from tilewright.frontend.recurrent_layers import recurrent_layers
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def convert_recurrent(node: TorchNode) -> list[Expr]:
    """Outputs (steps, batch, directions * hidden), then the last states (layers * directions, batch, hidden)."""
    if node["train"] and node["dropout"] != 0 and node["num_layers"] > 1:
        node.unsupported("dropout in training, which draws random numbers,")
    name = node.target.split(".")[1]
    states = node["hx"] if name == "lstm" else [node["hx"]]
    data = transpose(node["input"], (1, 0, 2)) if node["batch_first"] else node["input"]
    each, weights = 4 if node["has_biases"] else 2, node["params"]
    count = (2 if node["bidirectional"] else 1) * node["num_layers"]
    if len(weights) != each * count:
        node.unsupported("a projection of the state")
    parts = [weights[each * place : each * (place + 1)] for place in range(count)]
    made, *ends = recurrent_layers(name, data, parts, states, node["num_layers"])
    return [transpose(made, (1, 0, 2)) if node["batch_first"] else made, *ends]


@converts("aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell")
def convert_cell(node: TorchNode) -> Expr | list[Expr]:
    """One step of a recurrent layer."""
    name = node.target.split(".")[1]
    state = node["hx"][0] if name == "lstm_cell" else node["hx"]
    parts = []
    for value, place in ((node["input"], "ih"), (state, "hh")):
        weight, bias = node[f"w_{place}"], node[f"b_{place}"]
        made = op.nn.dense(value, weight, units=shape_of(weight)[0])
        parts.append(made if bias is None else op.nn.bias_add(made, bias, axis=1))
    if name.startswith("rnn"):
        return (op.tanh if "tanh" in name else op.nn.relu)(op.add(*parts))
    hidden = shape_of(state)[1]

    def gate(value: Expr, place: int) -> Expr:
        return slice_axis(value, 1, place * hidden, (place + 1) * hidden)

    if name == "gru_cell":
        reset, update = (op.sigmoid(op.add(gate(parts[0], place), gate(parts[1], place))) for place in range(2))
        new = op.tanh(op.add(gate(parts[0], 2), op.multiply(reset, gate(parts[1], 2))))
        return op.add(new, op.multiply(update, op.subtract(state, new)))
    whole = op.add(*parts)
    kept = op.multiply(op.sigmoid(gate(whole, 1)), node["hx"][1])
    cell = op.add(kept, op.multiply(op.sigmoid(gate(whole, 0)), op.tanh(gate(whole, 2))))
    return [op.multiply(op.sigmoid(gate(whole, 3)), op.tanh(cell)), cell]
