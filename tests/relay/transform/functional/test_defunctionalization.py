"""Functions as values made data: programs mean the same and are of first order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.functional.defunctionalization import defunctionalization

SCALAR = relay.TensorType((), "float32")
INT = relay.scalar_type("int32")


def _is_first_order(mod: relay.IRModule) -> bool:
    nodes = [node for func in mod.functions.values() for node in post_order(func.body)]
    return not any(isinstance(node.checked_type, relay.FuncType) for node in nodes)


def test_a_closure_becomes_a_constructor() -> None:
    x, y, f = relay.var("x", SCALAR), relay.var("y", SCALAR), relay.var("f")
    mod = module(relay.Function([x], relay.Let(f, relay.Function([y], relay.add(x, y)), f(f(x)))))
    after = defunctionalization(mod)
    assert sorted(gvar.name for gvar in after.functions) == ["apply0", "main"]
    (constructor,) = after.type_data("Closure0").constructors
    assert constructor.inputs == (SCALAR,)
    assert _is_first_order(after)
    assert_same(mod, after)


def test_functions_passed_to_functions_and_chosen_by_a_branch() -> None:
    apply, square = relay.GlobalVar("apply_twice"), relay.GlobalVar("square")
    x, y, z = relay.var("x", SCALAR), relay.var("y", SCALAR), relay.var("z", SCALAR)
    g = relay.var("g", relay.FuncType([SCALAR], SCALAR))
    chosen = relay.If(relay.less(x, relay.const(0.0)), relay.Function([z], relay.multiply(z, x)), square)
    mod = infer_type(
        relay.IRModule(
            {
                apply: relay.Function([g, y], g(g(y)), SCALAR),
                square: relay.Function([relay.var("s", SCALAR)], relay.const(0.5), SCALAR),
                relay.GlobalVar("main"): relay.Function([x], apply(chosen, x)),
            }
        )
    )
    after = defunctionalization(mod)
    assert len(after.type_data("Closure0").constructors) == 2
    assert _is_first_order(after)
    for value in (-3.0, 4.0):
        (expected,), (got,) = (relay.interpret(one, [np.float32(value)]) for one in (mod, after))
        np.testing.assert_array_equal(got, expected)


def test_recursive_closures_become_first_order() -> None:
    n, times, x, loop = relay.var("n", INT), relay.var("times", INT), relay.var("x", SCALAR), relay.var("loop")
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(1.0), relay.multiply(x, loop(n - 1)))
    main = relay.Function([times, x], relay.Let(loop, relay.Function([n], body, SCALAR), loop(times)))
    after = defunctionalization(module(main))
    assert _is_first_order(after)
    (got,) = relay.interpret(after, [np.int32(5), np.float32(2)])
    np.testing.assert_array_equal(got, 32)


def test_functions_that_give_functions() -> None:
    x, a, b = relay.var("x", SCALAR), relay.var("a", SCALAR), relay.var("b", SCALAR)
    adder = relay.Function([a], relay.Function([b], relay.add(a, b)))
    mod = module(relay.Function([x], adder(x)(relay.const(2.0))))
    after = defunctionalization(mod)
    assert _is_first_order(after)
    assert_same(mod, after)


def test_programs_without_functions_as_values_stay_and_what_cannot_be_done_is_said() -> None:
    x, t = relay.var("x", SCALAR), relay.TypeVar("t")
    plain = module(relay.exp(x))
    assert defunctionalization(plain)["main"].body is plain["main"].body
    g = relay.var("g", relay.FuncType([SCALAR], SCALAR))
    with pytest.raises(UnsupportedError, match="@main takes or returns functions"):
        defunctionalization(module(relay.Function([g], g(relay.const(1.0)))))
    y = relay.var("y", t)
    identity = relay.Function([y], y, t, [t])
    mod = relay.IRModule({relay.GlobalVar("id"): identity, relay.GlobalVar("main"): relay.Function([x], x)})
    with pytest.raises(UnsupportedError, match="@id is polymorphic"):
        defunctionalization(infer_type(mod))
