"""Variables, type variables, binding and equality."""

from __future__ import annotations

import pytest

from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir import analysis
from tilewright.relay.ir.prelude import prelude_module

INT = relay.scalar_type("int32")


def test_free_bound_and_all_variables() -> None:
    x, y, z, w = (relay.var(name, INT) for name in "xyzw")
    expr = relay.Let(y, relay.Function([z], relay.add(z, x)), relay.Call(y, [x]))
    assert analysis.free_vars(expr) == [x]
    assert analysis.bound_vars(expr) == [z, y]
    assert set(analysis.all_vars(expr)) == {x, y, z}
    match = relay.Match(x, [relay.Clause(relay.PatternVar(w), w)])
    assert analysis.free_vars(match) == [x] and analysis.bound_vars(match) == [w]


def test_type_variables_are_listed_free_and_bound() -> None:
    a, b, c = (relay.TypeVar(name) for name in "ABC")
    x = relay.var("x", relay.FuncType([b, c], b, [c]))
    func = relay.Function([x], x, a, [a])
    assert analysis.bound_type_vars(func) == [a, c]
    assert analysis.free_type_vars(func) == [b]
    assert set(analysis.all_type_vars(func)) == {a, b, c}
    assert analysis.free_type_vars(x.type_annotation or INT) == [b]


def test_every_node_is_visited_once_and_so_are_parameters() -> None:
    x, unused = relay.var("x", INT), relay.var("unused", INT)
    body = relay.add(x, x)
    seen: list[relay.Expr] = []
    func = relay.Function([x, unused], body)
    analysis.post_order_visit(func, seen.append)
    assert seen == [x, body, unused, func]


def test_names_of_bound_variables_do_not_matter() -> None:
    x, y, free = relay.var("x", INT), relay.var("y", INT), relay.var("x", INT)
    assert analysis.alpha_equal(relay.Function([x], relay.add(x, free)), relay.Function([y], relay.add(y, free)))
    assert not analysis.alpha_equal(relay.add(x, x), relay.add(y, y))
    assert analysis.alpha_equal(relay.TupleType([INT]), relay.TupleType([INT]))


def test_bind_by_name_or_object() -> None:
    x, y = relay.var("x", INT), relay.var("y", INT)
    func = relay.Function([x, y], relay.subtract(x, y))
    bound = analysis.bind(func, {"y": relay.const(2)})
    assert isinstance(bound, relay.Function) and bound.params == (x,)
    assert relay.evaluate(analysis.bind(func, {x: relay.const(7), y: relay.const(2)})) == 5
    assert relay.evaluate(analysis.bind(func.body, {"x": relay.const(1), "y": relay.const(3)})) == -2
    with pytest.raises(InputError, match="there is no variable 'z' to bind; there are: x, y"):
        analysis.bind(func, {"z": x})


def test_a_case_that_no_clause_matches_is_shown() -> None:
    mod = relay.parse("def @f(%x: List[int32]) { match? (%x) { Cons(_, Nil) => 1 } }", prelude_module())
    match = mod["f"].body
    assert isinstance(match, relay.Match)
    assert analysis.unmatched_cases(match, mod) == "Cons(_, Cons(_, _))"
