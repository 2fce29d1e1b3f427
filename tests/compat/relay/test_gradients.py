"""`relay.transform.gradient` in the classic stack's sense of the gradient of a tuple."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize(("mode", "expected"), [("higher_order", 4.0), ("first_order", 6.0)])
def test_the_gradient_of_a_tuple_is_that_of_its_first_field(mode: str, expected: float) -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(3, 4))
    scope = relay.ScopeBuilder()
    y = scope.let("y", x + x)
    scope.ret(relay.Tuple([y + y, y]))
    func = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], scope.get())))["main"]
    backward = relay.transform.gradient(func, mode=mode)
    (four, two), (grad,) = relay.create_executor().evaluate(backward)(np.ones((3, 4), "float32"))
    np.testing.assert_array_equal(four.numpy(), np.full((3, 4), 4.0))
    np.testing.assert_array_equal(two.numpy(), np.full((3, 4), 2.0))
    np.testing.assert_array_equal(grad.numpy(), np.full((3, 4), expected))


def test_tuples_within_tuples_go_by_their_first_field_too() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2,))
    three = relay.multiply(x, relay.const(3.0))
    body = relay.Tuple([relay.Tuple([relay.multiply(three, x), x]), three])
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    for func in (relay.transform.gradient(mod["main"]), relay.transform.gradient(mod.get_global_var("main"), mod)):
        _, (grad,) = relay.create_executor().evaluate(func)(np.array([1.0, 2.0], "float32"))
        np.testing.assert_allclose(grad.numpy(), [6.0, 12.0])
