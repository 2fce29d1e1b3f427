"""safe_to_evaluate: loads within their buffers and divisions by constants only."""

from __future__ import annotations

import pytest

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.transform.guards import safe_to_evaluate

A = Buffer("a", [4, 8])
I, J, N = Var("i"), Var("j"), Var("n")


@pytest.fixture
def analyzer():
    analyzer = Analyzer()
    analyzer.bind(I, (const(0), const(4)))
    analyzer.bind(J, (const(0), const(8)))
    return analyzer


@pytest.mark.parametrize(
    "x",
    [
        const(1.0),
        I // 3,
        BufferLoad(A, [I, J]),
        op.exp(BufferLoad(A, [3 - I, J // 2])),
        BufferLoad(A, [I % 2, J]) * 2.0,
    ],
)
def test_expressions_within_bounds_are_safe(x, analyzer):
    assert safe_to_evaluate(x, analyzer)


@pytest.mark.parametrize(
    "x",
    [
        BufferLoad(A, [I, J + 1]),
        BufferLoad(A, [I - 1, J]),
        BufferLoad(A, [N, J]),
        I // N,
        op.call_extern("float32", "f", I),
        const(1.0) + BufferLoad(A, [I, J * 2]),
    ],
)
def test_loads_and_divisions_that_may_fail_are_unsafe(x, analyzer):
    assert not safe_to_evaluate(x, analyzer)
