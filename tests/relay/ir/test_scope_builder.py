"""Programs written line by line: bindings, branches, and what may not be written."""

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir.scope_builder import ScopeBuilder


def test_bindings_and_branches_in_the_order_written() -> None:
    x = relay.var("x", shape=())
    builder = ScopeBuilder()
    doubled = builder.let("doubled", x + x)
    typed = builder.let(("typed", relay.TensorType(())), doubled + x)
    with builder.if_scope(relay.less(x, relay.const(0.0))):
        builder.ret(builder.let("inner", relay.negative(typed)))
    with builder.else_scope():
        builder.ret(doubled)
    func = relay.Function([x], builder.get())
    assert isinstance(func.body, relay.Let) and func.body.var is doubled
    for value, expected in ((-1.0, 3.0), (2.0, 4.0)):
        np.testing.assert_array_equal(relay.interpret(func, [np.float32(value)])[0], expected)


def test_what_may_not_be_written() -> None:
    builder = ScopeBuilder()
    with pytest.raises(InputError, match="a scope returns nothing: call ret in it"):
        builder.get()
    with pytest.raises(InputError, match="an else_scope follows an if_scope"), builder.else_scope():
        pass
    builder.ret(relay.const(1.0))
    with pytest.raises(InputError, match="this scope returns already"):
        builder.ret(relay.const(2.0))
    half = ScopeBuilder()
    with half.if_scope(relay.const(True)):
        half.ret(relay.const(1.0))
    with pytest.raises(InputError, match="an if_scope without an else_scope has no value"):
        half.get()
