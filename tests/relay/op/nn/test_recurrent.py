"""Recurrent layers as operators: type rule and reference, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.recurrent import Activation

RNG = np.random.default_rng(8)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def _value(call):
    type_of(call)
    return call_reference(call, [arg.data for arg in call.args])


def test_a_plain_layer_is_a_chain_of_tanh():
    gates, weight, hidden = normal(3, 2, 4), normal(1, 4, 4), normal(1, 2, 4)
    sequence, last = _value(op.nn.rnn(const(gates), const(weight), const(hidden)))
    state = hidden[0]
    for step in range(3):
        state = np.tanh(gates[step] + state @ weight[0].T)
        np.testing.assert_allclose(sequence[step, 0], state, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(last[0], sequence[-1, 0])


def test_recurrent_layers_are_typed():
    gates, weight, state = normal(3, 2, 2 * 4 * 5), normal(2, 20, 5), normal(2, 2, 5)
    layer = op.nn.lstm(*map(const, (gates, weight, state, state)), direction="bidirectional")
    assert [t.shape for t in tensor_types(type_of(layer))] == [(3, 2, 2, 5), (2, 2, 5), (2, 2, 5)]
    layer = op.nn.gru(const(normal(3, 2, 15)), const(normal(1, 15, 5)), const(normal(1, 2, 5)))
    assert [t.shape for t in tensor_types(type_of(layer))] == [(3, 1, 2, 5), (1, 2, 5)]


@pytest.mark.parametrize(
    ("gates", "weight", "options", "message"),
    [
        ((3, 2, 5), (1, 4, 4), {}, "1 directions of 4 units need 1 gates, not 5"),
        ((3, 2, 4), (1, 4, 5), {}, "do not fit 4 units"),
        ((3, 2, 4), (1, 1, 3, 1, 16), {}, "packed weights .* do not fit 4 units"),
        ((3, 2, 4), (1, 4, 4), {"direction": "up"}, "direction 'up'; there are forward"),
        ((3, 2, 4), (1, 4, 4), {"activations": [Activation("Gelu")]}, "activation 'Gelu'; there are Sigmoid"),
        ((3, 2, 4), (1, 4, 4), {"lengths": np.zeros(3, "int32")}, r"lengths has not the shape \(2,\)"),
        ((3, 2, 4), (1, 4, 4), {"lengths": np.zeros(2, "int64")}, "lengths must be int32"),
    ],
)
def test_what_does_not_fit(gates, weight, options, message):
    options = {name: const(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
    with pytest.raises(TypeMismatchError, match=message):
        type_of(op.nn.rnn(const(normal(*gates)), const(normal(*weight)), const(normal(1, 2, 4)), **options))
