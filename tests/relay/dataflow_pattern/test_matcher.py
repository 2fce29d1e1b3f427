"""Matches of each pattern, and what it does not match."""

from __future__ import annotations

import numpy as np

from tests.relay.helpers import weights
from tilewright import relay
from tilewright.relay.dataflow_pattern import (
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.type import TensorType

X = relay.var("x", shape=(2, 3))
Y = relay.var("y", shape=(2, 3))


def conv() -> relay.Expr:
    return relay.nn.conv2d(relay.var("image", shape=(1, 3, 8, 8)), weights(4, 3, 3, 3), padding=(1, 1, 1, 1))


def test_leaves_match_by_name_and_kind() -> None:
    assert wildcard().match(X) and wildcard().match(relay.exp(X))
    assert is_var().match(X) and is_var("x").match(X)
    assert not is_var("y").match(X) and not is_var().match(relay.const(1))
    assert is_constant().match(relay.const(1)) and not is_constant().match(X)


def test_expressions_by_structure_and_variables_by_identity() -> None:
    assert is_expr(X).match(X) and not is_expr(X).match(Y)
    assert is_expr(relay.exp(X)).match(relay.exp(X)) and not is_expr(relay.exp(X)).match(relay.sqrt(X))
    assert is_expr(relay.const(2.0)).match(relay.const(2.0)) and not is_expr(relay.const(2.0)).match(relay.const(3.0))


def test_calls_match_operator_and_arguments() -> None:
    pattern = is_op("exp")(is_op("sqrt")(wildcard()))
    assert pattern.match(relay.exp(relay.sqrt(X)))
    assert not pattern.match(relay.exp(X)) and not pattern.match(relay.sqrt(relay.exp(X)))
    assert not is_op("add")(wildcard()).match(relay.add(X, Y))


def test_sums_and_products_match_either_way_round() -> None:
    for build, pattern in ((relay.add, is_op("add")), (relay.multiply, is_op("multiply"))):
        assert pattern(is_op("exp")(wildcard()), is_var("y")).match(build(Y, relay.exp(X)))
    assert not is_op("subtract")(is_op("exp")(wildcard()), wildcard()).match(relay.subtract(Y, relay.exp(X)))


def test_arithmetic_on_patterns() -> None:
    x, y = is_var("x"), is_var("y")
    assert ((x + y) * x).match(relay.multiply(relay.add(X, Y), X))
    assert ((x - y) / y).match(relay.divide(relay.subtract(X, Y), Y))
    assert not (x - y).match(relay.subtract(Y, X))


def test_one_pattern_in_two_positions_is_one_node() -> None:
    some = wildcard()
    assert (some * some).match(relay.multiply(X, X)) and not (some * some).match(relay.multiply(X, Y))
    either = is_op("exp")(some) | is_op("sqrt")(some)
    assert (either + some).match(relay.add(relay.sqrt(X), X))


def test_a_way_that_failed_leaves_nothing_behind() -> None:
    a = wildcard()
    pattern = is_op("subtract")(is_op("exp")(a), is_op("exp")(a)) | is_op("subtract")(a, is_op("exp")(wildcard()))
    assert pattern.match(relay.subtract(relay.exp(X), relay.exp(Y)))


def test_tuples_and_fields() -> None:
    pair = relay.Tuple([X, relay.exp(Y)])
    assert is_tuple([is_var(), is_op("exp")(wildcard())]).match(pair) and is_tuple().match(pair)
    assert not is_tuple([wildcard()]).match(pair) and not is_tuple().match(X)
    first, second = (relay.TupleGetItem(pair, position) for position in (0, 1))
    assert is_tuple_get_item(is_tuple(), 1).match(second) and is_tuple_get_item(wildcard()).match(first)
    assert not is_tuple_get_item(is_tuple(), 1).match(first)


def test_let_if_and_functions() -> None:
    v, c = relay.var("v"), relay.var("c", shape=(), dtype="bool")
    let = relay.Let(v, relay.exp(X), relay.sqrt(v))
    var = is_var("v")
    assert is_let(var, is_op("exp")(wildcard()), is_op("sqrt")(var)).match(let)
    assert not is_let(var, is_op("exp")(wildcard()), var).match(let)
    branch = relay.If(c, X, relay.exp(X))
    assert is_if(is_var("c"), wildcard(), is_op("exp")(wildcard())).match(branch)
    assert not is_if(is_var("c"), is_op("exp")(wildcard()), wildcard()).match(branch)
    x = is_var()
    assert FunctionPattern((x,), is_op("exp")(x)).match(relay.Function([X], relay.exp(X)))
    assert not FunctionPattern((x,), is_op("exp")(x)).match(relay.Function([X], relay.exp(Y)))
    assert FunctionPattern(None, wildcard()).match(relay.Function([X, Y], X))


def test_attributes_match_by_value() -> None:
    assert is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"padding": (1, 1, 1, 1), "groups": 1}).match(conv())
    assert not has_attr({"groups": 2}).match(conv()) and not has_attr({"unheard": 1}).match(conv())
    elementwise = wildcard().has_attr({"TOpPattern": int(OpPattern.ELEMWISE)})(wildcard())
    assert elementwise.match(relay.exp(X)) and not elementwise.match(relay.sum(X))
    assert has_attr({"Composite": "a"}).match(relay.Function([X], X, attrs={"Composite": "a"}))


def test_types_and_shapes_match_when_known() -> None:
    call = relay.exp(X)
    assert has_type(TensorType((2, 3))).match(call) and not has_type(TensorType((3, 2))).match(call)
    assert has_dtype("float32").match(call) and not has_dtype("int8", is_op("exp")(wildcard())).match(call)
    assert has_shape((2, 3)).match(call) and has_shape((relay.Any(), 3)).match(call)
    assert not has_shape((2,)).match(call) and not has_shape((2, 3), is_op("sqrt")(wildcard())).match(call)
    assert not has_shape((2, 3)).match(relay.exp(relay.var("untyped")))


def test_an_optional_operator_may_be_absent() -> None:
    pattern = is_op("nn.conv2d")(wildcard(), wildcard()).optional(lambda c: is_op("nn.relu")(c))
    assert pattern.match(conv()) and pattern.match(relay.nn.relu(conv()))
    assert not pattern.match(relay.exp(conv()))


def diamond(outside: bool = False, foreign: bool = False) -> relay.Expr:
    first = conv()
    left = relay.nn.relu(relay.exp(first))
    right = relay.nn.relu(conv() if foreign else first)
    joined = relay.add(left, right)
    return relay.Tuple([joined, right]) if outside else joined


def test_a_dominator_matches_when_all_ways_pass_it() -> None:
    elementwise = wildcard().has_attr({"TOpPattern": int(OpPattern.ELEMWISE)})(wildcard())
    root = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = dominates(root, elementwise, is_op("add")(wildcard(), wildcard()))
    assert pattern.match(diamond())
    assert not pattern.match(diamond(foreign=True))
    assert not is_tuple([pattern, wildcard()]).match(diamond(outside=True))
    assert is_op("nn.relu")(wildcard()).dominates(root).match(relay.nn.relu(relay.exp(conv())))
    assert not pattern.match(relay.add(relay.sum(conv()), relay.exp(conv())))
    assert not pattern.match(relay.const(np.zeros(3)))
    aside = relay.add(relay.nn.relu(relay.var("aside", shape=(1, 2, 3, 3))), relay.exp(conv()))
    assert not pattern.match(aside)  # one of the ways does not come from the convolution
