"""Stacks of recurrent layers whose gates lie as PyTorch, MXNet, Paddle and cuDNN have them.

Of an LSTM these are input, forget, cell, output; of a GRU reset, update, new, where the reset gate multiplies the
product of the state with its bias. Of each layer the product of all steps' inputs is made at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import concatenate, reshape, shape_of, slice_axis, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem
from tilewright.topi.recurrent import Activation

#: Gates in the order of Relay's layers (that of ONNX), by their position in the weights.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_LAYERS: dict[str, Any] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn_tanh": op.nn.rnn, "rnn_relu": op.nn.rnn}

#: Of a layer and direction: matrices of the input and of the state, then their biases, or one for both, or none.
Weights = Sequence[Expr]


def unrolled(
    steps: int, step: Callable[[int, list[Expr]], list[Expr]], states: list[Expr], backwards: bool = False
) -> tuple[Expr, list[Expr]]:
    """(the first states of all steps [T, B, width], the states behind the last), one step after the other."""
    found: list[Expr] = [states[0]] * steps
    for position in reversed(range(steps)) if backwards else range(steps):
        states = step(position, states)
        found[position] = states[0]
    return op.stack(found, axis=0), states


def gate_count(mode: str) -> int:
    """The number of gates of a layer of the mode lstm, gru, rnn_tanh or rnn_relu."""
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


def _ordered(mode: str, part: Expr, hidden: int) -> Expr:
    """A matrix or bias with its gates in the order of Relay's layers."""
    order = _ORDER[mode]
    if len(order) == 1:
        return part
    return concatenate([slice_axis(part, 0, gate * hidden, (gate + 1) * hidden) for gate in order], 0)


def _layer(mode: str, data: Expr, weights: Sequence[Weights], states: Sequence[Expr]) -> list[Expr]:
    """One layer in all its directions: (steps, batch, directions * hidden), and the last states."""
    steps, batch, width = shape_of(data)
    directions, hidden = len(weights), shape_of(states[0])[2]
    rows = [[_ordered(mode, part, hidden) for part in direction] for direction in weights]
    product: Expr = op.nn.dense(
        reshape(data, (steps * batch, width)), concatenate([part[0] for part in rows], 0),
        units=directions * len(_ORDER[mode]) * hidden,
    )  # fmt: skip
    options: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward"}
    if mode == "gru":
        options["linear_before_reset"] = True
    if mode == "rnn_relu":
        options["activations"] = [Activation("Relu")] * directions
    if len(rows[0]) > 2:
        product = op.nn.bias_add(product, concatenate([_bias(mode, part, hidden) for part in rows], 0), axis=1)
        if mode == "gru" and len(rows[0]) > 3:
            late = [slice_axis(part[3], 0, 2 * hidden, 3 * hidden) for part in rows]
            options["bias"] = op.stack(late, axis=0)
    gates = reshape(product, (steps, batch, shape_of(product)[1]))
    layer = _LAYERS[mode](gates, op.stack([part[1] for part in rows], axis=0), *states, **options)
    every = transpose(TupleGetItem(layer, 0), (0, 2, 1, 3))
    lasts = [TupleGetItem(layer, index + 1) for index in range(len(states))]
    return [reshape(every, (steps, batch, directions * hidden)), *lasts]


def _bias(mode: str, part: Weights, hidden: int) -> Expr:
    """Both biases in one; of a GRU that of the state's new gate stands within the product with the reset gate."""
    if len(part) == 3:
        return part[2]
    inner = part[3]
    if mode == "gru":
        inner = inner * (np.arange(3 * hidden) < 2 * hidden)
    return part[2] + inner
