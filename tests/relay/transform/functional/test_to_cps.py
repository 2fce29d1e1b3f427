"""Continuation-passing style: programs mean the same, and no converted function returns."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, small_cnn
from tests.relay.programs import Programs
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.ir.well_formed import check_well_formed
from tilewright.relay.transform.functional.to_cps import to_cps

SCALAR = relay.TensorType((), "float32")
INT = relay.scalar_type("int32")


def _tail_calls_only(expr: relay.Expr) -> bool:
    """True if every call of a function is the last thing that happens in its region."""
    bound = [node.value for node in post_order(expr) if isinstance(node, relay.Let)]
    return not any(isinstance(v, relay.Call) and not isinstance(v.op, Op | relay.Constructor) for v in bound)


def test_a_call_of_a_function_gets_the_rest_of_its_caller() -> None:
    f = relay.GlobalVar("f")
    x, y = relay.var("x", SCALAR), relay.var("y", SCALAR)
    main = relay.Function([x], relay.multiply(f(x), relay.const(2.0)))
    mod = infer_type(relay.IRModule({relay.GlobalVar("main"): main, f: relay.Function([y], relay.exp(y))}))
    after = to_cps(mod)
    assert sorted(gvar.name for gvar in after.functions) == ["f", "f_cps", "main", "main_cps"]
    assert len(after["main_cps"].type_params) == 1
    assert _tail_calls_only(after["main_cps"].body)
    assert_same(mod, after)


def test_recursion_and_branches() -> None:
    power = relay.GlobalVar("power")
    n, x = relay.var("n", INT), relay.var("x", SCALAR)
    again = relay.multiply(x, power(n - 1, x))
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(1.0), again)
    func = relay.Function([n, x], body, SCALAR)
    a, b = relay.var("a", INT), relay.var("b", SCALAR)
    main = relay.Function([a, b], relay.add(power(a, b), b))
    mod = infer_type(relay.IRModule({power: func, relay.GlobalVar("main"): main}))
    after = to_cps(mod)
    assert _tail_calls_only(after["power_cps"].body)
    (got,) = relay.interpret(after, [np.int32(5), np.float32(2)])
    np.testing.assert_array_equal(got, 34)


def test_closures_and_functions_as_values() -> None:
    x, y, f = relay.var("x", SCALAR), relay.var("y", SCALAR), relay.var("f", relay.FuncType([SCALAR], SCALAR))
    twice = relay.Function([f], f(f(x)))
    mod = module(relay.Function([x], twice(relay.Function([y], relay.add(y, x)))))
    after = to_cps(mod)
    assert _tail_calls_only(after["main_cps"].body)
    assert_same(mod, after)


def test_a_variable_bound_to_another() -> None:
    x, y = relay.var("x", SCALAR), relay.var("y", SCALAR)
    mod = module(relay.Function([x], relay.Let(y, x, relay.add(y, x))))
    assert_same(mod, to_cps(mod))


@pytest.mark.parametrize("seed", [20, 38, 54])
def test_random_programs_stay_well_formed(seed: int) -> None:
    mod = infer_type(Programs(Random(seed)).module())
    check_well_formed(to_cps(mod))


def test_straight_graphs_keep_their_values() -> None:
    mod = small_cnn()
    assert_same(mod, to_cps(mod))


def test_data_types_that_hold_functions_are_refused() -> None:
    header = relay.GlobalTypeVar("Box")
    box = relay.Constructor("Box", [relay.FuncType([SCALAR], SCALAR)], header)
    mod = relay.IRModule.from_expr(
        relay.Function([], relay.const(1.0)), type_definitions={header: relay.TypeData(header, [], [box])}
    )
    with pytest.raises(UnsupportedError, match=r"values of Box hold functions \(Box\)"):
        to_cps(mod)
