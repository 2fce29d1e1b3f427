"""Zeros and ones of gradients: which are left, and that nothing changes by it."""

from __future__ import annotations

import numpy as np

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay
from tilewright.relay.transform.gradient.gradient import gradient
from tilewright.relay.transform.gradient.lazy_gradient_init import lazy_gradient_init


def test_the_seed_of_a_gradient_goes() -> None:
    x, y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))
    func = relay.Function([x, y], relay.add(relay.multiply(x, y), relay.exp(y)))
    before = relay.transform.infer_type(relay.IRModule.from_expr(gradient(func, mode="first_order")))
    after = lazy_gradient_init(before)
    assert op_names(before).count("ones") == 1 and op_names(before).count("multiply") == 4
    assert op_names(after) == ["multiply", "exp", "add", "add"]
    assert_same(before, after)


def test_sums_and_products() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    body = relay.add(relay.multiply(relay.ones_like(y), x), relay.negative(relay.zeros_like(y)))
    assert op_names(lazy_gradient_init(module(body))) == []
    nothing = module(relay.multiply(relay.exp(x), relay.const(np.zeros((2, 3), "float32"))))
    assert op_names(lazy_gradient_init(nothing)) == ["zeros"]
    assert_same(nothing, lazy_gradient_init(nothing))


def test_values_that_are_broadcast_stay() -> None:
    x = relay.var("x", shape=(3,))
    mod = module(relay.add(x, relay.zeros((2, 3), "float32")))
    after = lazy_gradient_init(mod)
    assert op_names(after) == ["zeros", "add"]
    assert_same(mod, after)
