"""A-normal, basic-block and graph normal form: what they look like, and that programs mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.helpers import assert_same, module, small_cnn
from tilewright import relay
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.transform.functional.scopes import is_atomic
from tilewright.relay.transform.functional.to_a_normal_form import to_a_normal_form
from tilewright.relay.transform.functional.to_basic_block_normal_form import crossing_values, to_basic_block_normal_form
from tilewright.relay.transform.functional.to_graph_normal_form import to_graph_normal_form
from tilewright.relay.transform.simplify.dead_code import dead_code


def _lets(expr: relay.Expr) -> list[tuple[relay.Var, relay.Expr]]:
    found = []
    while isinstance(expr, relay.Let):
        found.append((expr.var, expr.value))
        expr = expr.body
    return found


def test_a_shared_value_is_bound_once_in_order() -> None:
    x = relay.var("x", shape=(2,))
    total = relay.add(x, x)
    mod = module(relay.multiply(total, relay.exp(total)))
    after = to_a_normal_form(mod)
    lets = _lets(after["main"].body)
    assert [value.op.name for _, value in lets] == ["add", "exp", "multiply"]  # type: ignore[attr-defined]
    assert lets[2][1].args == (lets[0][0], lets[1][0])  # type: ignore[attr-defined]
    assert_same(mod, after)


def test_names_that_the_program_gave_stay() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    mod = module(relay.Let(y, relay.exp(x), relay.add(y, relay.log(y))))
    after = to_a_normal_form(mod)
    assert [var.name for var, _ in _lets(after["main"].body)] == ["y", "x0", "x1"]
    assert_same(mod, to_graph_normal_form(after))


def _branches() -> relay.IRModule:
    """A value both branches use, one that a branch alone uses, one that is used after as well."""
    x = relay.var("x", shape=(3,))
    both, after = relay.exp(x), relay.tanh(x)
    alone = relay.sqrt(both)
    cond = relay.less(relay.sum(x), relay.const(0.0))
    chosen = relay.If(cond, relay.add(both, after), relay.multiply(alone, alone))
    return module(relay.add(chosen, after))


def test_values_are_bound_in_the_innermost_region_around_their_uses() -> None:
    mod = _branches()
    lets = _lets(to_a_normal_form(mod)["main"].body)
    outer = [getattr(getattr(value, "op", None), "name", "if") for _, value in lets]
    assert outer == ["sum", "less", "exp", "tanh", "if", "add"]
    (chosen,) = [value for _, value in lets if isinstance(value, relay.If)]
    inner = [value.op.name for _, value in _lets(chosen.false_branch)]  # type: ignore[attr-defined]
    assert inner == ["sqrt", "multiply"]
    assert_same(mod, to_a_normal_form(mod))


def test_basic_blocks_bind_only_what_crosses_regions() -> None:
    mod = _branches()
    after = to_basic_block_normal_form(mod)
    assert [value.op.name for _, value in _lets(after["main"].body)] == ["exp", "tanh"]  # type: ignore[attr-defined]
    assert not crossing_values(after["main"].body)
    assert_same(mod, after)
    straight = small_cnn()
    assert to_basic_block_normal_form(straight) is straight


def test_closures_take_what_they_share_from_outside() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    shared = relay.exp(x)
    func = relay.Function([y], relay.add(y, shared))
    mod = module(relay.add(func(x), shared))
    lets = _lets(to_a_normal_form(mod)["main"].body)
    assert [type(value).__name__ for _, value in lets] == ["Call", "Function", "Call", "Call"]
    assert_same(mod, to_a_normal_form(mod))
    assert_same(mod, to_graph_normal_form(to_a_normal_form(mod)))


def test_recursive_bindings_stay_bindings() -> None:
    n, x, loop = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(2,)), relay.var("loop")
    again = loop(n - 1, relay.add(x, x))
    body = relay.If(relay.equal(n, relay.const(0)), x, again)
    func = relay.Function([n, x], body, relay.TensorType((2,)))
    start = relay.var("start", shape=(2,))
    mod = module(relay.Let(loop, func, loop(relay.const(3), start)))
    for form in (to_a_normal_form, to_graph_normal_form, to_basic_block_normal_form):
        after = form(mod)
        assert any(isinstance(node, relay.Let) and node.var is loop for node in post_order(after["main"].body))
        (got,) = relay.interpret(after, [np.ones(2, "float32")])
        np.testing.assert_array_equal(got, [8, 8])


def _counter() -> relay.IRModule:
    """let r = ref(x); let _ = r := !r * 2; let unused = exp(x); !r"""
    x, r = relay.var("x", shape=(2,)), relay.var("r")
    write = relay.RefWrite(r, relay.multiply(relay.RefRead(r), relay.const(2.0)))
    body = relay.Let(relay.var("unused"), relay.exp(x), relay.RefRead(r))
    return module(relay.Let(r, relay.RefCreate(x), relay.Let(relay.var("_"), write, body)))


def test_effects_keep_their_order() -> None:
    mod = _counter()
    for form in (to_a_normal_form, to_graph_normal_form, dead_code):
        (got,) = relay.interpret(form(mod), [np.array([1, 3], "float32")])
        np.testing.assert_array_equal(got, [2, 6])
    assert "exp" not in repr(dead_code(mod))


def test_dead_recursive_functions_and_chains_go() -> None:
    x, f, n = relay.var("x", shape=(2,)), relay.var("f"), relay.var("n", shape=(2,))
    a, b = relay.var("a"), relay.var("b")
    chain = relay.Let(a, relay.exp(x), relay.Let(b, relay.log(a), x))
    mod = module(relay.Let(f, relay.Function([n], f(n), relay.TensorType((2,))), chain))
    assert dead_code(mod)["main"].body is x


def test_deep_graphs_are_no_problem() -> None:
    x: relay.Expr = relay.var("x", shape=(1,))
    for _ in range(3000):
        x = relay.negative(x)
    mod = module(x)
    assert len(_lets(to_a_normal_form(mod)["main"].body)) == 3000


@st.composite
def _programs(draw: st.DrawFn) -> relay.IRModule:
    """Graphs of sums, tuples, branches, bindings and closures over shared values."""
    pool: list[relay.Expr] = [relay.var("x", shape=(2,)), relay.var("y", shape=(2,))]

    def pick() -> relay.Expr:
        return pool[draw(st.integers(0, len(pool) - 1))]

    for index in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["add", "tanh", "tuple", "if", "let", "call"]))
        if kind == "add":
            made: relay.Expr = relay.add(pick(), pick())
        elif kind == "tanh":
            made = relay.tanh(pick())
        elif kind == "tuple":
            made = relay.TupleGetItem(relay.Tuple([pick(), pick()]), draw(st.integers(0, 1)))
        elif kind == "if":
            made = relay.If(relay.less(relay.sum(pick()), relay.const(0.5)), pick(), pick())
        elif kind == "let":
            var = relay.var(f"v{index}")
            made = relay.Let(var, pick(), relay.add(var, pick()))
        else:
            param = relay.var(f"p{index}", shape=(2,))
            made = relay.Function([param], relay.subtract(param, pick()))(pick())
        pool.append(made)
    return module(relay.Function(pool[:2], relay.add(pool[-1], pick())))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(_programs())
def test_random_programs_mean_the_same_in_every_form(mod: relay.IRModule) -> None:
    normal = to_a_normal_form(mod)
    for node in post_order(normal["main"].body):
        if not isinstance(node, relay.Let | relay.If | relay.Function):
            assert all(map(is_atomic, children(node)))
    assert_same(mod, normal)
    assert_same(mod, to_basic_block_normal_form(mod))
    graph = to_graph_normal_form(normal)
    assert not any(isinstance(node, relay.Let) for node in post_order(graph["main"].body))
    assert_same(mod, graph)
    assert_same(mod, dead_code(normal))


@pytest.mark.parametrize("form", [to_a_normal_form, to_basic_block_normal_form, to_graph_normal_form])
def test_types_are_known_afterwards(form) -> None:  # type: ignore[no-untyped-def]
    mod = _branches()
    assert form(mod)["main"].checked_type == mod["main"].checked_type
