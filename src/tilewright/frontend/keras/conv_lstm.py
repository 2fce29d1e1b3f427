"""ConvLSTM layers (Shi et al. 2015): an LSTM whose products are convolutions, one step after the other."""

from __future__ import annotations

from typing import Any

from tilewright.frontend import functions
from tilewright.frontend.idioms import cast, full, index_axis, like, rank_of, reshape, shape_of, transpose
from tilewright.frontend.keras.activation import activation_name
from tilewright.frontend.keras.convolution import window
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.frontend.sliding import Window, channel_kernel, convolution
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Steps written out at most.
_MOST_STEPS = 256


@converts("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convert_conv_lstm(layer: Layer, sequences: Expr, initial_state: Any = None, mask: Any = None) -> Any:
    cell = layer.inner("ConvLSTMCell", "cell", "conv_lstm_cell", layer.config)
    has_bias = bool(layer.get("use_bias", True))
    kernel, recurrent, *bias = cell.weight("kernel", "recurrent_kernel", *(["bias"] if has_bias else []))
    steps = shape_of(sequences)[1]
    if not isinstance(steps, int) or steps > _MOST_STEPS:
        layer.unsupported(f"an open number of steps, or more than {_MOST_STEPS}; give it with input_shapes")
    data = transpose(sequences, (1, 0, *range(2, rank_of(sequences))))
    mask = mask if isinstance(mask, Expr) else None
    if layer.get("go_backwards"):
        data = op.reverse(data, axis=0)
        mask = None if mask is None else op.reverse(mask, axis=1)
    gates = _input_gates(layer, data, kernel, bias)
    states = _states(layer, initial_state, gates)
    outputs: list[Expr] = []
    for step in range(steps):
        after = _step(layer, index_axis(gates, 0, step), states, channel_kernel(recurrent))
        output = after[0]
        if mask is not None:
            kept = op.expand_dims(cast(index_axis(mask, 1, step), "bool"), axis=1, num_newaxis=rank_of(output) - 1)
            before = outputs[-1] if outputs and not layer.get("zero_output_for_mask") else like(0, output)
            output = op.where(kept, output, before)
            after = [op.where(kept, new, old) for new, old in zip(after, states)]
        states = after
        outputs.append(output)
    return _results(layer, outputs, states, mask)


def _results(layer: Layer, outputs: list[Expr], states: list[Expr], mask: Any) -> Any:
    if layer.get("stateful"):
        for index, state in enumerate(states):
            layer.keep(f"state_{index}", state)
    made = op.stack(outputs, axis=1) if layer.get("return_sequences") else outputs[-1]
    layer.give_mask(mask if layer.get("return_sequences") else None)
    return [made, *states] if layer.get("return_state") else made


def _input_gates(layer: Layer, data: Expr, kernel: Expr, bias: list[Expr]) -> Expr:
    """The convolutions of all steps' inputs at once: steps are samples."""
    steps, batch = shape_of(data)[:2]
    shape = window(layer, shape_of(kernel)[:-2])
    flat = reshape(data, (steps * batch, *shape_of(data)[2:]))
    made = convolution(flat, channel_kernel(kernel), shape, 1, layer.last)
    if bias:
        made = op.nn.bias_add(made, bias[0], axis=rank_of(made) - 1 if layer.last else 1)
    return reshape(made, (steps, batch, *shape_of(made)[1:]))


def _states(layer: Layer, given: Any, gates: Expr) -> list[Expr]:
    if isinstance(given, list | tuple) and given:
        return [layer.cast(state) for state in given]
    shape = list(shape_of(gates)[1:])
    shape[-1 if layer.last else 1] = int(layer["filters"])
    if layer.get("stateful"):
        return [layer.state(f"state_{index}", shape, layer.compute_dtype) for index in range(2)]
    return [full(0, shape, layer.compute_dtype)] * 2


def _step(layer: Layer, gates: Expr, states: list[Expr], recurrent: Expr) -> list[Expr]:
    ones = (1,) * (rank_of(gates) - 2)
    size = tuple(int(extent) for extent in shape_of(recurrent)[2:])
    moved = convolution(states[0], recurrent, Window(size, ones, ones, "same"), 1, layer.last)
    total = op.split(op.add(gates, moved), indices_or_sections=4, axis=rank_of(gates) - 1 if layer.last else 1)
    names = [activation_name(layer.get(key, default)) for key, default in (("recurrent_activation", "sigmoid"),
                                                                           ("activation", "tanh"))]  # fmt: skip
    if any(name not in functions.ACTIVATIONS for name in names):
        layer.unsupported(f"the activations {names}")
    gate, squash = (functions.ACTIVATIONS[str(name)] for name in names)
    carry = op.add(op.multiply(gate(total[1]), states[1]), op.multiply(gate(total[0]), squash(total[2])))
    return [op.multiply(gate(total[3]), squash(carry)), carry]
