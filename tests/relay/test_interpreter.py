"""Evaluation by NumPy references."""

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import InputError, InternalError
from tilewright.relay.op.registry import OpPattern, register
from tilewright.relay.type import TensorType


def test_inputs_by_name_or_order_and_nested_tuple_results() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    func = relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.Tuple([x])]))
    a, b = np.ones(2, "float32"), np.full(2, 2, "float32")
    for inputs in ([a, b], {"y": b, "x": a}):
        total, first = relay.interpret(func, inputs)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(first, a)


def test_wrong_inputs_are_named() -> None:
    func = relay.exp(relay.var("x", shape=(2,)))
    with pytest.raises(InputError, match="no value for the input 'x'"):
        relay.interpret(func, {})
    with pytest.raises(InputError, match=r"'x' is float64\[2\], not Tensor\[\(2,\), float32\]"):
        relay.interpret(func, {"x": np.zeros(2)})


def test_only_the_branch_taken_is_evaluated() -> None:
    x = relay.var("x", shape=())

    def fail(*_: object) -> np.ndarray:
        raise AssertionError("evaluated")

    op = register("test.fail", num_inputs=1, type_rule=lambda t, a: t[0], pattern=OpPattern.OPAQUE, reference=fail)
    body = relay.If(relay.less(x, 0.0), relay.Call(op, [x]), relay.exp(x))
    (value,) = relay.interpret(body, {"x": np.float32(0)})
    assert value == 1


def test_let_binds_and_calls_reach_other_functions() -> None:
    x, y, z = relay.var("x", shape=()), relay.var("y"), relay.var("z", shape=())
    square = relay.GlobalVar("square")
    main = relay.Function([x], relay.Let(y, relay.add(x, 1.0), relay.Call(square, [y])))
    mod = relay.IRModule({relay.GlobalVar("main"): main, square: relay.Function([z], relay.multiply(z, z))})
    (value,) = relay.interpret(mod, [np.float32(2)])
    assert value == 9


def test_a_reference_that_breaks_its_type_rule_is_an_internal_error() -> None:
    op = register(
        "test.wrong",
        num_inputs=1,
        type_rule=lambda types, attrs: TensorType((3,)),
        pattern=OpPattern.OPAQUE,
        reference=lambda attrs, x: x,
    )
    with pytest.raises(InternalError, match=r"reference of test.wrong gives"):
        relay.interpret(relay.Call(op, [relay.var("x", shape=(2,))]), [np.zeros(2, "float32")])


def test_depth_is_no_limit() -> None:
    node: relay.Expr = relay.var("x", shape=())
    for _ in range(3000):
        node = relay.negative(node)
    assert relay.interpret(node, [np.float32(5)])[0] == 5
