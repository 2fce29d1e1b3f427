"""What the computes, references and operators of recurrent layers share: gate counts, activations, options."""

from __future__ import annotations

from dataclasses import dataclass

#: Gates of a cell of each kind.
GATES = {"rnn": 1, "lstm": 4, "gru": 3}

#: Activation functions of one direction of each kind, by default.
DEFAULT_ACTIVATIONS = {"rnn": ("Tanh",), "lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh")}

#: Parameters of the activation functions that have some, where none are given.
DEFAULT_ALPHA = {
    "LeakyRelu": 0.01,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "ThresholdedRelu": 1.0,
    "ScaledTanh": 1.0,
    "Affine": 1.0,
}
DEFAULT_BETA = {"HardSigmoid": 0.5, "ScaledTanh": 1.0, "Affine": 0.0}

#: All activation functions.
ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softplus", "Softsign", *DEFAULT_ALPHA)

#: Whether each direction runs backwards.
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


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
