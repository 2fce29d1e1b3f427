"""Graph nodes: immutability, attributes, operators, types on demand."""

import pickle

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import IllFormedError, TypeMismatchError


def test_nodes_are_immutable_and_compare_by_identity() -> None:
    x = relay.var("x", shape=(2,))
    assert relay.nn.relu(x) != relay.nn.relu(x)
    with pytest.raises(AttributeError):
        x.name = "y"  # type: ignore[misc]


def test_attrs_are_plain_hashable_values() -> None:
    attrs = relay.Attrs(axis=[1, 2], scale=np.float32(2), shape=np.array([3, 4]))
    assert attrs["axis"] == (1, 2) and attrs.shape == (3, 4) and type(attrs.scale) is float
    assert hash(attrs) == hash(relay.Attrs(shape=(3, 4), scale=2.0, axis=(1, 2)))
    assert attrs.replace(axis=0).axis == 0 and attrs.axis == (1, 2)
    assert pickle.loads(pickle.dumps(attrs)) == attrs
    with pytest.raises(AttributeError, match="axis, scale, shape"):
        attrs.missing  # noqa: B018


def test_python_operators_build_calls_with_constants_of_the_other_operands_type() -> None:
    x = relay.var("x", shape=(2,), dtype="float16")
    mod = relay.transform.infer_type(relay.IRModule.from_expr(-(1 - x * 2) / x + x))
    (result,) = relay.interpret(mod, {"x": np.array([1, 2], "float16")})
    np.testing.assert_array_equal(result, np.array([2, 3.5], "float16"))


def test_constants_take_the_classic_default_types() -> None:
    assert str(relay.const(1.5).tensor_type) == "float32"
    assert str(relay.const(3).tensor_type) == "int32"
    assert str(relay.const(np.zeros(2)).tensor_type) == "Tensor[(2,), float64]"


def test_a_type_asked_for_before_inference_says_what_to_run() -> None:
    with pytest.raises(IllFormedError, match=r"run relay.transform.InferType first"):
        relay.nn.relu(relay.var("x", shape=(1,))).checked_type  # noqa: B018


def test_expressions_are_called_compared_and_cast() -> None:
    x = relay.var("x", shape=(2,))
    func = relay.Function([x], -x, None, None, {"name": "f"}).with_attr("Primitive", 1)
    assert func.attrs == {"name": "f", "Primitive": 1}
    assert relay.GlobalVar("f")(x).args == (x,)
    names = [call.op.name for call in (x < 1.0, x > 1.0, x <= 1.0, x >= 1.0)]
    assert names == ["less", "greater", "less_equal", "greater_equal"]
    assert repr(relay.type_of(x.astype("int8"))) == "Tensor[(2,), int8]"
    assert relay.TensorType((2, 3)).concrete_shape == (2, 3)
    with pytest.raises(TypeMismatchError, match="not known before run time"):
        _ = relay.TensorType((relay.Any(),)).concrete_shape


def test_tuples_have_fields() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    pair = relay.Tuple([x, y])
    assert len(pair) == 2 and pair[1] is y
    assert relay.Tuple([])
