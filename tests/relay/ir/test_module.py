"""Modules of named functions."""

import pytest

from tilewright import relay
from tilewright.errors import InternalError


def test_from_expr_takes_free_variables_as_parameters() -> None:
    x, y = relay.var("x", shape=(1,)), relay.var("y", shape=(1,))
    mod = relay.IRModule.from_expr(relay.add(y, x))
    assert mod["main"].params == (y, x) and "main" in mod


def test_a_missing_function_is_named_beside_the_known_ones() -> None:
    mod = relay.IRModule.from_expr(relay.const(1))
    with pytest.raises(InternalError, match=r"no function 'other'; it has: main"):
        mod["other"]


def test_map_functions_keeps_an_unchanged_module() -> None:
    mod = relay.IRModule.from_expr(relay.const(1))
    assert mod.map_functions(lambda func: func) is mod
    changed = mod.with_function("helper", relay.Function([], relay.const(2)))
    assert "helper" in changed and "helper" not in mod
