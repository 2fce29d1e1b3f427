"""Recurrent layers: of each cell the product of all steps' inputs at once, then one recurrent operator.

A masked step leaves the states as they are, and its output is that of the step before. Such steps are taken out first:
of each sequence the others are moved to the front in their order, the layer runs over so many, and every step takes the
result of the last one that counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.builders.recurrent_layers import unrolled
from tilewright.frontend.builders.sliding import Window, channel_kernel, convolution
from tilewright.frontend.keras.convolution import window
from tilewright.frontend.keras.core import activation_name
from tilewright.frontend.keras.layer import Layer, flatten
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem
from tilewright.topi.recurrent import Activation

#: Keras's functions among those that recurrent operators compute, with their two parameters.
_KNOWN: dict[str, Activation] = {
    "tanh": Activation("Tanh"), "sigmoid": Activation("Sigmoid"), "relu": Activation("Relu"),
    "softplus": Activation("Softplus"), "softsign": Activation("Softsign"), "elu": Activation("Elu", 1.0),
    "linear": Activation("Affine", 1.0, 0.0), "hard_sigmoid": Activation("HardSigmoid", 1 / 6, 0.5),
}  # fmt: skip
#: Gates in the order of Relay's layers (that of ONNX), by their position in Keras's weights.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (0, 1, 2), "rnn": (0,)}
_KINDS = {
    "LSTM": "lstm", "GRU": "gru", "SimpleRNN": "rnn", "LSTMCell": "lstm", "GRUCell": "gru", "SimpleRNNCell": "rnn",
}  # fmt: skip
_LAYERS: dict[str, Callable[..., Expr]] = {"lstm": op.nn.lstm, "gru": op.nn.gru, "rnn": op.nn.rnn}
#: Steps written out, one after the other, at most.
_MOST_STEPS = 512


class Steps(NamedTuple):
    """Results of all steps [T, B, …] and the states behind the last."""

    outputs: Expr
    states: list[Expr]


class Masked(NamedTuple):
    """Of a mask [B, T]: where the steps that count stand, how many there are, and the last one up to each step."""

    positions: Expr  # [T, B]
    lengths: Expr  # [B]
    last: Expr  # [T, B], -1 before the first

    @classmethod
    def of(cls, mask: Expr) -> Masked:
        """`mask` is True where a step counts."""
        steps = idioms.shape_of(mask)[1]
        counts = idioms.transpose(idioms.cast(mask, "int32"), (1, 0))
        order = op.cumsum(idioms.full(1, (steps,), "int32"), axis=0)
        late = (idioms.constant(1, "int32") - counts) * idioms.broadcast_to(
            idioms.constant(1 << 24, "int32"), (steps, 1)
        )
        positions = op.argsort(op.expand_dims(order, axis=1) + late, axis=0)
        return cls(positions, op.sum(counts, axis=(0,)), op.cumsum(counts, axis=0) - idioms.constant(1, "int32"))

    def packed(self, data: Expr) -> Expr:
        """[T, B, …] with the steps that count in front."""
        return _steps_at(data, self.positions)

    def spread(self, outputs: Expr, zero: bool, mask: Expr) -> Expr:
        """[T, B, …] of results of packed steps as those of all steps."""
        found = _steps_at(outputs, op.maximum(self.last, idioms.constant(0, "int32")))
        kept = idioms.transpose(mask, (1, 0)) if zero else self.last >= idioms.constant(0, "int32")
        wide = op.expand_dims(kept, axis=2, num_newaxis=idioms.rank_of(outputs) - 2)
        return op.where(wide, found, 0)


def _steps_at(data: Expr, positions: Expr) -> Expr:
    """data[positions[t, b], b] for each t and b."""
    shape = idioms.shape_of(data)
    wide = op.expand_dims(positions, axis=2, num_newaxis=len(shape) - 2)
    return op.gather(data, 0, idioms.broadcast_to(wide, shape))


# ------------------------------------------------------------------------------------------------------------- layers
@converts("LSTM", "GRU", "SimpleRNN", "RNN")
def convert_recurrent(layer: Layer, sequences: Expr, initial_state: Any = None, mask: Any = None) -> Any:
    return recurrent(layer, _cells(layer), sequences, initial_state, mask)


def _cells(layer: Layer) -> list[Layer]:
    """The cells of a layer, from the first to the last of a stack."""
    if layer.class_name == "RNN":
        return _stacked(layer.inside(layer["cell"], "cell"))
    kind = layer.class_name
    name = {"LSTM": "lstm_cell", "GRU": "gru_cell", "SimpleRNN": "simple_rnn_cell"}[kind]
    config = {key: value for key, value in layer.config.items() if key != "name"}
    return [layer.inner(f"{kind}Cell", "cell", name, config)]


def _stacked(cell: Layer) -> list[Layer]:
    if cell.class_name != "StackedRNNCells":
        return [cell]
    return [one for part in cell.list_inside(cell["cells"], "cells") for one in _stacked(part)]


def recurrent(layer: Layer, cells: Sequence[Layer], sequences: Expr, initial_state: Any, mask: Any) -> Any:
    """The result of a recurrent layer: all steps or the last, and its states where they are requested."""
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    axes = (1, 0, *range(2, idioms.rank_of(sequences)))
    data = idioms.transpose(sequences, axes)
    if layer.get("go_backwards"):
        data = op.reverse(data, axis=0)
        mask = op.reverse(mask, axis=1) if isinstance(mask, Expr) else mask
    groups = _initial(layer, cells, initial_state, idioms.shape_of(data)[1:])
    masked = Masked.of(idioms.cast(mask, "bool")) if isinstance(mask, Expr) else None
    data = masked.packed(data) if masked else data
    states: list[Expr] = []
    for cell, given in zip(cells, groups):
        data, after = apply_cell(cell, data, given, masked.lengths if masked else None)
        states += after
    if masked:
        data = masked.spread(data, bool(layer.get("zero_output_for_mask")), idioms.cast(mask, "bool"))
    for index, state in enumerate(states if layer.get("stateful") else ()):
        layer.keep(f"state_{index}", state)
    return _results(layer, data, states, mask)


def _results(layer: Layer, data: Expr, states: list[Expr], mask: Any) -> Any:
    sequences = bool(layer.get("return_sequences"))
    if sequences:
        made = idioms.transpose(data, (1, 0, *range(2, idioms.rank_of(data))))
    else:
        steps = idioms.shape_of(data)[0]
        # where their number is symbolic, the last step is the first of those in reverse
        made = (
            idioms.index_axis(data, 0, steps - 1)
            if isinstance(steps, int)
            else idioms.index_axis(op.reverse(data, axis=0), 0, 0)
        )
    layer.set_mask(mask if sequences else None)
    if layer.get("go_backwards") and isinstance(mask, Expr) and sequences:
        layer.set_mask(op.reverse(mask, axis=1))  # Keras hands the mask on as it came
    return [made, *states] if layer.get("return_state") else made


def _initial(layer: Layer, cells: Sequence[Layer], given: Any, extents: Sequence[Any]) -> list[list[Expr]]:
    """The states of each cell when the first step begins, whose data have these extents."""
    flat = [value for value in flatten(given) if isinstance(value, Expr)]
    counts = [2 if "LSTM" in cell.class_name else 1 for cell in cells]
    if flat and len(flat) != sum(counts):
        layer.bad(f"{len(flat)} initial states are given for {sum(counts)}")

    def state(cell: Layer, position: int) -> Expr:
        if cell.class_name != "ConvLSTMCell":
            shape: tuple[Any, ...] = (extents[0], int(cell["units"]))
        else:
            filters = (int(cell["filters"]),)
            shape = (*extents[:-1], *filters) if cell.last else (extents[0], *filters, *extents[2:])
        if flat:
            return cell.cast(flat[position])
        if layer.get("stateful"):
            return layer.state(f"state_{position}", shape, cell.compute_dtype)
        return idioms.full(0, shape, cell.compute_dtype)

    numbers = iter(range(sum(counts)))
    return [[state(cell, next(numbers)) for _ in range(count)] for cell, count in zip(cells, counts)]


# -------------------------------------------------------------------------------------------------------------- cells
def apply_cell(cell: Layer, data: Expr, states: Sequence[Expr], lengths: Expr | None) -> Steps:
    """A cell over all steps of `data` [T, B, features]."""
    kind = _KINDS.get(cell.class_name)
    if cell.class_name == "ConvLSTMCell" and not cell.custom:
        return _written_out(_step_of_conv_lstm(cell), data, states, lengths)
    if kind is None or cell.custom:
        cell.unsupported("a cell of its own; GRUCell, LSTMCell and SimpleRNNCell are supported")
    names = {
        "lstm": ("recurrent_activation", "activation", "activation"), "gru": ("recurrent_activation", "activation"),
        "rnn": ("activation",),
    }[kind]  # fmt: skip
    defaults = {"recurrent_activation": "sigmoid", "activation": "tanh"}
    spelled = [activation_name(cell.get(name, defaults[name])) for name in names]
    steps, batch, features = idioms.shape_of(data)
    weights = _weights(cell, kind)
    rows = idioms.reshape(cell.cast(data), (idioms.product((steps, batch)), features))
    gates = idioms.reshape(matmul(rows, weights.kernel), (steps, batch, idioms.shape_of(weights.kernel)[1]))
    if weights.bias is not None:
        gates = gates + weights.bias
    if all(name in _KNOWN for name in spelled) and cell.compute_dtype in ("float32", "float64"):
        return _operator(kind, gates, weights, states, lengths, [_KNOWN[str(name)] for name in spelled])
    unknown = [name for name in spelled if name not in functions.ACTIVATIONS]
    if unknown:
        cell.unsupported(f"the activation {unknown[0]!r}")
    if not isinstance(steps, int) or steps > _MOST_STEPS:
        cell.unsupported(f"this activation over a symbolic number of steps, or more than {_MOST_STEPS}")
    found = [functions.ACTIVATIONS[str(name)] for name in spelled]
    return _written_out(lambda x, before: _step(kind, x, weights, before, found), gates, states, lengths)


class Weights(NamedTuple):
    """`kernel` [features, gates * units], `recurrent` [units, gates * units], and the biases added to the product.

    `late` is the bias of a GRU's candidate that the reset gate acts on (`reset_after`).
    """

    kernel: Expr
    recurrent: Expr
    bias: Expr | None
    late: Expr | None
    reset_after: bool


def _weights(cell: Layer, kind: str) -> Weights:
    has_bias = bool(cell.get("use_bias", True))
    kernel, recurrent_kernel, *biases = cell.array("kernel", "recurrent_kernel", *(["bias"] if has_bias else []))
    units = recurrent_kernel.shape[0]
    if recurrent_kernel.shape != (units, len(_ORDER[kind]) * units) or kernel.shape[1:] != recurrent_kernel.shape[1:]:
        cell.bad(f"weights of shapes {kernel.shape} and {recurrent_kernel.shape} are none of a {cell.class_name}")
    reset_after = bool(cell.get("reset_after", not cell.importer.legacy)) if kind == "gru" else False
    bias, late = (biases[0] if biases else None), None
    if kind == "gru" and bias is not None and bias.ndim == 2:
        early = bias[0].copy()
        early[: 2 * units] += bias[1][: 2 * units]
        bias, late, reset_after = early, bias[1][2 * units :], True
    ordered = [_ordered(part, kind, units) for part in (kernel, recurrent_kernel)]
    made = [cell.cast(Constant(part)) for part in ordered]
    given = None if bias is None else cell.cast(Constant(_ordered(bias, kind, units)))
    return Weights(made[0], made[1], given, None if late is None else cell.cast(Constant(late)), reset_after)


def _ordered(weight: np.ndarray, kind: str, units: int) -> np.ndarray:
    """The columns with the gates in the order of Relay's layers."""
    return np.concatenate([weight[..., gate * units : (gate + 1) * units] for gate in _ORDER[kind]], axis=-1)


def _operator(
    kind: str, gates: Expr, weights: Weights, states: Sequence[Expr], lengths: Expr | None, found: Sequence[Activation]
) -> Steps:
    """The steps by Relay's operator of this kind."""
    options: dict[str, Any] = {"activations": list(found), "lengths": lengths}
    if kind == "gru":
        options["linear_before_reset"] = weights.reset_after
        if weights.late is not None:
            options["bias"] = op.expand_dims(weights.late, axis=0)
    recurrent_weight = op.expand_dims(idioms.transpose(weights.recurrent, (1, 0)), axis=0)
    made = _LAYERS[kind](gates, recurrent_weight, *[op.expand_dims(state, axis=0) for state in states], **options)
    outputs = op.squeeze(TupleGetItem(made, 0), axis=(1,))
    return Steps(outputs, [op.squeeze(TupleGetItem(made, 1 + i), axis=(0,)) for i in range(len(states))])


def _written_out(
    step: Callable[[Expr, list[Expr]], list[Expr]], data: Expr, states: Sequence[Expr], lengths: Expr | None
) -> Steps:
    """One step after the other, for what the operator does not have."""

    def masked(position: int, before: list[Expr]) -> list[Expr]:
        after = step(idioms.index_axis(data, 0, position), before)
        if lengths is None:
            return after
        runs = op.expand_dims(
            lengths > idioms.constant(position, "int32"), axis=1, num_newaxis=idioms.rank_of(after[0]) - 1
        )
        return [op.where(runs, new, old) for new, old in zip(after, before)]

    return Steps(*unrolled(idioms.shape_of(data)[0], masked, list(states)))


def _step(
    kind: str, x: Expr, weights: Weights, states: Sequence[Expr], found: Sequence[Callable[[Expr], Expr]]
) -> list[Expr]:
    units = idioms.shape_of(states[0])[1]
    moved = matmul(states[0], weights.recurrent)
    if kind == "rnn":
        return [found[0](x + moved)]
    parts, own = (op.split(one, indices_or_sections=len(_ORDER[kind]), axis=1) for one in (x, moved))
    if kind == "lstm":
        i, o, f = (found[0](parts[k] + own[k]) for k in range(3))
        c = f * states[1] + i * found[1](parts[3] + own[3])
        return [o * found[2](c), c]
    z, r = (found[0](parts[k] + own[k]) for k in range(2))
    if weights.reset_after:
        late = own[2] if weights.late is None else own[2] + weights.late
        part: Expr = r * late
    else:
        part = matmul(r * states[0], idioms.slice_axis(weights.recurrent, 1, 2 * units, 3 * units))
    return [z * states[0] + (1 - z) * found[1](parts[2] + part)]


@converts("LSTMCell", "GRUCell", "SimpleRNNCell")
def convert_cell(layer: Layer, inputs: Expr, states: Any) -> Any:
    """A cell by itself: one step."""
    given = [layer.cast(state) for state in flatten(states)]
    made = apply_cell(layer, op.expand_dims(inputs, axis=0), given, None)
    return [made.states[0], made.states]


@converts("StackedRNNCells")
def convert_stack(layer: Layer, inputs: Expr, states: Any) -> Any:
    after = []
    for cell, given in zip(_stacked(layer), states):
        made = apply_cell(cell, op.expand_dims(inputs, axis=0), [cell.cast(s) for s in flatten(given)], None)
        inputs = made.states[0]
        after.append(made.states)
    return [inputs, after]


# ----------------- ConvLSTM layers (Shi et al. 2015): an LSTM whose products are convolutions, one step after the other
#: Steps written out at most.
_MOST_STEPS_of_conv_lstm = 256


@converts("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convert_conv_lstm(layer: Layer, sequences: Expr, initial_state: Any = None, mask: Any = None) -> Any:
    steps = idioms.shape_of(sequences)[1]
    if not isinstance(steps, int) or steps > _MOST_STEPS_of_conv_lstm:
        layer.unsupported(
            f"a symbolic number of steps, or more than {_MOST_STEPS_of_conv_lstm}; pass it with input_shapes"
        )
    cell = layer.inner("ConvLSTMCell", "cell", "conv_lstm_cell", layer.config)
    return recurrent(layer, [cell], _input_gates(cell, sequences), initial_state, mask)


def _kernels(cell: Layer) -> list[Expr]:
    """The kernels of the inputs and of the states, and the bias where there is one."""
    return cell.weight("kernel", "recurrent_kernel", *(["bias"] if cell.get("use_bias", True) else []))


def _input_gates(cell: Layer, sequences: Expr) -> Expr:
    """The convolutions of all steps' inputs at once: steps are samples."""
    kernel, _, *bias = _kernels(cell)
    batch, steps = idioms.shape_of(sequences)[:2]
    flat = idioms.reshape(sequences, (batch * steps, *idioms.shape_of(sequences)[2:]))
    made = convolution(flat, channel_kernel(kernel), window(cell, idioms.shape_of(kernel)[:-2]), 1, cell.last)
    if bias:
        made = op.nn.bias_add(made, bias[0], axis=idioms.rank_of(made) - 1 if cell.last else 1)
    return idioms.reshape(made, (batch, steps, *idioms.shape_of(made)[1:]))


def _step_of_conv_lstm(cell: Layer) -> Callable[[Expr, list[Expr]], list[Expr]]:
    """One step, of the gates of its input and the states before."""
    recurrent = channel_kernel(_kernels(cell)[1])
    size = tuple(int(extent) for extent in idioms.shape_of(recurrent)[2:])
    ones = (1,) * len(size)
    names = [activation_name(cell.get(key, default)) for key, default in (("recurrent_activation", "sigmoid"),
                                                                          ("activation", "tanh"))]  # fmt: skip
    if any(name not in functions.ACTIVATIONS for name in names):
        cell.unsupported(f"the activations {names}")
    gate, squash = (functions.ACTIVATIONS[str(name)] for name in names)

    def step(gates: Expr, states: list[Expr]) -> list[Expr]:
        moved = convolution(states[0], recurrent, Window(size, ones, ones, "same"), 1, cell.last)
        total = op.split(gates + moved, indices_or_sections=4, axis=idioms.rank_of(gates) - 1 if cell.last else 1)
        carry = gate(total[1]) * states[1] + gate(total[0]) * squash(total[2])
        return [gate(total[3]) * squash(carry), carry]

    return step
