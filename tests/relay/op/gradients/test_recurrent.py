"""Gradients of recurrent layers with all their options, to the second order, and beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.op.cases.values import f
from tests.relay.op.test_gradients import check_gradient
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.runtime.host_ops.recurrent import ACTIVATIONS, DEFAULT_ALPHA, DEFAULT_BETA
from tilewright.tir.expr import SizeVar
from tilewright.topi.recurrent import Activation

LENGTHS = const(np.array([4, 1, 2], "int32"))


def activation(name: str) -> Activation:
    return Activation(name, DEFAULT_ALPHA.get(name, 0.0), DEFAULT_BETA.get(name, 0.0))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "lstm with all", "gru", "late gru"])
def test_gradients_of_layers_agree_with_differences(kind: str, lengths: relay.Expr | None, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[kind.split()[-1 if "gru" in kind else 0]]
    args = [f(4, 3, count * gates * 2), f(count, gates * 2, 2), f(count, 3, 2)]
    options = {"direction": direction, "lengths": lengths}
    if kind == "rnn":
        call = op.nn.rnn(*args, **options)
    elif "lstm" in kind:
        more = {"peephole": f(count, 6), "clip": 1.5, "input_forget": True} if "all" in kind else {}
        call = op.nn.lstm(*args, f(count, 3, 2), **more, **options)
    else:
        more = {"bias": f(count, 2), "linear_before_reset": True} if "late" in kind else {"clip": 1.2}
        call = op.nn.gru(*args, **more, **options)
    check_gradient(call, np.random.default_rng(3))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations_agree_with_differences(name: str) -> None:
    one = activation(name)
    check_gradient(op.nn.rnn(f(2, 3, 4), f(1, 4, 4), f(1, 3, 4), activations=[one]), np.random.default_rng(3))


def test_the_gradient_of_one_step_agrees_with_differences() -> None:
    check_gradient(op.nn.lstm(f(1, 2, 8), f(1, 8, 2), f(1, 2, 2), f(1, 2, 2)), np.random.default_rng(3))


def test_second_gradients_agree_with_differences() -> None:
    """The gradient of the gates' gradient, by differences of the latter."""
    rng = np.random.default_rng(7)
    shapes = {"x": (3, 2, 8), "w": (1, 8, 2), "h": (1, 2, 2), "c": (1, 2, 2)}
    leaves = [relay.var(name, shape=shape, dtype="float64") for name, shape in shapes.items()]
    first = adjoints(op.nn.lstm(*leaves)[0], leaves)
    weights = [const(rng.standard_normal(shape)) for shape in shapes.values()]
    total = sum((op.sum(g * w) for g, w in zip(first[1:], weights[1:], strict=True)), op.sum(first[0] * weights[0]))
    second = adjoints(total, leaves)
    values = [rng.standard_normal(shape) for shape in shapes.values()]
    moves = [rng.standard_normal(shape) for shape in shapes.values()]
    step, func = 1e-5, relay.Function(leaves, total)
    ends = [relay.interpret(func, [v + s * step * m for v, m in zip(values, moves)])[0] for s in (1, -1)]
    found = relay.interpret(relay.Function(leaves, relay.Tuple(second)), values)
    slope = sum(np.vdot(g, m) for g, m in zip(found, moves, strict=True))
    assert abs((ends[0] - ends[1]) / (2 * step) - slope) < 1e-6 * max(1, abs(slope))


def test_steps_must_be_known() -> None:
    n = SizeVar("n")
    gates = relay.var("x", shape=(n, 2, 8))
    call = op.nn.lstm(gates, f(1, 8, 2), f(1, 2, 2), f(1, 2, 2))
    type_of(call)
    with pytest.raises(UnsupportedError, match=r"the gradient of nn\.lstm needs a fixed number of steps, not n"):
        adjoints(call[0], [gates])
