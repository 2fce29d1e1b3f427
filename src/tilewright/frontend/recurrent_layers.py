"""Stacks of recurrent layers whose weights are known and whose gates lie as MXNet, Paddle and cuDNN have them.

Of an LSTM these are input, forget, cell, output; of a GRU reset, update, new, where the reset gate multiplies the
product of the state with its bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import concatenate, reshape, shape_of, slice_axis, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem
from tilewright.topi.recurrent import Activation

#: Gates in the order of Relay's layers, by their place in the weights.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_LAYERS: dict[str, Any] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn_tanh": op.nn.rnn, "rnn_relu": op.nn.rnn}

#: Of a layer and direction: matrices of the input and of the state, then their biases.
Weights = Sequence[np.ndarray]


def gate_count(mode: str) -> int:
    """How many gates a layer of the mode lstm, gru, rnn_tanh or rnn_relu has."""
    return len(_ORDER[mode])


def known_modes() -> tuple[str, ...]:
    """The modes."""
    return tuple(_ORDER)


def recurrent_layers(
    mode: str, data: Expr, weights: Sequence[Weights], states: Sequence[Expr], layers: int
) -> list[Expr]:
    """(every output [T, B, D * H], the last states [L * D, B, H]) of `data` [T, B, I] and the first states.

    `weights` are those of the layers, of each the `D` directions beside each other.
    """
    directions = len(weights) // layers
    ends: list[list[Expr]] = [[] for _ in states]
    for first in range(0, layers * directions, directions):
        initial = [slice_axis(state, 0, first, first + directions) for state in states]
        data, *last = _layer(mode, data, weights[first : first + directions], initial)
        for kept, end in zip(ends, last):
            kept.append(end)
    return [data, *(concatenate(one, 0) for one in ends)]


def _ordered(mode: str, part: np.ndarray) -> np.ndarray:
    """A matrix or bias with its gates in the order of Relay's layers."""
    gates = part.reshape(len(_ORDER[mode]), -1, *part.shape[1:])
    return gates[list(_ORDER[mode])].reshape(part.shape)


def _layer(mode: str, data: Expr, weights: Sequence[Weights], states: Sequence[Expr]) -> list[Expr]:
    steps, batch, width = shape_of(data)
    directions, hidden = len(weights), shape_of(states[0])[2]
    rows = reshape(data, (steps * batch, width))
    options: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward"}
    given, late, inner_matrices = [], [], []
    for direction in weights:
        matrix, of_state, bias, inner = (_ordered(mode, part) for part in direction)
        if mode == "gru":  # the bias of the state of the new gate stands within the product with the reset gate
            late.append(inner[2 * hidden :])
            inner = np.concatenate([inner[: 2 * hidden], np.zeros_like(inner[2 * hidden :])])
        given.append(op.nn.bias_add(op.nn.dense(rows, Constant(matrix)), Constant(bias + inner), axis=1))
        inner_matrices.append(of_state)
    if mode == "rnn_relu":
        options["activations"] = [Activation("Relu")] * directions
    if mode == "gru":
        options |= {"linear_before_reset": True, "bias": Constant(np.stack(late))}
    joined = concatenate(given, 1)
    gates = reshape(joined, (steps, batch, shape_of(joined)[1]))
    layer = _LAYERS[mode](gates, Constant(np.stack(inner_matrices)), *states, **options)
    every = transpose(TupleGetItem(layer, 0), (0, 2, 1, 3))
    lasts = [TupleGetItem(layer, index + 1) for index in range(len(states))]
    return [reshape(every, (steps, batch, directions * hidden)), *lasts]
