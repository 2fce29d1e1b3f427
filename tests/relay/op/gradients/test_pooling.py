"""Gradients of windows without a finite element: through the first of the largest, never through padding."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.relay import op
from tilewright.relay.ir.expr import Function, Var, const
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.transform.gradient.gradient import first_order_gradient

INF, NAN = np.inf, np.nan
#: A 3x3 image, and which element takes what flows back from its only window (size 3, padding 1 before).
IMAGES = {
    "all -inf": (np.full((3, 3), -INF), (0, 0)),
    "one finite": (np.array([[-INF, -INF, 1], [-INF, -3e38, 0], [0, 0, 0]]), (1, 1)),
    "below the integers": (np.array([[-3e10, -3e10, 0], [-4e10, -2.5e10, 0], [0, 0, 0]]), (1, 1)),
    "a NaN": (np.array([[2.0, 1, 0], [NAN, 5, 0], [0, 0, 0]]), (1, 0)),
}
WINDOW = {"pool_size": (3, 3), "strides": (3, 3), "padding": (1, 1, 0, 0)}


def run(function: Function, *inputs: np.ndarray) -> list[np.ndarray]:
    module = IRModule.from_expr(function)
    made, interpreted = tw.compile(module, cache=False)(*inputs), relay.interpret(module, list(inputs))
    made, interpreted = (list(x) if isinstance(x, list | tuple) else [x] for x in (made, interpreted))
    for got, wanted in zip(made, leaves(interpreted), strict=True):
        np.testing.assert_array_equal(got, wanted)
    return made


def leaves(values: list) -> list[np.ndarray]:
    return [leaf for value in values for leaf in (leaves(list(value)) if isinstance(value, list | tuple) else [value])]


@pytest.mark.parametrize("name", IMAGES)
def test_gradients_go_to_the_first_of_equal_elements(name: str) -> None:
    image, (row, column) = IMAGES[name]
    x, g = Var("x", TensorType((1, 1, 3, 3))), Var("g", TensorType((1, 1, 1, 1)))
    made = run(
        Function([g, x], op.nn.max_pool2d_grad(g, x, **WINDOW)),
        np.full((1, 1, 1, 1), 7.0, "float32"),
        image.astype("float32").reshape(1, 1, 3, 3),
    )
    wanted = np.zeros((3, 3), "float32")
    wanted[row, column] = 7
    np.testing.assert_array_equal(made[0][0, 0], wanted)


@pytest.mark.parametrize("name", [name for name in IMAGES if name != "a NaN"])
def test_the_second_gradient_is_the_chosen_element(name: str) -> None:
    """The derivative of the gradient by what flows back is the element that was chosen."""
    image, (row, column) = IMAGES[name]
    x, g = Var("x", TensorType((1, 1, 3, 3))), Var("g", TensorType((1, 1, 1, 1)))
    weights = np.arange(1, 10, dtype="float32").reshape(1, 1, 3, 3)
    inner = op.multiply(op.nn.max_pool2d_grad(g, x, **WINDOW), const(weights))
    found = run(
        first_order_gradient(Function([g, x], inner), [g]),
        np.ones((1, 1, 1, 1), "float32"),
        image.astype("float32").reshape(1, 1, 3, 3),
    )
    assert found[1].item() == weights[0, 0, row, column]
