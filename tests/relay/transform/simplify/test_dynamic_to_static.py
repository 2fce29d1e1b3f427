"""Shapes that are values become attributes where they are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.relay.helpers import module, op_names, rand
from tilewright import relay
from tilewright.relay.op import dyn
from tilewright.relay.transform.simplify.dynamic_to_static import dynamic_to_static

X = (2, 3, 4)


def _ints(*values: int) -> relay.Constant:
    return relay.const(np.array(values, "int64"))


CASES: dict[str, Callable[[relay.Expr], relay.Expr]] = {
    "reshape": lambda x: dyn.reshape(x, _ints(0, -1)),
    "broadcast_to": lambda x: dyn.broadcast_to(x, _ints(5, 2, 3, 4)),
    "expand_dims": lambda x: dyn.expand_dims(x, relay.const(1)),
    "squeeze": lambda x: dyn.squeeze(relay.expand_dims(x, 0), _ints(0)),
    "full": lambda x: x + dyn.full(relay.const(3.0), _ints(4)),
    "ones": lambda x: x + dyn.ones(_ints(4)),
    "zeros": lambda x: x + dyn.zeros(_ints(3, 4)),
    "tile": lambda x: dyn.tile(x, _ints(2, 1, 3)),
    "strided_slice": lambda x: dyn.strided_slice(x, _ints(0, 1, 0), _ints(2, 3, 4), _ints(1, 1, 2)),
    "topk": lambda x: dyn.topk(x, _ints(2), ret_type="values"),
    "one_hot": lambda x: dyn.one_hot(relay.cast(x, "int32"), relay.const(2.0), relay.const(-1.0), _ints(3)),
    "pad": lambda x: dyn.nn.pad(x, relay.const(np.array([[0, 1], [2, 0], [0, 0]])), relay.const(1.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_known_shapes_make_static_operators(name: str) -> None:
    mod = module(CASES[name](relay.var("x", shape=X)))
    after = dynamic_to_static(mod)
    assert not [op for op in op_names(after) if op.startswith("dyn.")]
    value = rand(*X)
    (expected,), (got,) = relay.interpret(mod, [value]), relay.interpret(after, [value])
    np.testing.assert_array_equal(got, expected)
    result = after["main"].checked_type.ret_type  # type: ignore[attr-defined]
    assert result.is_static and result.shape == expected.shape


def test_shape_arithmetic_folds_from_its_beginning() -> None:
    x, y = relay.var("x", shape=(6, 4)), relay.var("y", shape=(2, 3))
    wanted = relay.concatenate([relay.op.host.shape_of(y), _ints(4)], axis=0)
    after = dynamic_to_static(module(relay.Function([x, y], dyn.reshape(x, wanted))))
    assert op_names(after) == ["reshape"]
    assert after["main"].checked_type.ret_type == relay.TensorType((2, 3, 4))  # type: ignore[attr-defined]


def test_what_depends_on_values_stays_dynamic() -> None:
    x, shape = relay.var("x", shape=(6, 4)), relay.var("shape", shape=(2,), dtype="int64")
    assert op_names(dynamic_to_static(module(dyn.reshape(x, shape)))) == ["dyn.reshape"]
    unknown = relay.var("u", shape=(relay.Any(), 4))
    mod = module(dyn.reshape(x, relay.op.host.shape_of(unknown)))
    assert op_names(dynamic_to_static(mod)) == ["shape_of", "dyn.reshape"]
