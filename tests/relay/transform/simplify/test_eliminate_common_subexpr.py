"""Common subexpressions."""

import numpy as np

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay
from tilewright.relay.transform.simplify.eliminate_common_subexpr import eliminate_common_subexpr


def test_equal_calls_merge_bottom_up() -> None:
    x = relay.var("x", shape=(2, 2))

    def branch() -> relay.Expr:
        return relay.nn.softmax(relay.multiply(x, relay.const(2.0)), axis=1)

    mod = module(relay.add(branch(), branch()))
    after = eliminate_common_subexpr(mod)
    assert op_names(after) == ["multiply", "nn.softmax", "add"]
    assert_same(mod, after)


def test_different_attributes_or_constants_stay_apart() -> None:
    x = relay.var("x", shape=(2, 2))
    a = relay.add(relay.nn.softmax(x, axis=0), relay.nn.softmax(x, axis=1))
    b = relay.add(relay.divide(x, relay.const(0.0)), relay.divide(x, relay.const(-0.0)))
    after = eliminate_common_subexpr(module(relay.Tuple([a, b])))
    assert op_names(after).count("nn.softmax") == 2 and op_names(after).count("divide") == 2


def test_fields_and_tuples_merge() -> None:
    x = relay.var("x", shape=(4,))
    mod = module(relay.add(relay.split(x, 2)[0], relay.split(x, 2)[0]))
    after = eliminate_common_subexpr(mod)
    assert op_names(after) == ["split", "add"]
    body = after["main"].body
    assert isinstance(body, relay.Call) and body.args[0] is body.args[1]


def test_large_constants_merge_by_identity_only() -> None:
    data = np.zeros(5000, "float32")
    x = relay.var("x", shape=(5000,))
    shared = relay.const(data)
    mod = module(relay.Tuple([relay.add(x, shared), relay.add(x, shared), relay.add(x, relay.const(data.copy()))]))
    assert op_names(eliminate_common_subexpr(mod)) == ["add", "add"]
