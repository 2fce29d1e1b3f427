"""Gradients of attention by one kernel: in training steps, against the products, without the matrix of weights."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend.kinds import backend_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.transform.fuse.attention_gradients import attention_gradients
from tilewright.target import Target
from tilewright.training import SGD, Trainer, training_step

OWN = "nn.contrib_attention_backward"


def names(expr: Expr) -> list[str]:
    return [call.op.name for call in calls(expr)]


def gradients(rows: int, keys: int | None = None, dtype: str = "float32", layout: str = "BHSD") -> IRModule:
    """The gradients of a causal attention over 3 heads of 16, with a mask that is added."""
    columns = keys or rows
    shapes = {"q": (2, 3, rows, 16), "k": (2, 3, columns, 16), "v": (2, 3, columns, 16), "m": (1, 3, rows, columns)}
    variables = [Var(name, TensorType(shape, dtype)) for name, shape in shapes.items()]
    out = op.nn.attention(*variables, scale=0.25, causal=True, out_layout=layout)
    g = Var("g", TensorType((2, rows, 3, 16) if layout == "BSHD" else (2, 3, rows, 16), dtype))
    return IRModule.from_expr(Function([*variables, g], Tuple(adjoints(out, variables, g))))


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize("dtype, bound", [("float32", 2e-6), ("float64", 1e-13)])
def test_gradients_are_those_of_the_products(layout: str, dtype: str, bound: float) -> None:
    module = gradients(37, dtype=dtype, layout=layout)
    assert OWN in names(attention_gradients(module, backend_of(Target("cpu")))["main"].body)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(v.type_annotation.shape).astype(dtype) for v in module["main"].params]
    found = tw.compile(module, threads=2, cache=False)(*given)
    wanted = relay.interpret(module, [x.astype(dtype) for x in given])
    for got, want in zip(found, wanted, strict=True):
        assert np.abs(got - want).max() <= bound * np.abs(want).max()


def test_sizes_without_a_kernel_are_products() -> None:
    backend = backend_of(Target("cpu"))
    assert OWN not in names(attention_gradients(gradients(2), backend)["main"].body)
    assert not {"nn.attention_backward", OWN} & set(names(gradients(32, 48)["main"].body))


def attention_step() -> tuple[tw.relay.IRModule, Trainer]:
    """A step of one layer of causal attention, written in products as frontends do, and its trainer."""
    heads, rows, depth = 4, 64, 16
    x = Var("x", TensorType((rows, heads * depth)))
    w = Var("w", TensorType((3, heads * depth, heads * depth)))
    hidden = Constant(np.where(np.tri(rows, dtype=bool), 0, -np.inf).astype("float32"))

    def projected(number: int) -> Expr:
        matrix = op.squeeze(op.strided_slice(w, begin=(number,), end=(number + 1,), axes=(0,)), axis=(0,))
        stacked = op.reshape(op.nn.dense(x, matrix), (rows, heads, depth))
        return op.transpose(stacked, (1, 0, 2))

    query, key, value = map(projected, range(3))
    scores = op.nn.batch_matmul(query, key) * Constant(np.float32(0.25)) + hidden
    out = op.nn.batch_matmul(op.nn.softmax(scores, axis=-1), value, transpose_b=False)
    step = training_step(op.mean(out * out), [w], SGD(0.1))
    rng = np.random.default_rng(1)
    first = {"w": rng.standard_normal((3, heads * depth, heads * depth)).astype("float32") / 8}
    return step.module, Trainer(step, tw.compile(step.module, threads=1, cache=False), first)


def test_a_training_step_has_it_and_does_not_keep_the_weights() -> None:
    module, trainer = attention_step()
    assert {"nn.attention", "nn.attention_backward"} <= set(names(module["main"].body))
    assert not any(call.op.name == "nn.softmax" for call in calls(module["main"].body))
    x = np.random.default_rng(2).standard_normal((64, 64)).astype("float32")
    wanted = relay.interpret(module, [x, trainer.parameters["w"].copy()])
    loss = trainer(x=x)[0]
    np.testing.assert_allclose(loss, wanted[0], rtol=1e-5)
    np.testing.assert_allclose(trainer.parameters["w"], wanted[1], rtol=1e-4, atol=1e-6)
