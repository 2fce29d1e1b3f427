"""Expressions: interning, typing, folding of constants, and that every node class is documented."""

from __future__ import annotations

import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.errors import TypeMismatchError
from tilewright.tir.evaluate import evaluate
from tilewright.tir.node import Node

X, Y = tir.Var("x"), tir.Var("y")
F = tir.Var("f", "float32")


def test_equal_expressions_are_one_object() -> None:
    assert (X + 1) * Y is (X + 1) * Y
    assert X + 1 is not Y + 1
    assert tir.Var("x") is not tir.Var("x")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (tir.const(1), tir.const(1.0)),
        (tir.const(1), tir.const(True)),
        (tir.const(0.0), tir.const(-0.0)),
        (tir.const(1), tir.const(1, "int64")),
        (tir.const(float("nan")), tir.const(float("inf"))),
        (tir.Ramp(X, tir.const(1), 4), tir.Ramp(X, tir.const(1), 8)),
    ],
)
def test_different_constants_are_different_objects(a: tir.Expr, b: tir.Expr) -> None:
    assert a is not b


def test_pickling_interns_again() -> None:
    expr = tir.select(tir.const(1) < 2, tir.const(3.0), tir.const(4.0)) + tir.exp(tir.const(2.0)) * tir.const(-0.0)
    assert pickle.loads(pickle.dumps(expr)) is expr
    loaded = pickle.loads(pickle.dumps((X + 1, X + 1, X)))
    assert loaded[0] is loaded[1]
    assert loaded[0].a is loaded[2]
    assert loaded[2] is not X


def test_nodes_are_immutable_and_have_no_truth_value() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        (X + 1).a = Y
    with pytest.raises(TypeError, match="no truth value"):
        bool(X < Y)


def test_types_are_promoted() -> None:
    assert (X + F).dtype == "float32"
    assert (X + tir.Var("l", "int64")).dtype == "int64"
    assert (X + 1.5).dtype == "float32"
    assert (X < Y).dtype == "bool"
    assert (tir.Ramp(X, tir.const(1), 4) < Y).dtype == "boolx4"
    assert ((X < Y) + 1).dtype == "int32"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tir.Add(X, F), "Add of int32 and float32"),
        (lambda: X / Y, "use //"),
        (lambda: tir.Not(X), "compare it first"),
        (lambda: tir.if_then_else(tir.Ramp(X, tir.const(1), 4) < 3, X, Y), "scalar condition"),
        (lambda: tir.BufferLoad(tir.Buffer("A", (4, 4)), (X,)), "2 dimensions and is read with 1"),
        (lambda: tir.Var("v", "int7"), "unknown data type"),
        (lambda: X + object(), "cannot use"),
    ],
)
def test_mistakes_are_told(build: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


OPERATORS = [
    tir.add, tir.subtract, tir.multiply, tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod, tir.minimum,
    tir.maximum, tir.eq, tir.ne, tir.less, tir.less_equal, tir.greater, tir.greater_equal,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
def test_folding_agrees_with_the_reference(dtype: str) -> None:
    rng = random.Random(0)
    low, high = tir.DType(dtype).limits()
    a, b = tir.Var("a", dtype), tir.Var("b", dtype)
    for _ in range(300):
        x, y = (rng.choice([0, 1, 2, 3, low, high, rng.randint(low, high)]) for _ in range(2))
        build = rng.choice(OPERATORS)
        if y == 0 and build in OPERATORS[3:7]:
            continue
        folded = build(tir.const(x, dtype), tir.const(y, dtype))
        assert evaluate(folded) == evaluate(build(a, b), {a: x, b: y}), (build.__name__, x, y)


def test_folding_of_floats_rounds_to_the_type() -> None:
    assert tir.as_const(tir.const(0.1) + tir.const(0.2)) == float(np.float32(0.1) + np.float32(0.2))
    assert tir.as_const(tir.const(1.0, "float16") * tir.const(1e5, "float16")) == math.inf
    assert tir.as_const(tir.const(300, "int8")) == 44


def test_every_node_class_is_in_the_grammar() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ir.md").read_text()
    grammar = set(text[text.index("## Grammar") : text.index("## Types")].split())
    classes = [c for c in vars(tir).values() if isinstance(c, type) and issubclass(c, Node)]
    abstract = {"Node", "Expr", "Stmt", "BinaryExpr", "CompareExpr"}
    missing = {c.__name__ for c in classes} - abstract - {word.strip(",") for word in grammar}
    assert not missing


@pytest.mark.parametrize("dtype", ["float8_e5m2fnuz", "float8_e4m3fn", "float4_e2m1fn"])
def test_narrow_floats_have_no_constants(dtype: str) -> None:
    with pytest.raises(TypeMismatchError, match="no arithmetic: cast to float32 first"):
        tir.const(0, dtype)
