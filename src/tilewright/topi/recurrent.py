"""The options of recurrent layers, which their computes, references and operators share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """A function of ONNX with its two parameters, which most functions ignore."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Recurrence:
    """The options of a layer: its kind ("rnn", "lstm", "gru"), which directions run backwards, and their activations.

    `clip` bounds what goes into an activation function other than that of an LSTM's cell, 0 does not. An LSTM with
    `input_forget` forgets what it does not let in; a GRU with `linear_before_reset` resets the product, not the state.
    With `zero_state` the first states are zeros, so that the first step needs no product. `codes` is the type of bytes
    that a state takes where the weights are bytes.
    """

    kind: str
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float = 0.0
    input_forget: bool = False
    linear_before_reset: bool = False
    zero_state: bool = False
    codes: str = "uint8"
