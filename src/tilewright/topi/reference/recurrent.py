"""Reference recurrent layers in NumPy, as ONNX defines them; computed in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.runtime.host_ops.recurrent import FUNCTIONS, GATES
from tilewright.topi.recurrent import Activation, Recurrence

Array = np.ndarray[Any, Any]


def packed(weight: Array, gates: int, block: int, together: int = 1) -> Array:
    """Recurrent weights [D, G * H, H] as [D, P, H, G, block], zeros behind the last unit; with as many inputs
    `together`, [D, P, H / together, G, block, together], zeros behind the last input too."""
    directions, _, size = weight.shape
    blocks, depth = -(-size // block), -(-size // together) * together
    whole = np.zeros((directions, gates, blocks * block, depth), weight.dtype)
    whole[:, :, :size, :size] = weight.reshape(directions, gates, size, size)
    whole = whole.reshape(directions, gates, blocks, block, depth // together, together)
    whole = whole.transpose(0, 2, 4, 1, 3, 5)
    return whole if together > 1 else whole[..., 0]


def unpacked(weight: Array, size: int) -> Array:
    """Recurrent weights [D, G, H, H] of `packed` or plain [D, G * H, H] ones."""
    if weight.ndim == 3:
        return weight.reshape(weight.shape[0], -1, size, size)
    directions, blocks, groups, gates, block, together = weight.shape if weight.ndim == 6 else (*weight.shape, 1)
    whole = weight.reshape(directions, blocks, groups, gates, block, together).transpose(0, 3, 1, 4, 2, 5)
    return whole.reshape(directions, gates, blocks * block, groups * together)[:, :, :size, :size]


def recurrent(
    gates: Array,
    weight: Array,
    hidden: Array,
    recurrence: Recurrence,
    cell: Array | None = None,
    peephole: Array | None = None,
    bias: Array | None = None,
    lengths: Array | None = None,
    scale: Array | None = None,
    columns: Array | None = None,
    zero: Array | None = None,
) -> tuple[Array, ...]:
    """Y [T, D, B, H], Y_h [D, B, H] and Y_c of an LSTM; the arguments are those of `topi.nn.recurrent`."""
    directions, batch, size = hidden.shape
    steps = gates.shape[0]
    inputs = gates.astype(np.float64).reshape(steps, batch, directions, GATES[recurrence.kind], size)
    weights = unpacked(weight, size).astype(np.float64)
    if scale is not None:
        each = (directions, -1, size, 1)
        weights = (weights - (0 if zero is None else zero.reshape(each))) * scale.reshape(each).astype(np.float64)
    ends = np.full(batch, steps) if lengths is None else lengths
    sequence = np.zeros((steps, directions, batch, size))
    last = [np.zeros(hidden.shape) for _ in range(1 if cell is None else 2)]
    for d, reverse in enumerate(recurrence.reverse):
        state = [x[d].astype(np.float64) for x in (hidden, cell) if x is not None]
        step = _Cell(
            recurrence,
            recurrence.activations[d],
            weights[d],
            None if peephole is None else peephole[d].reshape(3, size).astype(np.float64),
            0.0 if bias is None else bias[d].astype(np.float64),
            scale is not None,
        )
        for s in range(steps if batch else 0):
            rows = np.flatnonzero(s < ends)  # those whose sequences have not ended
            times = ends[rows] - 1 - s if reverse else np.full(len(rows), s)
            every = np.where(s < ends, ends - 1 - s if reverse else s, 0)
            made = step(inputs[every, np.arange(batch), d].swapaxes(0, 1), *state)
            for old, new in zip(state, made, strict=True):
                old[rows] = new[rows]
            sequence[times, d, rows] = state[0][rows]
        for result, value in zip(last, state, strict=True):
            result[d] = value
    return tuple(x.astype(gates.dtype) for x in (sequence, *last))


class _Cell:
    """One step of all sequences of a batch: inputs [G, B, H], states [B, H]."""

    def __init__(
        self,
        recurrence: Recurrence,
        activations: tuple[Activation, ...],
        weight: Array,
        peephole: Array | None,
        bias: Any,
        rounds: bool,
    ) -> None:
        self.options, self.activations, self.weight = recurrence, activations, weight
        self.peephole, self.bias, self.rounds = peephole, bias, rounds

    def seen(self, state: Array) -> Array:
        """The state as products read it: with weights of bytes, rounded to bytes of the range of the whole batch."""
        if not self.rounds:
            return state
        low, high = min(state.min(), 0.0), max(state.max(), 0.0)
        scale = (high - low) / 255 if high > low else 1.0
        zero = np.clip(np.rint(-low / scale), 0, 255)
        return (np.clip(np.rint(state / scale) + zero, 0, 255) - zero) * scale

    def activate(self, index: int, x: Array) -> Array:
        """Activation function `index` of clipped `x`."""
        limit = self.options.clip
        if limit and not (self.options.kind == "lstm" and index == 2):
            x = np.clip(x, -limit, limit)
        chosen = self.activations[index]
        return FUNCTIONS[chosen.name](x, chosen.alpha, chosen.beta)

    def __call__(self, inputs: Array, *state: Array) -> list[Array]:
        step: Callable[..., list[Array]] = getattr(self, self.options.kind)
        return step(inputs, *state)

    def rnn(self, inputs: Array, hidden: Array) -> list[Array]:
        """h' = f(x + R h)."""
        return [self.activate(0, inputs[0] + self.seen(hidden) @ self.weight[0].T)]

    def lstm(self, inputs: Array, hidden: Array, cell: Array) -> list[Array]:
        """Gates: input, output, forget, candidate."""
        gates = inputs + np.einsum("ghk,bk->gbh", self.weight, self.seen(hidden))
        peeped = np.zeros((3, hidden.shape[1])) if self.peephole is None else self.peephole
        into = self.activate(0, gates[0] + peeped[0] * cell)
        forget = 1 - into if self.options.input_forget else self.activate(0, gates[2] + peeped[2] * cell)
        fresh = forget * cell + into * self.activate(1, gates[3])
        return [self.activate(0, gates[1] + peeped[1] * fresh) * self.activate(2, fresh), fresh]

    def gru(self, inputs: Array, hidden: Array) -> list[Array]:
        """Gates: update, reset, candidate."""
        seen = self.seen(hidden)
        update, reset = (self.activate(0, inputs[g] + seen @ self.weight[g].T) for g in (0, 1))
        if self.options.linear_before_reset:
            inner = reset * (seen @ self.weight[2].T + self.bias)
        else:
            inner = self.seen(reset * hidden) @ self.weight[2].T
        return [(1 - update) * self.activate(1, inputs[2] + inner) + update * hidden]
