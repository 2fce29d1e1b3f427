"""Intervals of index expressions hold every value, and are exact for affine ones."""

import itertools

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright import tir
from tilewright.te.region import IndexEvaluator, Interval
from tilewright.tir.arith.linear import Linear

FIXED = [tir.Var("a"), tir.Var("b")]
RUNNING = [tir.Var("x"), tir.Var("y")]


def _value(x, env):
    kind = type(x)
    if kind is tir.IntImm:
        return x.value
    if isinstance(x, tir.Var):
        return env[x]
    a, b = _value(x.a, env), _value(x.b, env)
    return {
        tir.Add: lambda: a + b,
        tir.Sub: lambda: a - b,
        tir.Mul: lambda: a * b,
        tir.FloorDiv: lambda: a // b,
        tir.FloorMod: lambda: a % b,
        tir.Min: lambda: min(a, b),
        tir.Max: lambda: max(a, b),
    }[kind]()


def _expr(draw, depth):
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*FIXED, *RUNNING, tir.const(draw(st.integers(-6, 6)))]))
    a = _expr(draw, depth - 1)
    constant = draw(st.integers(1, 7))
    which = draw(st.integers(0, 6))
    if which in (0, 1):
        b = _expr(draw, depth - 1)
        return a + b if which == 0 else a - b
    if which in (5, 6):
        return (tir.minimum if which == 5 else tir.maximum)(a, _expr(draw, depth - 1))
    return [a * constant, a // constant, a % constant][which - 2]


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_every_value_is_inside(data):
    expr = _expr(data.draw, 4)
    extents = [data.draw(st.integers(1, 5)) for _ in (*FIXED, *RUNNING)]
    env = {v: Interval(Linear({}), n - 1) for v, n in zip(RUNNING, extents[2:], strict=True)}
    ranges = {v: (0, n - 1) for v, n in zip(FIXED, extents[:2], strict=True)}
    interval = IndexEvaluator(env, ranges).eval(expr)
    if interval is None:
        return
    low = interval.lo.to_expr("int32")
    for fixed in itertools.product(*map(range, extents[:2])):
        here = dict(zip(FIXED, fixed, strict=True))
        values = [
            _value(expr, here | dict(zip(RUNNING, p, strict=True))) for p in itertools.product(*map(range, extents[2:]))
        ]
        start = _value(low, here)
        assert start <= min(values) and max(values) <= start + interval.width


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4), st.lists(st.integers(1, 5), min_size=2, max_size=2))
def test_affine_is_exact(coefficients, extents):
    expr = sum((v * c for v, c in zip((*FIXED, *RUNNING), coefficients, strict=True)), tir.const(3))
    env = {v: Interval(Linear({}), n - 1) for v, n in zip(RUNNING, extents, strict=True)}
    interval = IndexEvaluator(env).eval(expr)
    moving = [
        sum(c * v for c, v in zip(coefficients[2:], point, strict=True))
        for point in itertools.product(*map(range, extents))
    ]
    assert interval.width == max(moving) - min(moving)
    assert _value(interval.lo.to_expr("int32"), {FIXED[0]: 10, FIXED[1]: 100}) == (
        3 + np.dot(coefficients[:2], [10, 100]) + min(moving)
    )


def _seen(interval):
    return dict(interval.lo.terms), interval.lo.constant, interval.width


def test_blocks_of_a_fused_axis_divide_exactly():
    block, x = tir.Var("block"), tir.Var("x")
    at = IndexEvaluator({x: Interval(Linear({}), 3)})
    index = block * 4 + x
    assert _seen(at.eval(index // 4)) == ({block: 1}, 0, 0)
    assert _seen(at.eval(index % 4)) == ({}, 0, 3)
    assert at.eval(index // 16).width == 0
    assert at.eval((index + 2) // 4).width == 1


def test_union_covers_both():
    block = tir.Var("block")
    at = IndexEvaluator()
    a, b = Interval(Linear({block: 4}, 0), 3), Interval(Linear({block: 4}, -1), 2)
    assert _seen(at.union(a, b)) == ({block: 4}, -1, 4)
    assert at.union(a, Interval(Linear({}), 3)) is None
