"""Type inference and its errors."""

import pytest

from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import FuncType, TensorType, TupleType
from tilewright.relay.ir.type_of import type_of


def test_every_node_gets_its_type() -> None:
    x = relay.var("x", shape=(2, 6))
    parts = relay.split(x, 3, axis=1)
    mod = infer_type(relay.IRModule.from_expr(relay.Tuple([parts[1], relay.argmax(x, axis=1)])))
    part, index = TensorType((2, 2)), TensorType((2,), "int32")
    assert parts.checked_type == TupleType([part] * 3)
    assert mod["main"].checked_type == FuncType([TensorType((2, 6))], TupleType([part, index]))


def test_error_names_operator_types_attributes_and_source_node() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 2, 3, 3))
    call = relay.nn.conv2d(x, w, padding=(1, 1, 1, 1))
    named = relay.Call(call.op, call.args, call.attrs, "Conv_7")
    with pytest.raises(TypeMismatchError) as error:
        infer_type(relay.IRModule.from_expr(relay.nn.relu(named)))
    message = str(error.value)
    assert message.startswith("nn.conv2d(Tensor[(1, 3, 8, 8), float32], Tensor[(4, 2, 3, 3), float32], strides=")
    assert "padding=(1, 1, 1, 1)" in message and "(from Conv_7)" in message


def test_wrong_number_of_inputs() -> None:
    x = relay.var("x", shape=(1,))
    with pytest.raises(TypeMismatchError, match="it takes 2 inputs and got 1"):
        type_of(relay.Call(relay.add(x, x).op, [x]))


def test_variable_without_a_type() -> None:
    with pytest.raises(TypeMismatchError, match="variable 'x' has no type"):
        type_of(relay.exp(relay.var("x")))


def test_declared_result_type_is_checked() -> None:
    x = relay.var("x", shape=(2,))
    with pytest.raises(TypeMismatchError, match="declared to return"):
        type_of(relay.Function([x], x, TensorType((3,))))


def test_let_if_and_global_functions() -> None:
    x, y, z = relay.var("x", shape=()), relay.var("y"), relay.var("z", shape=())
    helper = relay.GlobalVar("helper")
    body = relay.Let(y, relay.exp(x), relay.If(relay.less(y, x), relay.Call(helper, [y]), y))
    mod = relay.IRModule({relay.GlobalVar("main"): relay.Function([x], body), helper: relay.Function([z], z)})
    assert infer_type(mod)["main"].func_type.ret_type == TensorType(())
    bad = relay.If(relay.less(x, x), x, relay.Tuple([x]))
    with pytest.raises(TypeMismatchError, match="branches of an If have different types"):
        type_of(bad)


def test_call_of_a_function_checks_its_arguments() -> None:
    x, z = relay.var("x", shape=(2,)), relay.var("z", shape=(3,))
    with pytest.raises(TypeMismatchError, match="the function takes"):
        type_of(relay.Call(relay.Function([z], z), [x]))


def test_depth_is_no_limit() -> None:
    node: relay.Expr = relay.var("x", shape=(2,))
    for _ in range(4000):
        node = relay.add(node, node)
    assert type_of(node) == TensorType((2,))
