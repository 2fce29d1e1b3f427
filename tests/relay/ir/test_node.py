"""Nodes are declared once: what walkers, the rewriter, keys and JSON need follows from the parts of the fields."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.ir.adt import PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from tilewright.relay.ir.expr import Expr, Let, RefWrite, Tuple, TupleGetItem, Var
from tilewright.relay.ir.json_schema import SCHEMA, classic_name, declared_key
from tilewright.relay.ir.node import DECLARED, Node, binder, label, node, operand, value_node

X, Y, Z = (Var(name) for name in "xyz")


@node
class _Sum(Node):
    """Parts of every kind."""

    first: Expr = operand()
    rest: tuple[Expr, ...] = operand()
    index: Var = binder()
    count: int = dataclasses.field()
    name: str = label("")


@value_node
class _Pair(Node):
    left: int = dataclasses.field()
    right: int = dataclasses.field()


def test_the_parts_of_fields_say_what_they_are() -> None:
    made = _Sum(X, (Y, Z), Var("i"), 3, "total")
    assert made.operands() == (X, Y, Z) and made.bound() == (made.index,)
    assert made.plain_fields() == [("count", 3)]
    other = made.with_operands((Z, Y, X))
    assert (other.first, other.rest, other.index, other.count) == (Z, (Y, X), made.index, 3)


def test_nodes_are_immutable_and_compare_as_declared() -> None:
    made = _Sum(X, (), Y, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.count = 2  # type: ignore[misc]
    assert made != _Sum(X, (), Y, 1) and not hasattr(made, "__dict__")
    assert _Pair(1, 2) == _Pair(1, 2) and hash(_Pair(1, 2)) == hash(_Pair(1, 2))


@pytest.mark.parametrize(
    "expr,operands,bound",
    [
        (Let(X, Y, Z), (Y, Z), (X,)),
        (Tuple([X, Y]), (X, Y), ()),
        (TupleGetItem(X, 1), (X,), ()),
        (RefWrite(X, Y), (X, Y), ()),
        (relay.If(X, Y, Z), (X, Y, Z), ()),
        (relay.Function([X], Y), (Y,), (X,)),
        (relay.Function([X], Y, attrs={"Primitive": 1}), (), (X,)),
        (relay.add(X, Y), (X, Y), ()),
        (relay.Call(Z, [X]), (Z, X), ()),
        (relay.Call(relay.GlobalVar("f"), [X]), (X,), ()),
        (relay.const(np.zeros(2)), (), ()),
        (PatternTuple([PatternVar(X), PatternWildcard()]), None, ()),
        (PatternVar(X), (), (X,)),
    ],
)
def test_operands_and_binders(expr: Node, operands: tuple[Expr, ...] | None, bound: tuple[Var, ...]) -> None:
    if operands is not None:
        assert expr.operands() == operands
        again = expr.with_operands(operands) if operands else expr
        assert type(again) is type(expr) and again.operands() == operands
    assert expr.bound() == bound


def test_json_has_the_fields_that_classes_declare() -> None:
    """The fields of the format that a class lacks hold what is derived or of no concern here."""
    for cls in DECLARED:
        if cls.__module__ != __name__ and cls is not Var:
            schema = SCHEMA[declared_key(cls)]
            missing = {classic_name(name) for name in cls.FIELDS} - set(schema)
            assert not missing, f"{cls.__name__} declares {missing}, which the JSON format has not"


def test_a_pattern_is_walked_by_what_it_declares() -> None:
    assert PatternConstructor.OPERANDS == ("patterns",) and PatternVar.BINDERS == ("var",)
