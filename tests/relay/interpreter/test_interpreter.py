"""Evaluation by NumPy references."""

from collections.abc import Callable

import numpy as np
import pytest

from tilewright import relay, te
from tilewright.errors import InputError, InternalError, UnsupportedError
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, TupleType
from tilewright.relay.ir.values import Closure, RefValue, elements


def test_inputs_by_name_or_order_and_nested_tuple_results() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    func = relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.Tuple([x])]))
    a, b = np.ones(2, "float32"), np.full(2, 2, "float32")
    for inputs in ([a, b], {"y": b, "x": a}):
        total, first = relay.interpret(func, inputs)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(first, a)


def test_wrong_inputs_are_named() -> None:
    func = relay.exp(relay.var("x", shape=(2,)))
    with pytest.raises(InputError, match="no value for the input 'x'"):
        relay.interpret(func, {})
    with pytest.raises(InputError, match=r"'x' is float64\[2\], not Tensor\[\(2,\), float32\]"):
        relay.interpret(func, {"x": np.zeros(2)})


def test_only_the_branch_taken_is_evaluated() -> None:
    x = relay.var("x", shape=())

    def fail(*_: object) -> np.ndarray:
        raise AssertionError("evaluated")

    op = register("test.fail", num_inputs=1, type_rule=lambda t, a: t[0], pattern=OpPattern.OPAQUE, reference=fail)
    body = relay.If(relay.less(x, 0.0), relay.Call(op, [x]), relay.exp(x))
    (value,) = relay.interpret(body, {"x": np.float32(0)})
    assert value == 1


def test_let_binds_and_calls_reach_other_functions() -> None:
    x, y, z = relay.var("x", shape=()), relay.var("y"), relay.var("z", shape=())
    square = relay.GlobalVar("square")
    main = relay.Function([x], relay.Let(y, relay.add(x, 1.0), relay.Call(square, [y])))
    mod = relay.IRModule({relay.GlobalVar("main"): main, square: relay.Function([z], relay.multiply(z, z))})
    (value,) = relay.interpret(mod, [np.float32(2)])
    assert value == 9


def test_a_reference_that_breaks_its_type_rule_is_an_internal_error() -> None:
    op = register(
        "test.wrong",
        num_inputs=1,
        type_rule=lambda types, attrs: TensorType((3,)),
        pattern=OpPattern.OPAQUE,
        reference=lambda attrs, x: x,
    )
    with pytest.raises(InternalError, match=r"reference of test.wrong returns"):
        relay.interpret(relay.Call(op, [relay.var("x", shape=(2,))]), [np.zeros(2, "float32")])


def test_depth_is_no_limit() -> None:
    node: relay.Expr = relay.var("x", shape=())
    for _ in range(3000):
        node = relay.negative(node)
    assert relay.interpret(node, [np.float32(5)])[0] == 5


INT = TensorType((), "int32")


def count_down(body: Callable[[relay.Expr, relay.Var], relay.Expr]) -> relay.IRModule:
    """`loop(n, total)`: `total` at 0, otherwise `body(loop(n - 1, …), total)`."""
    loop, n, total = relay.GlobalVar("loop"), relay.var("n", INT), relay.var("total", INT)
    again = relay.Call(loop, [relay.subtract(n, relay.const(1)), relay.add(total, n)])
    func = relay.Function([n, total], relay.If(relay.equal(n, relay.const(0)), total, body(again, total)), INT)
    start = relay.var("start", INT)
    return relay.IRModule.from_expr(relay.Function([start], relay.Call(loop, [start, relay.const(0)])), {loop: func})


@pytest.mark.parametrize("steps", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_tail_recursive_loop_is_as_long_as_it_wants(steps: int) -> None:
    (total,) = relay.interpret(count_down(lambda again, total: again), [np.int32(steps)])
    assert total == np.asarray(steps * (steps + 1) // 2, "int64").astype("int32")


def test_recursion_that_is_not_in_tail_position_is_as_deep_as_memory() -> None:
    (total,) = relay.interpret(count_down(lambda again, total: relay.negative(again)), [np.int32(10_001)])
    assert total == -10_001 * 10_002 // 2


def test_tail_calls_through_let_match_and_tuples() -> None:
    even, n, m, y = relay.GlobalVar("even"), relay.var("n", INT), relay.var("m"), relay.var("y")
    again = relay.Call(even, [relay.Tuple([relay.subtract(m, relay.const(1)), relay.logical_not(y)])])
    pattern = relay.PatternTuple([relay.PatternVar(m), relay.PatternVar(y)])
    branch = relay.If(relay.equal(m, relay.const(0)), y, relay.Let(relay.var("unused"), m, again))
    pair = relay.var("pair", TupleType([INT, TensorType((), "bool")]))
    func = relay.Function([pair], relay.Match(pair, [relay.Clause(pattern, branch)]), TensorType((), "bool"))
    mod = relay.IRModule.from_expr(
        relay.Function([n], relay.Call(even, [relay.Tuple([n, relay.const(True)])])), {even: func}
    )
    assert [bool(relay.interpret(mod, [np.int32(i)])[0]) for i in (4, 5, 3000)] == [True, False, True]


def test_closures_capture_values_and_call_themselves() -> None:
    x, f, y, g = relay.var("x", INT), relay.var("f"), relay.var("y"), relay.var("g")
    power = relay.If(
        relay.equal(y, relay.const(0)),
        relay.const(1),
        relay.multiply(x, relay.Call(f, [relay.subtract(y, relay.const(1))])),
    )
    make = relay.Function([x], relay.Let(f, relay.Function([y], power), f))
    body = relay.Let(g, relay.Call(make, [relay.const(3)]), relay.Tuple([relay.Call(g, [relay.const(4)]), g]))
    power_of_four, closure = relay.evaluate(body)
    assert power_of_four == 81 and isinstance(closure, Closure)


def test_reads_of_a_reference_see_later_writes() -> None:
    r, a, u, b = relay.var("r"), relay.var("a"), relay.var("u"), relay.var("b")
    body: relay.Expr = relay.Tuple([a, b, r])
    steps = [
        (r, relay.RefCreate(relay.const(1))),
        (a, relay.RefRead(r)),
        (u, relay.RefWrite(r, relay.add(a, relay.const(5)))),
        (b, relay.RefRead(r)),
    ]
    for var, value in reversed(steps):
        body = relay.Let(var, value, body)
    before, after, ref = relay.evaluate(body)
    assert (before, after) == (1, 6) and isinstance(ref, RefValue) and ref.value == 6


def test_data_types_are_built_and_taken_apart() -> None:
    header = relay.GlobalTypeVar("Chain")
    link, end = relay.Constructor("Link", [INT, header()], header, 0), relay.Constructor("End", [], header, 1)
    data = relay.TypeData(header, [], [link, end])
    h, t, total, xs = relay.var("h"), relay.var("t"), relay.GlobalVar("total"), relay.var("xs", header())
    clauses = [
        relay.Clause(
            relay.PatternConstructor(link, [relay.PatternVar(h), relay.PatternVar(t)]),
            relay.add(h, relay.Call(total, [t])),
        ),
        relay.Clause(relay.PatternConstructor(end), relay.const(0)),
    ]
    functions = {total: relay.Function([xs], relay.Match(xs, clauses), INT)}
    chain: relay.Expr = relay.Call(end, [])
    for i in range(2000):
        chain = relay.Call(link, [relay.const(i), chain])
    mod = relay.IRModule.from_expr(relay.Tuple([relay.Call(total, [chain]), chain]), functions, {data.header: data})
    result, value = relay.evaluate(mod)
    assert result == 2000 * 1999 // 2
    assert [int(i) for i in elements(value)] == list(range(1999, -1, -1))
    assert repr(value).startswith("Link(array(1999") and len(repr(value)) < 400


def test_a_value_that_no_clause_fits_is_an_error() -> None:
    header = relay.GlobalTypeVar("Choice")
    left, right = relay.Constructor("Left", [INT], header, 0), relay.Constructor("Right", [], header, 1)
    data = relay.TypeData(header, [], [left, right])
    clause = relay.Clause(relay.PatternConstructor(right), relay.const(1))
    match = relay.Match(relay.Call(left, [relay.const(7)]), [clause], complete=False)
    with pytest.raises(InputError, match=r"no clause of a match fits the value Left\(7\)"):
        relay.evaluate(relay.IRModule.from_expr(match, None, {data.header: data}))


def test_inputs_of_unknown_and_symbolic_size() -> None:
    n = te.size_var("n")
    x, y = relay.var("x", TensorType((n,))), relay.var("y", TensorType((n, relay.Any())))
    func = relay.Function([x, y], relay.Tuple([x, y]))
    a, b = relay.interpret(func, [np.zeros(3, "float32"), np.zeros((3, 5), "float32")])
    assert a.shape == (3,) and b.shape == (3, 5)
    with pytest.raises(InputError, match=r"'y' is float32\[4, 5\], not Tensor\[\(n, \?\), float32\]"):
        relay.interpret(func, [np.zeros(3, "float32"), np.zeros((4, 5), "float32")])


def test_tuples_as_inputs() -> None:
    pair = relay.var("pair", TupleType([INT, INT]))
    func = relay.Function([pair], relay.subtract(pair[0], pair[1]))
    assert relay.interpret(func, [(np.int32(5), np.int32(3))])[0] == 2
    with pytest.raises(InputError, match=r"'pair.1' is float64\[\], not int32"):
        relay.interpret(func, [(np.int32(5), np.float64(3))])


def test_attributes_that_name_open_sizes_take_those_of_the_run() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    x, y = relay.var("x", shape=(n, 4)), relay.var("y", shape=(m, 2))
    halves = relay.GlobalVar("halves")
    main = relay.Function([x], relay.Call(halves, [relay.reshape(x, newshape=(n * 2, 2))]))
    inner = relay.Function([y], relay.broadcast_to(relay.sum(y, axis=1, keepdims=True), shape=(m, 3)))
    mod = relay.IRModule({relay.GlobalVar("main"): main, halves: inner})
    for rows in (1, 5):
        data = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
        (found,) = relay.interpret(mod, [data])
        np.testing.assert_array_equal(found, np.repeat(data.reshape(-1, 2).sum(1, keepdims=True), 3, 1))


def test_a_size_that_no_input_says_is_one_error() -> None:
    x = relay.var("x", shape=(1,))
    with pytest.raises(UnsupportedError, match="broadcast_to needs the size hidden"):
        relay.interpret(relay.broadcast_to(x, shape=(te.size_var("hidden"),)), [np.zeros(1, "float32")])
