"""Recurrent layers of ONNX on the host, for layers whose weights have sizes that only a run can tell.

States are kept in float32 for 16-bit floats, else in the type of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]
Activate = Callable[[int, Array], Array]

#: The activation functions of ONNX, of an array and two parameters, which most do not read.
FUNCTIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Affine": lambda x, a, b: a * x + b,
}

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

#: Their names.
ACTIVATIONS = tuple(FUNCTIONS)

#: Activation functions of one direction of each kind, by default.
DEFAULT_ACTIVATIONS = {"rnn": ("Tanh",), "lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh")}

#: Gates of a cell of each kind.
GATES = {"rnn": 1, "lstm": 4, "gru": 3}

#: Whether each direction runs backwards.
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def activations_of(
    kind: str, directions: int, names: Sequence[str] | None, alphas: Sequence[float], betas: Sequence[float]
) -> list[tuple[str, float, float]]:
    """The functions of all directions, with their parameters, which go to those that take one, in order.

    Raises `ValueError` for a name that ONNX does not know.
    """
    known = {name.lower(): name for name in FUNCTIONS}
    left_alphas, left_betas, found = list(alphas), list(betas), []
    for given in names or DEFAULT_ACTIVATIONS[kind] * directions:
        if given.lower() not in known:
            raise ValueError(f"activation {given!r}; supported: {', '.join(FUNCTIONS)}")
        name = known[given.lower()]
        alpha = left_alphas.pop(0) if left_alphas and name in DEFAULT_ALPHA else DEFAULT_ALPHA.get(name, 0.0)
        beta = left_betas.pop(0) if left_betas and name in DEFAULT_BETA else DEFAULT_BETA.get(name, 0.0)
        found.append((name, alpha, beta))
    return found


@dataclass(frozen=True)
class _Layer:
    """The parameters of a direction of a layer: weights [gates, hidden, …], biases [gates, hidden], its functions."""

    inputs: Array
    recurrent: Array
    input_bias: Array
    recurrent_bias: Array
    peephole: Array
    activate: Activate
    attrs: Attrs

    def rnn(self, x: Array, hidden: Array) -> tuple[Array, ...]:
        """h' = f(W x + R h + b)."""
        return (self.activate(0, self._ahead(x, 0) + self._of_state(hidden, 0)),)

    def gru(self, x: Array, hidden: Array) -> tuple[Array, ...]:
        """Gates: update, reset, candidate."""
        update, reset = (self.activate(0, self._ahead(x, gate) + self._of_state(hidden, gate)) for gate in (0, 1))
        late = bool(self.attrs.get("linear_before_reset", 0))
        inner = reset * self._of_state(hidden, 2) if late else self._of_state(reset * hidden, 2)
        return ((1 - update) * self.activate(1, self._ahead(x, 2) + inner) + update * hidden,)

    def lstm(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, ...]:
        """Gates: input, output, forget, candidate."""
        into, out, forget, fresh = (self._ahead(x, gate) + self._of_state(hidden, gate) for gate in range(4))
        peep_in, peep_out, peep_forget = self.peephole
        into = self.activate(0, into + peep_in * cell)
        forget = 1 - into if self.attrs.get("input_forget", 0) else self.activate(0, forget + peep_forget * cell)
        cell = forget * cell + into * self.activate(1, fresh)
        return self.activate(0, out + peep_out * cell) * self.activate(2, cell), cell

    def _ahead(self, x: Array, gate: int) -> Array:
        return np.asarray(x @ self.inputs[gate].T + self.input_bias[gate])

    def _of_state(self, state: Array, gate: int) -> Array:
        return np.asarray(state @ self.recurrent[gate].T + self.recurrent_bias[gate])


def _activation(kind: str, clip: float, chosen: Sequence[tuple[str, float, float]]) -> Activate:
    """Calls a function of a direction by its number, on what is clipped first but for the cell of an LSTM."""

    def activate(index: int, x: Array) -> Array:
        name, alpha, beta = chosen[index]
        x = np.clip(x, -clip, clip) if clip and not (kind == "lstm" and index == 2) else x
        with np.errstate(all="ignore"):
            return FUNCTIONS[name](x, alpha, beta).astype(x.dtype)

    return activate


def _layers(kind: str, attrs: Attrs, w: Array, r: Array, b: Array | None, peephole: Array | None) -> list[_Layer]:
    """The directions of a layer."""
    gates, (directions, _, hidden) = GATES[kind], r.shape
    if w.shape[:2] != (directions, gates * hidden) or r.shape[1] != gates * hidden:
        raise ValueError(f"weights of shapes {w.shape} and {r.shape} for {gates} gates")
    biases = np.zeros((directions, 2 * gates * hidden), r.dtype) if b is None else b
    peepholes = np.zeros((directions, 3 * hidden), r.dtype) if peephole is None else peephole
    chosen = activations_of(
        kind,
        directions,
        attrs.get("activations"),
        attrs.get("activation_alpha") or (),
        attrs.get("activation_beta") or (),
    )
    each = len(chosen) // directions
    layers = []
    for d in range(directions):
        ahead, of_state = biases[d].reshape(2, gates, hidden)
        functions = chosen[d * each : (d + 1) * each]
        layers.append(
            _Layer(
                w[d].reshape(gates, hidden, -1),
                r[d].reshape(gates, hidden, hidden),
                ahead,
                of_state,
                peepholes[d].reshape(3, hidden),
                _activation(kind, float(attrs.get("clip", 0.0) or 0.0), functions),
                attrs,
            )
        )
    return layers


def _run(
    kind: str, attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None, lengths: Array | None,
    states: Sequence[Array | None], peephole: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """Y [steps, directions, batch, hidden], and the last states [directions, batch, hidden]; or the batch first."""
    dtype, batch_first = x.dtype, bool(attrs.get("layout", 0))
    x, w, r, b, peephole, *states = (_wide(value) for value in (x, w, r, b, peephole, *states))
    if batch_first:
        x, states = x.swapaxes(0, 1), [None if state is None else state.swapaxes(0, 1) for state in states]
    (steps, batch, _), (directions, _, hidden) = x.shape, r.shape
    reverse = DIRECTIONS[attrs.get("direction", "forward")]
    if len(reverse) != directions:
        raise ValueError(f"weights of {directions} directions for {len(reverse)}")
    for state in states:
        require_shape("states", state, (directions, batch, hidden))
    require_shape("a bias", b, (directions, 2 * GATES[kind] * hidden))
    require_shape("peepholes", peephole, (directions, 3 * hidden))
    require_shape("lengths", lengths, (batch,))
    last = [np.zeros((directions, batch, hidden), x.dtype) if state is None else state.copy() for state in states]
    y = np.zeros((steps, directions, batch, hidden), x.dtype)
    ends = np.full(batch, steps) if lengths is None else lengths.astype(np.int64)
    for d, layer in enumerate(_layers(kind, attrs, w, r, b, peephole)):
        for step in range(steps):
            rows = np.flatnonzero(step < ends)
            at = ends[rows] - 1 - step if reverse[d] else step
            made = getattr(layer, kind)(x[at, rows], *(state[d, rows] for state in last))
            for state, value in zip(last, made, strict=True):
                state[d, rows] = value
            y[at, d, rows] = made[0]
    results = [y, *last]
    if batch_first:
        results = [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)]
    return tuple(np.ascontiguousarray(value).astype(dtype) for value in results)


def _wide(value: Array | None) -> Any:
    return value.astype(np.float32) if value is not None and DType(value.dtype).is_half else value


@onnx_op("RNN")
def rnn(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    hidden: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """A layer of plain cells: Y and Y_h."""
    return _run("rnn", attrs, x, w, r, b, lengths, [hidden])


@onnx_op("GRU")
def gru(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    hidden: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """A layer of gated cells: Y and Y_h."""
    return _run("gru", attrs, x, w, r, b, lengths, [hidden])


@onnx_op("LSTM")
def lstm(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    hidden: Array | None = None, cell: Array | None = None, peephole: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """A layer of cells with a memory: Y, Y_h and Y_c."""
    return _run("lstm", attrs, x, w, r, b, lengths, [hidden, cell], peephole)
