"""Passes over functions: inlining, eta expansion, lambda lifting, partial evaluation, unused functions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir.adt import Constructor
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.functional.eta_expand import eta_expand
from tilewright.relay.transform.functional.inline import inline
from tilewright.relay.transform.functional.lambda_lift import lambda_lift
from tilewright.relay.transform.functional.partial_evaluate import partial_evaluate
from tilewright.relay.transform.simplify.remove_unused_functions import remove_unused_functions

SCALAR = relay.TensorType((), "float32")


def _functions(mod: relay.IRModule) -> list[str]:
    return [gvar.name for gvar in mod.functions]


def _calls_twice(**attrs: object) -> relay.IRModule:
    """main calls @twice on a computed value, and @unused is there as well."""
    twice, unused = relay.GlobalVar("twice"), relay.GlobalVar("unused")
    a, x = relay.var("a", shape=(2,)), relay.var("x", shape=(2,))
    return infer_type(
        relay.IRModule(
            {
                relay.GlobalVar("main"): relay.Function([x], relay.add(twice(relay.exp(x)), twice(x))),
                twice: relay.Function([a], relay.multiply(a, a), attrs=attrs),
                unused: relay.Function([], relay.const(1.0)),
            }
        )
    )


def test_marked_functions_are_inlined_and_arguments_computed_once() -> None:
    mod = _calls_twice(Inline=1)
    after = inline(mod)
    assert "twice" not in _functions(after)
    assert op_names(after).count("exp") == 1 and op_names(after).count("multiply") == 2
    assert_same(mod, after)


def test_functions_without_the_mark_and_recursive_ones_stay() -> None:
    mod = _calls_twice()
    assert inline(mod) is mod
    loop = relay.GlobalVar("loop")
    x = relay.var("x", shape=(2,))
    recursive = relay.Function([x], loop(x), relay.TensorType((2,)), attrs={"Inline": 1})
    mod = relay.IRModule({relay.GlobalVar("main"): relay.Function([], loop(relay.const([1.0, 2.0]))), loop: recursive})
    assert inline(mod) is mod


def test_inlined_functions_may_call_each_other() -> None:
    f, g = relay.GlobalVar("f"), relay.GlobalVar("g")
    a, b, x = (relay.var(name, shape=(2,)) for name in "abx")
    marked = {"Inline": 1}
    mod = infer_type(
        relay.IRModule(
            {
                f: relay.Function([a], g(g(a)), attrs=marked),
                g: relay.Function([b], relay.exp(b), attrs=marked),
                relay.GlobalVar("main"): relay.Function([x], f(x)),
            }
        )
    )
    after = inline(mod)
    assert _functions(after) == ["main"] and op_names(after) == ["exp", "exp"]
    assert_same(mod, after)


def test_functions_for_a_code_generator_stay_functions_and_so_do_values() -> None:
    f, g, a, x = relay.GlobalVar("f"), relay.GlobalVar("g"), relay.var("a", shape=(2,)), relay.var("x", shape=(2,))
    external = relay.Function([a], relay.exp(a), attrs={"Inline": 1, "Compiler": "mine"})
    constant = relay.Function([], relay.const([1.0, 2.0]), attrs={"Inline": 1})
    flag = relay.var("flag", shape=(), dtype="bool")
    body = relay.add(f(x), relay.Call(relay.If(flag, g, g), ()))
    mod = relay.IRModule({f: external, g: constant, relay.GlobalVar("main"): relay.Function([x, flag], body)})
    after = inline(infer_type(mod))
    assert _functions(after) == ["main"] and 'Compiler="mine"' in str(after)
    given = [np.array([0.0, 1.0], "float32"), np.array(True)]
    np.testing.assert_allclose(relay.interpret(after, given)[0], np.exp(given[0]) + given[0] + 1, rtol=1e-6)


def test_marked_functions_that_nothing_names_stay() -> None:
    f, a = relay.GlobalVar("f"), relay.var("a", shape=(2,))
    mod = infer_type(relay.IRModule({f: relay.Function([a], relay.exp(a), attrs={"Inline": 1})}))
    assert _functions(inline(mod)) == ["f"]


def test_functions_that_nothing_reaches_go() -> None:
    mod = _calls_twice()
    assert _functions(remove_unused_functions(mod)) == ["main", "twice"]
    assert _functions(remove_unused_functions(mod, ["unused"])) == ["unused"]
    assert remove_unused_functions(mod, ["main", "unused"]) is mod
    with pytest.raises(InputError, match="the module has no function 'start'"):
        remove_unused_functions(mod, ["start"])


def _list_module() -> tuple[relay.TypeData, Constructor, Constructor]:
    header, item = relay.GlobalTypeVar("List"), relay.TypeVar("A")
    cons = Constructor("Cons", [item, header(item)], header, 0)
    nil = Constructor("Nil", [], header, 1)
    return relay.TypeData(header, [item], [cons, nil]), cons, nil


def _applies_constructor() -> relay.IRModule:
    data, cons, nil = _list_module()
    floats = data.header(SCALAR)
    f = relay.var("f", relay.FuncType([SCALAR, floats], floats))
    x, head = relay.var("x", SCALAR), relay.var("head")
    apply = relay.Function([f], f(x, relay.Call(nil, [])))
    taken = relay.Match(
        apply(cons),
        [
            relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()]), head),
            relay.Clause(relay.PatternWildcard(), relay.const(0.0)),
        ],
    )
    return infer_type(relay.IRModule.from_expr(relay.Function([x], taken), type_definitions={data.header: data}))


def test_constructors_as_values_become_functions() -> None:
    mod = _applies_constructor()
    after = eta_expand(mod)
    operands = [kid for node in post_order(after["main"].body) for kid in relay.visitor.children(node)]
    assert not any(isinstance(kid, Constructor) for kid in operands)
    for one in (mod, after):
        np.testing.assert_array_equal(relay.interpret(one, [np.float32(3)])[0], 3)


def test_global_functions_as_values_become_functions_if_asked_to() -> None:
    g = relay.GlobalVar("g")
    a, x = relay.var("a", shape=(2,)), relay.var("x", shape=(2,))
    f = relay.var("f", relay.FuncType([relay.TensorType((2,))], relay.TensorType((2,))))
    main = relay.Function([x], relay.Function([f], f(f(x)))(g))
    mod = infer_type(relay.IRModule({g: relay.Function([a], relay.exp(a)), relay.GlobalVar("main"): main}))
    assert eta_expand(mod)["main"].body is mod["main"].body
    after = eta_expand(mod, expand_global_var=True)
    assert not any(
        isinstance(kid, relay.GlobalVar) for n in post_order(after["main"].body) for kid in relay.visitor.children(n)
    )
    assert_same(mod, after)


def _closures() -> relay.IRModule:
    x, y, z, f = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.var("z", shape=(2,)), relay.var("f")
    closed = relay.Function([z], relay.exp(z))
    capturing = relay.Function([y], relay.add(x, closed(y)))
    return module(relay.Let(f, capturing, f(f(x))))


def test_closures_become_functions_of_the_module() -> None:
    mod = _closures()
    after = lambda_lift(mod)
    assert _functions(after) == ["main", "lifted_func", "lifted_f"]
    assert after["lifted_f"].attrs == {"Closure": 1} and isinstance(after["lifted_f"].body, relay.Function)
    assert not any(isinstance(node, relay.Function) for node in post_order(after["main"].body))
    assert_same(mod, after)
    assert lambda_lift(after)["main"] is after["main"]


def _local_power() -> relay.Function:
    """let loop = fn (n) { if n == 0 { 1 } else { x * loop(n - 1) } }; loop(times)"""
    x, n, times, loop = relay.var("x", SCALAR), relay.var("n", "int32"), relay.var("times", "int32"), relay.var("loop")
    n, times = relay.var("n", relay.scalar_type("int32")), relay.var("times", relay.scalar_type("int32"))
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(1.0), relay.multiply(x, loop(n - 1)))
    return relay.Function([times, x], relay.Let(loop, relay.Function([n], body, SCALAR), loop(times)))


def test_recursive_closures_call_their_global_function() -> None:
    mod = module(_local_power())
    after = lambda_lift(mod)
    assert _functions(after) == ["main", "lifted_loop"]
    for one in (mod, after):
        (got,) = relay.interpret(one, [np.int32(5), np.float32(2)])
        np.testing.assert_array_equal(got, 32)


def test_partial_evaluation_unrolls_what_is_known() -> None:
    x = relay.var("x", SCALAR)
    mod = module(relay.Function([x], _local_power()(relay.const(3), x)))
    after = partial_evaluate(mod)
    assert op_names(after) == ["multiply", "multiply", "multiply"]
    assert_same(mod, after)


def test_partial_evaluation_leaves_loops_of_unknown_length() -> None:
    mod = module(_local_power())
    after = partial_evaluate(mod)
    assert len(post_order(after["main"].body)) < 60
    (got,) = relay.interpret(after, [np.int32(6), np.float32(2)])
    np.testing.assert_array_equal(got, 64)


def test_partial_evaluation_through_closures_tuples_and_branches() -> None:
    x, y, f = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.var("f")
    pair = relay.Tuple([relay.Function([y], relay.add(x, y)), relay.const(True)])
    chosen = relay.If(relay.TupleGetItem(pair, 1), relay.Let(f, relay.TupleGetItem(pair, 0), f(f(x))), x)
    mod = module(chosen)
    after = partial_evaluate(mod)
    assert op_names(after) == ["add", "add"]
    assert not any(isinstance(n, relay.Function | relay.If | relay.Tuple) for n in post_order(after["main"].body))
    assert_same(mod, after)


def test_partial_evaluation_decides_matches_and_keeps_effects() -> None:
    mod = _applies_constructor()
    after = partial_evaluate(mod)
    assert not any(isinstance(node, relay.Match) for node in post_order(after["main"].body))
    np.testing.assert_array_equal(relay.interpret(after, [np.float32(3)])[0], 3)
    x, r = relay.var("x", shape=(2,)), relay.var("r")
    write = relay.RefWrite(r, relay.exp(relay.RefRead(r)))
    counter = module(relay.Let(r, relay.RefCreate(x), relay.Let(relay.var("_"), write, relay.RefRead(r))))
    assert_same(counter, partial_evaluate(counter))


def test_partial_evaluation_stops_when_the_fuel_is_gone() -> None:
    x = relay.var("x", SCALAR)
    mod = module(relay.Function([x], _local_power()(relay.const(50), x)))
    after = partial_evaluate(mod, fuel=10)
    assert op_names(after).count("multiply") < 15
    (got,) = relay.interpret(after, [np.float32(1.0)])
    np.testing.assert_array_equal(got, 1)
