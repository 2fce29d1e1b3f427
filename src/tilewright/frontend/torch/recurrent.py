"""LSTM, GRU and RNN layers: of each layer the product of all steps' inputs at once, then one recurrent operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.torch.build import concatenate, like, reshape, shape_of, slice_axis, transpose
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem
from tilewright.topi.recurrent import Activation

_LAYERS: dict[str, Callable[..., Expr]] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn": op.nn.rnn}

#: Gates in the order of Relay's layers (that of ONNX), by their place in PyTorch's weights.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


@converts("aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def convert_recurrent(node: TorchNode) -> list[Expr]:
    """Outputs (steps, batch, directions * hidden), then the last states (layers * directions, batch, hidden)."""
    if node["train"] and node["dropout"] != 0 and node["num_layers"] > 1:
        node.unsupported("dropout in training, which draws random numbers,")
    name = node.target.split(".")[1]
    kind = name.split("_")[0]
    directions = 2 if node["bidirectional"] else 1
    states = node["hx"] if kind == "lstm" else [node["hx"]]
    data = transpose(node["input"], (1, 0, 2)) if node["batch_first"] else node["input"]
    each = 4 if node["has_biases"] else 2
    weights = node["params"]
    if len(weights) != each * directions * node["num_layers"]:
        node.unsupported("a projection of the state")
    last: list[list[Expr]] = [[] for _ in states]
    for layer in range(node["num_layers"]):
        first = layer * directions
        chosen = [weights[each * (first + index) : each * (first + index + 1)] for index in range(directions)]
        initial = [slice_axis(state, 0, first, first + directions) for state in states]
        data, *ends = _layer(kind, name, data, chosen, initial)
        for kept, end in zip(last, ends):
            kept.append(end)
    made = transpose(data, (1, 0, 2)) if node["batch_first"] else data
    return [made, *(concatenate(ends, 0) for ends in last)]


def _layer(kind: str, name: str, data: Expr, weights: list[list[Expr]], states: list[Expr]) -> list[Expr]:
    """One layer in all its directions: (steps, batch, directions * hidden), and the last states."""
    steps, batch, width = shape_of(data)
    directions, hidden = len(weights), shape_of(states[0])[2]
    rows = [[_gates(part, kind, hidden) for part in direction] for direction in weights]
    product = op.nn.dense(
        reshape(data, (steps * batch, width)), concatenate([part[0] for part in rows], 0),
        units=directions * shape_of(rows[0][0])[0],
    )  # fmt: skip
    options: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward"}
    if kind == "gru":
        options["linear_before_reset"] = True
    if "relu" in name:
        options["activations"] = [Activation("Relu")] * directions
    if len(rows[0]) > 2:
        biases = []
        for part in rows:
            recurrent = part[3]
            if kind == "gru":  # the candidate's recurrent bias is gated, so the layer adds it
                keep = np.arange(3 * hidden) < 2 * hidden
                recurrent = op.multiply(recurrent, like(keep, recurrent))
            biases.append(op.add(part[2], recurrent))
        product = op.nn.bias_add(product, concatenate(biases, 0), axis=1)
        if kind == "gru":
            late = [slice_axis(part[3], 0, 2 * hidden, 3 * hidden) for part in rows]
            options["bias"] = op.stack(late, axis=0)
    gates = reshape(product, (steps, batch, shape_of(product)[1]))
    recurrent_weight = op.stack([part[1] for part in rows], axis=0)
    layer = _LAYERS[kind](gates, recurrent_weight, *states, **options)
    outputs: list[Expr] = [TupleGetItem(layer, index) for index in range(3 if kind == "lstm" else 2)]
    joined = transpose(outputs[0], (0, 2, 1, 3))
    return [reshape(joined, (steps, batch, directions * hidden)), *outputs[1:]]


def _gates(weight: Expr, kind: str, hidden: int) -> Expr:
    """The rows of a weight or bias with the gates in the order of Relay's layers."""
    order = _ORDER[kind]
    if len(order) == 1:
        return weight
    return concatenate([slice_axis(weight, 0, gate * hidden, (gate + 1) * hidden) for gate in order], 0)


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
