"""Operators that a classic program registers itself, compared with NumPy."""

import itertools

import numpy as np
import pytest

from tilewright.errors import InputError, TypeMismatchError, UnsupportedError
from tilewright.relay.ir import registry

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of operators is one for all tests."""
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))


def new_name() -> str:
    return f"own_operator_{next(_numbers)}"


def describe(name: str, relation, compute=None, inputs: int = 1):
    from tvm.relay.op import op

    op.register(name, "an operator of a program")
    op.get(name).set_num_inputs(inputs)
    op.get(name).add_argument("data", "Tensor", "The data.")
    op.get(name).set_attrs_type_key("DictAttrs")
    op.get(name).set_support_level(1)
    op.get(name).add_type_rel(relation) if isinstance(relation, str) else op.get(name).add_type_rel(name, relation)
    op.register_pattern(name, op.OpPattern.ELEMWISE)
    op.register_stateful(name, False)
    if compute is not None:
        op.register_compute(name, compute)
    return op.get(name)


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
def test_an_operator_with_a_compute(kind: str) -> None:
    from tvm import relay, te

    cube = describe(
        new_name(),
        "Identity",
        lambda attrs, inputs, out_type: te.compute(
            inputs[0].shape, lambda *i: inputs[0](*i) * inputs[0](*i) * inputs[0](*i) * attrs["factor"]
        ),
    )
    x = relay.var("x", shape=(3, 5))
    func = relay.Function([x], relay.add(relay.Call(cube, [x], {"factor": 2.0}), x))
    data = np.random.rand(3, 5).astype("float32")
    found = relay.create_executor(kind).evaluate(func)(data)
    np.testing.assert_allclose(found.numpy(), 2 * data**3 + data, rtol=1e-5)


def test_relations_by_name_and_by_function() -> None:
    from tvm import relay
    from tvm.relay.testing import run_infer_type

    x, y = relay.var("x", shape=(10, 4)), relay.var("y", shape=(5, 10, 1))
    for relation, dtype in (("Broadcast", "float32"), ("BroadcastComp", "bool")):
        call = relay.Call(describe(new_name(), relation, inputs=2), [x, y])
        assert run_infer_type(call).checked_type == relay.TensorType((5, 10, 4), dtype)
    halved = describe(new_name(), lambda types, attrs: relay.TensorType((types[0].shape[0] // 2,), "int32"))
    assert run_infer_type(relay.Call(halved, [x])).checked_type == relay.TensorType((5,), "int32")


def test_a_gradient_of_its_own() -> None:
    from tvm import relay, te
    from tvm.relay.op import op

    square = describe(
        new_name(), "Identity", lambda a, ins, out: te.compute(ins[0].shape, lambda i: ins[0](i) * ins[0](i))
    )
    op.register_gradient(square.name, lambda call, grad: [grad * call.args[0] * relay.const(2.0)])
    x = relay.var("x", shape=(4,))
    mod = relay.transform.InferType()(tvm_module(relay.Function([x], relay.Call(square, [x]))))
    backward = relay.transform.gradient(mod["main"], mod)
    data = np.random.rand(4).astype("float32")
    value, (gradient,) = relay.create_executor().evaluate(backward)(data)
    np.testing.assert_allclose(value.numpy(), data**2, rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), 2 * data, rtol=1e-6)


def tvm_module(func):
    import tvm

    return tvm.IRModule.from_expr(func)


def test_what_is_wrong_with_an_operator() -> None:
    from tvm import relay
    from tvm.relay.op import op
    from tvm.relay.testing import run_infer_type

    x = relay.var("x", shape=(4,))
    name = new_name()
    bare = op.register(name)
    with pytest.raises(InputError, match=f"'{name}' is registered already"):
        op.register(name)
    with pytest.raises(TypeMismatchError, match="has no type relation"):
        run_infer_type(relay.Call(bare, [x]))
    with pytest.raises(UnsupportedError, match="there is no type relation 'Dense' here"):
        bare.add_type_rel("Dense")
    with pytest.raises(UnsupportedError, match="DictAttrs"):
        bare.set_attrs_type_key("relay.attrs.ConvAttrs")
    with pytest.raises(UnsupportedError, match=r"add is an operator of this package"):
        op.register_compute("add", lambda attrs, inputs, out: inputs)
    failing = describe(new_name(), lambda types, attrs: types[7])
    with pytest.raises(TypeMismatchError, match="its type relation raised IndexError"):
        run_infer_type(relay.Call(failing, [x]))
    typed = describe(new_name(), "Identity")
    with pytest.raises(UnsupportedError, match="has no compute"):
        relay.create_executor().evaluate(relay.Function([x], relay.Call(typed, [x])))(np.zeros(4, "float32"))
