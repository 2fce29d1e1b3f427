"""Rewriting by callbacks: before and after."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.dataflow_pattern import DFPatternCallback, dominates, is_constant, is_op, rewrite, wildcard
from tilewright.relay.dataflow_pattern.matcher import NodeMap
from tilewright.relay.ir.structural import structural_equal
from tilewright.relay.ir.type import TensorType


class AddToSubtract(DFPatternCallback):
    """x + c becomes x - (-c)."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.x, self.c = wildcard(), is_constant()
        self.pattern = self.x + self.c

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: NodeMap) -> relay.Expr:
        assert pre.checked_type == post.checked_type
        return relay.subtract(node_map[self.x][0], relay.negative(node_map[self.c][0]))


class Strip(DFPatternCallback):
    """sqrt(x * x) becomes abs(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = is_op("sqrt")(self.x * self.x)

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: NodeMap) -> relay.Expr:
        return relay.abs(node_map[self.x][0])


class Swap(DFPatternCallback):
    """x - y becomes y - x, which matches again."""

    def __init__(self, once: bool) -> None:
        super().__init__(rewrite_once=once)
        self.x, self.y = wildcard(), wildcard()
        self.pattern = self.x - self.y

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: NodeMap) -> relay.Expr:
        return relay.subtract(node_map[self.y][0], node_map[self.x][0])


X = relay.var("x", shape=(2, 3))


def test_every_match_is_replaced_and_nested_ones_see_rewritten_operands() -> None:
    before = relay.add(relay.exp(relay.add(X, 1.0)), 2.0)
    after = AddToSubtract().rewrite(before)
    expected = relay.subtract(
        relay.exp(relay.subtract(X, relay.negative(relay.const(1.0)))), relay.negative(relay.const(2.0))
    )
    assert structural_equal(after, expected)
    assert_same(module(before), module(after))


def test_functions_and_branches_are_entered() -> None:
    cond = relay.var("c", TensorType((), "bool"))
    func = relay.Function([X, cond], relay.If(cond, relay.sqrt(relay.multiply(X, X)), X))
    after = rewrite(Strip(), func)
    assert isinstance(after, relay.Function) and structural_equal(after.body, relay.If(cond, relay.abs(X), X))


def test_several_callbacks_until_nothing_changes() -> None:
    inner = relay.add(X, 1.0)
    after = rewrite([Strip(), AddToSubtract()], relay.sqrt(relay.multiply(inner, inner)))
    assert structural_equal(after, relay.abs(relay.subtract(X, relay.negative(relay.const(1.0)))))


def test_nothing_to_do_gives_the_same_object() -> None:
    expr = relay.exp(X)
    assert Strip().rewrite(expr) is expr


def test_once_and_for_ever() -> None:
    one = relay.const(1.0)
    assert structural_equal(Swap(once=True).rewrite(relay.subtract(X, one)), relay.subtract(one, X))
    with pytest.raises(InputError, match="Swap always matches its own result"):
        Swap(once=False).rewrite(relay.subtract(X, one))


def test_dominators_are_rewritten_one_at_a_time() -> None:
    class Drop(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = dominates(is_op("exp")(self.x), is_op("sqrt")(wildcard()), is_op("nn.relu")(wildcard()))

        def callback(self, pre: relay.Expr, post: relay.Expr, node_map: NodeMap) -> relay.Expr:
            return node_map[self.x][0]

    once = relay.nn.relu(relay.sqrt(relay.exp(X)))
    twice = relay.nn.relu(relay.sqrt(relay.exp(once)))
    assert Drop().rewrite(twice) is X
