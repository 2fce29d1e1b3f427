"""Constant folding."""

import numpy as np

from tests.relay.helpers import module, op_names
from tilewright import relay, te
from tilewright.relay.transform.simplify.fold_constant import fold_constant


def test_folds_what_depends_on_constants_only() -> None:
    x = relay.var("x", shape=(2,))
    mod = fold_constant(module(relay.multiply(x, relay.sqrt(relay.add(relay.const(3.0), relay.const(1.0))))))
    assert op_names(mod) == ["multiply"]
    assert relay.interpret(mod, [np.ones(2, "float32")])[0].tolist() == [2, 2]


def test_folds_through_tuples_and_conditions() -> None:
    x = relay.var("x", shape=(1,))
    parts = relay.split(relay.const(np.arange(4, dtype="float32")), 2)
    joined = relay.concatenate([parts[1], relay.zeros((1,))])
    choice = relay.If(relay.less(relay.const(1.0), relay.const(2.0)), joined, relay.concatenate([x, x, x]))
    body = fold_constant(module(relay.Tuple([x, choice])))["main"].body
    assert isinstance(body, relay.Tuple) and isinstance(body.fields[1], relay.Constant)
    assert body.fields[1].data.tolist() == [2, 3, 0]


def test_does_not_fold_what_grows_large() -> None:
    large = relay.broadcast_to(relay.const(1.0), (1024, 1024))
    assert op_names(fold_constant(module(large))) == ["broadcast_to"]
    shrinking = relay.sum(relay.const(np.ones((600, 600), "float32")))
    assert op_names(fold_constant(module(shrinking))) == []
    same_size = relay.transpose(relay.const(np.ones((600, 600), "float32")))
    assert op_names(fold_constant(module(same_size))) == []


def test_does_not_fold_what_has_a_symbolic_shape() -> None:
    size = te.size_var("n")
    row = relay.var("x", shape=(size,))
    mod = module(relay.add(row, relay.broadcast_to(relay.const(1.0), (size,))))
    assert op_names(fold_constant(mod)) == ["broadcast_to", "add"]


def test_unchanged_module_is_the_same_object() -> None:
    mod = module(relay.exp(relay.var("x", shape=(2,))))
    assert fold_constant(mod) is mod
