"""Recurrent layers: the operator that Paddle's LSTM, GRU and SimpleRNN all are."""

from __future__ import annotations

from tilewright.frontend.builders.recurrent_layers import gate_count, known_modes, recurrent_layers
from tilewright.frontend.idioms import shape_of
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.relay.ir.expr import Expr


@converts("rnn")
def convert_rnn(node: PaddleNode) -> list[Expr | list[Expr]]:
    """Steps, the first states and the weights (all matrices, then all biases) to every output and the last states.

    Today's programs have a result that is not used in inference before the states.
    """
    mode = str(node.attr("mode")).lower()
    layers, hidden = int(node.attr("num_layers")), int(node.attr("hidden_size"))
    if mode not in known_modes():
        node.unsupported(f"mode={node.attr('mode')} is not supported")
    if node.has(3):
        node.unsupported("sequences of their own lengths are not supported")
    if node.attr("dropout_prob", 0.0) and not node.attr("is_test", False):
        node.unsupported("dropout in training is not supported")
    directions = 2 if node.attr("is_bidirec", False) else 1
    (data,), parts = node.listed(0), node.listed(2)
    if len(parts) != 4 * layers * directions or any(shape_of(part)[0] != gate_count(mode) * hidden for part in parts):
        node.bad(f"{len(parts)} weights for {layers} layers of {hidden} units in {directions} directions")
    half = len(parts) // 2
    weights = [
        (*parts[position : position + 2], *parts[half + position : half + position + 2])
        for position in range(0, half, 2)
    ]
    made, *states = recurrent_layers(mode, data, weights, node.listed(1), layers)
    return [made, *states] if node.by_name else [made, data, *states]
